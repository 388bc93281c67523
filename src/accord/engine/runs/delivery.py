"""Messages for tasks of ours: whether a task takes one, and what it does with it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ...model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    Message,
    SendMessageRequest,
    TaskState,
    TooManyRequests,
    question_named,
)
from ...store import Idempotency, Namespace, ReceivedPost
from ..durable import History, read_history
from ..log import (
    WORKED_ON,
    Answered,
    Asked,
    Entry,
    Log,
    MessageAdded,
    Numbered,
    Sender,
    StatusChanged,
    Turn,
    asked_since,
    closed,
    too_late,
)
from .recovery import Recovery, turn_of
from .refusals import check_context, check_skill, generation_mismatch, has_ended
from .run import Run, Start

if TYPE_CHECKING:
    from .runs import Runs

__all__ = ["Delivery", "GivenUp", "Incoming"]


class GivenUp(Exception):
    """A task was given up while a message for it waited: it has to be claimed again."""


class Incoming(msgspec.Struct):
    """A message for a task, and what its sender asks for."""

    request: SendMessageRequest
    sender: Sender
    idempotency: Idempotency | None = None
    reopen: bool = False  # a task that has ended begins anew, keeping all it has
    post: ReceivedPost | None = None  # what it came with, if another process has taken it
    # How far the log was stored when the message came: what was asked after that, it does not
    # answer. None: nobody knows.
    seen: int | None = None
    if_generation: int | None = None  # take it only if that is the number of the task's last event


class Delivery:
    """Hands messages to tasks that are ours."""

    def __init__(self, runs: "Runs", recovery: Recovery) -> None:
        self.runs = runs
        self.tasks = runs.tasks
        self.limits = runs.limits
        self._recovery = recovery

    async def hand_over(self, log: Log, incoming: Incoming) -> int:
        """Hand a message to a task that is ours, and return the number of its turn.

        Raises:
            GivenUp: It is not ours any more.
            A2AError: It does not take the message, as `Engine.resume` says.
        """
        try:
            with log.slot.pinned():
                return await self._hand_over(log, incoming)
        finally:
            # Refused, it would be kept for nothing; taken, there is something going on.
            self.tasks.directory.release(log)

    async def _hand_over(self, log: Log, incoming: Incoming) -> int:
        request, idempotency, post = incoming.request, incoming.idempotency, incoming.post
        message = request.message
        await self._recovery.take_up(log, died=True)  # of a process that died a moment ago
        recorded = await self._recorded(log)
        while idempotency is not None and log.commits.has_key:  # one key goes with one commit
            await log.commits.stored()
            recorded = await self._recorded(log)
        # From here on nothing is awaited: what is seen of the task now is so when the message is
        # logged.
        if self.runs.is_closed:
            raise self.tasks.refusal()
        check_context(message, *log.ids)
        self.check_skill(request, log.namespace, log.ids.task_id, log.skill)
        run = log.slot.run
        generation = log.seq  # before a question that is late ends
        expected = incoming.if_generation
        if log.state in FINAL and (run is not None or not incoming.reopen):
            error: A2AError | None = has_ended(*log.ids, log.state)
        else:
            error = self._refusal(log, message, recorded, incoming.seen)
        if expected is not None and expected != generation:
            error = generation_mismatch(log.ids.task_id, expected, generation)
        if error is not None:
            # Ends and questions are shown when they are stored, also as the reason of a refusal.
            await log.commits.stored()
            raise error
        waiting = len(log.inbox)
        if log.sleeps and recorded is not None:
            waiting = len(recorded[0].waiting)
        if waiting >= self.limits.waiting_messages:
            what = f"{waiting} messages already wait for task {log.ids.task_id}"
            raise TooManyRequests(what, retry_after_s=1, taskId=log.ids.task_id)
        # With a post that is not read, its owner has not left.
        if run is None and not log.slot.is_owned and post is None:
            raise GivenUp
        if run is not None and idempotency is not None:
            raise GivenUp  # it was begun a moment ago, and is not to be lost for the key
        if run is None:
            self.tasks.check_capacity(is_answer=log.state not in FINAL)
        message.context_id = log.ids.context_id

        def add() -> Turn:
            return _add(log, incoming)

        # With a key nothing is begun before the commit, which may be refused for the key.
        start = Start.WHEN_STORED if idempotency is not None else Start.AT_ONCE
        if isinstance(run, Run):
            turn = add()
            run.deliver(turn)
        elif log.sleeps:
            turn = add()
            log.slot.free()  # it waits in the log: its function sleeps on
        elif log.state in WORKED_ON:  # its run is tried again later
            turn = add()
            log.inbox.append(turn)
        elif recorded is not None and (asked := recorded[0].question) is not None:
            turn = self.answer(log, asked, *recorded, add, start)
        else:
            turn = self.start_again(log, message, add, start)
        return turn.number

    def _refusal(
        self,
        log: Log,
        message: Message,
        recorded: tuple[History, list[Numbered]] | None,
        seen: int | None,
    ) -> A2AError | None:
        """Return the error for a message that must not answer what is open, or comes too late to
        answer anything; None if it is fine. A question whose deadline has passed ends here.
        """
        task_id, named = log.ids.task_id, question_named(message)
        expires_ms = self._end_late(log, recorded)
        if expires_ms:
            return too_late(task_id, expires_ms)
        open_id = _open_id(log)
        if named and named == open_id:
            return None
        if open_id is None and log.expired_ms and log.state not in FINAL:
            return too_late(task_id, log.expired_ms)
        if named:
            return closed(task_id)
        if open_id is not None and seen is not None and seen < _asked_pos(log, recorded):
            return asked_since(task_id)
        return None

    def _end_late(self, log: Log, recorded: tuple[History, list[Numbered]] | None) -> int:
        """End the question of a task if its deadline has passed. Return the deadline then."""
        run = log.slot.run
        if isinstance(run, Run):
            expires_ms = run.questions.expires_ms if run.asks else 0
            return expires_ms if expires_ms and run.questions.end_if_late() else 0
        asked = recorded[0].question if recorded is not None else None
        if recorded is None or asked is None or log.state is not TaskState.INPUT_REQUIRED:
            return 0
        if not asked.expires_ms or asked.expires_ms > self.tasks.store.now_ms():
            return 0
        self._recovery.end_question(log, asked, *recorded)
        return asked.expires_ms

    def answer(
        self,
        log: Log,
        asked: Asked,
        before: History,
        entries: list[Numbered],
        add: Callable[[], Turn],
        start: Start,
    ) -> Turn:
        """Call a function again that is not in memory and waits for this message: it finds its
        answer in the log.
        """
        skill = self.runs.skill_of(log)
        # Refused before anything is stored.
        values = skill.binding.values(before.message(before.turn))
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
        Run(self.runs, log, skill, first, values, history=history, start=start)
        return turn

    def start_again(
        self, log: Log, message: Message, add: Callable[[], Turn], start: Start
    ) -> Turn:
        """Start the next run of the task: nothing waits for this message."""
        skill = self.runs.skill_of(log)
        values = skill.binding.values(message)  # refused before anything is stored
        if log.state in FINAL:
            log.set_status(TaskState.SUBMITTED)
        turn = add()
        Run(self.runs, log, skill, turn, values, start=start)
        return turn

    async def _recorded(self, log: Log) -> tuple[History, list[Numbered]] | None:
        """Return what a function recorded that waited for an answer when its process ended; None
        if nothing has to be replayed.
        """
        while (
            log.slot.run is None and not log.is_clear and (log.state in INTERRUPTED or log.sleeps)
        ):
            pos = log.pos
            await log.commits.stored()
            entries = await self.tasks.reader.entries(log)
            # Else another message was faster, and what was read is no longer all of it.
            if log.pos == pos:
                history = read_history(entries, self.limits)
                if history is None:
                    return None
                log.expired_ms = history.expired_ms
                return history, entries
        return None

    def check_skill(
        self, request: SendMessageRequest, namespace: Namespace, task_id: str, skill: str
    ) -> None:
        """Raise InvalidParams if a message names another skill than its task's, unless its agent
        takes that.
        """
        agent = self.runs.agents.get(namespace.agent)
        if agent is None or not agent.takes_any_skill:
            check_skill(request, task_id, skill)


def _add(log: Log, incoming: Incoming) -> Turn:
    """Log the message, with its key and with the post it came by."""
    post, configuration = incoming.post, incoming.request.configuration
    turn = log.add_message(
        incoming.request.message,
        tuple(configuration.accepted_output_modes) if configuration is not None else (),
        post=post.id if post is not None else 0,
        reopens=incoming.reopen,
        sender=incoming.sender,
    )
    if post is not None:
        log.posts_read = post.n  # in the commit that stores the message, no sooner and no later
    if incoming.idempotency is not None:
        log.keep(incoming.idempotency, turn)
    return turn


def _asked_pos(log: Log, recorded: tuple[History, list[Numbered]] | None) -> int:
    """Return where a task asked what it waits for now; 0 if any message may answer it."""
    if log.asked_pos or recorded is None:
        return log.asked_pos
    for pos, _, _, entry in reversed(recorded[1]):
        if isinstance(entry, StatusChanged) and entry.update.status.state in INTERRUPTED:
            return 0 if entry.keeps_waiting else pos
    return 0


def _open_id(log: Log) -> str | None:
    """Return the id of the open question, empty if it has none; None if no question is open."""
    if log.state in INTERRUPTED:
        asked = log.draft.status.message
        return question_named(asked) if asked is not None else ""
    run = log.slot.run  # which may still ask, if another branch of the function has spoken since
    return run.questions.open_id if isinstance(run, Run) and run.asks else None
