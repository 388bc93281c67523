"""The load: HTTP/1.1 connections that send prepared bytes and look at every answer.

Callbacks and byte searches only. A client that costs as much as the server would measure itself.
"""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

__all__ = [
    "PATIENCE_S",
    "Arrivals",
    "Check",
    "Connection",
    "Failure",
    "Tally",
    "connect",
    "drive",
    "post",
]

PATIENCE_S = 60.0

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n0\r\n\r\n"


class Failure(Exception):
    """A server gave a wrong answer, or none. The row it happened in does not count."""


class Tally(NamedTuple):
    """What was done: requests answered, and the units in their answers (events of a stream, else
    one each).
    """

    requests: int
    units: int


Check = Callable[[bytes], int]  # the units in a right answer; raises Failure for a wrong one


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._got = 0
        self._need = 0  # the size of the whole answer; 0 before its head is read, -1 for a stream
        self._then: Callable[[bytes], None] | None = None
        self._lost: Callable[[Exception], None] | None = None
        self._begun: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def ask(
        self, request: bytes, then: Callable[[bytes], None], lost: Callable[[Exception], None]
    ) -> None:
        """Send `request`; `then` gets the whole answer, `lost` what went wrong."""
        self._pieces, self._got, self._need = [], 0, 0
        self._then, self._lost = then, lost
        self._transport.write(request)

    def begun(self) -> asyncio.Future[None]:
        """Done with the first event of the stream that was asked for."""
        self._begun = asyncio.get_running_loop().create_future()
        return self._begun

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._got += len(data)
        if self._need == 0:
            self._read_head()
        if self._need > 0:
            if self._got >= self._need:
                self._finish()
            return
        if self._begun is not None and b"data:" in data:
            self._begun.set_result(None)
            self._begun = None
        if data.endswith(_END) or (
            len(data) < len(_END) and b"".join(self._pieces[-8:]).endswith(_END)
        ):
            self._finish()

    def _read_head(self) -> None:
        data = b"".join(self._pieces)
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return
        self._pieces = [data]
        length = _LENGTH.search(data, 0, end)
        self._need = end + 4 + int(length[1]) if length else -1

    def _finish(self) -> None:
        answer = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        then, self._then = self._then, None
        if then is not None:
            then(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._then is not None and self._lost is not None:
            self._then = None
            self._lost(error or ConnectionError("closed before the answer was complete"))

    def close(self) -> None:
        self._then = None
        self._transport.abort()


class Arrivals(Connection):
    """A connection that notes when each piece of an answer came."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[int, bytes]] = []  # nanoseconds of the clock, and the bytes

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.time_ns(), data))
        super().data_received(data)


async def connect(port: int, n: int) -> list[Connection]:
    """Return `n` open connections to a server on this machine."""
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(n)]


async def drive(
    connections: Sequence[Connection],
    requests: Callable[[int], bytes],
    check: Check,
    *,
    seconds: float | None = None,
    count: int | None = None,
    patience_s: float = PATIENCE_S,
) -> Tally:
    """Keep every connection busy for `seconds`, or until `count` requests were sent; return when
    all are answered.

    `requests` gets the number of the request and returns its bytes.

    Raises:
        Failure: An answer was wrong, missing or late.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    deadline = time.perf_counter() + seconds if seconds is not None else None
    sent = units = 0
    busy = len(connections)

    def fail(error: Exception) -> None:
        if not done.done():
            done.set_exception(
                error if isinstance(error, Failure) else Failure(f"connection lost: {error}")
            )

    def next_for(connection: Connection) -> None:
        nonlocal sent, busy
        if (
            (count is not None and sent >= count)
            or (deadline is not None and time.perf_counter() >= deadline)
            or done.done()
        ):
            busy -= 1
            if not busy and not done.done():
                done.set_result(None)
            return
        request = requests(sent)
        sent += 1
        connection.ask(request, lambda answer: settle(connection, answer), fail)

    def settle(connection: Connection, answer: bytes) -> None:
        nonlocal units
        try:
            units += check(answer)
        except Failure as error:
            fail(error)
        else:
            next_for(connection)

    for connection in connections:
        next_for(connection)
    try:
        await asyncio.wait_for(done, (seconds or 0) + patience_s)
    except TimeoutError:
        raise Failure(f"not done after {patience_s:.0f} s") from None
    return Tally(sent, units)


async def post(connection: Connection, request: bytes, check: Check) -> bytes:
    """Send one request and return its answer."""
    found: list[bytes] = []

    def keep(answer: bytes) -> int:
        found.append(answer)
        return check(answer)

    await drive([connection], lambda _: request, keep, count=1)
    return found[0]
