"""Requests as they go out, connections as they are used again, and what happens when there is none:
on both event loops.
"""

import asyncio
import gc
import math
import socket
import ssl

import pytest

from accord.client import AgentFault, ConnectionLost, TooSlow, Unreachable
from accord.net import Network, Request
from tests.client.certs import Authority
from tests.client.network.wire import (
    OK,
    PATIENCE_S,
    get,
    handled,
    network,
    ok,
    say,
    secured,
    speaking,
    stream,
)

SECRET = "s3cret-t0ken"
CHUNK = OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"


# Requests


async def test_a_request():
    """Head and body, and nothing in it that was not asked for."""
    async with speaking(ok()) as wire, network() as net:
        await get(
            net,
            wire.url + "a/b?c=d",
            "POST",
            b'{"a":1}',
            headers={"Content-Type": "application/json"},
        )
    head, _, body = wire.requests[0].partition(b"\r\n\r\n")
    assert head.decode().split("\r\n") == [
        "POST /a/b?c=d HTTP/1.1",
        f"Host: {wire.url[7:-1]}",
        "User-Agent: accord",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        "Content-Length: 7",
    ]
    assert body == b'{"a":1}'


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("", b"GET / "),
        ("?q=1", b"GET /?q=1 "),
        ("/%2F%zz/a/../b", b"GET /%2F%zz/a/../b "),
        ("/a b/ü?x=ü|", b"GET /a%20b/%C3%BC?x=%C3%BC%7C "),
        ("/a#fragment", b"GET /a "),
        ("/a?b#c?d", b"GET /a?b "),
    ],
)
async def test_what_is_asked_for(given, line):
    """Percent-encodings stay as they are; what can't be sent is encoded; fragments stay here."""
    async with speaking(ok()) as wire, network() as net:
        await get(net, wire.url[:-1] + given)
    assert wire.requests[0].startswith(line + b"HTTP/1.1\r\n")


async def test_userinfo_is_never_sent():
    """Credentials go where they were given for; a URL is no such place."""
    async with speaking(ok()) as wire, network() as net:
        await get(net, wire.url.replace("://", f"://user:{SECRET}@"))
    assert SECRET.encode() not in wire.requests[0]
    assert b"uthorization" not in wire.requests[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A\r\nX-B": "c"},
        {"X-A": "b\r\nX-C: d"},
        {"X-A": "b\nc"},
        {"X-A": "b\rc"},
        {"X-A": "b\0c"},
        {"": "b"},
        {"X A": "b"},
        {"X-A:": "b"},
        {"Content-Length": "7"},
        {"transfer-encoding": "chunked"},
        {"Expect": "100-continue"},
        {"Connection": "upgrade"},
    ],
    ids=repr,
)
async def test_headers_that_would_be_something_else(headers):
    """Nothing gets out of a header, and nobody else says how a message is framed."""
    async with speaking(ok()) as wire, network() as net:
        with pytest.raises(ValueError, match="header"):
            await get(net, wire.url, headers=headers)
    assert wire.requests == []


async def test_a_refused_header_is_not_quoted():
    """It may be a secret."""
    async with network() as net:
        with pytest.raises(ValueError, match="Authorization") as caught:
            await get(net, "http://127.0.0.1:9/", headers={"Authorization": f"Bearer {SECRET}\n"})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://h/\r\nX: y",
        "http://h/\0",
        "http://h\r\n/",
        "http://a b/",
        "http:///x",
        "ftp://h/",
        "http://h:0/",
        "h",
    ],
)
async def test_what_is_no_url(url):
    """Nothing gets out of a URL either."""
    async with network() as net:
        with pytest.raises(Unreachable, match="not a URL to connect to"):
            await get(net, url)


async def test_a_verb_is_a_word():
    """The first word of a request can't be two."""
    async with network() as net:
        with pytest.raises(ValueError, match="not an HTTP method"):
            await get(net, "http://127.0.0.1:9/", "GET / HTTP/1.1\r\nX: y\r\n")


async def test_own_headers_can_be_changed():
    """By any spelling, and once: a caller's word counts, also for the host that is meant."""
    async with speaking(ok()) as wire, network() as net:
        await get(net, wire.url, headers={"user-agent": "me", "host": "agents.example"})
        await get(net, wire.url)
    assert wire.requests[0].lower().count(b"user-agent") == 1
    assert b"user-agent: me\r\n" in wire.requests[0]
    assert wire.requests[0].lower().count(b"host:") == 1
    assert f"Host: {wire.url[7:-1]}".encode() in wire.requests[1]


