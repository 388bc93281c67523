"""The engine of an agent, or of several on one store: messages in, runs started, everything
logged.

Operations call it; it knows no version, no binding and no wire.
"""

import asyncio
import logging
import weakref
from collections.abc import Callable, Sequence

from ...model import (
    FINAL,
    INTERRUPTED,
    InvalidParams,
    Limits,
    Message,
    SendMessageRequest,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
    TooManyRequests,
    Unavailable,
    UnsupportedOperation,
    new_id,
)
from ...protocol import Snapshot
from ...store import Idempotency, Namespace, ReceivedPost, Record, Store
from ..durable import History, read_history
from ..log import (
    FORMAT,
    Answered,
    Asked,
    Entry,
    Log,
    Lost,
    MessageAdded,
    Numbered,
    Sender,
    StatusChanged,
    Turn,
    asked_since,
    state_of,
)
from ..reading import Accepted, Receipt
from ..skills import AgentBase, Cancellation, Skill, skill_named
from .hooks import TaskHooks
from .messages import set_status
from .posts import Posts
from .recovery import INTERRUPTED as INTERRUPTED_TEXT
from .recovery import Recovery, turn_of
from .reply import call_reply
from .retention import Retention, Upkeep
from .run import FORGOTTEN, Run
from .runs import Runs

__all__ = ["Engine", "not_found"]

log_ = logging.getLogger("accord")

LEAVE_S = 5.0  # for functions that were cancelled at a stop
MAX_ROUTES = 5  # how often a message is taken to a task whose owner changes
_WARNED: weakref.WeakSet[AgentBase] = weakref.WeakSet()


