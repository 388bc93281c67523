"""Cards no agent should have: every one ends in a clear exception that names the agent and the
fault, and none hangs.
"""

import asyncio
import gzip
import json

import pytest

from accord.client import AgentFault, BadCard, Budget, Retry, connect
from accord.model import A2AError, TooManyRequests, Unavailable
from tests.client.peers import PATIENCE_S, answer, card, scripted

HERE = "http://127.0.0.1:1/"
DEEP = b'{"name":' + b"[" * 100 + b"]" * 100 + b"}"

# What is served at the card's address, and a word of the complaint.
BODIES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not JSON"),
    "html": (b"<html>It works!</html>", "not JSON"),
    "half": (json.dumps(card(HERE)).encode()[:-40], "not JSON"),
    "not utf-8": (b'{"name":"\xff\xfe"}', "not JSON"),
    "lone surrogate": (b'{"name":"\\ud800"}', ""),
    "nan": (b'{"name":"x","version":NaN}', "not JSON"),
    "null": (b"null", "null"),
    "list": (b"[]", "list"),
    "string": (b'"card"', "string"),
    "number": (b"7", "number"),
    "true": (b"true", "boolean"),
    "empty object": (b"{}", "not an agent card"),
    "other json": (b'{"status":"ok"}', "not an agent card"),
    "error object": (b'{"error":{"code":500}}', "not an agent card"),
    "too deep": (DEEP, "nested"),
    "much too deep": (b"[" * 200_000, "nested"),
    "too large": (b'{"name":"' + b"x" * (2 << 20) + b'"}', "larger"),
    "two documents": (b"{}{}", "not JSON"),
}
# What a card says, and a word of the complaint.
CARDS: dict[str, tuple[dict, str]] = {
    "interfaces empty": (card(HERE, supportedInterfaces=[]), ""),
    "interfaces null, no name": ({"supportedInterfaces": None, "skills": []}, ""),
    "interfaces a number": (card(HERE, supportedInterfaces=7), ""),
    "interface without url": (
        card(HERE, supportedInterfaces=[{"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]),
        "",
    ),
    "interface a string": (card(HERE, supportedInterfaces=["http://x"]), ""),
    "url a number": (
        card(HERE, supportedInterfaces=[{"url": 7, "protocolBinding": "JSONRPC"}]),
        "",
    ),
    "url of a file": (
        card(
            HERE, supportedInterfaces=[{"url": "file:///etc/passwd", "protocolBinding": "JSONRPC"}]
        ),
        "",
    ),
    "url ftp": (
        card(HERE, supportedInterfaces=[{"url": "ftp://x/", "protocolBinding": "JSONRPC"}]),
        "",
    ),
    "port out of range": (card("http://127.0.0.1:99999/"), ""),
    "unclosed bracket": (card("http://[::1/"), ""),
    "no host": (card("http:///rpc"), ""),
    "binding unknown": (
        card(
            HERE,
            supportedInterfaces=[
                {"url": HERE, "protocolBinding": "SOAP", "protocolVersion": "1.0"}
            ],
        ),
        "SOAP",
    ),
    "version of the future": (
        card(
            HERE,
            supportedInterfaces=[
                {"url": HERE, "protocolBinding": "JSONRPC", "protocolVersion": "9.9"}
            ],
        ),
        "9.9",
    ),
    "nobody there": (card(HERE), ""),
    "signed nine times": (
        card(HERE, signatures=[{"protected": "x", "signature": "y"}] * 9),
        "signatures",
    ),
    "old card, url a list": (
        {
            "name": "x",
            "url": ["http://x"],
            "protocolVersion": "0.3.0",
            "preferredTransport": "GRPC",
        },
        "",
    ),
    "rest of 0.1": (
        {"name": "x", "url": HERE, "preferredTransport": "HTTP+JSON", "protocolVersion": "0.1.0"},
        "0.1",
    ),
}
QUICK = Budget(card_s=1.0, connect_s=1.0, call_s=1.0, work_s=2.0)


async def fault_of(where, **options) -> Exception:
    """Connect and send; return what that ends in. A hang fails the test."""
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises((AgentFault, A2AError)) as caught:
            async with connect(where, budget=QUICK, retry=Retry(attempts=1), **options) as client:
                await client.send("hello")
    return caught.value


@pytest.mark.parametrize("name", BODIES)
async def test_what_is_no_card(name):
    """Bytes that are no card: too much, too deep, or something else."""
    body, complaint = BODIES[name]
    async with scripted(lambda request: answer(body)) as peer:
        fault = await fault_of(peer.url)
    assert isinstance(fault, BadCard)
    assert peer.url in str(fault)
    assert complaint in str(fault)


@pytest.mark.parametrize("name", CARDS)
async def test_cards_that_can_not_be_used(name):
    """Cards that name no place, an impossible one, or a language we do not speak."""
    value, complaint = CARDS[name]
    async with scripted(
        lambda request: answer(value) if request.verb == "GET" else answer("", 404)
    ) as peer:
        fault = await fault_of(peer.url)
    assert complaint in str(fault)
    assert any(word in str(fault) for word in (peer.url, "Dock clerk", "x", HERE))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadCard),
        (404, BadCard),
        (410, BadCard),
        (500, BadCard),
        (502, Unavailable),
        (503, Unavailable),
        (429, TooManyRequests),
    ],
)
async def test_no_card_there(status, kind):
    """Both well-known places are tried, and named in the complaint; a server that is not ready is
    not one without a card.
    """
    async with scripted(lambda request: answer({"name": "x"}, status)) as peer:
        fault = await fault_of(peer.url)
    assert isinstance(fault, kind)
    assert "agent-card.json" in str(fault)
    assert "agent.json" in str(fault)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_card_that_is_not_for_everyone(status):
    """A protected card says so, instead of looking like none."""
    async with scripted(lambda request: answer("", status)) as peer:
        fault = await fault_of(peer.url)
    assert isinstance(fault, A2AError)
    assert type(fault).status == status
    assert peer.url in str(fault)