async def test_no_body_has_a_length_where_one_is_expected():
    """A POST of nothing says so; a GET says nothing (RFC 9110, 8.6)."""
    async with speaking(ok()) as wire, network() as net:
        await get(net, wire.url, "POST")
        await get(net, wire.url, "DELETE", b"")
        await get(net, wire.url, "GET")
    lengths = [b"Content-Length: 0\r\n" in request for request in wire.requests]
    assert lengths == [True, True, False]


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1, 50_000_000])
async def test_large_bodies(size):
    """They arrive whole, and are not piled up in memory on the way."""
    body = bytes(range(256)) * (size // 256 + 1)
    async with speaking(ok()) as wire, network() as net:
        assert (await get(net, wire.url, "POST", body[:size])).body == b"hi"
        assert (await get(net, wire.url)).body == b"hi"
    assert wire.requests[0].partition(b"\r\n\r\n")[2] == body[:size]
    assert wire.connections == 1


async def test_an_answer_before_the_body_is_through():
    """A server that has heard enough says so, and is heard; the connection is not used again."""

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 X\r\ncontent-length: 0\r\n\r\n" if b"POST" in head else ok())
        await writer.drain()
        await asyncio.Event().wait()

    async with handled(serve) as url, network() as net:
        assert (await get(net, url, "POST", b"x" * 50_000_000)).status == 413
        assert (await get(net, url)).body == b"hi"


# Connections


async def test_a_connection_is_used_again():
    """After an answer, and after a body that was read as it came."""
    async with (
        speaking(ok(), CHUNK + b"0\r\n\r\n", b"HTTP/1.1 204 X\r\n\r\n", ok()) as wire,
        network() as net,
    ):
        await get(net, wire.url)
        assert await stream(net, wire.url) == b"hello"
        await get(net, wire.url)
        await get(net, wire.url)
    assert wire.connections == 1


async def test_as_many_connections_as_calls_at_once():
    """Calls do not wait for each other; afterwards the same connections serve again."""
    async with speaking(ok()) as wire, network() as net:
        for _ in range(3):
            await asyncio.gather(*[get(net, wire.url) for _ in range(10)])
    assert wire.connections == 10


@pytest.mark.parametrize(
    "answer",
    [
        say(ok(b"hi", b"connection: close")),
        say(ok(b"hi", b"Connection: Close, TE")),
        say(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi"),
        say(OK + b"\r\nhi", then="close"),
    ],
    ids=["close", "close in a list", "http 1.0", "until it closes"],
)
async def test_a_connection_that_is_to_be_closed(answer):
    """The server's word counts, and it is not kept waiting."""
    async with speaking(answer) as wire, network() as net:
        for _ in range(2):
            assert (await get(net, wire.url)).body == b"hi"
        if answer.then == "stay":
            await wire.left.wait()
    assert wire.connections == 2


@pytest.mark.parametrize(
    "line",
    [
        b"connection: keep-alive",
        b"keep-alive: timeout=5, max=100",
        b"keep-alive: max=1",
        b"keep-alive: timeout=x",
    ],
)
async def test_a_connection_that_may_stay(line):
    """Also HTTP/1.0, if it says so."""
    version = b"HTTP/1.0 200 OK\r\n" if b"connection" in line else OK
    async with (
        speaking(version + line + b"\r\ncontent-length: 2\r\n\r\nhi") as wire,
        network() as net,
    ):
        for _ in range(2):
            await get(net, wire.url)
    assert wire.connections == 1


async def test_a_dead_connection_is_noticed_before_it_is_used():
    """Closed by the server in between, seen by the loop or not: the next call takes a new one and
    nobody is told.
    """
    async with speaking(say(ok(), then="close")) as wire, network() as net:
        for _ in range(20):
            assert (await get(net, wire.url)).body == b"hi"
            await wire.closed.wait()
            wire.closed.clear()
    assert wire.connections == 20


async def test_a_connection_that_closes_under_a_request():
    """It is told, not tried again: whether the work was done is not known here."""
    async with speaking(ok(), say(b"", then="close")) as wire, network() as net:
        await get(net, wire.url)
        with pytest.raises(ConnectionLost, match="broke off"):
            await get(net, wire.url, "POST", b"work")
    assert (wire.connections, len(wire.requests)) == (1, 2)


async def test_idle_connections_are_closed():
    """What nobody has used for a while is given back, without anyone asking again."""
    async with speaking(ok()) as wire, network(keep_s=0.01) as net:
        await get(net, wire.url)
        await wire.left.wait()


@pytest.mark.parametrize(
    "answer", [b"", OK + b"content-le", OK + b"content-length: 5\r\n\r\nhel", CHUNK]
)
async def test_whoever_is_cancelled_leaves_nothing_behind(answer):
    """Half-read connections are closed: the next call can't get the rest of another's answer."""
    async with speaking(say(answer, then="wait"), ok(b"mine")) as wire, network() as net:
        call = asyncio.ensure_future(get(net, wire.url))
        await wire.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await wire.left.wait()
        assert (await get(net, wire.url)).body == b"mine"
    assert wire.connections == 2


async def test_a_body_that_is_left():
    """Closing what is not read to its end closes the connection; and ends its reader."""
    async with speaking(say(CHUNK, then="wait"), ok()) as wire, network() as net:
        body = await net.open(Request("GET", wire.url, PATIENCE_S), idle_s=PATIENCE_S)
        chunks = body.chunks()
        assert await anext(chunks) == b"hello"
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        await body.close()
        await body.close()
        with pytest.raises(ConnectionLost):
            await waiting
        await wire.left.wait()
        await get(net, wire.url)
    assert wire.connections == 2


async def test_closing_tells_who_still_waits():
    """Calls and streams end with an error, not never; afterwards nothing can be asked."""
    async with speaking(say(b"", then="wait")) as wire:
        net = Network(connect_s=PATIENCE_S, lost_s=PATIENCE_S)
        call = asyncio.ensure_future(get(net, wire.url))
        await wire.asked.wait()
        await net.close()
        with pytest.raises(ConnectionLost):
            await call
        with pytest.raises(RuntimeError, match="closed"):
            await get(net, wire.url)


def test_a_second_loop_begins_anew():
    """Connections belong to their loop; a client outlives it."""
    net = Network(connect_s=PATIENCE_S, lost_s=PATIENCE_S)

    async def once():
        async with speaking(ok()) as wire:
            return (await get(net, wire.url)).body

    bodies = [asyncio.run(once()), asyncio.run(once())]
    asyncio.run(net.close())
    assert bodies == [b"hi", b"hi"]


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        (say(b"", then="close"), {}),
        (b"garbage", {}),
        (say(b"", then="wait"), {"timeout_s": 0.05}),
        (ok(b"x" * 10), {"limit": 1}),
    ],
    ids=["cut", "garbage", "slow", "large"],
)
async def test_faults_tell_no_secrets(answer, options):
    """They name the place, and neither who asked there nor with which key."""
    async with speaking(answer) as wire, network() as net:
        url = wire.url.replace("://", f"://ada:{SECRET}@") + f"agent?key={SECRET}"
        with pytest.raises(AgentFault, match="/agent: ") as caught:
            await get(net, url, headers={"Authorization": SECRET}, **options)
    assert SECRET not in str(caught.value)
    assert SECRET not in str(caught.value.__context__)


