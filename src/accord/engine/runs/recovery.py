"""Resumes the tasks of dead processes: durable work is continued, other work fails, and what waits
for its client keeps waiting.
"""

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from ...model import A2AError, TaskState, Unavailable
from ...net import backoff_s
from ...pump import Pump
from ...store import FOREVER_MS, Can, Record
from ..durable import History, read_history
from ..log import (
    FORMAT,
    WORKED_ON,
    Asked,
    AskExpired,
    Attempt,
    Created,
    Log,
    Mismatched,
    Numbered,
    Turn,
)
from ..ownership import OwnershipAudit
from .lifecycle import State
from .messages import set_status
from .retention import age_ms
from .run import Run, Start

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["BROKEN", "INTERRUPTED", "MAX_ATTEMPTS", "UNANSWERED", "Recovery", "turn_of"]

log_ = logging.getLogger("accord")

INTERRUPTED = (
    "interrupted: the server stopped while the agent was working; send the message again, "
    "under a new key if it had one"
)
CUT_OFF = (
    "interrupted: the server that worked on this has not responded for too long. It may still be "
    "working. If doing it twice does no harm, send the message again, under a new key if it had one"
)
UNANSWERED = "no answer: the question was open for too long"

RECENT_MS = 10_000  # what was recorded so shortly before a death may have to do with it
CAREFUL = 3  # attempts, from which on a run starts after a pause, and alone
MAX_ATTEMPTS = 8
PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
ALONE_S = 10.0  # for so long, unless it records something or ends before
MISMATCH_RETRY_S = 60.0
READ_RETRY_S = 5.0
MISMATCH_MS = 3_600_000  # after which a function that has changed fails its task
_AT_ONCE, _MOST_AT_ONCE = 32, 512  # orphans taken at a time: twice as many each time
_BETWEEN_S = 0.003
_CHECK_S = 0.05
BROKEN = (ValueError, LookupError)  # what a row that is not what was written may lead to


