"""One HTTP/2 stream: what is sent on it, within what the other side takes."""

import asyncio
from typing import TYPE_CHECKING

from .headers import Pair

if TYPE_CHECKING:
    from .connection import Http2Connection

__all__ = ["Http2Stream"]

HIGH_BYTES = 16 << 10  # waiting to be taken, before who writes has to wait too


class Http2Stream:
    """Both ends of one exchange. What comes in is a matter of the class that builds on this one.

    What can't leave yet waits here: until the other side opens its window, or takes what is on the
    way to it.
    """

    __slots__ = (
        "_pending",
        "_tail",
        "_waiter",
        "connection",
        "id",
        "is_ended",
        "is_over",
        "since",
        "stuck_since",
    )

    def __init__(self, connection: "Http2Connection", id: int) -> None:
        self.connection = connection
        self.id = id
        self.is_ended = False  # the other side has said all
        self.is_over = False  # we have, or there is nobody to say it to
        # When it was opened, or what is still incomplete last grew.
        self.since = connection.loop.time()
        self.stuck_since = 0.0  # when last something left, while something waits
        self._pending: bytearray | None = None
        self._tail: list[Pair] = []
        self._waiter: asyncio.Future[None] | None = None

    # What comes in

    def opened(self) -> None:
        """The headers have come."""

    def received(self, data: bytes) -> None:
        """Some data has come."""

    def ended(self) -> None:
        """All of it has come."""

    def lost(self) -> None:
        """There is nobody there any more."""

    def stalled(self) -> None:
        """Nothing of what waits has been taken for too long."""

    def begin(self) -> None:
        """The client has read enough of what waited for it."""

    def stopped(self) -> None:
        """The server stops."""

    # What goes out

    def write(self, head: list[Pair], data: bytes, tail: list[Pair]) -> None:
        """Send headers, data, and headers that end the stream: what is given of them."""
        if self.is_over:
            return
        connection = self.connection
        if tail:
            self.is_over = True
        if head:
            connection.send_headers(self.id, head)
        is_first = not self._pending
        if (
            data
            and is_first
            and not connection.is_write_paused
            and len(data) <= min(self._window, connection.frame_bytes)
        ):
            connection.send_data(self.id, data)
            data = b""
        if data or not is_first:
            self._wait(data, tail)
            self.pump()
        elif tail:
            connection.send_headers(self.id, tail, is_last=True)
            connection.finished(self)

    @property
    def _window(self) -> int:
        """Bytes we may send; less than nothing when the client changed its mind."""
        return self.connection.h2.local_flow_control_window(self.id)

    def _wait(self, data: bytes, tail: list[Pair]) -> None:
        if self._pending is None:
            self._pending = bytearray()
        if not self._pending:
            self.stuck_since = self.connection.loop.time()
        self._pending += data
        self._tail = tail
        self.connection.held(len(data))

    def pump(self, most: int = 1 << 30) -> None:
        """Send of what waits as much as there is room for, up to about `most` bytes."""
        connection, pending = self.connection, self._pending
        if pending is None:
            return
        moved = 0
        while pending and moved < most and not connection.is_write_paused:
            size = min(len(pending), self._window, connection.frame_bytes)
            if size <= 0:
                break
            moved += size
            connection.send_data(self.id, bytes(pending[:size]))
            del pending[:size]
        if moved:
            self.stuck_since = connection.taken_at = connection.loop.time()
            connection.freed(moved)
        if pending:
            if connection.h2.streams[self.id].outbound_flow_control_window > 0:
                connection.wait(self)
        elif self._tail:
            connection.send_headers(self.id, self._tail, is_last=True)
            connection.finished(self)
        if self._waiter is not None and len(pending) <= HIGH_BYTES // 2:
            self.wake()

    @property
    def waiting(self) -> int:
        """How many bytes have not left yet."""
        return len(self._pending) if self._pending is not None else 0

    async def drained(self) -> None:
        """Return when most of what was written has left."""
        while self.waiting > HIGH_BYTES:
            self._waiter = self.connection.loop.create_future()
            await self._waiter

    def wake(self) -> None:
        if self._waiter is not None:
            if not self._waiter.done():
                self._waiter.set_result(None)
            self._waiter = None

    def drop(self) -> None:
        """Forget what waits, to say something shorter instead."""
        if self._tail:
            self.is_over = False  # it has not been said
        self.clear()

    def clear(self) -> None:
        """Forget what waits: nobody takes it."""
        waiting, self._pending, self._tail = self.waiting, None, []
        if waiting:
            self.connection.freed(waiting)
        self.wake()

    def check_timeouts(self, now: float) -> None:
        """Once in a while: whether anything has left, if anything was to."""
        if self._pending and now - self.stuck_since > self.connection.listener.limits.stalled_s:
            self.stalled()
