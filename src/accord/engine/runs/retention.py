"""What an engine does beside its work: heartbeat, time limits of runs, old things going."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from ...model import Unavailable, now_ms
from ...store import Ages, CommitFailed
from ..tasks import tasks as tasks_
from .run import Run
from .state import State

if TYPE_CHECKING:
    from .runs import Runs

__all__ = ["Retention", "Upkeep", "before_ms"]

log_ = logging.getLogger("accord")

CHECK_S = 1.0
BEAT_S = 5.0
SURE_S = 0.25  # how often we ask whether others might begin with our tasks
NOTE_S = 60.0  # of work, after which the log is told of it
PURGE_S = 60.0
CLOCK_S = 3600.0  # that the clock may gain on the time that has passed, before it is not believed
BATCH = 500

_DAY_S = 24 * 3600


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds tasks, logs, keys, unanswered questions and dead letters are kept."""

    tasks_s: float = 30 * _DAY_S  # after they ended
    events_s: float = _DAY_S  # after their task ended: its snapshot says the same
    keys_s: float = _DAY_S  # idempotency keys
    unanswered_s: float = 30 * _DAY_S  # a question nobody answers; the task then fails
    letters_s: float = 14 * _DAY_S  # push notifications that were given up

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) >= 0:  # nor is NaN
                raise ValueError(
                    f"{name} is {getattr(self, name)}; give seconds, 0 or more (math.inf: for ever)"
                )

    def unanswered_ms(self) -> int:
        """Since when a question must have been open for its task to fail."""
        return before_ms(self.unanswered_s)


def before_ms(kept_s: float) -> int:
    """Return when that began which is kept for so long and no longer, in milliseconds since 1970; 0
    if all of it is kept.
    """
    return 0 if math.isinf(kept_s) else max(now_ms() - int(kept_s * 1000), 0)


class Upkeep:
    """Looks after an engine's tasks once a second, as long as `run` runs."""

    def __init__(
        self,
        runs: "Runs",
        retention: Retention,
        *,
        check: Callable[[bool], Awaitable[None]] | None = None,
        clock: Callable[[], float] = lambda: time.monotonic(),
        wall_clock: Callable[[], float] = lambda: time.time(),
    ) -> None:
        self._runs = runs
        self._tasks = runs.tasks
        self._retention = retention
        self._check = check  # for what others left, and whether the clock may be believed
        self._clock = clock
        self._wall_clock = wall_clock
        self._beat_at = self._purge_at = clock()
        self._wall_at = wall_clock()  # at the last purge
        self._is_clock_off = False

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                await self.tend()
            except CommitFailed as error:
                self._tasks.writer.fails(error)
            except Unavailable as error:  # said by the store
                log_.debug("upkeep waits for the store: %s", error)
            except Exception:  # whatever it is, the next heartbeat must come
                log_.exception("upkeep failed; trying again")

    async def guard(self) -> None:
        """Stop runs that must not work beside others, as soon as others might begin. `run` may be
        waiting for the store just then.
        """
        store = self._tasks.store
        while True:
            await asyncio.sleep(SURE_S)
            if store.is_sure:
                continue
            for run in self._runs.running():
                if not run.skill.is_alone:
                    continue
                try:
                    run.give_up()
                except Exception:  # whatever it is, the other runs are stopped too
                    log_.exception("task %s could not be given up; trying again", run.task_id)

    async def tend(self) -> None:
        """Do what is due."""
        now, writer = self._clock(), self._tasks.writer
        if writer.is_fenced:
            return
        runs = self._runs.running()
        self._limit_time(runs)
        self._limit_waiting(runs)
        self._runs.threads.check()
        if (
            now - self._beat_at >= BEAT_S or writer.fault or not self._tasks.store.is_sure
        ):  # no work comes to find out that it works again
            self._beat_at = now
            await self._tasks.store.beat()
            writer.has_beaten()
        # A clock that was set forward is not believed at once: what seems old may have been made a
        # minute ago.
        wall = self._wall_clock()
        gained_s = (wall - self._wall_at) - (now - self._purge_at)
        if self._check is not None:
            await self._check(gained_s <= CLOCK_S)
        self._say_clock()
        if now - self._purge_at >= PURGE_S:
            self._purge_at, self._wall_at = now, wall
            if self._tasks.clock_fault:
                return  # said already
            if gained_s > CLOCK_S:
                log_.warning(
                    "the clock has moved %.0f s more than the time that passed; "
                    "nothing is deleted in this round",
                    gained_s,
                )
            else:
                await self.purge()

    def _say_clock(self) -> None:
        """Say that the clock is wrong, once, and that it is right again."""
        fault = self._tasks.clock_fault
        if bool(fault) == self._is_clock_off:
            return
        self._is_clock_off = bool(fault)
        if fault:
            log_.error("%s; until then no work is taken and nothing is deleted", fault)
        else:
            log_.warning("the clock of this machine is right again")

    def _limit_time(self, runs: list[Run]) -> None:
        now = time.monotonic()
        for run in runs:
            if run.state not in (State.WORKING, State.RELEASING):
                continue
            skill, worked_s = run.skill, run.worked()
            if worked_s > skill.run_s:
                run.interrupt(f"the agent did not finish within {skill.run_s:g} s")
            elif skill.idle_s is not None and now - run.progressed_s > skill.idle_s:
                run.interrupt(f"the agent produced no output for {skill.idle_s:g} s")
            elif (
                skill.is_durable
                and worked_s - run.noted_s > min(NOTE_S, skill.run_s / 10)
                and not run.log.is_lost
            ):
                run.note_work()

    def _limit_waiting(self, runs: list[Run]) -> None:
        """Give up the oldest waiting functions: they are called again when their answer comes."""
        waiting = [run for run in runs if run.is_waiting]
        too_many = len(waiting) - tasks_.MAX_WAITING
        if too_many > 0:
            waiting.sort(key=lambda run: run.since_s)
            for run in waiting[:too_many]:
                run.leave()

    async def purge(self) -> None:
        """Delete what is too old, in batches small enough that nobody waits for them; fail what
        nobody answers.
        """
        keep = self._retention
        ages = Ages(
            tasks_ms=before_ms(keep.tasks_s),
            events_ms=before_ms(min(keep.events_s, keep.tasks_s)),  # a log goes with its task
            keys_ms=before_ms(keep.keys_s),
            letters_ms=before_ms(keep.letters_s),
        )
        while await self._tasks.store.purge(ages, BATCH):
            pass
        unanswered_ms = keep.unanswered_ms()
        for run in self._runs.running():  # those without a run come to us as orphans
            if run.is_waiting and run.log.at_ms < unanswered_ms:
                run.interrupt("no answer: the question was open for too long")
