"""Connections that are kept, names that are resolved, and what a user brings along."""

import asyncio
import select
import socket
import ssl
import threading

import aiohttp
import pytest

from accord.client import Budget, ClientCert, ConnectionLost, Unreachable, connect
from accord.net import Network, client_tls
from tests.client.certs import Authority
from tests.client.network.test_proxies import agent, agent_with_tls
from tests.client.network.wire import (
    PATIENCE_S,
    get,
    handled,
    in_thread,
    network,
    ok,
    secured,
    speaking,
    stream,
)
from tests.client.peers import answer, card, scripted
from tests.swallow import on_linux


@pytest.fixture
def blind(monkeypatch):
    """A look at an idle connection sees nothing: as if what is there had come a moment later."""

    class Blind:
        def register(self, *_):
            pass

        def poll(self, *_):
            return []

    monkeypatch.setattr(select, "poll", Blind)


@on_linux
@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize(
    ("size", "tls"), [(10, False), (1_000_000, False), (10, True)], ids=["plain", "large", "tls"]
)
async def test_a_connection_that_is_closed_as_it_is_used_again(size, tls, tmp_path):
    """The server closed it before the request came: that can be told from what its system has
    received, and nobody is told.
    """
    if tls and type(asyncio.get_running_loop()).__module__ == "uvloop":
        pytest.skip(
            "uvloop does not tell of an end without TLS's goodbye before the connection is gone"
        )
    may_close, is_closed = threading.Event(), threading.Event()
    requests = []

    async def serve(reader, writer):
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        await reader.readexactly(size)
        writer.write(ok(b"%d" % len(requests)))
        await writer.drain()
        if len(requests) == 1:
            await asyncio.to_thread(may_close.wait, PATIENCE_S)
            # Without TLS's own goodbye: while a server waits for that of the other side, its system
            # still receives.
            writer.transport.abort()
            await asyncio.sleep(0.05)
            is_closed.set()
            return
        await reader.read()

    authority = Authority(tmp_path)
    with in_thread(serve, secured(authority) if tls else None) as url:
        async with network(tls=client_tls(authority.pem)) as net:
            assert (await get(net, url, "POST", b"x" * size)).body == b"1"
            may_close.set()
            assert is_closed.wait(PATIENCE_S)  # and this loop has not seen it
            assert (await get(net, url, "POST", b"x" * size)).body == b"2"
    assert len(requests) == 2


@pytest.mark.parametrize("way", ["close", "reset"])
async def test_a_request_that_was_read_is_not_sent_again(way):
    """Whatever happens after: the work may have been done."""
    requests = []

    async def serve(reader, writer):
        while True:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(4)
            if len(requests) == 2:
                if way == "reset":
                    sock = writer.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                return
            writer.write(ok())

    async with handled(serve) as url, network() as net:
        await get(net, url, "POST", b"work")
        with pytest.raises(ConnectionLost):
            await get(net, url, "POST", b"work")
    assert len(requests) == 2


# Names


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_localhost_is_both(host):
    """Whichever of them is listened on, and whatever the system's files say."""
    async with speaking(ok(), host=host) as wire, network() as net:
        port = wire.url.rstrip("/").rpartition(":")[2]
        assert (await get(net, f"http://localhost:{port}/")).body == b"hi"
    async with network() as net:
        with pytest.raises(
            Unreachable, match=r"no connection: Connection refused|Connect call failed"
        ):
            await get(net, "http://localhost:9/")


async def test_a_resolver_that_fails_for_a_moment(monkeypatch):
    """It is asked again; one that stays so is told of, as something that may pass."""
    monkeypatch.setattr("accord.net.pool._RESOLVE_AGAIN_S", (0.01, 0.01))
    left = 2

    async def getaddrinfo(host, port=0, **_):
        nonlocal left
        left -= host.endswith(".test")
        if left >= 0 and host.endswith(".test"):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port or 0))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    async with speaking(ok()) as wire, network() as net:
        url = wire.url.replace("127.0.0.1", "agent.test")
        assert (await get(net, url)).body == b"hi"
        left = 100
        with pytest.raises(Unreachable, match="Temporary failure") as caught:
            await get(net, url.replace("agent", "other"))
    assert not caught.value.is_lasting
    assert left == 97


async def test_an_address_that_swallows_everything_costs_a_moment(monkeypatch):
    """The next one is tried beside it (RFC 8305)."""

    async def resolve(host, family=0):
        return [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET, "127.0.0.1")]

    monkeypatch.setattr("accord.net.pool.resolve", resolve)
    async with speaking(ok()) as wire, network() as net, asyncio.timeout(5):
        assert (await get(net, wire.url.replace("127.0.0.1", "agent.test"))).body == b"hi"


# What a user brings along


async def test_authorities_of_ones_own(tmp_path):
    """As a file, as a folder, or as a context."""
    authority = Authority(tmp_path)
    (tmp_path / "bundle").mkdir()
    async with scripted(agent_with_tls, secured(authority)) as peer:
        for options in (
            {"ca": authority.pem},
            {"ca": str(authority.pem)},
            {"ssl": client_tls(authority.pem)},
        ):
            async with connect(peer.url, **options) as client:
                assert (await client.send("hello")).text == "17 crates"
        for options in ({}, {"ca": tmp_path / "bundle"}, {"ssl": ssl.create_default_context()}):
            with pytest.raises(Unreachable, match=r"no secure connection: .*certificate"):
                await connect(peer.url, **options)


