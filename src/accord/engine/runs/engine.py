"""The engine of one agent: messages in, runs started, everything logged.

Operations call it; it knows no version, no binding and no wire.
"""

import asyncio
import logging
import weakref

from ...auth import Caller
from ...codec.contract import Snapshot
from ...model import (
    FINAL,
    A2AError,
    InvalidParams,
    Limits,
    Message,
    SendMessageRequest,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
    TooManyRequests,
    UnsupportedOperation,
    new_id,
)
from ...model import INTERRUPTED as _INTERRUPTED
from ...store import Keep, Record, Scope, Store
from ..durable.replay import Past, read_past
from ..log.entry import STATE_NUMBER
from ..log.log import Log, Turn
from ..skills.agent import Agent
from ..skills.skill import Skill
from .lives import Suspects
from .reply import call_reply
from .run import FORGOTTEN, Accepted, Run, Runs
from .say import set_status
from .upkeep import Retention, Upkeep

__all__ = ["INTERRUPTED", "Accepted", "Engine"]

log_ = logging.getLogger("accord")

LEASE_MS = 15_000
_BROKEN = (ValueError, LookupError)  # what a row that is not what was written may lead to
NOT_STORED = "interrupted: what the agent did could not be stored; send the message again, under a new key if it had one"
_WARNED: weakref.WeakSet[Agent] = weakref.WeakSet()
INTERRUPTED = "interrupted: the server stopped while the agent was working; send the message again, under a new key if it had one"