# Time


async def test_an_answer_that_does_not_come():
    """Whatever part of it is missing."""
    for answer in (b"", OK, OK + b"content-length: 5\r\n\r\nhel"):
        async with speaking(say(answer, then="wait")) as wire, network() as net:
            with pytest.raises(TooSlow, match=r"no answer within 0\.05 s"):
                await get(net, wire.url, timeout_s=0.05)
            await wire.left.wait()


async def test_a_short_patience_after_a_long_one():
    """The timer of the call before does not count for this one."""
    async with speaking(ok(), say(b"", then="wait")) as wire, network() as net:
        await get(net, wire.url, timeout_s=600)
        with pytest.raises(TooSlow):
            await get(net, wire.url, timeout_s=0.05)


async def test_a_long_patience_after_a_short_one():
    """Nor the other way round."""

    async def serve(reader, writer):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(ok())
            await asyncio.sleep(0.1)

    async with handled(serve) as url, network() as net:
        await get(net, url, timeout_s=0.05)
        assert (await get(net, url)).body == b"hi"


async def test_a_stream_that_falls_silent():
    """What came before is read first."""
    async with speaking(say(CHUNK, then="wait")) as wire, network() as net:
        body = await net.open(Request("GET", wire.url, PATIENCE_S), idle_s=0.5)
        chunks = body.chunks()
        assert await anext(chunks) == b"hello"
        with pytest.raises(TooSlow, match="within"):
            await anext(chunks)
        await body.close()


async def test_a_body_nobody_takes():
    """A server that stops reading is too slow as well."""

    async def serve(reader, writer):
        writer.transport.pause_reading()
        await asyncio.Event().wait()

    async with handled(serve) as url, network() as net:
        with pytest.raises(TooSlow):
            await get(net, url, "POST", b"x" * 50_000_000, timeout_s=0.2)


# Finding the way


