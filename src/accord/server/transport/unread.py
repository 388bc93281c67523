"""How much memory is held by answers that clients have asked for and not read.

It is bounded, by `Limits.unread` and `Limits.unread_per_connection`. A large answer is made only
when there is room for it, so the bounds hold whatever is asked for at once. While there is none,
connections that have taken nothing for some seconds are reset, those that hold the most first.
Small answers are always made: connections and streams are limited themselves.
"""

import asyncio
import logging
from collections import Counter
from types import TracebackType
from typing import Protocol

from ...engine import LARGE
from ...model import Limits, TooManyRequests

__all__ = ["UnreadAnswers", "UnreadConnection"]

log_ = logging.getLogger("accord")

IDLE_S = 3.0  # without taking anything, before a connection may be reset


class UnreadConnection(Protocol):
    """A connection whose client has not read all that was sent."""

    taken_at: float  # when it last read something (time of the loop)

    def unread(self) -> int:
        """Return how many bytes wait for it."""

    def reset_connection(self) -> None:
        """Close the connection at once, in a way that can't look like an end."""


class UnreadAnswers:
    """Count what waits to be read on all connections of an app, and bound it."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.unread
        self._most_each = limits.unread_per_connection
        self._timeout_s = limits.stalled_s
        self._connections: set[UnreadConnection] = set()
        # Bytes of answers that are being made, and for whom.
        self._reserved: Counter[UnreadConnection | None] = Counter()
        self._waiting: dict[
            asyncio.Future[None], tuple[int, UnreadConnection | None]
        ] = {}  # for room of this size, on this connection
        self._is_waking = False

    def add(self, connection: UnreadConnection) -> None:
        """Count a connection whose client has not read everything."""
        self._connections.add(connection)

    def discard(self, connection: UnreadConnection) -> None:
        """Stop counting a connection: its client has read everything, or it is closed."""
        self._connections.discard(connection)
        self.freed()

    @property
    def bytes(self) -> int:
        return self._reserved.total() + sum(connection.unread() for connection in self._connections)

    def has_space(self, size: int, connection: UnreadConnection | None = None) -> bool:
        """Whether an answer may be made now. `connection` is given where a client may have many
        calls on one.
        """
        return self._fits_in(self.bytes, size) and self._fits_on(connection, size)

    async def reserved(
        self, size: int, connection: UnreadConnection | None = None
    ) -> "Reservation":
        """Wait until there is room for an answer. It is reserved while the block lasts in which the
        answer is made and sent.

        Raises:
            TooManyRequests: There was none for too long.
        """
        while size > LARGE and not self.has_space(size, connection):
            await self.wait(size, connection)
        return Reservation(self, size if size > LARGE else 0, connection)

    async def wait(self, size: int, connection: UnreadConnection | None = None) -> None:
        """Wait until room has become free; somebody else may be faster.

        Raises:
            TooManyRequests: None has for too long.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = size, connection
        try:
            async with asyncio.timeout(self._timeout_s):
                await future
        except TimeoutError:
            text = "too many answers to other clients have not been read; get the task again later"
            raise TooManyRequests(text, retry_after_s=1) from None
        finally:
            del self._waiting[future]

    def _fits_in(self, held: int, size: int) -> bool:
        # What is larger than half of all needs half of it free: else it would wait for ever.
        return held + min(size, self._most // 2) <= self._most

    def _fits_on(self, connection: UnreadConnection | None, size: int) -> bool:
        if connection is None:
            return True
        held = connection.unread() + self._reserved[connection]
        return not held or held + size <= self._most_each

    def reserve(self, size: int, connection: UnreadConnection | None) -> None:
        self._reserved[connection] += size

    def give_back(self, size: int, connection: UnreadConnection | None) -> None:
        self._reserved[connection] -= size
        if not self._reserved[connection]:
            del self._reserved[connection]
        self.freed()

    def freed(self) -> None:
        """Something was read: see, when all of this turn of the loop is done, who has room now."""
        if self._waiting and not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        held = self.bytes
        for future, (size, connection) in list(self._waiting.items()):
            if not self._fits_in(held, size):
                return  # in the order they came: a large one would otherwise be passed for ever
            if self._fits_on(connection, size) and not future.done():
                future.set_result(None)
                held += size

    def check_timeouts(self, now: float) -> None:
        """Called once a second: reset who reads nothing, if others need the room."""
        held = self.bytes
        wanted = sum(
            size for size, connection in self._waiting.values() if self._fits_on(connection, size)
        )
        excess = held + min(wanted, self._most) - self._most
        if excess <= 0:
            self.freed()
            return
        idle = [
            (connection.unread(), connection)
            for connection in self._connections
            if now - connection.taken_at > IDLE_S
        ]
        count = freed = 0
        for size, connection in sorted(idle, key=lambda found: -found[0]):
            if freed >= excess:
                break
            count, freed = count + 1, freed + size
            connection.reset_connection()
        if count:
            log_.warning(
                "%d connection%s reset: %.1f MiB of answers were not read for %.0f s, and "
                "with them more than %.1f MiB would have "
                "waited (Limits.unread)",
                *(
                    count,
                    "" if count == 1 else "s",
                    freed / (1 << 20),
                    IDLE_S,
                    self._most / (1 << 20),
                ),
            )


class Reservation:
    """Room that is taken while the block lasts."""

    __slots__ = ("_connection", "_size", "_unread")

    def __init__(
        self, unread: UnreadAnswers, size: int, connection: UnreadConnection | None
    ) -> None:
        self._unread = unread
        self._size = size
        self._connection = connection

    def __enter__(self) -> None:
        if self._size:
            self._unread.reserve(self._size, self._connection)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._size:
            self._unread.give_back(self._size, self._connection)