class Engine:
    """Runs the skills of its agents on a store. Each agent's tasks are stored under its name.

    - A message is either refused with nothing stored, or logged before its sender hears of it.
    - A task has at most one run; messages for a busy one wait in order.
    """

    def __init__(
        self,
        agents: Sequence[AgentBase],
        store: Store,
        limits: Limits,
        retention: Retention | None = None,
    ) -> None:
        self.limits = limits
        self.runs = Runs(store, limits)
        self.tasks = self.runs.tasks
        self.retention = retention or Retention()
        self._recovery = Recovery(self)
        self._posts = Posts(self)
        self._hooks = TaskHooks(self.tasks, self.runs.agents, self.runs.threads)
        self._upkeep = Upkeep(self.runs, self.retention, check=self._recovery.check)
        self._tending: list[asyncio.Task[None]] = []
        for agent in agents:
            self.add(agent)

    # Agents

    def add(self, agent: AgentBase, *, replaces: bool = False) -> None:
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
            await self._open()
        except BaseException:
            await self.runs.lifespans.close()
            raise

    async def _open(self) -> None:
        await self.tasks.open()
        if self.runs.agents:
            await self.tasks.store.adopt(next(iter(self.runs.agents)))
        self._warn()
        await self._recovery.open()
        self._posts.open()
        self._tending = [
            asyncio.create_task(self._upkeep.run()),
            asyncio.create_task(self._upkeep.guard()),
            asyncio.create_task(self._recovery.try_held()),
        ]

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
            if run.is_unspoken:
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
        """Stop all runs, tell their readers, and store everything."""
        await self.drain(0)
        self.runs.is_closed = True
        for run in self.runs.running():
            run.interrupt(INTERRUPTED_TEXT)
        await self.runs.left(LEAVE_S)
        for tending in self._tending:
            tending.cancel()
        await self.tasks.close(self._hooks.close)
        self.runs.threads.close()
        await self.runs.lifespans.close()

    # Messages

    async def reply(self, skill: Skill, request: SendMessageRequest, sender: Sender) -> Message:
        """Call a skill that makes no task."""
        values = skill.binding.values(request.message)
        context_id = request.message.context_id or new_id()
        tenant = request.tenant or sender.caller.tenant
        return await call_reply(
            skill,
            request.message,
            values,
            sender,
            context_id,
            self.runs.threads,
            tenant,
            self.runs.open_url,
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
    ) -> Receipt:
        """Take a message to the task it names. With `reopen`, one that has ended begins anew,
        keeping all it has.

        Raises:
            TaskNotFound: There is none, or it is not the caller's.
            InvalidParams: The message names another context than the task's.
            UnsupportedOperation: The task has ended.
            TooManyRequests: Too many messages wait for it already.
        """
        task_id = request.message.task_id
        refused = 0
        found: Log | Record | None = None
        seen: int | None = None  # how far the log was stored when the message came
        while refused < MAX_ROUTES:
            found = await self.tasks.own(namespace, task_id, reopen=reopen)
            if found is None:
                raise not_found(task_id)
            if seen is None:
                seen = found.stored_at[0] if isinstance(found, Log) else found.pos
            # Under a key it is a post where others use the store too, also to ourselves: key and
            # message are then one item.
            if isinstance(found, Log) and not (
                idempotency is not None and self.tasks.store.is_shared
            ):
                try:
                    accepted = await self.hand_over(
                        found, request, sender, idempotency=idempotency, reopen=reopen, seen=seen
                    )
                    return self.tasks.receipt(accepted)
                except (
                    _Rested
                ):  # another message was faster, and has been answered: this one's turn comes
                    continue
                except Lost:
                    refused += 1
                    seen = None  # it was not ours any more, and has gone on elsewhere
                    continue
            if isinstance(found, Log):
                await found.stored()
            record = (
                found
                if not isinstance(found, Log)
                else await self.tasks.store.load(namespace, task_id)
            )
            if record is None:
                raise not_found(task_id)
            _check_context(request.message, record.id, record.context_id)
            self._check_skill(request, record.namespace, record.id, record.skill)
            if state_of(record.state) in FINAL and not reopen:
                raise _has_ended(record.id, record.context_id, state_of(record.state))
            posted = await self._posts.send(
                record, request, sender, idempotency, reopen=reopen, seen=seen
            )
            if posted is not None:
                return posted
            if idempotency is not None and await self._is_used(idempotency):
                raise Lost()  # another process was faster with the same key
            refused += 1
        raise _changes_hands(found)

    async def _is_used(self, key: Idempotency) -> bool:
        return (
            await self.tasks.store.idempotency(key.namespace, key.key, key.expired_ms) is not None
        )

    async def hand_over(
        self,
        log: Log,
        request: SendMessageRequest,
        sender: Sender,
        *,
        idempotency: Idempotency | None = None,
        reopen: bool = False,
        post: ReceivedPost | None = None,
        seen: int | None = None,
    ) -> Accepted:
        """Hand a message to a task that is ours. It was accepted when the log was stored up to
        `seen`: what was asked after that, it does not answer. Raises as `resume` does.
        """
        try:
            with log.slot.pinned():
                return await self._hand_over(log, request, sender, idempotency, reopen, post, seen)
        finally:
            self.tasks.directory.release(
                log
            )  # refused, it would be kept for nothing; taken, there is something going on

    async def _hand_over(
        self,
        log: Log,
        request: SendMessageRequest,
        sender: Sender,
        idempotency: Idempotency | None,
        reopen: bool,
        post: ReceivedPost | None,
        seen: int | None,
    ) -> Accepted:
        message, configuration = request.message, request.configuration
        await self._recovery.take_up(log, died=True)  # of a process that died a moment ago
        recorded = await self._recorded(log)
        while idempotency is not None and log.has_key:  # one key goes with one commit
            await log.stored()
            recorded = await self._recorded(log)
        # From here on nothing is awaited: what is seen of the task now is so when the message is
        # logged.
        if self.runs.is_closed:
            raise self.tasks.refusal()
        _check_context(message, *log.ids)
        self._check_skill(request, log.namespace, log.ids.task_id, log.skill)
        run = log.slot.run
        if log.state in FINAL and (run is not None or not reopen):
            await log.stored()  # an end is told when it is stored, also as the reason of a refusal
            raise _has_ended(*log.ids, log.state)
        if seen is not None and log.state in INTERRUPTED and seen < _asked_pos(log, recorded):
            await log.stored()  # so is a question
            raise asked_since(log.ids.task_id)
        if len(log.inbox) >= self.limits.waiting_messages:
            what = f"{len(log.inbox)} messages already wait for task {log.ids.task_id}"
            raise TooManyRequests(what, retry_after_s=1, taskId=log.ids.task_id)
        if (
            run is None and not log.slot.is_owned and post is None
        ):  # with a post that is not read, its owner has not left
            raise _Rested
        if run is None:
            self.tasks.check_capacity(is_answer=log.state not in FINAL)
        message.context_id = log.ids.context_id
        modes = tuple(configuration.accepted_output_modes) if configuration is not None else ()

        def add() -> Turn:
            return self._add(log, message, modes, idempotency, post, reopen, sender)

        if isinstance(run, Run):
            turn = add()
            run.deliver(turn)
        elif log.state in (TaskState.SUBMITTED, TaskState.WORKING):  # its run is tried again later
            turn = add()
            log.inbox.append(turn)
        elif recorded is not None and (asked := recorded[0].question) is not None:
            turn = self._answer(log, asked, *recorded, add)
        else:
            turn = self._start_again(log, message, add)
        return Accepted(log, turn.number)

    def _answer(
        self,
        log: Log,
        asked: Asked,
        before: History,
        entries: list[Numbered],
        add: Callable[[], Turn],
    ) -> Turn:
        """A function that is not in memory waits for this message: it is called again, and finds
        its answer in the log.
        """
        skill = self.runs.skill_of(log)
        values = skill.binding.values(
            before.message(before.turn)
        )  # refused before anything is stored
        turn = add()
        log.turns.append(turn.number)
        answered = Answered(asked.branch, asked.n, turn.number)
        log.append(answered)
        log.set_status(TaskState.WORKING)
        new: list[Entry] = [MessageAdded(turn.message, turn.modes, sender=turn.sender), answered]
        entries += [Numbered(turn.number + i, log.seq, 0, entry) for i, entry in enumerate(new)]
        history = read_history(entries, self.limits)
        assert history is not None  # it has asked
        first = turn_of(history, history.turn)
        Run(self.runs, log, skill, first, values, history=history)
        return turn

    def _start_again(self, log: Log, message: Message, add: Callable[[], Turn]) -> Turn:
        """Nothing waits for this message: it starts the next run of the task."""
        skill = self.runs.skill_of(log)
        values = skill.binding.values(message)  # refused before anything is stored
        if log.state in FINAL:
            log.set_status(TaskState.SUBMITTED)
        turn = add()
        Run(self.runs, log, skill, turn, values)
        return turn

    def _add(
        self,
        log: Log,
        message: Message,
        modes: tuple[str, ...],
        idempotency: Idempotency | None,
        post: ReceivedPost | None,
        reopen: bool,
        sender: Sender,
    ) -> Turn:
        turn = log.add_message(
            message,
            modes,
            post=post.id if post is not None else 0,
            reopens=reopen,
            sender=sender,
        )
        if post is not None:
            log.posts_read = post.n  # in the commit that stores the message, no sooner and no later
        if idempotency is not None:
            log.keep(idempotency, turn)
        return turn

    async def _recorded(self, log: Log) -> tuple[History, list[Numbered]] | None:
        """What a function recorded that waited for an answer when its process ended; None if
        nothing has to be replayed.
        """
        while log.slot.run is None and not log.is_clear and log.state in INTERRUPTED:
            pos = log.pos
            await log.stored()
            entries = await self.tasks.reader.entries(log)
            if (
                log.pos == pos
            ):  # else another message was faster, and what was read is no longer all of it
                history = read_history(entries, self.limits)
                return (history, entries) if history is not None else None
        return None

    def _check_skill(
        self, request: SendMessageRequest, namespace: Namespace, task_id: str, skill: str
    ) -> None:
        agent = self.runs.agents.get(namespace.agent)
        if agent is None or not agent.takes_any_skill:
            _check_skill(request, task_id, skill)

    # Cancelling

    async def cancel(
        self, namespace: Namespace, task_id: str, *, twice_fails: bool = False
    ) -> Snapshot:
        """End a task as canceled and return it; one that is canceled already too, unless
        `twice_fails`.

        Raises:
            TaskNotFound: There is none, or it is not the caller's.
            TaskNotCancelable: It has ended otherwise, or did while it was being cancelled.
        """
        found: Log | Record | None = None
        for _ in range(MAX_ROUTES):
            found = await self.tasks.own(namespace, task_id)
            if found is None:
                raise not_found(task_id)
            snapshot: Snapshot | None
            if isinstance(found, Log):
                was_over = found.state in FINAL
                if not was_over:
                    await self.cancel_log(found)
                snapshot = await found.stored(found.snapshot())
                self.tasks.directory.release(found)
            elif was_over := state_of(found.state) in FINAL:
                snapshot = await self.tasks.reader.shown(found, None)
            else:
                snapshot = await self._posts.cancel(found)
            if snapshot is None or snapshot.state not in FINAL:
                continue  # its owner has left it
            if snapshot.state is not TaskState.CANCELED or (was_over and twice_fails):
                raise TaskNotCancelable(
                    f"task {task_id} is already {snapshot.state.word}", taskId=task_id
                )
            return snapshot
        raise _changes_hands(found)

    async def cancel_log(self, log: Log) -> None:
        """End a task of ours as canceled, if it has not ended otherwise by then."""
        with log.slot.pinned():
            skill = self.runs.find_skill(log)
            word: Message | None = None
            if skill is not None and skill.on_cancel is not None:
                word = await skill.on_cancel(await self._cancellation(log))
            if isinstance(run := log.slot.run, Run):
                await run.cancel()
            elif log.state not in FINAL:
                set_status(log, TaskState.CANCELED, word)

    async def _cancellation(self, log: Log) -> Cancellation:
        run, private = log.slot.run, log.about.private
        if isinstance(run, Run):
            private = run.private
        elif not log.is_clear:
            await log.stored()
            history = read_history(await self.tasks.reader.entries(log), self.limits)
            private = (history.private if history is not None else "") or private
        running = run.task if isinstance(run, Run) and not run.is_waiting else None
        return Cancellation(
            log.ids.task_id,
            private,
            log.about.sender,
            log.namespace.tenant,
            running,
            log.snapshot().task,
        )