def test_what_does_not_go_together(tmp_path):
    """Said at once, with what to do."""
    authority = Authority(tmp_path)
    certificate = ClientCert(*authority.issue("client"))
    with pytest.raises(ValueError, match="ssl= already says"):
        connect("https://agent.example", ssl=client_tls(), ca=authority.pem)
    with pytest.raises(ValueError, match="ssl= already says"):
        connect("https://agent.example", ssl=client_tls(), auth=certificate)
    with pytest.raises(OSError, match=r"missing\.pem"):
        connect("https://agent.example", ca=tmp_path / "missing.pem")
    with pytest.raises(ssl.SSLError, match=r"client\.key"):
        connect("https://agent.example", ca=tmp_path / "client.key")


async def test_a_certificate_is_shown_to_the_agent_and_nobody_else(tmp_path):
    """Who is asked for proof elsewhere, by a card, does not learn who we are."""
    authority = Authority(tmp_path)
    server = secured(authority)
    server.load_verify_locations(authority.pem)
    server.verify_mode = ssl.CERT_OPTIONAL
    shown: dict[str, bool] = {}

    def proof(name):
        async def serve(reader, writer):
            shown[name] = bool(writer.get_extra_info("peercert"))
            await reader.readuntil(b"\r\n\r\n")
            where = f"https://127.0.0.1:{port}/.well-known/agent-card.json"
            writer.write(
                ok(b"", b"location: " + where.encode()).replace(b"200 OK", b"302 X")
                if name == "home"
                else ok(b"{}")
            )
            await writer.drain()

        return serve

    certificate = ClientCert(*authority.issue("client"), authority=authority.pem)
    async with (
        handled(proof("other"), tls=server) as other,
        handled(proof("home"), tls=server) as home,
    ):
        port = other.rstrip("/").rpartition(":")[2]
        with pytest.raises(Exception, match="card"):  # it is no card
            await connect(home, auth=certificate, ca=authority.pem)
    assert shown == {"home": True, "other": False}


async def test_headers_go_to_the_agent_and_nowhere_else():
    """An Authorization among them does not go along to another place the card names; the client
    says so.
    """

    def elsewhere(request):
        return answer(card(other.url + "/"))

    headers = {"Authorization": "s3cret", "X-Team": "dock"}
    async with scripted(agent) as other, scripted(elsewhere) as peer:
        async with connect(other.url, headers=headers) as client:
            await client.send("hello")
            assert other.requests[-1].headers["authorization"] == "s3cret"
        async with connect(peer.url, headers=headers) as client:
            assert (await client.send("hello")).text == "17 crates"
            assert any("headers= are not sent there" in note for note in client.notes)
    sent = other.requests[-1].headers
    assert "authorization" not in sent
    assert "x-team" not in sent


async def test_a_session_of_ones_own():
    """Used as it is, and left open; other places the card names get nothing of it."""

    def elsewhere(request):
        return answer(card(other.url + "/"))

    async with aiohttp.ClientSession(headers={"Authorization": "s3cret"}) as session:
        async with scripted(agent) as other, scripted(elsewhere) as peer:
            async with connect(other.url, session=session) as client:
                assert (await client.send("hello")).text == "17 crates"
                assert [type(event).__name__ async for event in client.stream("hello")] == ["Task"]
            assert {request.headers.get("authorization") for request in other.requests} == {
                "s3cret"
            }
            async with connect(peer.url, session=session) as client:
                await client.send("hello")
            assert other.requests[-1].headers.get("authorization") is None
        assert not session.closed
        with pytest.raises(ValueError, match="the session has its own"):
            connect("http://agent.example", session=session, proxy="http://proxy.example")


async def test_a_session_keeps_our_promises():
    """No redirects, nothing compressed, no more than the limit."""
    squeezed = ok(b"\x1f\x8b", b"content-encoding: gzip")
    async with aiohttp.ClientSession() as session, speaking(squeezed, ok(b"x" * 11), ok()) as wire:
        net = Network(connect_s=PATIENCE_S, lost_s=PATIENCE_S, session=session)
        for reason in ("compressed", "larger"):
            with pytest.raises(Exception, match=reason):
                await get(net, wire.url, limit=10)
        assert await stream(net, wire.url) == b"hi"
        await net.close()


async def test_cookies_are_not_kept():
    """An agent can't have us come back with something it told us."""
    async with speaking(ok(b"", b"set-cookie: a=b"), ok()) as wire, network() as net:
        await get(net, wire.url.replace("127.0.0.1", "localhost"))
        await get(net, wire.url.replace("127.0.0.1", "localhost"))
    assert b"ookie" not in wire.requests[1]


async def test_a_client_that_was_forgotten(caplog):
    """It is told in our words, and nothing of it stays open."""
    async with speaking(ok()) as wire:
        net = Network(connect_s=PATIENCE_S, lost_s=PATIENCE_S)
        await get(net, wire.url)
        with pytest.warns(ResourceWarning, match="a client was not closed"):
            del net
        await wire.left.wait()
    assert caplog.text == ""


async def test_a_client_that_is_given_up_while_it_connects_is_closed():
    """By a timeout around `async with`, say: the end of a block that never began can't close it."""
    async with speaking(b"") as wire:  # it says nothing, and stays

        async def use() -> None:
            async with connect(wire.url, budget=Budget(card_s=3600)):
                pytest.fail("there is no card")

        using = asyncio.create_task(use())
        await wire.asked.wait()
        using.cancel()
        await asyncio.wait({using})
        assert using.cancelled()
        async with asyncio.timeout(PATIENCE_S):
            await wire.left.wait()
