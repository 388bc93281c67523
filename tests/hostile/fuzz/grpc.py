"""The gRPC port: HTTP/2 as bytes, with calls of both packages in it."""

import asyncio
import re
from typing import Any, cast

from accord.protocol.protobuf.schema import POOL
from accord.protocol.v11.schema import POOL as PREVIEW
from accord.server.grpc.connection import Http2Connection
from tests.grpc.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    Code,
    Decoder,
    frame,
    head_of,
)
from tests.grpc.raw import header, message

from . import words
from .tape import Tape
from .target import PATIENCE_S, AppTarget
from .wire import Wire

__all__ = ["Grpc"]

SERVICES = ["lf.a2a.v1.A2AService", "a2a.v1.A2AService"]
METHODS = [
    (method, f"/{service}/{method.name}".encode())
    for service in SERVICES
    for method in POOL.FindServiceByName(service).methods
]
METHODS += [
    (method, f"/{SERVICES[0]}/{method.name}".encode())
    for method in PREVIEW.FindServiceByName(SERVICES[0]).methods
]
OTHERS = [
    *(
        b"/grpc.health.v1.Health/Check",
        b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ),
    *(b"/", b"x", b"/lf.a2a.v1.A2AService/"),
]
METADATA = bytes.split(b"""
    a2a-version a2a-extensions x-a2a-extensions last-event-id idempotency-key grpc-timeout grpc-encoding content-length
    grpc-accept-encoding authorization te x-bin connection :path :status user-agent
""")
VALUES = [
    *(
        b"1.0",
        b"1.1",
        b"1.1",
        b"0.3",
        b"9.9",
        b"",
        b"1",
        b"\xff\xfe",
        b"k",
        b"99999999999999999999",
        b"urn:accord:resume:1",
        b"a\nb",
        b"100m",
    ),
    *(b"1n", b"gzip", b"deflate", b"identity", b"snappy", b"trailers", b"5", b"x" * 2_000),
]
WANTED = ("message", "message_id", "role", "parts", "content", "id", "name", "text")
TABLE = [
    b"\x82",
    b"\x40\x01a\x01b\xbe",
    b"\x40\x81\x1f\x81\x1f",
    b"\x3f\xe1\x1f",
    b"\x20",
    b"\xff\xff\xff\xff\x0f",
]
WAYS = {
    1: 1,
    2: 5,
    3: 0,
    4: 0,
    5: 0,
    6: 1,
    7: 5,
    8: 0,
    13: 0,
    14: 0,
    15: 5,
    16: 1,
    17: 0,
    18: 0,
}  # on the wire, by type of field
_PACKED = re.compile(rb"unknown flag|does not say how")


def varint(number: int) -> bytes:
    found = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def proto(tape: Tape, type_: Any, depth: int = 5) -> bytes:
    """A message of a type: its own fields, with right values mostly, and now and then something
    else.
    """
    found = []
    wanted = [field for field in type_.fields if field.name in WANTED]
    extra = (
        [tape.pick(type_.fields) for _ in range(tape.pick([0, 0, 1, 2, 5]))] if type_.fields else []
    )
    for field in [*(field for field in wanted if not tape.is_one_in(12)), *extra]:
        way = WAYS.get(field.type, 2)
        if tape.is_one_in(40):
            found.append(varint(tape.number(1 << 12)) + tape.bytes(9))
            continue
        for _ in range(tape.pick([1, 1, 1, 0, 2, 3]) if field.is_repeated else 1):
            found.append(varint(field.number << 3 | way) + _content(tape, field, way, depth))
    return b"".join(found)


def _content(tape: Tape, field: Any, way: int, depth: int) -> bytes:
    if way == 0:
        return varint(
            1 if field.type == 14 and not tape.is_one_in(6) else int(tape.pick(words.NUMBERS[:-4]))
        )
    if way in (1, 5):
        return tape.bytes(8).ljust(8 if way == 1 else 4, b"\xff")[: 8 if way == 1 else 4]
    if field.message_type is not None:
        inside = proto(tape, field.message_type, depth - 1) if depth else b""
    elif field.type == 12 or tape.is_one_in(8):
        inside = tape.bytes(12)
    else:
        inside = tape.pick(words.WORDS).encode("utf-8", "surrogatepass")
    return varint(len(inside)) + inside