class Recovery:
    """Looks for orphans and resumes them; tries again those that could not be resumed."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._tasks = engine.tasks
        self._deferred: list[tuple[int, Run]] = []  # attempts, and the run that waits for its turn
        self.trying = Pump("trying again what died", self._try_next, log=log_)
        self._retries: list[tuple[float, Log]] = []  # when to try again, and what
        self._unanswered_ms = FOREVER_MS
        self._audit = OwnershipAudit(engine.tasks, self._take_up_unknown)
        engine.runs.on_mismatch = self._mismatch
        engine.runs.on_given_up = lambda run: self._retry_soon(run.log)
        engine.tasks.directory.on_refused = self._retry_soon

    async def open(self) -> None:
        """Resume all orphans, and return when that is stored: no client sees a task as the dead
        process left it.
        """
        goes_on = await self._take_up_all(await self._orphans())
        taken_up, failed = sum(goes_on), len(goes_on) - sum(goes_on)
        await self._tasks.flush()
        if taken_up or failed:
            log_.warning(
                "the last stop interrupted %d task%s: %d resumed, %d failed",
                taken_up + failed,
                "" if taken_up + failed == 1 else "s",
                taken_up,
                failed,
            )

    async def check(self, is_clock_sure: bool = True) -> None:
        """Resume orphans, and try again what is due. Called every second."""
        if self._tasks.is_draining or self._tasks.writer.fault or not self._tasks.store.is_sure:
            return
        room = self._engine.limits.tasks - len(self._tasks.working)
        if room > 0:
            is_audit = self._audit.is_due
            await self._take_up_all(await self._orphans(is_clock_sure, room, unowned=is_audit))
            await self._audit.check()
        now = self._tasks.loop.time()
        for retry in [retry for retry in self._retries if retry[0] <= now]:
            try:
                await self._retry(retry)
            except BROKEN:
                log_.exception("task %s can't be tried again", retry[1].ids.task_id)

    async def _retry(self, retry: tuple[float, Log]) -> None:
        log = retry[1]
        try:
            found = await self._tasks.own(log.namespace, log.ids.task_id)
        except A2AError:
            raise  # the store could not be asked: once more in the next round
        except BaseException:
            self._retries.remove(retry)
            raise
        self._retries.remove(retry)
        if isinstance(found, Log):
            await self._take_up_unknown(found)

    async def take_up(self, log: Log, *, died: bool) -> None:
        """Resume a task of ours that is submitted or working and has no run. One that sleeps, or
        is to be tried again later, is left until then.
        """
        if (
            log.slot.run is None
            and log.state in WORKED_ON
            and not self.is_retried(log)
            and not self._sleeps_on(log)
        ):
            await self._go_on(log, died=died)

    def _sleeps_on(self, log: Log) -> bool:
        """Return whether its function sleeps, and it is not time yet."""
        return log.sleeps and log.due_ms > self._tasks.store.now_ms()

    def is_retried(self, log: Log) -> bool:
        """Return whether this task is tried again later."""
        return any(waiting.key == log.key for _, waiting in self._retries)

    async def _orphans(
        self, is_clock_sure: bool = True, limit: int = sys.maxsize, *, unowned: bool = True
    ) -> list[Record]:
        """Claim and return the tasks of dead processes, and those nobody has answered in time. All
        of them: comparing them shows which was at work when its process died.

        Other processes come for them at the same time: each takes some at a time, with pauses, so
        that all get a share.
        """
        engine = self._engine
        tasks, orphans = self._tasks, list[Record]()
        # If the clock has jumped, what seems old may have been made a minute ago.
        self._unanswered_ms = age_ms(engine.retention.unanswered_s) if is_clock_sure else FOREVER_MS
        can = Can(
            {name: list(agent.skills) for name, agent in engine.runs.agents.items()},
            FORMAT,
            self._unanswered_ms,
            unowned,
        )
        count = _AT_ONCE
        try:
            while found := await tasks.store.orphans(min(count, limit - len(orphans)), can):
                orphans += found
                count = min(count * 2, _MOST_AT_ONCE)
                # for another time in each process
                await asyncio.sleep(_BETWEEN_S * (tasks.store.replica % 8))
        except A2AError:
            tasks.directory.may_own_more = True
            if not orphans:
                raise
        return orphans

    async def _take_up_unknown(self, log: Log) -> None:
        """Deal with a task that is ours and worked on by nobody: its run was given up, or the
        answer to its claim was lost.
        """
        try:
            with log.slot.pinned():
                if log.state in WORKED_ON:
                    await self.take_up(log, died=False)
                elif log.state is TaskState.AUTH_REQUIRED and log.slot.run is None:
                    await self._watch_again(log)
        finally:
            self._tasks.directory.release(log)

    async def _take_up_all(self, orphans: list[Record]) -> list[bool]:
        """Deal with orphans. Return for each whether it was resumed.

        A death counts against those runs of a process that had recorded something shortly before
        it, or against all if none had.
        """
        blamed = [
            record
            for record in orphans
            if record.died_ms and record.died_ms - record.committed_ms < RECENT_MS
        ]
        deaths = {record.died_ms for record in blamed}
        found: list[bool] = []
        for record in orphans:
            died = bool(record.died_ms) and (record in blamed or record.died_ms not in deaths)
            try:
                found.append(await self._take_up(record, died=died))
            except Exception:  # whatever it is, it harms no other task
                log_.exception("task %s can't be resumed and stays as it is", record.id)
                found.append(False)
        return found

    async def _take_up(self, record: Record, *, died: bool) -> bool:
        try:
            # Claimed again: a message may have been faster, and the record be out of date.
            log = await self._tasks.own(record.namespace, record.id)
        except BROKEN:  # one broken row, which was logged, does not keep the server from starting
            return False
        except A2AError:  # the store could not be asked: the audit claims the task again
            return True
        if not isinstance(log, Log):
            return True
        if log.slot.run is not None or log.pos != record.pos:
            self._tasks.directory.release(log)
            return True
        try:
            with log.slot.pinned():
                return await self._deal_with(log, record, died=died)
        finally:
            self._tasks.directory.release(log)

    async def _deal_with(self, log: Log, record: Record, *, died: bool) -> bool:
        if log.state in WORKED_ON:
            if self._sleeps_on(log):
                return True  # it was claimed for a message
            return await self._go_on(log, died=died, may_live=record.may_live)
        is_answered = log.posts_read < log.posts  # and the answer is read next
        is_old = record.at_ms < self._tasks.store.now_ms() - self._unanswered_ms
        if is_old and not is_answered:
            set_status(log, TaskState.FAILED, UNANSWERED)
            return False
        if log.state is TaskState.AUTH_REQUIRED:
            return await self._watch_again(log)
        return True

    async def _watch_again(self, log: Log) -> bool:
        """Call a function again that did not wait for its client alone: what it waits for may come
        without a message.
        """
        try:
            entries = await self._tasks.reader.entries(log)
            history = read_history(entries, self._engine.limits)
            if (
                history is not None
                and history.question is not None
                and history.question.is_watching
                and _is_free(log)
            ):
                self.call_again(log, history)
        except (A2AError, *BROKEN):
            log_.exception(
                "task %s waits for an authorization, and can't be resumed", log.ids.task_id
            )
        return True

    def call_again(self, log: Log, history: History) -> None:
        """Call a function again that waits for its client, and for something beside."""
        restore_turns(log, history)
        if self._run(log, history).starts_when_stored:
            log.append(Attempt(history.attempts))  # the function is called when this is stored

    def end_question(
        self, log: Log, asked: Asked, before: History, entries: list[Numbered]
    ) -> None:
        """Call a function again that is not in memory: nobody has answered its question in time,
        which it finds in the log.
        """
        skill = self._engine.runs.skill_of(log)
        values = skill.binding.values(before.message(before.turn))
        restore_turns(log, before)
        late = AskExpired(asked.branch, asked.n)
        pos = log.append(late)
        log.expired_ms = asked.expires_ms
        log.set_status(TaskState.WORKING)
        history = read_history([*entries, Numbered(pos, log.seq, 0, late)], self._engine.limits)
        assert history is not None  # it has asked
        turn = turn_of(history, history.turn)
        Run(self._engine.runs, log, skill, turn, values, history=history)

    async def _go_on(self, log: Log, *, died: bool, may_live: bool = False) -> bool:
        """Go on with a run that was cut off, if its skill is durable; else fail it. Return whether
        it goes on.
        """
        skill = self._engine.runs.find_skill(log)
        try:
            await log.commits.stored()  # what is read back is only what is stored
            entries = await self._tasks.reader.entries(log)
            history = read_history(entries, self._engine.limits)
            if not _is_free(log) or log.state not in WORKED_ON:
                return True  # a message was faster, or another process goes on
            if history is not None:
                restore_turns(log, history)
                log.expired_ms = history.expired_ms
            if skill is None:
                return self.fail(log, f"the agent no longer has skill {log.skill!r}")
            if not skill.is_durable and (history is None or history.mismatched is None):
                set_status(log, TaskState.FAILED, CUT_OFF if may_live else INTERRUPTED)
                return False
            if history is None:
                self._first_run(log, entries)
                return True
            attempts = history.attempts + (died and not history.is_released)
            if attempts > MAX_ATTEMPTS:
                return self.fail(
                    log, f"the server died {attempts} times in a row while the agent worked on this"
                )
            run = self._run(
                log, history, start=Start.WHEN_CALLED if attempts >= CAREFUL else Start.AT_ONCE
            )
        except Unavailable:  # the store could not be read: that is no reason to end anything
            self._retries.append((self._tasks.loop.time() + READ_RETRY_S, log))
            return True
        except (A2AError, *BROKEN) as error:
            return self.fail(log, str(error))
        if attempts >= CAREFUL:
            self._deferred.append((attempts, run))
            self.trying.wake()
        else:
            log.append(Attempt(attempts))  # the function is called when this is stored
        return True

    def fail(self, log: Log, why: str) -> bool:
        set_status(log, TaskState.FAILED, f"interrupted, and can't be resumed: {why}")
        return False

    def _first_run(self, log: Log, entries: list[Numbered]) -> None:
        """Call the function for the first time: the process died before it did."""
        made = entries[0].entry
        assert isinstance(made, Created)  # every log begins with its task
        turn = Turn(1, made.task.history[0], made.modes)
        skill = self._engine.runs.skill_of(log)
        Run(
            self._engine.runs,
            log,
            skill,
            turn,
            skill.binding.values(turn.message),
        )

    def _run(self, log: Log, history: History, start: Start = Start.AT_ONCE) -> Run:
        """Call a function again from the top."""
        skill = self._engine.runs.skill_of(log)
        values = skill.binding.values(history.message(history.turn))
        turn = turn_of(history, history.turn)
        return Run(
            self._engine.runs,
            log,
            skill,
            turn,
            values,
            history=history,
            start=start,
        )

    # Runs that may be what kills their process

    async def _try_next(self) -> bool:
        """Start runs that died several times: one at a time, each after a pause, those first that
        died least.
        """
        if self._deferred:
            self._deferred.sort(key=lambda one: one[0])
            attempts, run = self._deferred.pop(0)
            pause_s = backoff_s(attempts - CAREFUL, first_s=PAUSE_S, most_s=LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)
            if run.life.state is State.DEFERRED and not run.log.commits.is_lost:
                await self._try(run, attempts)
        return bool(self._deferred)

    async def _try(self, run: Run, attempts: int) -> None:
        run.start_when_stored()
        pos = run.log.append(Attempt(attempts))
        until = self._tasks.loop.time() + ALONE_S
        while not run.is_over and run.log.pos == pos and self._tasks.loop.time() < until:  # noqa: ASYNC110  a log notifies nobody that it grew
            await asyncio.sleep(_CHECK_S)

    # Tasks that another process may have taken: a function was stopped for that, or a commit was
    # refused

    def _retry_soon(self, log: Log) -> None:
        """Resume a task as soon as it is known that no other process has."""
        self._retries.append((self._tasks.loop.time(), log))

    # Functions that have changed

    def _mismatch(self, run: Run, reason: str) -> None:
        """Try again for an hour: the function does not do what is recorded, and another version of
        it may.
        """
        log, history = run.log, run.history
        known = history.mismatched if history is not None else None
        since_ms = known.since_ms if known is not None else self._tasks.store.now_ms()
        log_.error("skill %s: task %s can't go on: %s", run.skill.id, log.ids.task_id, reason)
        if self._tasks.store.now_ms() - since_ms >= MISMATCH_MS:
            self.fail(log, reason)
            return
        if known is None:
            log.append(Mismatched(since_ms, reason))
        self._retries.append((self._tasks.loop.time() + MISMATCH_RETRY_S, log))


def _is_free(log: Log) -> bool:
    """Whether a task is still ours, and nothing here works on it."""
    return log.slot.run is None and not log.commits.is_lost


def turn_of(history: History, number: int) -> Turn:
    """Return a turn as the log has it."""
    return Turn(
        number,
        history.message(number),
        history.modes(number),
        sender=history.sender(number),
    )


def restore_turns(log: Log, history: History) -> None:
    """Restore the turns that an earlier process has accepted and not answered: their senders, and
    who sends them again, are answered by what becomes of the task now.
    """
    log.turns = list(history.begun)
    known = {turn.number for turn in log.inbox}
    log.inbox.extendleft(
        turn_of(history, number) for number in reversed(history.waiting) if number not in known
    )