async def test_redirects_end():
    """A card that sends us round and round is given up."""
    async with scripted(lambda request: answer("", 302, location=request.target + "x")) as peer:
        fault = await fault_of(peer.url)
    assert "redirects more than" in str(fault)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://x/", "http://[::1/"])
async def test_redirects_to_elsewhere_are_not_followed(target):
    """Only http and https."""
    async with scripted(lambda request: answer("", 302, location=target)) as peer:
        assert isinstance(await fault_of(peer.url), BadCard)


async def test_an_endless_card_is_given_up():
    """Without a length, reading stops at the budget."""

    def handler(request):
        head = (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: "
            b"chunked\r\n\r\n"
        )
        return head + (b"%x\r\n%b\r\n" % (65536, b" " * 65536)) * 40

    async with scripted(handler) as peer:
        assert "larger" in str(await fault_of(peer.url))


async def test_a_compressed_card_is_refused():
    """Nothing compressed was asked for: no bomb is unpacked."""
    body = gzip.compress(json.dumps(card(HERE)).encode())
    async with scripted(lambda request: answer(body, content_encoding="gzip")) as peer:
        assert "compressed" in str(await fault_of(peer.url))


async def test_a_card_that_never_comes_is_not_waited_for():
    """Ten seconds by default, one here."""

    async def handler(request):
        await asyncio.Event().wait()
        return b""

    async with scripted(handler) as peer:
        assert "within 1 s" in str(await fault_of(peer.url))


async def test_garbage_instead_of_http():
    """A port that speaks something else."""
    async with scripted(lambda request: b"SSH-2.0-OpenSSH_9.6\r\n") as peer:
        assert peer.url in str(await fault_of(peer.url))


async def test_a_closed_port():
    """Nobody listens."""
    assert "no connection" in str(await fault_of("http://127.0.0.1:9"))


@pytest.mark.parametrize(
    "where",
    ["ftp://x", "http://", "http://user:pw@127.0.0.1:9", "./no-such-card.json", b"{", {}, "{]"],
)
async def test_what_is_no_address(where):
    """Mistakes of the caller are told before anything is sent."""
    fault = await fault_of(where)
    assert isinstance(fault, BadCard)
    assert "pw" not in str(fault)


async def test_what_is_no_agent_at_all():
    """A programming mistake is a TypeError."""
    with pytest.raises(TypeError, match="int"):
        await connect(7)