class Engine(Runs):
    """Runs an agent's skills on a store.

    - A message is either refused with nothing stored, or logged before its sender hears of it.
    - A task has at most one run; messages for a busy one wait in order.
    """

    def __init__(self, agent: Agent, store: Store, limits: Limits, retention: Retention | None = None) -> None:
        agent.resolve()
        super().__init__(agent, store, limits)
        self.retention = retention or Retention()
        self._upkeep = Upkeep(self.feed, self.retention, threads=self.threads, look_again=self._look_again)
        self._suspects = Suspects()
        self._tending: list[asyncio.Task[None]] = []

    # Life

    async def open(self) -> None:
        """Open the store and take up or end what a dead process left running (design, rule 18)."""
        await self.feed.open()
        self._warn()
        left = await self.feed.store.take_over(LEASE_MS)
        watching = [record for record in left if record.state == STATE_NUMBER[TaskState.AUTH_REQUIRED]]
        left = [record for record in left if record not in watching]
        taken_up = [await self._take_up(record) for record in left]
        for record in watching:
            await self._watch_again(record)
        await self.feed.flush()  # in one commit: nobody is shown any of them as working any more
        if left:
            log_.warning(
                "the last stop interrupted %d tasks: %d are taken up again, %d have failed",
                len(left),
                sum(taken_up),
                taken_up.count(False),
            )
        self._tending = [asyncio.create_task(self._upkeep.run()), asyncio.create_task(self._suspects.try_all())]

    def _warn(self) -> None:
        """Say, once for each agent, if work is called durable and is not."""
        durable = [skill.id for skill in self.agent.skills.values() if skill.is_durable]
        if durable and not self.lasts and self.agent not in _WARNED:
            _WARNED.add(self.agent)
            log_.warning("tasks are kept in memory: durable work (%s) ends with this process too", ", ".join(durable))

    async def drain(self, grace_s: float) -> None:
        """Take no new work, let go what can be taken up again, and give the rest `grace_s` to end."""
        self.feed.drain()
        for run in self._runs():
            if not self.lasts and run.is_waiting:
                run.interrupt(FORGOTTEN)
            elif self.lasts and (run.is_waiting or run.skill.is_durable):
                is_working = run.skill.is_durable and not (run.is_waiting or run.is_held)
                run.release() if grace_s > 0 else run.park()
                run.log.refuse(self.feed.parting(run.log.task))  # who waits for its answer asks the next process
                if is_working and not run.log.is_dead:
                    run.log.note(b"l", b"%.1f" % run.worked())
        loop = self.feed.loop
        deadline = loop.time() + grace_s
        # Messages that were accepted get their turn, so that one run may be followed by another.
        while any(not run.is_over for run in self._runs()) and (left := deadline - loop.time()) > 0:
            await asyncio.wait({self.next_end()}, timeout=left)

    def _runs(self) -> list[Run]:
        return [log.run for log in self.feed.live() if isinstance(log.run, Run)]

    async def close(self) -> None:
        """Stop all runs, tell their readers, and store everything."""
        await self.drain(0)
        for run in self._runs():
            run.interrupt(INTERRUPTED)
        for log in self.feed.live():
            log.refuse(self.feed.parting(log.task))  # whoever is left without an answer gets this one
        for tending in self._tending:
            tending.cancel()
        await self.feed.close()
        self.threads.close()

    async def _look_again(self) -> None:
        """End or take up what was given up when the store failed: it is stored as being worked on, and nobody does."""
        while self.feed.given_up and not self.feed.fault:
            log = await self.feed.find(*self.feed.given_up.pop())
            if log is not None and log.run is None and log.task.status.state in (TaskState.SUBMITTED, TaskState.WORKING):
                await self._go_on(log, NOT_STORED)
            elif log is not None:
                self.feed.let_go(log)

    async def _take_up(self, record: Record) -> bool:
        """Go on with a run whose process died, or fail it. Return whether it goes on."""
        try:
            log = self.feed.revive(record)
        except _BROKEN:  # one broken row does not keep the server from starting
            log_.exception("task %s can't be read, and stays as it is", record.id)
            return False
        return await self._go_on(log, INTERRUPTED, is_next_life=True)

    async def _watch_again(self, record: Record) -> None:
        """Call a function again that did not wait for its client alone: what it waits for may come without a message."""
        try:
            log = self.feed.revive(record)
            past = read_past(await self.feed.whole(log), log.task, self.limits)
            if past is not None and past.is_watching and log.run is None:
                skill = self.skill_of(log)
                Run(self, log, skill, Turn(past.turn), skill.binding.values(past.message), Caller(log.scope.owner), past=past)
        except (A2AError, *_BROKEN):
            log_.exception("task %s waits for an authorization, and can't be taken up again", record.id)
        else:
            self.feed.let_go(log)

    async def _go_on(self, log: Log, reason: str, *, is_next_life: bool = False) -> bool:
        """Go on with a run that was cut off, if its skill is durable; else fail it for this reason. Return whether it goes on."""
        skill = self.agent.skills.get(log.about.skill)
        if skill is None:
            reason = f"interrupted, and can't be taken up again: the agent no longer has skill {log.about.skill!r}"
        if skill is None or not skill.is_durable:
            set_status(log, TaskState.FAILED, reason)
            return False
        try:
            past = read_past(await self.feed.whole(log), log.task, self.limits)
            if log.run is not None:
                return True  # a message was faster
            first = past.message if past is not None else log.task.history[0]
            values = skill.binding.values(first)
        except (A2AError, *_BROKEN) as error:
            set_status(log, TaskState.FAILED, f"interrupted, and can't be taken up again: {error}")
            return False
        if past is None:
            Run(self, log, skill, Turn(first), values, Caller(log.scope.owner))
            return True
        lives = past.lives
        if lives.is_guilty:
            set_status(log, TaskState.FAILED, f"interrupted {lives.count + 1} times at the same place, and given up")
            return False
        turn = Turn(past.turn)
        log.turns.append(turn)  # begun in an earlier life; whoever asks for it again waits for its end
        log.inbox.extend(Turn(message) for message in past.waiting)
        gate = self.feed.loop.create_future() if lives.is_suspect and is_next_life else None
        if gate is None:
            log.note(b"r")
        run = Run(self, log, skill, turn, values, Caller(log.scope.owner), past=past, gate=gate)
        if gate is not None:
            self._suspects.add(lives, run)
        return True

    # Messages

    async def reply(self, skill: Skill, request: SendMessageRequest, caller: Caller) -> Message:
        """Call a skill that makes no task."""
        values = skill.binding.values(request.message)
        context_id = request.message.context_id or new_id()
        return await call_reply(skill, values, caller, context_id, self.threads)

    async def find(self, scope: Scope, task_id: str) -> Log:
        log = await self.feed.find(scope, task_id)
        if log is None:
            raise TaskNotFound(f"Task not found: {task_id:.80}", taskId=task_id[:256])
        return log

    async def resume(
        self, request: SendMessageRequest, scope: Scope, caller: Caller, *, keep: Keep | None = None, reopen: bool = False
    ) -> Accepted:
        """Hand a message to the task it names. With `reopen`, one that has ended begins anew, keeping all it has.

        Raises:
            TaskNotFound: There is none, or it is not the caller's.
            InvalidParams: The message names another context than the task's.
            UnsupportedOperation: The task has ended.
            TooManyRequests: Too many messages wait for it already.
        """
        log = await self.find(scope, request.message.task_id)
        return await self.hand_over(log, request, caller, keep=keep, reopen=reopen)

    async def hand_over(
        self, log: Log, request: SendMessageRequest, caller: Caller, *, keep: Keep | None = None, reopen: bool = False
    ) -> Accepted:
        """Hand a message to a task that has just been found. Raises as `resume` does."""
        try:
            return await self._hand_over(log, request, caller, keep, reopen)
        finally:
            self.feed.let_go(log)  # refused, it would be kept for nothing; taken, there is something going on

    async def _hand_over(self, log: Log, request: SendMessageRequest, caller: Caller, keep: Keep | None, reopen: bool) -> Accepted:
        message = request.message
        past = await self._parked(log)
        task = log.task
        if message.context_id and message.context_id != task.context_id:
            what = f"task {task.id} belongs to context {task.context_id}, not to {message.context_id!r:.80}"
            raise InvalidParams(what, violations=(("message.contextId", what),))
        run = log.run
        if task.status.state in FINAL and (run is not None or not reopen):
            await log.stored()  # an end is told when it is stored, also as the reason of a refusal
            raise UnsupportedOperation(
                f"task {task.id} is {task.status.state.word} and takes no more messages; "
                f"send without taskId, in context {task.context_id}, to start a new one",
                taskId=task.id,
                contextId=task.context_id,
            )
        if len(log.inbox) >= self.limits.waiting_messages:
            raise TooManyRequests(f"{len(log.inbox)} messages already wait for task {task.id}", retry_after_s=1, taskId=task.id)
        if run is None:
            self.feed.check_room(is_answer=task.status.state not in FINAL)
        message.context_id = task.context_id
        turn = Turn(message, request.configuration.accepted_output_modes if request.configuration is not None else ())
        if isinstance(run, Run):
            size = log.size
            log.add(message)
            run.put_aside(size)
            self._keep(keep, log, message)
            run.deliver(turn)
        elif past is not None and past.asked:
            skill = self.skill_of(log)
            values = skill.binding.values(past.message)  # refused before anything is stored
            log.add(message)
            self._keep(keep, log, message)
            log.begin(turn, past.asked)
            log.set_status(TaskState.WORKING)
            past.add_answer(message)
            Run(self, log, skill, turn, values, Caller(log.scope.owner), past=past)
        else:
            skill = self.skill_of(log)
            values = skill.binding.values(message)  # refused before anything is stored
            if task.status.state in FINAL:
                self.feed.reopen(log)
                log.set_status(TaskState.SUBMITTED)
            log.add(message)
            self._keep(keep, log, message)
            Run(self, log, skill, turn, values, caller)
        return Accepted(log, turn, False)

    async def _parked(self, log: Log) -> Past | None:
        """The record of a function that waited for an answer when its process ended; None if nothing has to be replayed."""
        log.readers += 1  # held while this waits: let go meanwhile, the task would get a second log
        try:
            while log.run is None and not log.is_clear and log.task.status.state in _INTERRUPTED:
                pos = log.pos
                await log.stored()
                past = read_past(await self.feed.whole(log), log.task, self.limits)
                if log.pos == pos:  # else another message was faster, and what was read is no longer all of it
                    return past
            return None
        finally:
            log.readers -= 1

    def _keep(self, keep: Keep | None, log: Log, message: Message) -> None:
        if keep is not None:
            keep.task_id, keep.reply = log.task.id, message.message_id.encode()
            self.feed.keep(keep)

    # Cancelling

    async def cancel(self, scope: Scope, task_id: str, *, twice_fails: bool = False) -> Snapshot:
        """End a task as canceled and return it; one that is canceled already too, unless `twice_fails`.

        Raises:
            TaskNotFound: There is none, or it is not the caller's.
            TaskNotCancelable: It has ended otherwise, or did while it was being cancelled.
        """
        log = await self.find(scope, task_id)
        was_over = log.task.status.state in FINAL
        if not was_over:
            if isinstance(log.run, Run):
                await log.run.cancel()
            else:
                log.set_status(TaskState.CANCELED)
        snapshot = await log.snapshot()
        self.feed.let_go(log)
        if snapshot.state is not TaskState.CANCELED or (was_over and twice_fails):
            raise TaskNotCancelable(f"task {task_id} is already {snapshot.state.word}", taskId=task_id)
        return snapshot
