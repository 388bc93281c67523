"""Forking tasks: a new task begins with what another had recorded up to one of its events, and its
function goes on from there.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from ...model import (
    INTERRUPTED,
    QUESTION,
    ForkPoint,
    InvalidParams,
    Message,
    TaskState,
    UnsupportedOperation,
    new_id,
    question_named,
    without_fork,
)
from ...store import Idempotency, Namespace, Record, Row
from ..durable import Copied, Cut, History, copy_log, cut_log, read_history
from ..log import (
    FORMAT,
    Asked,
    Created,
    Entry,
    Ids,
    Log,
    MessageAdded,
    Numbered,
    Sender,
    StateLoaded,
    StatusChanged,
    Turn,
    about_of,
    closed,
    entries_of,
)
from ..offloading import offload
from ..reading import Receipt
from ..skills import Skill
from .recovery import restore_turns, turn_of
from .refusals import not_found
from .run import Run, Start

if TYPE_CHECKING:
    from .engine import Engine
    from .recovery import Recovery

__all__ = ["Fork", "Forks"]

_AT_ONCE = 500  # entries that are copied before others get a turn of the loop


class Fork(NamedTuple):
    """What is to be forked, and what is said to the new task."""

    namespace: Namespace
    point: ForkPoint
    message: Message  # without parts nothing is said
    sender: Sender | None = None  # of the message; None: who sent the first of the task
    modes: tuple[str, ...] = ()
    idempotency: Idempotency | None = None
    origin: str = ""
    task_id: str = ""  # that its caller wants it to have


class _Begun(NamedTuple):
    """A fork whose log is copied and not stored."""

    log: Log
    entries: list[Numbered]
    history: History | None
    asked: Asked | None  # the question that is open


class Forks:
    """Forks tasks. The forked task is only read: whoever owns it, and whatever happens to it."""

    def __init__(self, engine: "Engine", recovery: "Recovery") -> None:
        self._engine = engine
        self._recovery = recovery
        self._tasks = engine.tasks

    async def fork(self, fork: Fork) -> Receipt:
        """Make the fork, and let its function go on.

        Raises:
            TaskNotFound: There is no such task, or it is not the caller's.
            InvalidParams: It can't be forked there, or the message does not fit.
            UnsupportedOperation: It can't be forked.
        """
        record, rows, skill = await self._found(fork)
        task_id = fork.task_id or new_id()
        ids = Ids(task_id, record.context_id)
        size = sum(len(row.data) for row in rows)
        cut: Cut = await offload(size, _cut, rows, ids, fork.point)
        _check(fork, record, skill, cut)
        state = await self._state(record, skill, cut)
        now_ms = self._tasks.store.now_ms()
        copied = await offload(size, copy_log, cut, fork.point, task_id, now_ms, state)
        begun = await self._copy(fork, record, copied, now_ms)
        if fork.task_id:
            await self._check_new(record.namespace, fork.task_id)
        self._tasks.check_capacity(caller=record.namespace.caller)
        if self._tasks.trouble:
            raise self._tasks.refusal()
        # From here on nothing is awaited: who asked for the fork may add to its first commit.
        return self._begin(fork, skill, begun, copied)

    async def _found(self, fork: Fork) -> tuple[Record, list[Row], Skill]:
        """Return the task, its log and its skill."""
        task_id, store = fork.point.task_id, self._tasks.store
        record = await store.load(fork.namespace, task_id)
        if record is None:
            raise not_found(task_id)
        if fork.message.context_id and fork.message.context_id != record.context_id:
            what = f"a fork of task {task_id} belongs to its context, {record.context_id}"
            raise InvalidParams(what, violations=(("message.contextId", what),))
        skill = self._engine.runs.skill_of(record)
        if skill.no_fork:
            raise _not_forked(task_id, skill.no_fork)
        if record.format > FORMAT:
            raise _not_forked(task_id, "a newer version of this server has written it")
        rows: list[Row] = []
        pos = 0
        while piece := await store.read({record.key: pos}):
            rows += piece
            pos = piece[-1].end
        if not rows or rows[0].pos != 1:
            raise _not_forked(task_id, "its log was purged (see `events` in the retention)")
        return record, rows, skill

    async def _check_new(self, namespace: Namespace, task_id: str) -> None:
        """Raise InvalidParams if there is a task of the id that the fork is to have."""
        is_stored = await self._tasks.store.load(namespace, task_id) is not None
        # One that was made while the store was asked is found here.
        if is_stored or self._tasks.directory.log((namespace, task_id)) is not None:
            what = f"there is a task {task_id} already; give the fork an id of its own"
            raise InvalidParams(what, violations=(("id", what),))

    async def _state(self, record: Record, skill: Skill, cut: Cut) -> StateLoaded | None:
        """Return the state of the conversation that the fork begins with, if its log does not say
        it: as the forked task found it next, else as it is now.
        """
        if not skill.binding.context or cut.has_state:
            return None
        if cut.recorded_state is not None:
            return cut.recorded_state
        found = await self._tasks.store.conversation_state(record.namespace, record.context_id)
        if found is not None:
            return StateLoaded(found.number, Raw(found.data))
        # What it once was must not be taken for what it is.
        was = any(isinstance(one.entry, StateLoaded) for one in cut.kept)
        return StateLoaded(0, Raw(b"{}")) if was else None

    async def _copy(self, fork: Fork, record: Record, copied: Copied, now_ms: int) -> _Begun:
        """Make the log of the fork. Nothing of it is stored, and nobody finds it."""
        about = about_of(record.about)
        about = replace(
            about, origin=fork.origin or about.origin, fork_of=record.id, fork_at=fork.point.at
        )
        first = copied.entries[0]
        assert isinstance(first, Created)  # every log begins with its task
        # The draft of the new log is one of its own: the entry is read again later.
        task = replace(
            first.task, history=list(first.task.history), artifacts=list(first.task.artifacts)
        )
        log, _ = self._tasks.directory.create(
            record.namespace, task, record.skill, about, now_ms, first.modes, is_pending=True
        )
        entries = [Numbered(1, 1, now_ms, first)]
        for n, entry in enumerate(copied.entries[1:], 1):
            pos = _append(log, entry)
            entries.append(Numbered(pos, log.seq, now_ms, entry))
            if n % _AT_ONCE == 0:
                await asyncio.sleep(0)
        log.due_ms = copied.due_ms
        history = read_history(entries, self._engine.limits)
        return _Begun(log, entries, history, history.question if history is not None else None)

    def _begin(self, fork: Fork, skill: Skill, begun: _Begun, copied: Copied) -> Receipt:
        """Let the function go on, and have the fork stored."""
        log = begun.log
        seq, pos = log.seq, log.pos
        message = _message(fork, log.ids, copied) if fork.message.parts else None
        turn = self._go_on(fork, skill, begun, message)
        if turn is None:  # it waits for a message
            log.is_clear = begun.asked is None
            seq, pos = _last_event(begun.entries)
            turn = Turn(_answered(begun.entries), log.draft.history[0])
        if fork.idempotency is not None:
            log.keep(fork.idempotency, turn)
        if log.slot.run is None:
            log.slot.free()
        self._tasks.directory.admit(log)
        receipt = Receipt(self._tasks.views, log, turn.number, is_new=True)
        receipt.skip(seq, pos)
        return receipt

    def _go_on(
        self, fork: Fork, skill: Skill, begun: _Begun, message: Message | None
    ) -> Turn | None:
        """Call the function again. Return the turn whose end is the answer; None if the fork waits
        for a message.
        """
        log = begun.log

        def add() -> Turn:
            assert message is not None  # only then it is called
            return log.add_message(message, fork.modes, sender=fork.sender)

        if log.state in INTERRUPTED:
            return self._answer(fork, begun, message, add)
        run = self._run(skill, begun)
        if log.state is TaskState.SUBMITTED:
            log.set_status(TaskState.WORKING)
        if message is None:
            return Turn(log.turns[-1], run.message)
        turn = add()
        run.deliver(turn)
        return turn

    def _answer(
        self, fork: Fork, begun: _Begun, message: Message | None, add: Callable[[], Turn]
    ) -> Turn | None:
        """Take a message to a task that waits for one."""
        delivery, log, entries, history, asked = self._engine.delivery, *begun
        _note_question(log, entries)
        if message is None:
            if asked is not None and asked.is_watching and history is not None:
                self._recovery.call_again(log, history)
            return None
        named, current = question_named(message), log.draft.status.message
        if named and named != (question_named(current) if current is not None else ""):
            raise closed(fork.point.task_id)
        if asked is not None and history is not None:
            return delivery.answer(log, asked, history, entries, add, Start.WHEN_STORED)
        return delivery.start_again(log, message, add, Start.WHEN_STORED)

    def _run(self, skill: Skill, begun: _Begun) -> Run:
        """Call the function again from the top; what is recorded it finds in the history."""
        log, history = begun.log, begun.history
        if history is None:
            turn = Turn(1, log.draft.history[0])
        else:
            turn = turn_of(history, history.turn)
            restore_turns(log, history)
            log.turns = log.turns or [1]  # nobody waited for it any more, and now somebody does
            log.expired_ms = history.expired_ms
        values = skill.binding.values(turn.message)
        return Run(
            self._engine.runs, log, skill, turn, values, history=history, start=Start.WHEN_STORED
        )


def _cut(rows: list[Row], ids: Ids, point: ForkPoint) -> Cut:
    return cut_log(list(entries_of(rows, ids)), point)


def _check(fork: Fork, record: Record, skill: Skill, cut: Cut) -> None:
    """Raise if the function can't go on here, or the message is no answer."""
    at, task_id = fork.point.at, record.id
    questions = [one.seq for one in (*cut.kept, *cut.rest) if _asks(one.entry)]
    there = ", ".join(map(str, questions))
    if not skill.is_durable and cut.state not in INTERRUPTED and at != 1:
        what = f"skill {skill.id!r} is not durable, so its function can't go on from event {at}"
        places = f"fork at 1, or at a question ({there})" if there else "fork at 1"
        raise _not_forked(task_id, f"{what}; {places}, or declare the skill with durable=True")
    if fork.point.is_answer and cut.state not in INTERRUPTED:
        where = f"; questions are open at {there}" if there else ", and it never asks anything"
        what = f"task {task_id} asks nothing at event {at}{where}"
        raise InvalidParams(what, violations=(("message.metadata", what),))


