"""What an engine does beside its work: heartbeat, time limits of runs, old things going."""

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from ...pump import Pump
from ...store import FOREVER_MS, Ages, CommitFailed, StoreClock
from ..tasks import tasks as tasks_
from .lifecycle import State
from .run import Run

if TYPE_CHECKING:
    from .runs import Runs

__all__ = ["Retention", "Upkeep", "age_ms"]

log_ = logging.getLogger("accord")

CHECK_S = 1.0
BEAT_S = 5.0
SURE_S = 0.25  # how often we ask whether others might begin with our tasks
# A durable function with a deadline waits in memory for so long, and no more than so many do: they
# lose nothing if they are called again, and each takes about 30 KiB.
WAITING_S = 60.0
MAX_WITH_DEADLINE = 100
NOTE_S = 60.0  # of work, after which it is recorded in the log
PURGE_S = 60.0
CLOCK_S = 3600.0  # that the clock may gain on the time that has passed, before it is not believed
BATCH = 500

_DAY_S = 24 * 3600


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Set how many seconds tasks, logs, keys, unanswered questions and dead letters are kept."""

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


def age_ms(kept_s: float) -> int:
    """Return the age in milliseconds that something reaches which is kept for so many seconds."""
    return FOREVER_MS if math.isinf(kept_s) else min(int(kept_s * 1000), FOREVER_MS)


class Upkeep:
    """Looks after an engine's tasks once a second, from `start` to `cancel`."""

    def __init__(
        self,
        runs: "Runs",
        retention: Retention,
        *,
        check: Callable[[bool], Awaitable[None]] | None = None,
        clock: StoreClock | None = None,
    ) -> None:
        self._runs = runs
        self._tasks = runs.tasks
        self._retention = retention
        self._check = check  # for what others left, and whether the clock may be believed
        self._clock = clock or self._tasks.store.clock
        self._beat_at = time.monotonic()
        self._purge_at = self._clock.elapsed_s()
        self._wall_at_ms = self._clock.now_ms()  # at the last purge
        self._is_clock_off = False
        self._unsubscribe: Callable[[], None] = lambda: None
        self._pump = Pump(
            "upkeep",
            self._round,
            log=log_,
            pause_s=lambda: CHECK_S,
            retry_s=lambda: CHECK_S,
            waits_for=(CommitFailed,),
        )
        self._guard = Pump("guard", self._stop_alone, log=log_, pause_s=lambda: SURE_S)

    def start(self) -> None:
        self._unsubscribe = self._clock.subscribe(self._pump.wake)
        self._pump.start(pauses_first=True)
        self._guard.start(pauses_first=True)

    def cancel(self) -> None:
        """Stop, and wait for nothing."""
        self._unsubscribe()
        self._pump.cancel()
        self._guard.cancel()

    async def _round(self) -> bool:
        try:
            await self.tend()
        except CommitFailed as error:
            self._tasks.writer.fails(error)
            raise
        return False

    async def _stop_alone(self) -> bool:
        """Stop runs that must not work beside others, as soon as others might begin. The heartbeat
        may be waiting for the store just then.
        """
        for run in self._runs.running() if not self._tasks.store.is_sure else ():
            if not run.skill.is_alone:
                continue
            try:
                run.give_up()
            except Exception:  # whatever it is, the other runs are stopped too
                log_.exception("task %s could not be given up; trying again", run.task_id)
        return False

    async def tend(self) -> None:
        """Do what is due."""
        now, writer = time.monotonic(), self._tasks.writer
        if writer.is_fenced:
            return
        runs = self._runs.running()
        self._limit_time(runs)
        self._limit_waiting(runs)
        self._runs.threads.check()
        # No work comes to find out that it works again.
        if now - self._beat_at >= BEAT_S or writer.fault or not self._tasks.store.is_sure:
            self._beat_at = now
            await self._tasks.store.beat()
            writer.has_beaten()
        # A clock that was set forward is not believed at once: what seems old may have been made a
        # minute ago.
        passed_s, wall_ms = self._clock.elapsed_s() - self._purge_at, self._clock.now_ms()
        gained_s = (wall_ms - self._wall_at_ms) / 1000 - passed_s
        if self._check is not None:
            await self._check(gained_s <= CLOCK_S)
        self._say_clock()
        if passed_s >= PURGE_S:
            self._purge_at, self._wall_at_ms = self._purge_at + passed_s, wall_ms
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
            if run.life.state not in (State.WORKING, State.RELEASING):
                continue
            skill, worked_s = run.skill, run.life.worked_s
            if worked_s > skill.run_s:
                run.interrupt(f"the agent did not finish within {skill.run_s:g} s")
            elif skill.idle_s is not None and now - run.life.progressed_s > skill.idle_s:
                run.interrupt(f"the agent produced no output for {skill.idle_s:g} s")
            elif (
                skill.is_durable
                and worked_s - run.life.recorded_s > min(NOTE_S, skill.run_s / 10)
                and not run.log.commits.is_lost
            ):
                run.note_work()

    def _limit_waiting(self, runs: list[Run]) -> None:
        """Give up waiting functions: the oldest, if there are too many, and durable ones with a
        deadline after a while. They are called again when their answer comes, or their time. A
        function that is not durable does again what it did before it asked, so it stays while there
        is room.
        """
        waiting = sorted((run for run in runs if run.is_waiting), key=lambda run: run.life.since_s)
        with_deadline = [
            run
            for run in waiting
            if run.skill.is_durable
            and run.activity.next_due_ms
            and not (run.asks and run.questions.is_watching)
        ]
        since_s = time.monotonic() - WAITING_S
        too_many = len(with_deadline) - MAX_WITH_DEADLINE
        for n, run in enumerate(with_deadline):
            if n < too_many or run.life.since_s < since_s:
                run.leave()
        waiting = [run for run in waiting if run.is_waiting]
        for run in waiting[: max(len(waiting) - tasks_.MAX_WAITING, 0)]:
            run.leave()

    async def purge(self) -> None:
        """Delete what is too old, in batches small enough that nobody waits for them; fail what
        nobody answers.
        """
        keep = self._retention
        ages = Ages(
            tasks_ms=age_ms(keep.tasks_s),
            # A log goes with its task.
            events_ms=age_ms(min(keep.events_s, keep.tasks_s)),
            keys_ms=age_ms(keep.keys_s),
            letters_ms=age_ms(keep.letters_s),
        )
        while await self._tasks.store.purge(ages, BATCH):
            pass
        if self._tasks.files is not None:
            await self._tasks.files.collect()
        since_ms = self._tasks.store.now_ms() - age_ms(keep.unanswered_s)
        for run in self._runs.running():  # those without a run come to us as orphans
            if not run.is_waiting or run.log.at_ms >= since_ms:
                continue
            if run.asks and not run.questions.expires_ms:
                run.interrupt("no answer: the question was open for too long")
