"""One HTTP/2 stream: what is sent on it, within what the other side takes."""

import asyncio
from typing import TYPE_CHECKING

from .frames import DATA, END_HEADERS, END_STREAM, FRAME_BYTES, HEADERS, frame_head, header_frames

if TYPE_CHECKING:
    from .link import Link

__all__ = ["Stream"]

HIGH_BYTES = 16 << 10  # waiting to be taken, before who writes has to wait too


class Stream:
    """Both ends of one exchange. What comes in is a matter of the class that builds on this one.

    What can't leave yet waits here: until the other side opens its window, or takes what is on the way to it.
    """

    __slots__ = ("_pending", "_tail", "_waiter", "id", "intake", "is_ended", "is_over", "link", "room", "since", "stuck_since")

    def __init__(self, link: "Link", id: int) -> None:
        self.link = link
        self.id = id
        self.room = link.first_room  # bytes we may send; less than nothing when the other side changed its mind
        self.intake = link.home.intake  # bytes it may send
        self.is_ended = False  # the other side has said all
        self.is_over = False  # we have, or there is nobody to say it to
        self.since = link.loop.time()  # when it was opened, or what is still incomplete last grew
        self.stuck_since = 0.0  # when last something left, while something waits
        self._pending: bytearray | None = None
        self._tail = b""
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

    def write(self, head: bytes, data: bytes, tail: bytes = b"") -> None:
        """Send headers, data, and headers that end the stream: what is given of them. The headers are blocks."""
        if self.is_over:
            return
        if tail:
            self.is_over = True
        link, id_, size = self.link, self.id, len(data)
        link.has_spoken = True
        is_quick = size <= self.room and size <= link.room and size <= link.frame_bytes
        if is_quick and not self._pending and not link.is_paused:
            self.room -= size
            link.room -= size
            pieces: list[bytes] = []
            if head:
                pieces += self._headers(head, END_HEADERS)
            if size:
                pieces += (frame_head(size << 8 | DATA, 0, id_), data)
            if tail:
                pieces += self._headers(tail, END_HEADERS | END_STREAM)
            link.send(pieces)
            if tail:
                link.finished(self)
            return
        if head:
            link.send(self._headers(head, END_HEADERS))
        self._wait(data, tail)
        self.pump()

    def _headers(self, block: bytes, flags: int) -> tuple[bytes, ...]:
        link = self.link
        if link.prefix:
            block, link.prefix = link.prefix + block, b""
        if len(block) > FRAME_BYTES:
            return (header_frames(self.id, block, flags, FRAME_BYTES),)
        return frame_head(len(block) << 8 | HEADERS, flags, self.id), block

    def _wait(self, data: bytes, tail: bytes) -> None:
        if self._pending is None:
            self._pending = bytearray()
        if not self._pending:
            self.stuck_since = self.link.loop.time()
        self._pending += data
        self._tail = tail
        self.link.held(len(data))

    def pump(self, most: int = 1 << 30) -> None:
        """Send of what waits as much as there is room for, up to about `most` bytes."""
        link, pending = self.link, self._pending
        if pending is None:
            return
        moved = 0
        while pending and moved < most and not link.is_paused:
            size = min(len(pending), self.room, link.room, link.frame_bytes)
            if size <= 0:
                break
            self.room -= size
            link.room -= size
            moved += size
            link.send((frame_head(size << 8 | DATA, 0, self.id), bytes(pending[:size])), size)
            del pending[:size]
        if moved:
            link.has_spoken = True
            self.stuck_since = link.taken_at = link.loop.time()
            link.freed(moved)
        if pending:
            if self.room > 0:
                link.wait(self)
        elif self._tail:
            link.send(self._headers(self._tail, END_HEADERS | END_STREAM))
            link.finished(self)
        if self._waiter is not None and len(pending) <= HIGH_BYTES // 2:
            self.wake()

    @property
    def waiting(self) -> int:
        """How many bytes have not left yet."""
        return len(self._pending) if self._pending is not None else 0

    async def drained(self) -> None:
        """Return when most of what was written has left."""
        while self.waiting > HIGH_BYTES:
            self._waiter = self.link.loop.create_future()
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
        waiting, self._pending, self._tail = self.waiting, None, b""
        if waiting:
            self.link.freed(waiting)
        self.wake()

    def look(self, now: float) -> None:
        """Once in a while: whether anything has left, if anything was to."""
        if self._pending and now - self.stuck_since > self.link.home.limits.stalled_s:
            self.stalled()
