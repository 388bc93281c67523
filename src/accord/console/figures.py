"""How many tasks ended in each minute, how many of them failed, and how long they took."""

import asyncio
import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable

from ..engine.log import state_of
from ..model import TaskState
from ..store import FOREVER_MS, Ended, Store

__all__ = ["FAILED", "Figures", "Minute", "share_of"]

FAILED = (TaskState.FAILED, TaskState.REJECTED)
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
KEPT_MS = 8 * 86_400_000  # a little more than the longest time that is asked for
FRESH_MS = 1_000  # how long after its time a commit mostly appears
LATE_MS = 2 * MINUTE_MS  # and how long at most
SLOWEST = 6  # of each minute


class Minute:
    """The tasks that ended within a minute."""

    __slots__ = ("ended", "failed", "slowest", "took")

    def __init__(self) -> None:
        self.ended = self.failed = 0
        self.took: Counter[int] = Counter()  # by duration in milliseconds, as the store rounds it
        self.slowest: list[tuple[int, int, int]] = []  # (milliseconds, at_ms, key)

    def add(self, group: Ended) -> None:
        """Add tasks that took about equally long."""
        self.ended += group.tasks
        self.failed += group.tasks * (state_of(group.state) in FAILED)
        self.took[group.took_ms] += group.tasks
        one = (group.longest_ms, group.at_ms, group.key)
        if len(self.slowest) < SLOWEST:
            heapq.heappush(self.slowest, one)
        else:
            heapq.heappushpop(self.slowest, one)


class Figures:
    """Counts tasks by the minute in which they ended.

    The store's index of tasks by the time they ended is the counter: a send writes nothing more,
    and every replica finds the same, also after a restart. The store reads each task once, as a
    rule: a look reads what ended since the last one. A commit may appear later than that. So when a
    minute is old enough its tasks are counted, and read again if there are more of them.
    """

    def __init__(self, store: Store, agent: Callable[[], str]) -> None:
        """Args:
        store: Where the tasks are.
        agent: Gives the name of the agent whose tasks are counted; empty for all.
        """
        self._store = store
        self._agent = agent
        self._minutes: dict[int, Minute] = {}
        self._from_ms = 0  # what is kept begins here, at a full minute,
        self._settled_ms = 0  # is final before this full minute,
        self._read_ms = 0  # and was read up to here
        self._reading = asyncio.Lock()

    async def since(self, since_ms: int) -> list[tuple[int, Minute]]:
        """Return the minutes since then in which tasks ended."""
        now_ms = self._store.now_ms()
        start = _minute(since_ms)
        async with self._reading:
            if not self._read_ms:
                self._from_ms = self._settled_ms = self._read_ms = start
            if start < self._from_ms:
                self._minutes |= await self._read(start, self._from_ms)
                self._from_ms = start
            fresh_ms = max(self._read_ms, now_ms - FRESH_MS)
            _merge(self._minutes, await self._read(self._read_ms, fresh_ms))
            self._read_ms = fresh_ms
            await self._settle(_minute(now_ms - LATE_MS))
            self._forget(_minute(now_ms - KEPT_MS))
            newest = await self._read(fresh_ms, FOREVER_MS)
            _merge(newest, {at: self._minutes[at] for at in newest if at in self._minutes})
            return [(at, one) for at, one in (self._minutes | newest).items() if at >= start]

    async def _settle(self, before_ms: int) -> None:
        """Read minutes again for which there is more than was read, as they become old enough."""
        for at in range(self._settled_ms, before_ms, MINUTE_MS):
            known = self._minutes[at].ended if at in self._minutes else 0
            if await self._store.count_ended(self._agent(), at, at + MINUTE_MS) > known:
                self._minutes |= await self._read(at, at + MINUTE_MS)
        self._settled_ms = max(self._settled_ms, before_ms)

    def _forget(self, before_ms: int) -> None:
        if self._from_ms < before_ms:
            self._minutes = {at: one for at, one in self._minutes.items() if at >= before_ms}
            self._from_ms = before_ms

    async def _read(self, from_ms: int, to_ms: int) -> dict[int, Minute]:
        found: dict[int, Minute] = {}
        while from_ms < to_ms:
            # An hour at a time: the store in memory answers at once.
            is_last = to_ms == FOREVER_MS or to_ms - from_ms <= HOUR_MS
            end_ms = to_ms if is_last else from_ms + HOUR_MS
            for group in await self._store.ended(self._agent(), from_ms, end_ms):
                found.setdefault(group.minute_ms, Minute()).add(group)
            from_ms = end_ms
            await asyncio.sleep(0)
        return found


def _merge(minutes: dict[int, Minute], more: dict[int, Minute]) -> None:
    for at, one in more.items():
        both = minutes.setdefault(at, Minute())
        both.ended += one.ended
        both.failed += one.failed
        both.took.update(one.took)
        both.slowest = heapq.nlargest(SLOWEST, both.slowest + one.slowest)
        heapq.heapify(both.slowest)


def _minute(at_ms: int) -> int:
    return at_ms - at_ms % MINUTE_MS


def share_of(minutes: Iterable[Minute], share: float) -> int | None:
    """Return the milliseconds that this share of the tasks did not exceed; None without tasks."""
    took: Counter[int] = Counter()
    for one in minutes:
        took.update(one.took)
    left = math.ceil(took.total() * share)
    for ms in sorted(took):
        left -= took[ms]
        if left <= 0:
            return ms
    return None
