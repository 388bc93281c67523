"""The engine of an agent, or of several on one store: messages in, runs started, everything
logged.

Operations call it; it knows no version, no binding and no wire.
"""

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Sequence

from ...files import has_references, restored
from ...model import (
    FINAL,
    Limits,
    Message,
    SendMessageRequest,
    new_id,
)
from ...protocol import Snapshot
from ...store import Idempotency, Namespace, Record, Store
from ..log import (
    Log,
    Lost,
    Sender,
    state_of,
)
from ..reading import Receipt
from ..skills import AgentDefinition, Skill
from ..threads import LoopThread
from .cancels import MAX_ROUTES, Cancels
from .delivery import Delivery, GivenUp, Incoming
from .due import DueTasks
from .fork import Forks
from .hooks import TaskHooks
from .posts import Posts
from .recovery import INTERRUPTED as INTERRUPTED_TEXT
from .recovery import Recovery
from .refusals import changes_hands, check_context, check_generation, has_ended, not_found
from .reply import call_reply
from .retention import Retention, Upkeep
from .run import FORGOTTEN
from .runs import Runs

__all__ = ["Engine"]

log_ = logging.getLogger("accord")

LEAVE_S = 5.0  # for functions that were cancelled at a stop
_WARNED: weakref.WeakSet[AgentDefinition] = weakref.WeakSet()


