"""The engine of one agent: messages in, runs started, everything logged.

Operations call it; it knows no version, no binding and no wire.
"""

import logging
from typing import NamedTuple

from ..auth import Caller
from ..codec.contract import Snapshot
from ..model import (
    FINAL,
    A2AError,
    InvalidParams,
    Limits,
    Message,
    SendMessageRequest,
    Task,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
    TaskStatus,
    TooManyRequests,
    UnsupportedOperation,
    new_id,
    now_ms,
    timestamp,
)
from ..store import Keep, Scope, Store
from .agent import Agent
from .feed import Feed
from .log import About, Log, Turn
from .runner import Run, Threads, call_reply, set_status
from .skill import Skill

__all__ = ["INTERRUPTED", "Accepted", "Engine"]

log_ = logging.getLogger("accord")

INTERRUPTED = "interrupted: the server stopped while the agent was working; send the message again"


class Accepted(NamedTuple):
    """A message that has its place in a task."""

    log: Log
    turn: Turn
    is_new: bool


class Engine:
    """Runs an agent's skills on a store.

    - A message is either refused with nothing stored, or logged before its sender hears of it.
    - A task has at most one run; messages for a busy one wait in order.
    """

    def __init__(self, agent: Agent, store: Store, limits: Limits) -> None:
        agent.resolve()
        self.agent = agent
        self.limits = limits
        self.feed = Feed(store, limits)
        self.threads = Threads()

    async def open(self) -> None:
        """Open the store and end what a dead process left running (design, rule 18)."""
        await self.feed.open()
        left = await self.feed.store.unfinished()
        for record in left:
            log = self.feed.revive(record)
            set_status(log, TaskState.FAILED, INTERRUPTED)
        if left:
            log_.warning("%d tasks were interrupted by the last stop and are now failed", len(left))

    async def close(self) -> None:
        """Stop all runs, tell their readers, and store everything."""
        for log in self.feed.live():
            run = log.run
            if isinstance(run, Run):
                if run.is_waiting:
                    run.stop()  # input-required survives as it is
                else:
                    run.interrupt(INTERRUPTED)
        await self.feed.close()
        self.threads.close()

    # Messages

    async def reply(self, skill: Skill, request: SendMessageRequest, caller: Caller) -> Message:
        """Call a skill that makes no task."""
        values = skill.binding.values(request.message)
        context_id = request.message.context_id or new_id()
        return await call_reply(skill, values, caller, context_id, self.threads)

    def start(
        self, skill: Skill, request: SendMessageRequest, scope: Scope, caller: Caller, *, keep: Keep | None = None, origin: str = ""
    ) -> Accepted:
        """Make a task of a message and start its run."""
        message = request.message
        values = skill.binding.values(message)
        message.task_id = new_id()
        message.context_id = message.context_id or new_id()
        at_ms = now_ms()
        status = TaskStatus(state=TaskState.SUBMITTED, timestamp=timestamp(at_ms))
        task = Task(id=message.task_id, context_id=message.context_id, status=status, history=[message])
        log = self.feed.create(scope, task, About(skill.id, origin), at_ms)
        log.append(task)
        if keep is not None:
            keep.task_id = task.id
            self.feed.keep(keep)
        turn = Turn(message)
        self._run(log, skill, turn, values, caller)
        return Accepted(log, turn, True)

    async def find(self, scope: Scope, task_id: str) -> Log:
        log = await self.feed.find(scope, task_id)
        if log is None:
            raise TaskNotFound(f"no task {task_id!r:.80}", taskId=task_id[:256])
        return log

    async def resume(self, request: SendMessageRequest, scope: Scope, caller: Caller, *, keep: Keep | None = None) -> Accepted:
        """Hand a message to the task it names.

        Raises:
            TaskNotFound: There is none, or it is not the caller's.
            InvalidParams: The message names another context than the task's.
            UnsupportedOperation: The task has ended.
            TooManyRequests: Too many messages wait for it already.
        """
        message = request.message
        log = await self.find(scope, message.task_id)
        task = log.task
        if message.context_id and message.context_id != task.context_id:
            what = f"task {task.id} belongs to context {task.context_id}, not to {message.context_id!r:.80}"
            raise InvalidParams(what, violations=(("message.contextId", what),))
        if task.status.state in FINAL:
            await log.snapshot()  # an end is told when it is stored, also as the reason of a refusal
            raise UnsupportedOperation(
                f"task {task.id} is {task.status.state.word} and takes no more messages; "
                f"send without taskId, in context {task.context_id}, to start a new one",
                taskId=task.id,
                contextId=task.context_id,
            )
        if len(log.inbox) >= self.limits.waiting_messages:
            raise TooManyRequests(f"{len(log.inbox)} messages already wait for task {task.id}", retry_after_s=1, taskId=task.id)
        message.context_id = task.context_id
        turn = Turn(message)
        run = log.run
        if isinstance(run, Run):
            log.add(message)
            self._keep(keep, log)
            run.deliver(turn)
        else:
            skill = self._skill(log)
            values = skill.binding.values(message)  # refused before anything is stored
            log.add(message)
            self._keep(keep, log)
            self._run(log, skill, turn, values, caller)
        return Accepted(log, turn, False)

    def _keep(self, keep: Keep | None, log: Log) -> None:
        if keep is not None:
            keep.task_id = log.task.id
            self.feed.keep(keep)

    def _skill(self, log: Log) -> Skill:
        skill = self.agent.skills.get(log.about.skill)
        if skill is None:
            raise UnsupportedOperation(
                f"task {log.task.id} was begun by skill {log.about.skill!r}, which this agent no longer has", taskId=log.task.id
            )
        return skill

    def _run(self, log: Log, skill: Skill, turn: Turn, values: dict[str, object], caller: Caller) -> None:
        Run(log, skill, turn, values, caller=caller, threads=self.threads, on_end=lambda log: self._ended(log, caller))

    def _ended(self, log: Log, caller: Caller) -> None:
        """A run is over. If its task is open and messages wait, the oldest starts the next run."""
        while log.inbox and log.task.status.state not in FINAL and not log.is_dead:
            turn = log.inbox.popleft()
            try:
                skill = self._skill(log)
                values = skill.binding.values(turn.message)
            except A2AError as error:
                turn.last = log.seq
                turn.refuse(error)
                continue
            self._run(log, skill, turn, values, caller)
            return
        self.feed.let_go(log)

    # Cancelling

    async def cancel(self, scope: Scope, task_id: str) -> Snapshot:
        """End a task as canceled and return it.

        Raises:
            TaskNotFound: There is none, or it is not the caller's.
            TaskNotCancelable: It has ended otherwise, or did while it was being cancelled.
        """
        log = await self.find(scope, task_id)
        if log.task.status.state not in FINAL:
            if isinstance(log.run, Run):
                await log.run.cancel()
            else:
                set_status(log, TaskState.CANCELED)
        snapshot = await log.snapshot()
        self.feed.let_go(log)
        if snapshot.state is not TaskState.CANCELED:
            raise TaskNotCancelable(f"task {task_id} is already {snapshot.state.word}", taskId=task_id)
        return snapshot