def block(tape: Tape, path: bytes) -> bytes:
    """The headers of a call, in one case of eight no longer what they were."""
    pairs = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost"),
    ]
    pairs += [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
    if tape.is_one_in(2):
        pairs.append((b"a2a-version", b"1.1"))
    for _ in range(tape.pick([0, 0, 1, 2])):
        pairs.append(
            (tape.pick(METADATA), tape.bytes(16) if tape.is_one_in(6) else tape.pick(VALUES))
        )
    if tape.is_one_in(8):
        pairs.pop(tape.number(len(pairs)))
    whole = b"".join(header(*pair) for pair in pairs)
    if tape.is_one_in(8):  # indexed, kept in the table, packed by Huffman, a new size of the table
        whole = tape.pick(TABLE) + whole
    return words.bent(tape, whole) if tape.is_one_in(4) else whole


def call(tape: Tape, id_: int) -> bytes:
    """One call, in as many frames as the tape says."""
    if tape.is_one_in(12):
        path, data = tape.pick(OTHERS), tape.bytes(20)
    else:
        method, path = tape.pick(METHODS)
        data = proto(tape, method.input_type)
    head = block(tape, path)
    body = (
        message(words.bent(tape, data), tape.pick([0, 0, 0, 0, 0, 0, 1, 9]))
        if not tape.is_one_in(24)
        else tape.bytes(12)
    )
    if tape.is_one_in(12):
        at = tape.number(len(head) + 1)
        frames = [
            frame(HEADERS, 0, id_, head[:at]),
            frame(CONTINUATION, END_HEADERS, id_, head[at:]),
        ]
    else:
        frames = [
            frame(HEADERS, END_HEADERS | (END_STREAM if tape.is_one_in(24) else 0), id_, head)
        ]
    last = 0 if tape.is_one_in(24) else END_STREAM
    if tape.is_one_in(8):
        at = tape.number(len(body) + 1)
        frames += [
            frame(DATA, 0, id_, body[:at]),
            frame(DATA, PADDED | last, id_, b"\x03" + body[at:] + b"\0\0\0"),
        ]
    else:
        frames += [
            frame(DATA, last, id_, body[at : at + 16_000])
            for at in range(0, len(body) or 1, 16_000)
        ][-1:]
    if tape.is_one_in(6):
        frames.insert(tape.number(len(frames) + 1), odd(tape, id_))
    return b"".join(frames)


def odd(tape: Tape, id_: int) -> bytes:
    """A frame that is not part of a call."""
    size = tape.pick([4, 8, 6, 0, 5, 12, 40])
    return frame(
        tape.number(12),
        tape.pick([0, ACK, END_HEADERS, PADDED, 0xFF]),
        tape.pick([0, id_, id_ + 2, 2]),
        tape.bytes(size),
    )


def connection(tape: Tape) -> bytes:
    """All that one client says."""
    opening = PREFACE + frame(
        SETTINGS, 0, 0, tape.bytes(12)[:6].ljust(6, b"\0") if tape.is_one_in(8) else b""
    )
    calls = [call(tape, 1 + 2 * i) for i in range(tape.pick([1, 1, 2, 3]))]
    said = opening + b"".join(calls)
    return words.bent(tape, said) if tape.is_one_in(8) else said


class Grpc(AppTarget):
    """A server's side of HTTP/2, given bytes."""

    name = "grpc"

    def listen(self) -> None:
        self.app.listen("127.0.0.1", 0)

    async def attack(self, data: bytes) -> None:
        tape = Tape(data)
        said = connection(tape)
        wire, link = Wire(), Http2Connection(self.app._grpc.server)
        link.connection_made(wire)
        at = tape.number(len(said) + 1) if tape.is_one_in(4) else 0
        for piece in (said[:at], said[at:]):
            if piece and not wire.is_closed:
                link.data_received(piece)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while any(
                    stream.is_ended and not stream.is_over and not stream._is_begun
                    for stream in cast(Any, link.streams.values())
                ):
                    wire.grew.clear()
                    await wire.grew.wait()
        except TimeoutError:
            raise AssertionError(f"no answer within {PATIENCE_S} s: {said!r}") from None
        link.connection_lost(None)
        self._look(said, bytes(wire.written))
        self.check(said)

    def _look(self, said: bytes, heard: bytes) -> None:
        """What came back is HTTP/2, and no fault of ours."""
        decoder, at = Decoder(), 0
        if heard.startswith(b"HTTP/1.1"):
            self.outcomes["turned away"] += 1
            return
        while at < len(heard):
            word, flags, _ = head_of(heard, at)
            size, kind = word >> 8, word & 0xFF
            payload = heard[at + 9 : at + 9 + size]
            assert len(payload) == size, said
            at += 9 + size
            if kind == HEADERS:
                assert flags & END_HEADERS, said
                pairs = dict(decoder.decode(payload))
                if b"grpc-status" in pairs:
                    self.outcomes["status " + pairs[b"grpc-status"].decode()] += 1
                    # INTERNAL is what gRPC itself wants for a message that is packed in no way
                    # anybody named.
                    is_ours = pairs[b"grpc-status"] in (b"2", b"13") and not _PACKED.search(
                        pairs[b"grpc-message"]
                    )
                    assert not is_ours, (said, pairs)
            elif kind == RST_STREAM:
                self.outcomes[Code(int.from_bytes(payload, "big")).name] += 1
                assert payload[3] != Code.INTERNAL_ERROR, said
            elif kind == GOAWAY:
                self.outcomes["goaway " + Code(int.from_bytes(payload[4:8], "big")).name] += 1
                assert payload[7] != Code.INTERNAL_ERROR, said
