"""Readers: cursors in the log of a task."""

import asyncio

from ...model import FINAL
from .entry import Entry
from .feed import Feed
from .log import Log, Turn, not_stored

__all__ = ["Reader"]


class Reader:
    """A cursor in one task's log: it costs one integer, however slow it is.

    With a `turn`, it ends where the turn ends; without, at the end of the task.
    """

    def __init__(self, feed: Feed, log: Log, after: int, *, turn: Turn | None = None, first: Entry | None = None) -> None:
        self._feed = feed
        self._log = log
        self._turn = turn
        self._first = first
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self.cursor = after
        self.limits = feed.limits
        feed.count_reader(log, 1)

    async def next(self, patience_s: float) -> list[Entry] | None:
        """Return what comes next: an empty list at the end, None if nothing came for `patience_s`.

        Raises:
            UnsupportedOperation: The task ended before the reader's own message got its turn.
            Unavailable: The store failed, and the task stays as it was last told.
        """
        if self._first is not None:
            first, self._first = self._first, None
            self._is_over = self.ends_at(first)
            return [first]
        if self._is_over:
            if self._turn is not None and self._turn.refused is not None:
                raise self._turn.refused
            return []
        log = self._log
        found = log.after(self.cursor)
        if not found and found is not None:
            if log.is_dead:
                raise not_stored()
            if log.task.status.state in FINAL and self.cursor >= log.seq:
                return []  # resumed after the last event: nothing follows it
            is_stopping = self._feed.is_closing or (self._feed.is_draining and log.run is None)
            if is_stopping and log.committed == log.seq:  # else the end of this task is still to come
                raise self._feed.parting(log.task)
            self._waiter = log.grew()
            self._be_patient(patience_s)
            try:
                await self._waiter
            except BaseException:
                log.forget(self._waiter)
                raise
            found = log.after(self.cursor)
            if not found and found is not None:
                log.forget(self._waiter)
                return None
        if found is None:
            found = await self._feed.stored(log.key, self.cursor)
            if not found or found[0].seq > self.cursor + 1:
                found = [await self._gap()]
        return self._up_to_the_end(found)

    @property
    def is_over(self) -> bool:
        """Nothing follows what has been returned."""
        return self._is_over and (self._turn is None or self._turn.refused is None)

    def _be_patient(self, patience_s: float) -> None:
        """Wait no longer than this. One timer serves many waits: most end long before it would ring."""
        loop = self._log.book.loop
        self._until = loop.time() + patience_s
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        loop = self._log.book.loop
        if loop.time() + 0.001 >= self._until:
            self.nudge()
        else:
            self._timer = loop.call_at(self._until, self._ring)

    async def _gap(self) -> Entry:
        """What was to come next has been purged: the task as it is takes its place, which says that something is missing."""
        snapshot = await self._log.snapshot()
        return Entry(snapshot.seq, b'{"task":%b}' % snapshot.data, snapshot.state)

    def _up_to_the_end(self, found: list[Entry]) -> list[Entry]:
        for i, entry in enumerate(found):
            if entry.state is not None and self.ends_at(entry):
                self._is_over = True
                found = found[: i + 1]
                break
        self.cursor = found[-1].seq
        return found

    def ends_at(self, entry: Entry) -> bool:
        """Whether the stream is over after this entry."""
        return entry.state in FINAL or (self._turn is not None and 0 < self._turn.last <= entry.seq)

    def index(self, artifact_id: str) -> int:
        """An artifact's place among those of its task."""
        return next((i for i, a in enumerate(self._log.task.artifacts) if a.artifact_id == artifact_id), 0)

    def nudge(self) -> None:
        """Make a waiting `next` return, though nothing came."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._feed.count_reader(self._log, -1)
        self._feed.let_go(self._log)
