"""One connection without a network: what it holds, what it forgives, and what it says last."""

import asyncio
import tracemalloc
from typing import Any

import pytest

from accord.model import Limits
from accord.server.grpc.connection import LEAVING, STREAMS, Http2Connection
from accord.server.grpc.headers import size_of
from accord.server.grpc.listener import GrpcServer
from accord.server.transport.reading import BACKLOG
from tests.grpc import frames as f
from tests.grpc.frames import Code, Decoder, frame, settings
from tests.grpc.raw import header, message, request

OPEN = f.END_HEADERS
WHOLE = f.END_HEADERS | f.END_STREAM
CANCEL = Code.CANCEL.to_bytes(4, "big")
REFLECTION = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"


class Wire:
    """A transport whose client takes nothing until told to."""

    def __init__(self) -> None:
        self.written = b""
        self.waiting = 0
        self.high = 1 << 30
        self.is_read = True
        self.connection: Http2Connection | None = None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        was_low = self.waiting <= self.high
        self.written += data
        self.waiting += len(data)
        if was_low and self.waiting > self.high and self.connection is not None:
            self.connection.pause_writing()

    def take(self) -> None:
        """The client has caught up."""
        was_high, self.waiting = self.waiting > self.high, 0
        if was_high and self.connection is not None:
            self.connection.resume_writing()

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_read = False

    def frames(self) -> list[tuple[int, int, bytes]]:
        """Kind, stream and payload of all that was written."""
        found, at = [], 0
        while at < len(self.written):
            word, _, id_ = f.head_of(self.written, at)
            end = at + 9 + (word >> 8)
            found.append((word & 0xFF, id_, self.written[at + 9 : end]))
            at = end
        return found

    def goaways(self) -> list[tuple[int, Code]]:
        """The last stream and the reason of each GOAWAY."""
        said = [payload for kind, _, payload in self.frames() if kind == f.GOAWAY]
        return [
            (int.from_bytes(one[:4], "big"), Code(int.from_bytes(one[4:8], "big"))) for one in said
        ]


class Nothing:
    """A door with nothing behind it; health and reflection are there all the same."""

    services: list[str] = []
    methods: dict = {}


@pytest.fixture
async def connection():
    """A connection that has been greeted."""
    wire = Wire()
    connection: Any = Http2Connection(GrpcServer(Nothing(), "localhost", 0, Limits()))
    wire.connection = connection
    connection.connection_made(wire)
    connection.data_received(f.PREFACE + settings({}))
    connection.wire = wire
    yield connection
    connection.connection_lost(None)
    await asyncio.sleep(0)


async def feed(connection: Http2Connection, data: bytes) -> None:
    """Have something come, and wait until all of it was worked on."""
    connection.data_received(data)
    while connection.is_paused_for(BACKLOG):  # noqa: ASYNC110
        await asyncio.sleep(0)  # the rest is taken in the next turns of the loop


def opened(id, flags=OPEN, path=REFLECTION):
    return frame(f.HEADERS, flags, id, request(path=path))


async def test_a_ping_for_every_answer_is_no_flood(connection):
    """grpc-go and grpc-java measure the line so: a ping whenever something came and the last one is
    answered.
    """
    ping = frame(f.PING, 0, 0, b"\2\4\x10\x10\t\x0e\7\7")
    await feed(
        connection, b"".join(opened(n, WHOLE, b"/nothing") + ping for n in range(1, 10_001, 2))
    )
    assert connection.wire.goaways() == []


async def test_calls_given_up_after_a_while_are_no_attack(connection):
    """Deadlines that pass, however many: only streams that are opened to be reset are too many."""
    for first in range(1, 10 * STREAMS, 2 * STREAMS):
        ids = range(first, first + 2 * STREAMS, 2)
        await feed(connection, b"".join(opened(n) for n in ids))
        for stream in connection.streams.values():
            stream.since -= 5
        await feed(connection, b"".join(frame(f.RST_STREAM, 0, n, CANCEL) for n in ids))
    assert connection.wire.goaways() == []
    assert connection.streams == {}


