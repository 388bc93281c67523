"""A gRPC client without grpcio, which does not go well with forks: one connection for all calls,
opened again when it is gone.
"""

import asyncio
import base64
from collections import deque
from typing import Any
from urllib.parse import unquote

from accord.protocol.protobuf.messages import kind
from accord.server.grpc.call import CODES
from tests.grpc.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW,
    WINDOW_MOST,
    Code,
    Decoder,
    Setting,
    frame,
    settings,
)
from tests.grpc.raw import grow, header
from tests.reliability.ways import Refused, Request

__all__ = ["Exchange", "Line"]

PATIENCE_S = 60
REFILL = 1 << 30

_NAMES = {str(number): name for name, number in CODES.items()}
_USUAL = b"".join(
    header(name, value)
    for name, value in {
        b":method": b"POST",
        b":scheme": b"http",
        b":authority": b"localhost",
        b"content-type": b"application/grpc",
        b"te": b"trailers",
    }.items()
)


class Line:
    """Calls to one address. When the connection breaks, all calls on it do, and the next one opens
    another.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._opening: asyncio.Task[_Connection] | None = None

    async def call(self, request: Request) -> "Exchange":
        """Begin a call. Raises ConnectionError if nobody is there."""
        while True:
            opening = self._opening
            if opening is None or (
                opening.done() and (opening.exception() or not opening.result().is_open)
            ):
                opening = self._opening = asyncio.create_task(self._open())
            connection = await asyncio.shield(opening)
            if connection.is_open:
                return connection.begin(request)

    async def _open(self) -> "_Connection":
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection, "127.0.0.1", self._port
        )
        return connection

    def close(self) -> None:
        if self._opening is not None and self._opening.done() and not self._opening.exception():
            self._opening.result().close()


class Exchange:
    """A call: messages as they come, and how it ends."""

    def __init__(self, connection: "_Connection", id: int) -> None:
        self.headers: dict[str, str] | None = None
        self._connection = connection
        self._id = id
        self._trailers: dict[str, str] | None = None
        self._broken: ConnectionError | None = None
        self._buffer = bytearray()
        self._messages: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None

    async def next(self) -> bytes | None:
        """Return the next message, None at a good end. Raises Refused for a bad one,
        ConnectionError if it was cut.
        """
        while not self._messages:
            if self._trailers is not None:
                self._end(self._trailers)
                return None
            if self._broken is not None:
                raise self._broken
            self._waiter = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(PATIENCE_S):
                await self._waiter
        return self._messages.popleft()

    def hang_up(self) -> None:
        if self._trailers is None and self._broken is None:
            self._connection.reset(self._id)

    def _end(self, trailers: dict[str, str]) -> None:
        status = _NAMES[trailers["grpc-status"]]
        if status != "OK":
            raise Refused(
                unquote(trailers["grpc-message"]),
                _reason(trailers.get("grpc-status-details-bin")) or status,
            )

    # What the connection tells

    def told(self, headers: dict[str, str], is_last: bool) -> None:
        if is_last:
            self._trailers = headers
        else:
            self.headers = headers
        self._wake()

    def got(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 5 and len(buffer) >= (end := 5 + int.from_bytes(buffer[1:5], "big")):
            self._messages.append(bytes(buffer[5:end]))
            del buffer[:end]
        if self._messages:
            self._wake()

    def broke(self, why: str) -> None:
        self._broken = ConnectionResetError(why)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _reason(details: str | None) -> str:
    """The reason in an error's details."""
    if details is None:
        return ""
    status = kind("google.rpc.Status").decode(base64.b64decode(details + "=" * (-len(details) % 4)))
    return kind("google.rpc.ErrorInfo").decode(status["details"][0]["value"])["reason"]


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_open = False
        self._exchanges: dict[int, Exchange] = {}
        self._last = -1
        self._decoder = Decoder()
        self._buffer = bytearray()
        self._taken = 0
        self._transport: Any = None

    def begin(self, request: Request) -> Exchange:
        self._last += 2
        exchange = self._exchanges[self._last] = Exchange(self, self._last)
        others = b"".join(
            [header(name.encode(), value.encode()) for name, value in request.headers.items()]
        )
        block = header(b":path", request.path.encode()) + _USUAL + others
        body = frame(DATA, END_STREAM, self._last, request.body)
        self._transport.write(frame(HEADERS, END_HEADERS, self._last, block) + body)
        return exchange

    def reset(self, id: int) -> None:
        self._exchanges.pop(id, None)
        if not self._transport.is_closing():
            self._transport.write(frame(RST_STREAM, 0, id, Code.CANCEL.to_bytes(4, "big")))

    def close(self) -> None:
        self._transport.close()

    # The transport's side

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.is_open = True
        transport.write(
            PREFACE
            + settings({Setting.INITIAL_WINDOW_SIZE: WINDOW_MOST})
            + grow(0, WINDOW_MOST - WINDOW)
        )

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        for exchange in self._exchanges.values():
            exchange.broke("the connection is gone")

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= 9:
            end = at + 9 + int.from_bytes(buffer[at : at + 3], "big")
            if len(buffer) < end:
                break
            kind_, flags, id_ = (
                buffer[at + 3],
                buffer[at + 4],
                int.from_bytes(buffer[at + 5 : at + 9], "big"),
            )
            self._frame(kind_, flags, id_, bytes(buffer[at + 9 : end]))
            at = end
        del buffer[:at]

    def _frame(self, kind_: int, flags: int, id_: int, payload: bytes) -> None:
        if kind_ == DATA:
            self._taken += len(payload)
            if self._taken > REFILL:
                self._transport.write(grow(0, self._taken))
                self._taken = 0
            if id_ in self._exchanges:
                self._exchanges[id_].got(payload)
        elif kind_ == HEADERS:
            self._headers(flags, id_, payload)
        elif kind_ == RST_STREAM:
            self._break(id_, f"reset: {Code(int.from_bytes(payload, 'big')).name}")
        elif kind_ == GOAWAY:
            self.is_open = False  # for new calls
            last = int.from_bytes(payload[:4], "big")
            for unseen in [id_ for id_ in self._exchanges if id_ > last]:
                self._break(unseen, "not seen before the server went away")
        elif kind_ in (PING, SETTINGS) and not flags & ACK:
            self._transport.write(frame(kind_, ACK, 0, payload if kind_ == PING else b""))

    def _headers(self, flags: int, id_: int, payload: bytes) -> None:
        assert flags & END_HEADERS, "nothing we are told is that long"
        pairs = self._decoder.decode(payload)
        if id_ in self._exchanges:
            is_last = bool(flags & END_STREAM)
            exchange = self._exchanges.pop(id_) if is_last else self._exchanges[id_]
            exchange.told({name.decode(): value.decode() for name, value in pairs}, is_last)

    def _break(self, id_: int, why: str) -> None:
        if id_ in self._exchanges:
            self._exchanges.pop(id_).broke(why)
