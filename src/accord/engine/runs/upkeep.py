"""What an engine does beside its work: heartbeat, time limits of runs, old things going."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable

import msgspec

from ...model import INTERRUPTED, TaskState, now_ms
from ...store import Ages, CommitFailed
from ..log import feed as feeds
from ..log.feed import Feed
from ..log.log import Log
from ..threads import Threads
from .run import Run
from .say import set_status

__all__ = ["Retention", "Upkeep", "before_ms"]

log_ = logging.getLogger("accord")

LOOK_S = 1.0
BEAT_S = 5.0
NOTE_S = 60.0  # of work, after which the log is told of it
PURGE_S = 60.0
BATCH = 500

_DAY_S = 24 * 3600


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long tasks, their logs, idempotency keys and unanswered questions are kept, in seconds."""

    tasks_s: float = 30 * _DAY_S  # after they ended
    events_s: float = _DAY_S  # after their task ended: its snapshot says the same
    keys_s: float = _DAY_S  # idempotency keys
    unanswered_s: float = 30 * _DAY_S  # a question nobody answers; the task then fails

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) >= 0:  # nor is NaN
                raise ValueError(f"{name} is {getattr(self, name)}; give seconds, 0 or more (math.inf: for ever)")


def before_ms(kept_s: float) -> int:
    """Return when that began which is kept for so long and no longer, in milliseconds since 1970; 0 if all of it is kept."""
    return 0 if math.isinf(kept_s) else max(now_ms() - int(kept_s * 1000), 0)


class Upkeep:
    """Looks after a feed once a second, as long as `run` runs."""

    def __init__(
        self,
        feed: Feed,
        retention: Retention,
        *,
        threads: Threads | None = None,
        look_again: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._feed = feed
        self._threads = threads
        self._look_again = look_again  # called when the store has failed some tasks
        self._retention = retention
        self._clock = clock
        self._told: dict[Run, tuple[int, float]] = {}  # how far a run had got, and when that was first seen
        self._broken: set[int] = set()  # keys of tasks nobody can read, looked at once
        self._beat_at = self._purge_at = clock()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.tend()
            except CommitFailed as error:
                log_.error("upkeep: %s", error)
                self._feed.fails(error)
            except Exception:  # whatever it is, the next heartbeat must come
                log_.exception("upkeep failed, and is tried again")

    async def tend(self) -> None:
        """Do what is due."""
        now, feed = self._clock(), self._feed
        if feed.is_fenced:
            feed.forget_all()
            return
        runs = [log.run for log in feed.live() if isinstance(log.run, Run)]
        self._limit_time(runs, now)
        self._limit_parked(runs)
        if self._threads is not None:
            self._threads.look()
        if now - self._beat_at >= BEAT_S or (feed.fault and not feed.is_failing):  # no work comes to find out that it works again
            self._beat_at = now
            await feed.store.beat()
            if not feed.is_failing:
                feed.works()
        if feed.given_up and self._look_again is not None:
            await self._look_again()
        if now - self._purge_at >= PURGE_S:
            self._purge_at = now
            await self.purge()

    def _limit_time(self, runs: list[Run], now: float) -> None:
        told, self._told = self._told, {}
        for run in runs:
            if run.is_waiting or run.is_held:
                continue
            skill, size = run.skill, run.got_on
            worked_s = run.worked()
            known = told.get(run)
            since = known[1] if known is not None and known[0] == size else now
            self._told[run] = (size, since)
            if worked_s > skill.run_s:
                run.interrupt(f"the agent did not finish within {skill.run_s:g} s")
            elif skill.idle_s is not None and now - since > skill.idle_s:
                run.interrupt(f"the agent said nothing for {skill.idle_s:g} s")
            elif skill.is_durable and worked_s - run.noted_s > min(NOTE_S, skill.run_s / 10) and not run.log.is_dead:
                run.note_work()

    def _limit_parked(self, runs: list[Run]) -> None:
        """Let the oldest waiting functions go: they are called again, and replayed, when their answer comes."""
        parked = [run for run in runs if run.is_waiting]
        too_many = len(parked) - feeds.MAX_PARKED
        if too_many > 0:
            parked.sort(key=lambda run: run.since_s)
            for run in parked[:too_many]:
                run.stop()

    async def purge(self) -> None:
        """Delete what is too old, in batches small enough that nobody waits for them; fail what nobody answers."""
        keep = self._retention
        ages = Ages(
            tasks_ms=before_ms(keep.tasks_s),
            events_ms=before_ms(min(keep.events_s, keep.tasks_s)),  # a log goes with its task
            keys_ms=before_ms(keep.keys_s),
        )
        while await self._feed.store.purge(ages, BATCH):
            pass
        for record in await self._feed.store.waiting(before_ms(keep.unanswered_s), BATCH + len(self._broken)):
            if record.key in self._broken:
                continue
            try:
                log = await self._feed.find(record.scope, record.id)
            except (ValueError, LookupError):  # it is not what was written; that is no reason to keep the others
                log_.exception("task %s can't be read, and stays as it is", record.id)
                self._broken.add(record.key)
            else:
                if log is not None:
                    _give_up(log)


def _give_up(log: Log) -> None:
    reason = "no answer: the question was open for too long"
    if log.task.status.state not in INTERRUPTED:
        return  # an answer came while it was looked for
    if isinstance(log.run, Run):
        log.run.interrupt(reason)
    else:
        set_status(log, TaskState.FAILED, reason)