def _asks(entry: Entry) -> bool:
    return isinstance(entry, StatusChanged) and entry.update.status.state in INTERRUPTED


def _not_forked(task_id: str, why: str) -> UnsupportedOperation:
    return UnsupportedOperation(f"task {task_id} can't be forked: {why}", taskId=task_id)


def _append(log: Log, entry: Entry) -> int:
    """Add a copied entry to a log."""
    if isinstance(entry, MessageAdded):
        return log.add_message(entry.message, entry.modes, sender=entry.sender).number
    return log.append(entry, is_ours=False)  # the draft joins what it is given


def _message(fork: Fork, ids: Ids, copied: Copied) -> Message:
    """Return the message as one of the fork's. It may name the question of the forked task."""
    message = fork.message
    metadata = without_fork(message.metadata)
    named = copied.question_ids.get(question_named(message))
    if named and metadata:
        metadata = {**metadata, QUESTION: {"id": named}}
    others = [one for one in message.reference_task_ids if one != fork.point.task_id]
    return replace(
        message,
        task_id=ids.task_id,
        context_id=ids.context_id,
        metadata=metadata,
        reference_task_ids=[*others, fork.point.task_id],
    )


def _note_question(log: Log, entries: list[Numbered]) -> None:
    """Have the log know where the open question was asked."""
    for pos, _, _, entry in reversed(entries):
        if isinstance(entry, StatusChanged):
            log.asked_pos = 0 if entry.keeps_waiting else pos
            return


def _last_event(entries: list[Numbered]) -> tuple[int, int]:
    """Return the number and the position before the last event."""
    found = next(one for one in reversed(entries) if isinstance(one.entry, StatusChanged))
    return found.seq - 1, found.pos - 1


def _answered(entries: list[Numbered]) -> int:
    """Return a turn that the last status answers."""
    for one in reversed(entries):
        if isinstance(one.entry, StatusChanged):
            return one.entry.answers[-1]
    return 1
