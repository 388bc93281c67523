"""Answers as HTTP/1.1 allows them, and as it does not: read the same way whole or piece by piece, or refused."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.client import BadAnswer, ConnectionLost
from accord.client.connection import Connection
from tests.client.network.wire import OK, READERS, get, handled, network, ok, piecewise, say, speaking, stream

CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
CLOSE = {"then": "close"}

# What is said, and how it is to be read: status and body.
GOOD = {
    "a length": (say(ok(b"hello")), (200, b"hello")),
    "no body": (say(ok(b"")), (200, b"")),
    "chunks": (say(CHUNKED + b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"), (200, b"hello!")),
    "chunks with extensions": (say(CHUNKED + b'5;a=b;c="d"\r\nhello\r\n0;x\r\n\r\n'), (200, b"hello")),
    "chunks with trailers": (say(CHUNKED + b"5\r\nhello\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n"), (200, b"hello")),
    "until it closes": (say(OK + b"\r\nhello", **CLOSE), (200, b"hello")),
    "until it closes, empty": (say(OK + b"\r\n", **CLOSE), (200, b"")),
    "http 1.0": (say(b"HTTP/1.0 200 OK\r\n\r\nhello", **CLOSE), (200, b"hello")),
    "100 first": (say(b"HTTP/1.1 100 Continue\r\n\r\n", ok()), (200, b"hi")),
    "103 first": (say(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + ok()), (200, b"hi")),
    "204": (say(b"HTTP/1.1 204 No Content\r\n\r\n"), (204, b"")),
    "204 with a length": (say(b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n"), (204, b"")),
    "304 with a length": (say(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9999999\r\n\r\n"), (304, b"")),
    "no reason": (say(b"HTTP/1.1 500\r\ncontent-length: 2\r\n\r\nhi"), (500, b"hi")),
    "spaces around values": (say(OK + b"content-length:   2  \r\n\r\nhi"), (200, b"hi")),
    "identity": (say(ok(b"hi", b"content-encoding: identity")), (200, b"hi")),
}
# What is refused, and a word of the reason.
BAD = {
    "garbage": (say(b"HELLO\r\n\r\n"), "not HTTP"),
    "a line before": (say(b"\r\n" + ok()), "not HTTP"),
    "another protocol": (say(b"RTSP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi"), "not HTTP"),
    "http 2": (say(b"HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nhi"), "version 2.0"),
    "http 0.9": (say(b"HTTP/0.9 200 OK\r\ncontent-length: 2\r\n\r\nhi"), "version 0.9"),
    "status 99": (say(b"HTTP/1.1 099 X\r\ncontent-length: 2\r\n\r\nhi"), "status 99"),
    "status 1000": (say(b"HTTP/1.1 1000 X\r\n\r\n"), "not HTTP"),
    "an upgrade": (say(b"HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nabc"), "status 101"),
    "an upgrade to nothing": (say(b"HTTP/1.1 101 X\r\n\r\n"), "status 101"),
    "length and chunks": (say(OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), "not HTTP"),
    "chunks and length": (say(OK + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n"), "not HTTP"),
    "two lengths": (say(OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nhi!"), "not HTTP"),
    "a list of lengths": (say(OK + b"content-length: 2, 2\r\n\r\nhi"), "not HTTP"),
    "a signed length": (say(OK + b"content-length: +2\r\n\r\nhi"), "not HTTP"),
    "a length beyond counting": (say(OK + b"content-length: %b\r\n\r\n" % (b"9" * 30)), "not HTTP"),
    "gzip on the way": (say(OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), "transfer encoding"),
    "chunks not last": (say(OK + b"transfer-encoding: chunked, gzip\r\n\r\n", **CLOSE), "transfer encoding"),
    "chunked twice": (say(OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), "transfer encoding"),
    "an unknown coding": (say(OK + b"transfer-encoding: xchunked\r\n\r\n", **CLOSE), "transfer encoding"),
    "compressed": (say(ok(b"\x1f\x8b", b"content-encoding: gzip")), "compressed"),
    "a folded header": (say(OK + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n"), "not HTTP"),
    "a zero in a header": (say(OK + b"x: a\0b\r\ncontent-length: 0\r\n\r\n"), "not HTTP"),
    "a lone CR": (say(OK + b"x: a\rb: c\r\ncontent-length: 0\r\n\r\n"), "not HTTP"),
    "a lone LF": (say(b"HTTP/1.1 200 OK\ncontent-length: 0\n\n"), "not HTTP"),
    "a space before the colon": (say(OK + b"content-length : 2\r\n\r\nhi"), "not HTTP"),
    "a header without a name": (say(OK + b": x\r\ncontent-length: 0\r\n\r\n"), "not HTTP"),
    "a chunk of no size": (say(CHUNKED + b"zz\r\n"), "not HTTP"),
    "a chunk of less than nothing": (say(CHUNKED + b"-5\r\nhello\r\n"), "not HTTP"),
    "a chunk beyond counting": (say(CHUNKED + b"f" * 17 + b"\r\n"), "not HTTP"),
    "a chunk longer than it says": (say(CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n"), "not HTTP"),
    "a length in a trailer": (say(CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n"), "not HTTP"),
    "a header too long": (say(OK + b"x: " + b"x" * 33_000 + b"\r\ncontent-length: 0\r\n\r\n"), "head"),
    "a header without end": (say(OK + b"x: ", *[b"x" * 1000] * 40), "head"),
    "too many headers": (say(OK + b"x: 1234567890\r\n" * 4000 + b"\r\n"), "head"),
    "a trailer without end": (say(CHUNKED + b"0\r\nx: ", *[b"x" * 1000] * 40), "head"),
    "interim answers without end": (say(*[b"HTTP/1.1 100 Continue\r\n\r\n" * 40] * 50), "head"),
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
    """What could be read in two ways is read in none; and its connection is not used again."""
    turn, reason = BAD[name]
    async with speaking(turn, ok()) as wire, network() as net:
        with pytest.raises(BadAnswer, match=reason):
            await read(net, wire.url)
        assert await read(net, wire.url) == (200, b"hi")
    assert wire.connections == 2


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("name", CUT)
async def test_answers_that_break_off(name, read):
    """Half an answer is none, and the caller knows that the work may have been done."""
    async with speaking(say(CUT[name], then="close")) as wire, network() as net:
        with pytest.raises(ConnectionLost, match="broke off"):
            await read(net, wire.url)
    assert len(wire.requests) == 1


async def test_a_head_has_no_body_whatever_it_says():
    """HEAD is answered with the length of what is not sent (RFC 9110, 9.3.2)."""
    async with speaking(OK + b"content-length: 5\r\n\r\n") as wire, network() as net:
        answer = await get(net, wire.url, "HEAD", limit=1)
        assert (answer.body, answer.headers["Content-Length"]) == (b"", "5")
        assert (await get(net, wire.url, "HEAD")).body == b""


@pytest.mark.parametrize(
    "answer", [ok(b"x" * 1001), CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n", OK + b"\r\n" + b"x" * 1001]
)
async def test_more_than_the_limit_is_refused_at_once(answer):
    """Strangers do not decide how much memory we use: the rest is not waited for."""
    async with speaking(say(answer[:-1], then="wait")) as wire, network() as net:
        with pytest.raises(BadAnswer, match="larger than 999 bytes"):
            await get(net, wire.url, limit=999)
        await wire.left.wait()


async def test_a_length_over_the_limit_is_refused_before_the_body():
    """By what it says of itself."""
    async with speaking(say(OK + b"content-length: 1000\r\n\r\n", then="wait")) as wire, network() as net:
        with pytest.raises(BadAnswer, match="larger"):
            await get(net, wire.url, limit=999)


@pytest.mark.parametrize("extra", [b"x", ok(b"not asked for"), b"\0" * 1000])
async def test_what_follows_an_answer_spoils_the_connection(extra):
    """The next caller must not get what an agent said unasked."""
    async with speaking(ok(b"one") + extra, ok(b"two")) as wire, network() as net:
        assert (await get(net, wire.url)).body == b"one"
        assert (await get(net, wire.url)).body == b"two"
    assert wire.connections == 2


async def test_what_comes_later_spoils_the_connection():
    """The same, when it comes after the answer was handed over."""
    go_on, is_said = asyncio.Event(), asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(b"one"))
        await go_on.wait()
        writer.write(ok(b"unasked"))
        writer.close()
        is_said.set()

    async with handled(serve) as url, network() as net:
        assert (await get(net, url)).body == b"one"
        go_on.set()
        await is_said.wait()
        assert (await get(net, url)).body == b"one"


async def test_headers():
    """Names in any case; a repeated one is a list (RFC 9110, 5.3)."""
    said = ok(b"", b"Content-Type: text/plain", b"Warning: a", b"X-Empty:", b"warning: b", "X-Word: grün".encode())
    async with speaking(said) as wire, network() as net:
        headers = (await get(net, wire.url)).headers
    assert (headers["content-type"], headers["WARNING"], headers["x-empty"]) == ("text/plain", "a, b", "")
    assert (headers["X-Word"], headers.get("location"), "Content-Length" in headers) == ("grün", None, True)
    assert set(headers) == {"content-type", "warning", "x-empty", "x-word", "content-length"}


async def test_a_body_in_crumbs():
    """Ten thousand chunks of a byte each are one body, and not ten thousand pieces on the way."""
    crumbs = b"".join(b"1\r\n%c\r\n" % (97 + i % 26) for i in range(10_000))
    async with speaking(CHUNKED + crumbs + b"0\r\n\r\n") as wire, network() as net:
        body = bytes(97 + i % 26 for i in range(10_000))
        assert (await get(net, wire.url)).body == body
        assert await stream(net, wire.url) == body


class _Still(asyncio.Transport):
    """A transport that only remembers how it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False

    def get_extra_info(self, name, default=None):
        return self

    def fileno(self):
        return 0

    def is_closing(self):
        return self.is_over

    def close(self):
        self.is_over = True

    abort = close