async def test_resets_that_cross_our_answers_are_no_attack(connection):
    """A deadline passes on both sides at once."""
    calls = (
        opened(n, WHOLE, b"/nothing") + frame(f.RST_STREAM, 0, n, CANCEL)
        for n in range(1, 10_001, 2)
    )
    await feed(connection, b"".join(calls))
    assert connection.wire.goaways() == []


BROKEN = {
    "a window that overflows": lambda n: frame(f.WINDOW_UPDATE, 0, n, b"\x7f\xff\xff\xff"),
    "a path among the trailers": lambda n: frame(f.HEADERS, WHOLE, n, header(b":path", b"/")),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_streams_made_to_be_reset_by_us_are_an_attack_too(connection, name):
    """The other side of opening and resetting (CVE-2025-8671): no stream is ever one too many at
    once.
    """
    broken = BROKEN[name]
    await feed(connection, b"".join(opened(n) + broken(n) for n in range(1, 6_001, 2)))
    assert [code for _, code in connection.wire.goaways()] == [Code.ENHANCE_YOUR_CALM]


async def test_who_asks_and_takes_no_answer_is_not_heard_any_more(connection):
    """What waits to be sent has a bound, even if all of it is headers; heard again when it was
    taken.
    """
    ids = iter(range(1, 1 << 20, 2))
    while connection.wire.is_read and connection.wire.waiting < 10 << 20:
        await feed(connection, b"".join(opened(next(ids), WHOLE, b"/nothing") for _ in range(100)))
    assert not connection.wire.is_read
    connection.wire.take()
    assert connection.wire.is_read


async def test_messages_nobody_has_read_are_counted(connection):
    """Empty ones too: each takes more room here than on the wire."""
    await feed(connection, opened(1) + frame(f.DATA, 0, 1, message(b"") * 3_000))
    kind, id_, payload = connection.wire.frames()[-2]
    assert (kind, id_) == (f.HEADERS, 1)
    assert (b"grpc-status", b"8") in Decoder().decode(payload)


async def test_long_headers_are_not_remembered(connection):
    """They would be kept for as long as the connection, or longer."""
    tracemalloc.start()
    try:
        for n in range(1, 61, 2):
            block = request(path=b"/nothing") + header(b"x-%d" % n, b"x" * 50_000)
            pieces = [block[at : at + 16_384] for at in range(0, len(block), 16_384)]
            sent = [
                frame(f.HEADERS, f.END_STREAM, n, pieces[0]),
                *(frame(f.CONTINUATION, 0, n, piece) for piece in pieces[1:]),
            ]
            await feed(connection, b"".join(sent) + frame(f.CONTINUATION, f.END_HEADERS, n))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(connection.wire.goaways()) == 0
    assert held < 500_000


async def test_what_was_not_seen_stays_unseen(connection):
    """A client tries again elsewhere what is above the last stream we named: it never grows (RFC
    9113, 6.8).
    """
    await feed(connection, opened(1))
    connection.leave()
    await feed(connection, frame(f.PING, f.ACK, 0, LEAVING))
    await feed(connection, opened(3) + frame(f.PUSH_PROMISE, OPEN, 1, b"\0\0\0\2"))
    assert connection.wire.goaways() == [
        (f.WINDOW_MOST, Code.NO_ERROR),
        (1, Code.NO_ERROR),
        (1, Code.PROTOCOL_ERROR),
    ]


async def test_a_long_text_of_any_letters_is_cut_to_what_clients_take(connection):
    """8 kB of trailers, and a letter may take twelve bytes of them."""
    await feed(connection, opened(1))
    connection.streams[1].fail("INTERNAL", "\U0001f600" * 5_000)
    connection.flush()
    blocks = [payload for kind, _, payload in connection.wire.frames() if kind == f.HEADERS]
    assert 1_000 < size_of(Decoder().decode(blocks[0])) <= 8 << 10
