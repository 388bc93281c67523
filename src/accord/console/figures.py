"""How many tasks ended in each minute, how many of them failed, and how long they took."""

import asyncio
import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable

from ..engine.log import state_of
from ..model import TaskState
from ..store import Ended, Store

__all__ = ["FAILED", "Figures", "Minute", "share_of"]

FAILED = (TaskState.FAILED, TaskState.REJECTED)
MINUTE_MS = 60_000
KEPT_MS = 8 * 86_400_000  # a little more than the longest time that is asked for
LATE_MS = 2 * MINUTE_MS  # how long after its time a commit may still appear
PAGE = 2_000  # tasks of one read: a few milliseconds of work
SLOWEST = 6  # of each minute
_CLASSES = 16  # of durations, to each doubling: a share of them is right to 2 %


class Minute:
    """The tasks that ended within a minute."""

    __slots__ = ("ended", "failed", "slowest", "took")

    def __init__(self) -> None:
        self.ended = self.failed = 0
        self.took: Counter[int] = Counter()  # by class of duration
        self.slowest: list[tuple[int, int, int]] = []  # (milliseconds, at_ms, key)

    def add(self, task: Ended) -> None:
        took = max(0, task.at_ms - task.created_ms)
        self.ended += 1
        self.failed += state_of(task.state) in FAILED
        self.took[int(math.log2(took + 1) * _CLASSES)] += 1
        one = (took, task.at_ms, task.key)
        if len(self.slowest) < SLOWEST:
            heapq.heappush(self.slowest, one)
        else:
            heapq.heappushpop(self.slowest, one)


class Figures:
    """Counts tasks by the minute in which they ended.

    The store's index of tasks by the time they ended is the counter: a send writes nothing more,
    and every replica finds the same, also after a restart. What was read is kept, so that a look
    reads only what ended since the last one.
    """

    def __init__(self, store: Store, agent: Callable[[], str]) -> None:
        """Args:
        store: Where the tasks are.
        agent: Gives the name of the agent whose tasks are counted; empty for all.
        """
        self._store = store
        self._agent = agent
        self._minutes: dict[int, Minute] = {}
        self._from_ms = self._settled_ms = 0  # what is kept begins here; before this it is final
        self._reading = asyncio.Lock()

    async def since(self, since_ms: int) -> list[tuple[int, Minute]]:
        """Return the minutes since then in which tasks ended."""
        now_ms = self._store.now_ms()
        start = _minute(since_ms)
        async with self._reading:
            if not self._settled_ms:
                self._from_ms = self._settled_ms = start
            if start < self._from_ms:
                self._minutes |= await self._read(start, self._from_ms)
                self._from_ms = start
            newest = await self._read(self._settled_ms, None)
            oldest = _minute(now_ms - KEPT_MS)
            self._minutes = {
                at: one for at, one in self._minutes.items() if oldest <= at < self._settled_ms
            } | newest
            self._from_ms = max(self._from_ms, oldest)
            self._settled_ms = max(self._settled_ms, _minute(now_ms - LATE_MS))
            return [(at, one) for at, one in self._minutes.items() if at >= start]

    async def _read(self, from_ms: int, to_ms: int | None) -> dict[int, Minute]:
        found: dict[int, Minute] = {}
        place = (from_ms, -1)
        while True:
            page = await self._store.ended(self._agent(), place, PAGE)
            for task in page:
                if to_ms is not None and task.at_ms >= to_ms:
                    return found
                at = _minute(task.at_ms)
                if at not in found:
                    found[at] = Minute()
                found[at].add(task)
            if len(page) < PAGE:
                return found
            place = (page[-1].at_ms, page[-1].key)
            await asyncio.sleep(0)  # the store in memory answers at once


def _minute(at_ms: int) -> int:
    return at_ms - at_ms % MINUTE_MS


def share_of(minutes: Iterable[Minute], share: float) -> int | None:
    """Return the milliseconds that this share of the tasks did not exceed; None without tasks."""
    took: Counter[int] = Counter()
    for one in minutes:
        took.update(one.took)
    left = math.ceil(took.total() * share)
    for number in sorted(took):
        left -= took[number]
        if left <= 0:
            return round(2 ** ((number + 0.5) / _CLASSES) - 1)
    return None
