"""Answers as HTTP/1.1 allows them, and as it does not: read the same way whole or piece by piece,
or refused.
"""

import asyncio
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.client import BadAnswer, ConnectionLost, TooSlow
from accord.net import Request, client_tls
from tests.client.certs import Authority
from tests.client.network.wire import (
    OK,
    PATIENCE_S,
    READERS,
    get,
    handled,
    in_thread,
    network,
    ok,
    piecewise,
    say,
    secured,
    speaking,
    stream,
)

CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
CLOSE = {"then": "close"}

# What is said, and how it is to be read: status and body.
GOOD = {
    "a length": (say(ok(b"hello")), (200, b"hello")),
    "no body": (say(ok(b"")), (200, b"")),
    "chunks": (say(CHUNKED + b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"), (200, b"hello!")),
    "chunks with extensions": (
        say(CHUNKED + b'5;a=b;c="d"\r\nhello\r\n0;x\r\n\r\n'),
        (200, b"hello"),
    ),
    "chunks with trailers": (
        say(CHUNKED + b"5\r\nhello\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n"),
        (200, b"hello"),
    ),
    "until it closes": (say(OK + b"\r\nhello", **CLOSE), (200, b"hello")),
    "until it closes, empty": (say(OK + b"\r\n", **CLOSE), (200, b"")),
    "http 1.0": (say(b"HTTP/1.0 200 OK\r\n\r\nhello", **CLOSE), (200, b"hello")),
    "100 first": (say(b"HTTP/1.1 100 Continue\r\n\r\n", ok()), (200, b"hi")),
    "103 first": (say(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + ok()), (200, b"hi")),
    "204": (say(b"HTTP/1.1 204 No Content\r\n\r\n"), (204, b"")),
    "204 with a length": (say(b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n"), (204, b"")),
    "304 with a length": (
        say(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9999999\r\n\r\n"),
        (304, b""),
    ),
    "no reason": (say(b"HTTP/1.1 500\r\ncontent-length: 2\r\n\r\nhi"), (500, b"hi")),
    "spaces around values": (say(OK + b"content-length:   2  \r\n\r\nhi"), (200, b"hi")),
    "identity": (say(ok(b"hi", b"content-encoding: identity")), (200, b"hi")),
}
# What is refused, and a word of the reason.
BAD = {
    "garbage": (say(b"HELLO\r\n\r\n"), "not HTTP"),
    "http 2": (say(b"HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nhi"), "version 2.0"),
    "http 0.9": (say(b"HTTP/0.9 200 OK\r\ncontent-length: 2\r\n\r\nhi"), "version 0.9"),
    "status 99": (say(b"HTTP/1.1 099 X\r\ncontent-length: 2\r\n\r\nhi"), "status 99"),
    "status 1000": (say(b"HTTP/1.1 1000 X\r\n\r\n"), "not HTTP"),
    "an upgrade": (
        say(b"HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nabc"),
        "status 101",
    ),
    "an upgrade to nothing": (say(b"HTTP/1.1 101 X\r\n\r\n"), "status 101"),
    "length and chunks": (
        say(OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        "not HTTP",
    ),
    "chunks and length": (
        say(OK + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n"),
        "not HTTP",
    ),
    "two lengths": (say(OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nhi!"), "not HTTP"),
    "a list of lengths": (say(OK + b"content-length: 2, 2\r\n\r\nhi"), "not HTTP"),
    "a signed length": (say(OK + b"content-length: +2\r\n\r\nhi"), "not HTTP"),
    "a length beyond counting": (say(OK + b"content-length: %b\r\n\r\n" % (b"9" * 30)), "not HTTP"),
    "gzip on the way": (
        say(OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        "transfer encoding",
    ),
    "chunks not last": (
        say(OK + b"transfer-encoding: chunked, gzip\r\n\r\n", **CLOSE),
        "transfer encoding",
    ),
    "chunked twice": (
        say(OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        "transfer encoding",
    ),
    "an unknown coding": (
        say(OK + b"transfer-encoding: xchunked\r\n\r\n", **CLOSE),
        "transfer encoding",
    ),
    "compressed": (say(ok(b"\x1f\x8b", b"content-encoding: gzip")), "compressed"),
    "a zero in a header": (say(OK + b"x: a\0b\r\ncontent-length: 0\r\n\r\n"), "not HTTP"),
    "a lone CR": (say(OK + b"x: a\rb: c\r\ncontent-length: 0\r\n\r\n"), "not HTTP"),
    "a header without a name": (say(OK + b": x\r\ncontent-length: 0\r\n\r\n"), "not HTTP"),
    "a chunk of no size": (say(CHUNKED + b"zz\r\n"), "not HTTP"),
    "a chunk of less than nothing": (say(CHUNKED + b"-5\r\nhello\r\n"), "not HTTP"),
    "a chunk beyond counting": (say(CHUNKED + b"f" * 17 + b"\r\n"), "not HTTP"),
    "a chunk longer than it says": (say(CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n"), "not HTTP"),
    "a length in a trailer": (say(CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n"), "not HTTP"),
    "a header too long": (
        say(OK + b"x: " + b"x" * 33_000 + b"\r\ncontent-length: 0\r\n\r\n"),
        "more than 32768 bytes",
    ),
    "a header without end": (say(OK + b"x: ", *[b"x" * 1000] * 40), "more than 32768 bytes"),
    "too many headers": (say(OK + b"x: 1234567890\r\n" * 4000 + b"\r\n"), "head"),
}
# Where it breaks off.
CUT = {
    "at once": b"",
    "in the first word": b"HTT",
    "in the head": OK + b"content-le",
    "after 100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "before the body": OK + b"content-length: 5\r\n\r\n",
    "in the body": OK + b"content-length: 5\r\n\r\nhel",
    "in a chunk": CHUNKED + b"5\r\nhel",
    "between chunks": CHUNKED + b"5\r\nhello\r\n",
    "in the trailers": CHUNKED + b"0\r\nx: y\r\n",
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("name", GOOD)
async def test_good_answers(name, read):
    """What HTTP/1.1 allows is understood (RFC 9112)."""
    turn, expected = GOOD[name]
    async with speaking(turn) as wire, network() as net:
        assert await read(net, wire.url) == expected


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("name", BAD)
async def test_bad_answers(name, read):
    """What could end in two places is not read at all, nor what was not asked for; and nothing of
    it reaches the next caller.
    """
    turn, reason = BAD[name]
    async with speaking(turn, ok()) as wire, network() as net:
        with pytest.raises(BadAnswer, match=reason):
            await read(net, wire.url)
        assert await read(net, wire.url) == (200, b"hi")


@pytest.mark.parametrize("name", CUT)
async def test_answers_that_break_off(name):
    """Half an answer is none; the caller knows that the work may have been done, and it is not
    asked for twice.
    """
    async with speaking(say(CUT[name], then="close")) as wire, network() as net:
        with pytest.raises(ConnectionLost, match="broke off"):
            await get(net, wire.url, "POST", b"work")
        with pytest.raises(ConnectionLost, match="broke off"):
            await stream(net, wire.url, verb="POST")
    assert len(wire.requests) == 2


async def test_answers_that_never_begin():
    """However often it is said that one will come: the time counts."""
    async with (
        speaking(say(*[b"HTTP/1.1 100 Continue\r\n\r\n" * 40] * 50, then="wait")) as wire,
        network() as net,
    ):
        with pytest.raises(TooSlow):
            await get(net, wire.url, timeout_s=0.2)


async def test_a_head_has_no_body_whatever_it_says():
    """HEAD is answered with the length of what is not sent (RFC 9110, 9.3.2)."""
    async with speaking(OK + b"content-length: 5\r\n\r\n") as wire, network() as net:
        answer = await get(net, wire.url, "HEAD", limit=1)
        assert (answer.body, answer.headers["Content-Length"]) == (b"", "5")
        assert (await get(net, wire.url, "HEAD")).body == b""


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"x" * 1001),
        CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n",
        OK + b"\r\n" + b"x" * 1001,
    ],
)
async def test_more_than_the_limit_is_refused_at_once(answer):
    """Strangers do not decide how much memory we use: the rest is not waited for."""
    async with speaking(say(answer[:-1], then="wait")) as wire, network() as net:
        with pytest.raises(BadAnswer, match="larger than 999 bytes"):
            await get(net, wire.url, limit=999)
        await wire.left.wait()


async def test_a_length_over_the_limit_is_refused_before_the_body():
    """By what it says of itself."""
    async with (
        speaking(say(OK + b"content-length: 1000\r\n\r\n", then="wait")) as wire,
        network() as net,
    ):
        with pytest.raises(BadAnswer, match="larger"):
            await get(net, wire.url, limit=999)


async def test_what_follows_an_answer_spoils_the_connection():
    """The next caller must not get what an agent said unasked."""
    async with speaking(ok(b"one") + ok(b"not asked for"), ok(b"two")) as wire, network() as net:
        assert (await get(net, wire.url)).body == b"one"
        assert (await get(net, wire.url)).body == b"two"
    assert wire.connections == 2


@pytest.mark.parametrize("extra", [b"x", b"\0" * 1000])
async def test_garbage_behind_an_answer(extra):
    """It makes garbage of the answer too."""
    async with speaking(ok(b"one") + extra, ok(b"two")) as wire, network() as net:
        with pytest.raises(BadAnswer, match="not HTTP"):
            await get(net, wire.url)
        assert (await get(net, wire.url)).body == b"two"


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("is_seen", [False, True], ids=["not read yet", "read by the loop"])
@pytest.mark.parametrize(
    "said", [ok(b"unasked"), ok(b"unasked")[:25], b"x"], ids=["an answer", "half of one", "garbage"]
)
async def test_what_comes_later_spoils_the_connection(said, is_seen, tls, tmp_path):
    """The same, when it comes after the answer was handed over: looked for before a connection is
    used again.
    """
    is_idle, is_said = threading.Event(), threading.Event()
    connections = 0

    async def serve(reader, writer):
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(b"one"))
        if connections == 1:
            await asyncio.to_thread(is_idle.wait, PATIENCE_S)
            writer.write(said)
            await writer.drain()
            is_said.set()
        await reader.read()

    authority = Authority(tmp_path)
    with in_thread(serve, secured(authority) if tls else None) as url:
        async with network(tls=client_tls(authority.pem)) as net:
            assert (await get(net, url)).body == b"one"
            is_idle.set()
            # Meanwhile this loop stands still: what was said is not read yet.
            assert is_said.wait(PATIENCE_S)
            await asyncio.sleep(0.05 if is_seen else 0)  # aiohttp reads it, and tells nobody
            assert (await get(net, url)).body == b"one"
    assert connections == 2


async def test_headers():
    """Names in any case; a repeated one is a list (RFC 9110, 5.3)."""
    said = ok(
        b"",
        b"Content-Type: text/plain",
        b"Warning: a",
        b"X-Empty:",
        b"warning: b",
        "X-Word: grün".encode(),
    )
    async with speaking(said) as wire, network() as net:
        headers = (await get(net, wire.url)).headers
    assert (headers["content-type"], headers["WARNING"], headers["x-empty"]) == (
        "text/plain",
        "a, b",
        "",
    )
    assert (headers["X-Word"], headers.get("location"), "Content-Length" in headers) == (
        "grün",
        None,
        True,
    )
    assert set(headers) == {"content-type", "warning", "x-empty", "x-word", "content-length"}


async def test_a_body_in_crumbs():
    """Ten thousand chunks of a byte each are one body, and not ten thousand pieces on the way."""
    crumbs = b"".join(b"1\r\n%c\r\n" % (97 + i % 26) for i in range(10_000))
    async with speaking(CHUNKED + crumbs + b"0\r\n\r\n") as wire, network() as net:
        body = bytes(97 + i % 26 for i in range(10_000))
        assert (await get(net, wire.url)).body == body
        assert await stream(net, wire.url) == body


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.sampled_from(
            [
                OK,
                CHUNKED,
                b"\r\n",
                b"5\r\nhello\r\n",
                b"0\r\n",
                b"content-length: 5\r\n",
                b"HTTP/1.1 100 X\r\n\r\n",
            ]
        )
        | st.binary(max_size=20)
    )
)
def test_whatever_comes_ends_in_an_answer_or_a_fault(pieces):
    """No other exception, whatever the bytes. (aiohttp does not tell of garbage in a trailer: there
    the time ends it.)
    """

    async def outcome():
        async with speaking(say(*pieces, then="close")) as wire, network() as net:
            try:
                return await get(net, wire.url, "POST", b"work", timeout_s=0.5)
            except (BadAnswer, ConnectionLost, TooSlow) as fault:
                return fault

    assert asyncio.run(outcome()) is not None


async def test_a_slow_reader_makes_the_sender_wait():
    """What a reader has not taken stays with the sender: memory does not grow with the stream."""
    sent = 0
    is_stuck = asyncio.Event()

    async def serve(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"\r\n")
        writer.transport.set_write_buffer_limits(0)
        try:
            while sent < 64 << 20:
                writer.write(b"x" * (64 << 10))
                sent += 64 << 10
                try:
                    await asyncio.wait_for(writer.drain(), 0.5)
                except TimeoutError:
                    is_stuck.set()
                    await writer.drain()
        finally:
            writer.close()

    async with handled(serve) as url, network() as net:
        body = await net.open(Request("GET", url, timeout_s=20), idle_s=20)
        await is_stuck.wait()
        assert sent < 32 << 20  # the buffers of both sockets, and a little
        size = 0
        async for chunk in body.chunks():
            size += len(chunk)
        assert size == 64 << 20


async def test_what_is_ready_comes_together():
    """One piece for all that has come while the reader was busy."""
    pieces = [b"%d\r\n%b\r\n" % (1, b"x")] * 50 + [b"0\r\n\r\n"]
    async with speaking(CHUNKED + b"".join(pieces)) as wire, network() as net:
        body = await net.open(Request("GET", wire.url, timeout_s=20), idle_s=20)
        assert [chunk async for chunk in body.chunks()] == [b"x" * 50]
        assert await piecewise(net, wire.url) == (200, b"x" * 50)
    assert wire.connections == 1
