"""What is open at a full minute: streams, and tasks that wait for somebody."""

import logging
from collections.abc import Awaitable, Callable

from ..engine.tasks import Tasks
from ..pump import Pump
from ..store import CommitFailed, Sample

__all__ = ["Sampler"]

log_ = logging.getLogger("accord")

MINUTE_MS = 60_000
LATE_MS = 2 * MINUTE_MS  # how long after its time a sample of another process may still come
KEPT_MS = 8 * 86_400_000  # a little more than the longest time that is asked for


class Sampler:
    """Stores at every full minute how many streams are open in this process, and how many tasks
    wait for somebody.

    Every process does so, at the same times of the store's clock, in rows of its own: added up they
    are what was open everywhere. A process that has nothing open adds one row that says so, and
    then no more. A send does nothing for it.
    """

    def __init__(
        self, tasks: Tasks, agent: Callable[[], str], waiting: Callable[[], Awaitable[int]]
    ) -> None:
        """Args:
        tasks: Whose views are counted, in whose store samples are.
        agent: Gives the name of the agent whose tasks are counted; empty for all.
        waiting: Counts the tasks that wait for somebody.
        """
        self._tasks = tasks
        self._store = tasks.store
        self._agent = agent
        self._waiting = waiting
        self._last = Sample(0, 0, 0)  # of this process
        self._is_quiet = False  # and that is stored
        self._known: dict[int, Sample] = {}  # of all processes, by time
        self._from_ms = self._read_ms = 0  # all from there to there is known
        self._unsubscribe: Callable[[], None] = lambda: None
        self._pump = Pump(
            "samples",
            self._sample,
            log=log_,
            pause_s=lambda: (MINUTE_MS - self._store.now_ms() % MINUTE_MS) / 1000,
            waits_for=(CommitFailed,),
        )

    def start(self) -> None:
        self._unsubscribe = self._store.clock.subscribe(self._pump.wake)
        self._pump.start(pauses_first=True)

    async def stop(self) -> None:
        self._unsubscribe()
        await self._pump.stop()

    async def _sample(self) -> bool:
        now_ms = self._store.now_ms()
        at_ms = now_ms - now_ms % MINUTE_MS
        if at_ms <= self._last.at_ms:
            return False
        sample = Sample(at_ms, self._tasks.views.open, await self._waiting())
        is_quiet = not (sample.streams or sample.waiting)
        if not (is_quiet and self._is_quiet):
            await self._store.samples.add(self._agent(), self._store.replica, sample, KEPT_MS)
        self._last, self._is_quiet = sample, is_quiet
        return False

    async def since(self, at_ms: int) -> list[Sample]:
        """Return what was open at the full minutes since then, with the last one before it. Where
        there is none, nothing had changed, or no process ran.
        """
        now_ms = self._store.now_ms()
        is_known = 0 < self._from_ms <= at_ms
        start = self._read_ms - LATE_MS if is_known else at_ms
        found = {one.at_ms: one for one in await self._store.samples.since(self._agent(), start)}
        known = self._known | found if is_known else found
        self._known = {at: one for at, one in known.items() if at >= now_ms - KEPT_MS}
        self._from_ms, self._read_ms = self._from_ms if is_known else at_ms, now_ms
        first = max((at for at in self._known if at < at_ms), default=at_ms)
        return [self._known[at] for at in sorted(self._known) if at >= first]

    def streams_now(self, samples: list[Sample]) -> int:
        """Return how many streams are open: here now, elsewhere at the last full minute."""
        here, last = self._tasks.views.open, samples[-1] if samples else self._last
        if last.at_ms <= self._store.now_ms() - LATE_MS:
            return here
        return here + last.streams - (self._last.streams if last.at_ms == self._last.at_ms else 0)
