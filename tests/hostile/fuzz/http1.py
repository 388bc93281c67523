"""The HTTP port: HTTP/1.1 as bytes, with requests to every door in it."""

import asyncio
import re
import time

from accord.server.http1.connection import ANSWER, NEXT, Http1Connection
from accord.server.http1.listener import HttpServer

from . import words
from .http import Http, Request, request
from .tape import Tape
from .target import PATIENCE_S
from .wire import Wire

__all__ = ["Http1"]

FRAMING = [
    *(
        b"content-length: %d",
        b"content-length: %d",
        b"content-length: %d",
        b"transfer-encoding: chunked",
        b"",
        b"content-length: 4",
    ),
    *(
        b"content-length: %d\r\ntransfer-encoding: chunked",
        b"content-length: %d\r\ncontent-length: 4",
        b"content-length: -1",
    ),
    *(
        b"transfer-encoding: gzip",
        b"content-length: 99999999999",
        b"content-length:%d ",
        b"content-length : %d",
    ),
]
EXTRA = [
    *(
        b"expect: 100-continue",
        b"connection: close",
        b"connection: keep-alive",
        b"upgrade: h2c",
        b"connection: upgrade",
    ),
    *(
        b"host: other",
        b" folded",
        b"x",
        b": y",
        b"x\x00: y",
        b"x: \x00",
        b"x: " + b"y" * 40_000,
        b"http2-settings: AAAA",
    ),
]
VERSIONS = [
    b"HTTP/1.1",
    b"HTTP/1.1",
    b"HTTP/1.1",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"HTTP/9",
    b"http/1.1",
    b"",
]
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def written(tape: Tape, asked: Request) -> bytes:
    """A request as a client writes it, framed in one way or another."""
    body = b"".join(asked.bodies)
    framing = tape.pick(FRAMING)
    if b"%d" in framing:
        framing %= len(body)
    if b"chunked" in framing and not tape.is_one_in(6):
        body = _chunks(tape, body)
    path = asked.path.encode("latin-1", "replace") + (b"?" + asked.query if asked.query else b"")
    if tape.is_one_in(12):
        path = tape.pick([b"*", b"http://other" + path, b"//" + path, b"", tape.bytes(12)])
    named = dict(
        [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"a2a-version", b"1.0"),
            *asked.headers,
        ]
    )
    lines = [
        b"%b %b %b" % (asked.verb.encode(), path, tape.pick(VERSIONS)),
        *(b"%b: %b" % pair for pair in named.items()),
    ]
    if framing:
        lines.append(framing)
    if tape.is_one_in(6):
        lines.insert(1 + tape.number(len(lines)), tape.pick(EXTRA))
    return b"\r\n".join([*lines, b"", body])


def _chunks(tape: Tape, body: bytes) -> bytes:
    at = tape.number(len(body) + 1)
    pieces = [
        b"%x%b\r\n%b\r\n" % (len(piece), tape.pick([b"", b"", b";x=y", b" "]), piece)
        for piece in (body[:at], body[at:])
        if piece
    ]
    return b"".join(
        [
            *pieces,
            tape.pick(
                [
                    b"0\r\n\r\n",
                    b"0\r\n\r\n",
                    b"0\r\nx: y\r\n\r\n",
                    b"0",
                    b"fffffffffffffff\r\n",
                    b"-1\r\n",
                ]
            ),
        ]
    )


def _is_busy(link: Http1Connection) -> bool:
    """Whether an answer, not a stream that has begun, or the next request is still to come."""
    return (link.state == ANSWER and link.head is not None) or (
        link.state == NEXT and link.ahead is not None
    )


class Http1(Http):
    """A server's side of HTTP/1.1, given bytes."""

    name = "http1"

    async def open(self) -> None:
        await super().open()
        self._port = HttpServer(self.app.answer, "127.0.0.1", 0, self.app.limits)
        self._port.check_all(time.monotonic())

    async def attack(self, data: bytes) -> None:
        tape = Tape(data)
        asked = [written(tape, request(tape, self._known)) for _ in range(tape.pick([1, 1, 2, 3]))]
        said = b"".join(asked)
        if tape.is_one_in(4):
            said = words.bent(tape, said)
        wire, link = Wire(), self._port.connected()
        link.connection_made(wire)
        at = tape.number(len(said) + 1) if tape.is_one_in(3) else 0
        for piece in (said[:at], said[at:]):
            if piece and not wire.is_closed:
                link.data_received(piece)
                await asyncio.sleep(0)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not wire.is_closed and _is_busy(link):  # noqa: ASYNC110  there is no event for it
                    await asyncio.sleep(0)
        except TimeoutError:
            raise AssertionError(f"no answer within {PATIENCE_S} s: {said!r}") from None
        link.connection_lost(None)
        await asyncio.sleep(0)
        for status in _STATUS.findall(bytes(wire.written)):
            self.outcomes[status.decode()] += 1
            assert status < b"500" or status in (b"501", b"505"), (said, bytes(wire.written))
        # A page of another site is told so with this code; everywhere else it is our fault.
        faults = wire.written.count(b'"code":-32603') - wire.written.count(b'"CROSS_ORIGIN"')
        assert faults <= 0, said
        self.check(said)
