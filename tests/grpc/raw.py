"""HTTP/2 by hand: frames of any shape to a server, and what comes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.grpc.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Code,
    Decoder,
    Setting,
    frame,
    settings,
)

SERVICE = b"/lf.a2a.v1.A2AService/"
PATIENCE_S = 60.0


class Frame(NamedTuple):
    kind: int
    flags: int
    id: int
    payload: bytes


class Answer(NamedTuple):
    """What came on one stream."""

    headers: dict[str, str]
    data: bytes
    trailers: dict[str, str]
    reset: Code | None

    @property
    def status(self) -> str:
        """gRPC's status, wherever it stands."""
        return (self.headers | self.trailers).get("grpc-status", "")


def header(name: bytes, value: bytes) -> bytes:
    """A header without any compression."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: bytes) -> bytes:
    size = len(text)
    if size < 0x7F:
        return bytes([size]) + text
    size -= 0x7F
    length = bytearray([0x7F])
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*length, size]) + text


def request(method: bytes = b"GetTask", **others: bytes) -> bytes:
    """The block of a call's headers. Keywords replace or add, `_` standing for `-`; an empty one
    leaves it out.
    """
    pairs = {b"content-type": b"application/grpc", b"te": b"trailers"}
    pseudo = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": SERVICE + method,
        b":authority": b"localhost",
    }
    for key, value in others.items():
        name = key.replace("_", "-").encode()
        (pseudo if b":" + name in pseudo else pairs)[
            b":" + name if b":" + name in pseudo else name
        ] = value
    return b"".join(header(name, value) for name, value in (pseudo | pairs).items() if value)


def message(data: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + len(data).to_bytes(4, "big") + data


def call(id: int, data: bytes, method: bytes = b"GetTask", **headers: bytes) -> bytes:
    """A whole call with one message."""
    whole = message(data)
    pieces = [whole[at : at + 16_384] for at in range(0, len(whole), 16_384)]
    datas = [frame(DATA, END_STREAM if piece is pieces[-1] else 0, id, piece) for piece in pieces]
    return b"".join([frame(HEADERS, END_HEADERS, id, request(method, **headers)), *datas])


class Peer:
    """A client that sends what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder()
        self._block = b""
        self.pairs: dict[str, str] = {}  # the headers that came last

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    async def drain(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._writer.drain()

    async def read(self) -> Frame | None:
        """Return the next frame; None if the server has hung up."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
        found = Frame(head[3], head[4], int.from_bytes(head[5:9], "big"), payload)
        if found.kind in (HEADERS, CONTINUATION):  # all are decoded: later ones refer to them
            self._block += payload
            if found.flags & END_HEADERS:
                pairs, self._block = self._decoder.decode(self._block), b""
                self.pairs = {name.decode(): value.decode() for name, value in pairs}
        return found

    async def until(self, kind: int, id: int = 0) -> Frame:
        """Return the next frame of a kind."""
        while (found := await self.read()) is not None:
            if (found.kind, found.id) == (kind, id):
                return found
        raise AssertionError("the server hung up")

    async def rest(self) -> bytes:
        """Return all bytes up to the end."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.read()

    async def answer(self, id: int) -> Answer:
        """Return what comes on a stream up to its end."""
        blocks: list[dict[str, str]] = []
        data = b""
        while (found := await self.read()) is not None:
            if found.id != id:
                continue
            if found.kind in (HEADERS, CONTINUATION) and found.flags & END_HEADERS:
                blocks.append(self.pairs)
            if found.kind == DATA:
                data += found.payload
            if found.kind == RST_STREAM:
                return Answer(*_two(blocks, data), Code(int.from_bytes(found.payload, "big")))
            if found.flags & END_STREAM and found.kind in (DATA, HEADERS):
                return Answer(*_two(blocks, data), None)
        raise AssertionError("the server hung up")

    async def answers(self, count: int) -> dict[int, bytes]:
        """Return what comes on so many streams, up to their ends, whatever their order."""
        found: dict[int, bytes] = {}
        while count:
            frame_ = await self.read()
            assert frame_ is not None, "the server hung up"
            if frame_.kind == DATA:
                found[frame_.id] = found.get(frame_.id, b"") + frame_.payload
            if frame_.flags & END_STREAM and frame_.kind in (DATA, HEADERS):
                count -= 1
        return found

    async def goaway(self) -> Code:
        """Return why the server ends the connection, and see that it does."""
        last = await self.until(GOAWAY)
        while await self.read() is not None:
            pass
        return Code(int.from_bytes(last.payload[4:8], "big"))

    def pause(self) -> None:
        """Take nothing any more."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads

    async def is_cut(self) -> bool:
        """Whether the server hangs up on a client that reads nothing: noticed by who writes."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._writer.is_closing():
                try:
                    self.send(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"))
                    await self._writer.drain()
                    await asyncio.sleep(0.05)
                except ConnectionError:
                    return True
        return True

    def close(self) -> None:
        self._writer.close()


def _two(blocks: list[dict[str, str]], data: bytes) -> tuple[dict[str, str], bytes, dict[str, str]]:
    return blocks[0] if blocks else {}, data, blocks[1] if len(blocks) > 1 else {}


@asynccontextmanager
async def connected(
    address: str, values: dict[Setting, int] | None = None, *, is_polite: bool = True
) -> AsyncIterator[Peer]:
    """A connection of its own; a polite client has said hello."""
    host, _, port = address.rpartition(":")
    peer = Peer(*await asyncio.open_connection(host, int(port)))
    try:
        if is_polite:
            peer.send(PREFACE, settings(values or {}))
            await peer.until(SETTINGS)
            peer.send(frame(SETTINGS, ACK, 0))
        yield peer
    finally:
        peer.close()


def grow(id: int, size: int) -> bytes:
    """Let the server send more."""
    return frame(WINDOW_UPDATE, 0, id, size.to_bytes(4, "big"))
