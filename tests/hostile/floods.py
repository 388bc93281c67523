"""Floods: bytes that cost their sender nothing, for as long as a connection takes them, each from
one connection at a time.
"""

import asyncio
import contextlib
import itertools
import time
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from tests.grpc.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    WINDOW_UPDATE,
    frame,
    settings,
)
from tests.grpc.raw import call, header, message, request

__all__ = ["FLOODS", "Flood", "flood"]

PIECE = 64 << 10
OPENING = PREFACE + settings({})
CANCEL = b"\0\0\0\x08"
POST = b"POST /message:send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


class Flood(NamedTuple):
    """What one connection sends: pieces, until they end or it is closed. Then another one
    begins.
    """

    is_grpc: bool
    pieces: Callable[[], Iterator[bytes]]


class Sent(NamedTuple):
    """How much of a flood there was."""

    connections: int
    bytes: int


async def flood(port: int, what: Flood, seconds: float) -> Sent:
    """Send it for so long, and take what comes back."""
    connections = size = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            connections += 1
            taking = asyncio.create_task(_take(reader))
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    for piece in what.pieces():
                        writer.write(piece)
                        size += len(piece)
                        await asyncio.sleep(0)
                        await writer.drain()
                        if taking.done():
                            break
                    else:
                        await asyncio.wait([taking], timeout=1.0)
            except TimeoutError:
                pass
            finally:
                taking.cancel()
                writer.transport.abort()
    return Sent(connections, size)


async def _take(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(1 << 20):
            pass


def _again(first: bytes, piece: bytes) -> Callable[[], Iterator[bytes]]:
    many = piece * max(PIECE // len(piece), 1)
    return lambda: itertools.chain((first,), itertools.repeat(many))


def _calls(make: Callable[[int], bytes], count: int = 4_000) -> Callable[[], Iterator[bytes]]:
    """Calls on streams of their own."""
    whole = OPENING + b"".join(make(id_) for id_ in range(1, 2 * count, 2))
    pieces = [whole[at : at + PIECE] for at in range(0, len(whole), PIECE)]
    return lambda: iter(pieces)


def _huffman() -> Callable[[], Iterator[bytes]]:
    """Metadata that has to be unpacked bit by bit."""
    packed = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode(b"a" * 15_000)
    size = len(packed) - 0x7F
    text = bytes([0xFF, size & 0x7F | 0x80, size >> 7]) + packed
    block = request(b"GetTask") + b"\x00\x01x" + text
    return _calls(lambda id_: frame(HEADERS, END_HEADERS | END_STREAM, id_, block), 500)


def _gzip() -> Callable[[], Iterator[bytes]]:
    """Messages of 4 KB that are 4 MB."""
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = message(pack.compress(b"\0" * ((4 << 20) - 100)) + pack.flush(), 1)
    block = request(b"SendMessage", grpc_encoding=b"gzip")
    return _calls(
        lambda id_: frame(HEADERS, END_HEADERS, id_, block) + frame(DATA, END_STREAM, id_, data),
        500,
    )


def _fields() -> Callable[[], Iterator[bytes]]:
    """Metadata of hundreds of fields, of a byte each."""
    block = request(b"GetTask") + b"\x90" * 400
    return _calls(lambda id_: frame(HEADERS, END_HEADERS | END_STREAM, id_, block))


def _continued() -> Callable[[], Iterator[bytes]]:
    block = request(b"GetTask")
    pieces = b"".join(
        frame(CONTINUATION, 0, 1, block[at : at + 4]) for at in range(4, len(block), 4)
    )
    return lambda: iter(
        [OPENING, frame(HEADERS, 0, 1, block[:4]) + pieces, frame(CONTINUATION, 0, 1) * 5_000]
    )


def _reset(id_: int) -> bytes:
    return frame(HEADERS, END_HEADERS, id_, request(b"GetTask")) + frame(RST_STREAM, 0, id_, CANCEL)


_OPEN = OPENING + frame(HEADERS, END_HEADERS, 1, request(b"SendMessage"))
_CLOSED = OPENING + call(1, b"")
_TINY = b"GET /tasks/x HTTP/1.1\r\nhost: a\r\n"

FLOODS: dict[str, Callable[[], Flood]] = {
    "tiny chunks": lambda: Flood(
        False, _again(POST + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n")
    ),
    "tiny headers": lambda: Flood(False, _again(b"", _TINY + b"a:\r\n" * 250 + b"\r\n")),
    "headers without end": lambda: Flood(False, _again(_TINY, b"a:\r\n")),
    "empty lines": lambda: Flood(False, _again(b"", b"\r\n")),
    "small requests": lambda: Flood(False, _again(b"", _TINY + b"\r\n")),
    "ends in a chunk": lambda: Flood(
        False, _again(POST + b"transfer-encoding: chunked\r\n\r\n3fff00\r\n", b"\r\n\r\n")
    ),
    "one-byte DATA": lambda: Flood(True, _again(_OPEN, frame(DATA, 0, 1, b"\0"))),
    "empty DATA": lambda: Flood(True, _again(_OPEN, frame(DATA, 0, 1))),
    "DATA on a closed stream": lambda: Flood(
        True, _again(_CLOSED, frame(DATA, END_STREAM, 1, b"\0"))
    ),
    "WINDOW_UPDATEs": lambda: Flood(True, _again(_OPEN, frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"))),
    "resets on a closed stream": lambda: Flood(
        True, _again(_CLOSED, frame(RST_STREAM, 0, 1, CANCEL))
    ),
    "rapid resets": lambda: Flood(True, _calls(_reset)),
    "pings": lambda: Flood(True, _again(OPENING, frame(PING, 0, 0, b"\0" * 8))),
    "settings": lambda: Flood(True, _again(OPENING, settings({}))),
    "continuations": lambda: Flood(True, _continued()),
    "small fields": lambda: Flood(True, _fields()),
    "Huffman": lambda: Flood(True, _huffman()),
    "gzip": lambda: Flood(True, _gzip()),
    "malformed calls": lambda: Flood(
        True, _calls(lambda id_: frame(HEADERS, END_HEADERS | END_STREAM, id_, header(b":a", b"")))
    ),
    "small calls": lambda: Flood(True, _calls(lambda id_: call(id_, b""))),
}