class Engine:
    """Runs the skills of its agents on a store. Each agent's tasks are stored under its name.

    - A message is either refused with nothing stored, or logged before its sender is answered.
    - A task has at most one run; messages for a busy one wait in order.
    """

    def __init__(
        self,
        agents: Sequence[AgentDefinition],
        store: Store,
        limits: Limits,
        retention: Retention | None = None,
    ) -> None:
        self.limits = limits
        self.runs = Runs(store, limits)
        self.tasks = self.runs.tasks
        self.retention = retention or Retention()
        self._recovery = Recovery(self)
        self._due = DueTasks(self, self._recovery)
        self.forks = Forks(self, self._recovery)
        self.delivery = Delivery(self.runs, self._recovery)
        self._posts = Posts(self)
        self.cancels = Cancels(self.runs, self._posts)
        self._hooks = TaskHooks(self.tasks, self.runs.agents, self.runs.threads)
        self._upkeep = Upkeep(self.runs, self.retention, check=self._recovery.check)
        for agent in agents:
            self.add(agent)

    # Agents

    def add(self, agent: AgentDefinition, *, replaces: bool = False) -> None:
        """Run this agent's skills too, or instead of those of an agent of that name. What a dead
        process left of its tasks is taken up within seconds.

        Raises:
            ValueError: An agent of that name is there already, or something in it is wrong.
            TypeError: A skill is not written as it has to be.
        """
        agent.resolve()
        if agent.name in self.runs.agents and not replaces:
            raise ValueError(f"two agents are called {agent.name!r}; give one another name")
        self.runs.agents[agent.name] = agent

    def remove(self, name: str) -> None:
        """Begin nothing of this agent any more: what runs goes on to its end, and its tasks stay
        stored.
        """
        self.runs.agents.pop(name, None)

    # Opening and closing

    async def open(self) -> None:
        """Open what skills need and the store, and take up or end what a dead process left
        running.
        """
        try:
            for agent in self.runs.agents.values():
                await self.runs.lifespans.open(agent)
            await self.tasks.open()
        except BaseException:
            await self.runs.lifespans.close()
            raise
        try:
            await self._open()
        except BaseException:
            await self.close()  # else the store would stay open: a lock, a heartbeat
            raise

    async def _open(self) -> None:
        self.runs.home = LoopThread(self.tasks.loop)
        self._warn()
        await self._recovery.open()
        self._posts.open()
        self._due.open()
        self._upkeep.start()

    def _warn(self) -> None:
        """Say, once for each agent, if work is called durable and is not."""
        for agent in self.runs.agents.values():
            durable = [skill.id for skill in agent.skills.values() if skill.is_durable]
            if durable and not self.runs.can_go_on and agent not in _WARNED:
                _WARNED.add(agent)
                log_.warning(
                    "tasks are kept in memory: durable work (%s) ends with this process too",
                    ", ".join(durable),
                )

    async def drain(self, grace_s: float) -> None:
        """Take no new work, give up what can go on elsewhere, and give the rest `grace_s` to
        end.
        """
        self.tasks.drain()
        for run in self.runs.running():
            if run.is_pending:
                continue  # there is nothing another could go on with; it may still answer
            if run.is_waiting and not self.runs.can_go_on:
                run.interrupt(FORGOTTEN)
            elif self.runs.can_go_on and (run.is_waiting or run.skill.is_durable):
                run.release() if grace_s > 0 else run.leave()
        loop = self.tasks.loop
        deadline = loop.time() + grace_s
        # Messages that were accepted get their turn, so that one run may be followed by another.
        while self.runs.running() and (left := deadline - loop.time()) > 0:
            await asyncio.wait({self.runs.next_end()}, timeout=left)

    async def close(self) -> None:
        """Stop all runs, notify their readers, and store everything."""
        await self.drain(0)
        self.runs.is_closed = True
        for run in self.runs.running():
            run.interrupt(INTERRUPTED_TEXT)
        await self.runs.left(LEAVE_S)
        self._upkeep.cancel()
        self._recovery.trying.cancel()
        await self._due.close()
        await self._posts.close()
        await self.tasks.close(self._hooks.close)
        self.runs.threads.close()
        await self.runs.lifespans.close()

    # Messages

    async def reply(
        self, skill: Skill, request: SendMessageRequest, namespace: Namespace, sender: Sender
    ) -> Message:
        """Call a skill that makes no task."""
        message = request.message
        if self.tasks.files is not None and has_references(message):
            takes_bytes = skill.binding.takes_bytes
            message = await restored(self.tasks.files, message, takes_bytes=takes_bytes)
        values = skill.binding.values(message)
        context_id = message.context_id or new_id()
        tenant = request.tenant or sender.caller.tenant
        return await call_reply(
            skill,
            message,
            values,
            sender,
            context_id,
            self.runs.threads,
            tenant,
            self.runs.opener(namespace),
            self.runs.lifespans.resources(skill),
        )

    async def resume(
        self,
        request: SendMessageRequest,
        namespace: Namespace,
        sender: Sender,
        *,
        idempotency: Idempotency | None = None,
        reopen: bool = False,
        if_generation: int | None = None,
        before_post: Callable[[], Awaitable[None]] | None = None,
    ) -> Receipt:
        """Take a message to the task it names. With `reopen`, one that has ended begins anew,
        keeping all it has. With `if_generation`, only if that is the number of its last event. If
        another process owns the task, `before_post` is called before the message is posted to it.

        Raises:
            TaskNotFound: There is none, or it is not the caller's.
            InvalidParams: The message names another context than the task's.
            UnsupportedOperation: The task has ended.
            TooManyRequests: Too many messages wait for it already.
            TaskGenerationMismatch: The number of its last event is another.
        """
        task_id = request.message.task_id
        refused = 0
        found: Log | Record | None = None
        incoming = Incoming(
            request, sender, idempotency, reopen=reopen, if_generation=if_generation
        )
        while refused < MAX_ROUTES:
            found = await self.tasks.own(namespace, task_id, reopen=reopen)
            if found is None:
                raise not_found(task_id)
            if incoming.seen is None:
                incoming.seen = found.commits.stored_pos if isinstance(found, Log) else found.pos
            # What runs must not be lost if another process uses the key in this moment, and what it
            # appends goes with the message. So key and message are an item of their own: a post.
            has_key = idempotency is not None
            if isinstance(found, Log) and not (has_key and found.slot.run is not None):
                try:
                    turn = await self.delivery.hand_over(found, incoming)
                    return Receipt(self.tasks.views, found, turn)
                # Another message was faster, and has been answered: this one's turn comes.
                except GivenUp:
                    continue
                except Lost:
                    refused += 1
                    incoming.seen = None  # it was not ours any more, and has gone on elsewhere
                    continue
            posted = await self._post(found, incoming, before_post)
            if posted is not None:
                return posted
            if idempotency is not None and await self._is_used(idempotency):
                raise Lost()  # another process was faster with the same key
            refused += 1
        raise changes_hands(found)

    async def _post(
        self,
        task: Log | Record,
        incoming: Incoming,
        before_post: Callable[[], Awaitable[None]] | None,
    ) -> Receipt | None:
        """Post a message to the owner of a task; None if that has left it meanwhile. Raises as
        `resume` does.
        """
        request = incoming.request
        if isinstance(task, Log):
            await task.commits.stored()
            record = await self.tasks.store.load(task.namespace, task.ids.task_id)
        else:
            record = task
        if record is None:
            raise not_found(request.message.task_id)
        check_context(request.message, record.id, record.context_id)
        self.delivery.check_skill(request, record.namespace, record.id, record.skill)
        if state_of(record.state) in FINAL and not incoming.reopen:
            check_generation(record, incoming.if_generation)
            raise has_ended(record.id, record.context_id, state_of(record.state))
        if before_post is not None:
            await before_post()
        return await self._posts.send(record, incoming)

    async def _is_used(self, key: Idempotency) -> bool:
        return await self.tasks.store.idempotency(key.namespace, key.key, key.kept_ms) is not None

    async def cancel(
        self, namespace: Namespace, task_id: str, *, twice_fails: bool = False
    ) -> Snapshot:
        """End a task as canceled and return it, as `Cancels.cancel` does."""
        return await self.cancels.cancel(namespace, task_id, twice_fails=twice_fails)