def black_hole():
    """An address that swallows every attempt to connect: a listener whose queue is full."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    callers = []
    for _ in range(3):
        caller = socket.socket()
        caller.setblocking(False)
        caller.connect_ex(listener.getsockname())
        callers.append(caller)
    return listener, callers


@pytest.mark.parametrize("lost_s", [0.0, 0.1, 1e9, math.inf])
async def test_any_time_may_be_given_until_a_connection_is_lost(lost_s):
    """Systems count in whole seconds and not very far: the nearest they know is taken, and a
    connection that lives stays.
    """
    async with speaking(ok()) as wire, network(lost_s=lost_s) as net:
        assert (await get(net, wire.url)).status == 200
        assert (await get(net, wire.url)).status == 200
    assert wire.connections == 1


async def test_no_connection_in_time():
    """Nothing was sent, and the caller knows it."""
    listener, callers = black_hole()
    async with network(connect_s=0.05) as net:
        with pytest.raises(Unreachable, match=r"no connection within 0\.05 s"):
            await get(net, "http://127.0.0.1:%d/" % listener.getsockname()[1])
        with pytest.raises(TooSlow, match="no answer within"):
            await get(net, "http://127.0.0.1:%d/" % listener.getsockname()[1], timeout_s=0.01)
    for one in (listener, *callers):
        one.close()


async def test_whoever_is_cancelled_while_connecting():
    """Nothing stays behind: a socket nobody holds would be warned of, and a warning fails
    the test.
    """
    listener, callers = black_hole()
    async with network() as net:
        call = asyncio.ensure_future(get(net, "http://127.0.0.1:%d/" % listener.getsockname()[1]))
        await asyncio.sleep(0.01)  # it connects, and nothing will ever tell of it
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    for one in (listener, *callers):
        one.close()
    gc.collect()


async def test_nobody_there():
    """Refused, and no such name."""
    async with network() as net:
        with pytest.raises(Unreachable, match=r"no connection: Connect.* (refused|failed)"):
            await get(net, "http://127.0.0.1:9/")
        with pytest.raises(Unreachable, match="no connection: "):
            await get(net, "http://no-such-host.invalid/")


async def test_names_and_ipv6():
    """A name stands for all its addresses; brackets belong to the Host header, not to the
    address.
    """
    async with speaking(ok()) as wire, network() as net:
        port = wire.url.rpartition(":")[2]
        assert (await get(net, f"http://LOCALHOST:{port}")).body == b"hi"
    assert f"Host: localhost:{port.strip('/')}\r\n".encode() in wire.requests[0]
    async with speaking(ok(), host="::1") as wire, network() as net:
        assert (await get(net, wire.url)).body == b"hi"
    assert f"Host: {wire.url[7:-1]}\r\n".encode() in wire.requests[0]


# TLS


async def test_tls(tmp_path):
    """Used again like any other; the body may end with the connection."""
    authority = Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=str(authority.pem))
    turns = (ok(b"x" * 500_000), ok(), say(OK + b"\r\nbye", then="close"))
    async with speaking(*turns, tls=secured(authority)) as wire, network(tls=trusting) as net:
        assert len((await get(net, wire.url)).body) == 500_000
        assert (await get(net, wire.url, "POST", b"x" * 500_000)).body == b"hi"
        assert await stream(net, wire.url) == b"bye"
    assert len(wire.requests[1]) > 500_000
    assert wire.connections == 1


async def test_a_certificate_nobody_vouches_for(tmp_path):
    """Not talked to, whatever it says."""
    async with speaking(ok(), tls=secured(Authority(tmp_path))) as wire, network() as net:
        with pytest.raises(Unreachable, match=r"no secure connection: .*certificate") as told:
            await get(net, wire.url)
    assert wire.requests == []
    assert "_ssl" not in str(told.value)


async def test_a_certificate_of_someone_else(tmp_path):
    """The name in it must be the one that was asked for."""
    authority = Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=str(authority.pem))
    async with speaking(ok(), tls=secured(authority)) as wire, network(tls=trusting) as net:
        with pytest.raises(Unreachable, match="no secure connection"):
            await get(net, wire.url.replace("127.0.0.1", "localhost"))


async def test_tls_that_is_never_agreed_on():
    """A server that takes the connection and says nothing has not been connected to."""

    async def serve(reader, writer):
        await reader.read()

    async with handled(serve) as url, network(connect_s=0.05) as net:
        with pytest.raises(Unreachable, match=r"no connection within 0\.05 s"):
            await get(net, url.replace("http", "https"))


async def test_tls_with_who_has_none():
    """A plain server under an https address is told apart from none at all."""

    async def serve(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")

    async with handled(serve) as url, network() as net:
        with pytest.raises(Unreachable, match=r"no secure.*does not speak TLS") as told:
            await get(net, url.replace("http", "https"))
    assert "_ssl" not in str(told.value)