def _asked_pos(log: Log, recorded: tuple[History, list[Numbered]] | None) -> int:
    """Where a task asked what it waits for now; 0 if any message may answer it."""
    if log.asked_pos or recorded is None:
        return log.asked_pos
    for pos, _, _, entry in reversed(recorded[1]):
        if isinstance(entry, StatusChanged) and entry.update.status.state in INTERRUPTED:
            return 0 if entry.keeps_waiting else pos
    return 0


class _Rested(Exception):
    """A task was given up while a message for it waited: it has to be claimed again."""


def _changes_hands(found: Log | Record | None) -> Unavailable:
    if isinstance(found, Record) and found.format > FORMAT:
        return Unavailable(
            f"task {found.id} was written by a newer version of this agent's server, which alone "
            "can go on with it; try again in a moment",
            retry_after_s=5,
        )
    return Unavailable(
        "the owner of the task changes too often right now; try again in a moment", retry_after_s=1
    )


def not_found(task_id: str) -> TaskNotFound:
    return TaskNotFound(f"Task not found: {task_id[:80]}", taskId=task_id[:256])


def _check_context(message: Message, task_id: str, context_id: str) -> None:
    if message.context_id and message.context_id != context_id:
        what = f"task {task_id} belongs to context {context_id}, not to {message.context_id!r:.80}"
        raise InvalidParams(what, violations=(("message.contextId", what),))


def _check_skill(request: SendMessageRequest, task_id: str, skill: str) -> None:
    named = skill_named(request)
    if named is not None and named != skill:
        what = (
            f"task {task_id} is worked on by skill {skill!r}; to use {named!r:.80}, "
            "send without taskId"
        )
        raise InvalidParams(what, violations=(("message.metadata.skill", what),))


def _has_ended(task_id: str, context_id: str, state: TaskState) -> UnsupportedOperation:
    return UnsupportedOperation(
        f"task {task_id} is {state.word} and takes no more messages; "
        f"send without taskId, in context {context_id}, to start a new one",
        taskId=task_id,
        contextId=context_id,
    )