ANSWERS = [turn.pieces for turn, _ in GOOD.values() if turn.then == "stay"] + [turn.pieces for turn, _ in BAD.values()]


async def outcome(pieces):
    """Feed an answer, piece by piece; what comes of it."""
    connection = Connection("http://x", 4.0, lambda _: None)
    connection.connection_made(_Still())
    connection.begin("GET", "http://x/", 1 << 20, asyncio.get_running_loop().time() + 60, 60.0)
    for piece in pieces:
        connection.data_received(piece)
    connection.eof_received()
    try:
        return connection.status, await connection.answer(), dict(connection.raw)
    except (BadAnswer, ConnectionLost) as fault:
        return type(fault)
    finally:
        connection.connection_lost(None)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(ANSWERS), st.lists(st.integers(0, 400), max_size=12))
def test_where_an_answer_is_split_makes_no_difference(pieces, cuts):
    """A network splits where it likes."""
    said = b"".join(pieces)
    edges = [0, *sorted(cut % (len(said) + 1) for cut in cuts), len(said)]
    split = [said[a:b] for a, b in itertools.pairwise(edges) if a < b]
    assert asyncio.run(outcome(split)) == asyncio.run(outcome([said]))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([OK, CHUNKED, b"\r\n", b"5\r\nhello\r\n", b"0\r\n", b"content-length: 5\r\n", b"HTTP/1.1 100 X\r\n\r\n"])
        | st.binary(max_size=20)
    )
)
def test_whatever_comes_ends_in_an_answer_or_a_fault(pieces):
    """No other exception, whatever the bytes."""
    assert asyncio.run(outcome(pieces)) is not None


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
        body = await net.open("GET", url, {}, None, timeout_s=20, idle_s=20)
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
        body = await net.open("GET", wire.url, {}, None, timeout_s=20, idle_s=20)
        assert [chunk async for chunk in body.chunks()] == [b"x" * 50]
        assert await piecewise(net, wire.url) == (200, b"x" * 50)
    assert wire.connections == 1
