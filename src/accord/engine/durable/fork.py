"""What a fork begins with: the log of another task up to one of its events, as its own.

Everything stored before the next event is copied, private entries too. Left out is what belongs to
that task alone: posts, delegations under way (they are sent again), how often its runs died. The
positions of messages are the numbers of turns, so what names a turn is changed with them.
"""

import datetime
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...model import (
    FINAL,
    INTERRUPTED,
    QUESTION,
    ForkPoint,
    InvalidParams,
    Message,
    Question,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
    fork_metadata,
    question_id,
    question_metadata,
    question_named,
    timestamp,
)
from ..log import (
    Answered,
    Asked,
    AskExpired,
    AskLeft,
    Attempt,
    Created,
    Delegated,
    Entry,
    MessageAdded,
    Mismatched,
    Numbered,
    PostRefused,
    Raised,
    RunStarted,
    SleepLeft,
    Slept,
    StateLoaded,
    StatusChanged,
    StepEnded,
    StepLeft,
    Woke,
)
from .branches import step_label

__all__ = ["Copied", "Cut", "copy_log", "cut_log"]

_FAILED = (TaskState.FAILED, TaskState.REJECTED)
_TAKEN = (MessageAdded, Answered, AskExpired, AskLeft)  # what ends a question
_WITHIN = "#within"  # ends the place of the deadline of a delegation
_STEPS = (StepEnded, StepLeft, Delegated)


class Cut(NamedTuple):
    """A log, cut behind an event."""

    kept: list[Numbered]
    rest: list[Numbered]
    state: TaskState  # of the task there
    asked: Numbered | None  # the question that its function waits in

    @property
    def recorded_state(self) -> StateLoaded | None:
        """The state of the conversation as the function finds it that goes on, or is called next;
        None if the log does not say it.
        """
        return next((one.entry for one in self.rest if isinstance(one.entry, StateLoaded)), None)

    @property
    def has_state(self) -> bool:
        """Whether a function goes on that has asked for the state of the conversation."""
        if self.state in INTERRUPTED and self.asked is None:
            return False
        for one in reversed(self.kept):
            if isinstance(one.entry, StateLoaded | RunStarted):
                return isinstance(one.entry, StateLoaded)
        return False


class Copied(NamedTuple):
    """The log of a fork."""

    entries: list[Entry]  # the first is the task
    due_ms: int  # when a deadline or a sleep that goes on ends; 0: there is none
    question_ids: dict[str, str]  # by those they had in the forked task


def cut_log(entries: Sequence[Numbered], point: ForkPoint) -> Cut:
    """Return what a fork at this event begins with.

    A message that was taken to a question, or its deadline, is logged right before the event that
    shows it, and is no part of a fork at the question. Nor is a step whose failure ended the task:
    a fork before that event does it again.

    Raises:
        InvalidParams: There is no such event, or the task had ended there.
    """
    last = entries[-1].seq if entries else 0
    if not 1 <= point.at <= last:
        raise _no_event(point, f"has the events 1 to {last}", last)
    kept = [one for one in entries if one.seq <= point.at]
    rest = list(entries[len(kept) :])
    state = _state_at(kept)
    if state in FINAL:
        most = point.at - 1
        what = f"ended with event {point.at}; it can be forked at 1 to {most}"
        raise _no_event(point, what, most)
    event = next(i for i, one in enumerate(kept) if one.seq == point.at)
    tail = kept[event + 1 :]
    if state in INTERRUPTED:
        taken = next((i for i, one in enumerate(tail) if isinstance(one.entry, _TAKEN)), len(tail))
        del tail[taken:]
    if rest and _state(rest[0].entry) in _FAILED:
        failing = _last_failures(kept)
        tail = [one for one in tail if one.pos not in failing and type(one.entry) is not Raised]
    kept = kept[: event + 1] + tail
    return Cut(kept, rest, state, _questions(kept, point.task_id)[1])


def _no_event(point: ForkPoint, what: str, most: int) -> InvalidParams:
    text = f"task {point.task_id} {what}"
    if f"event {point.at}" not in what:
        text += f"; {point.at} is none of them"
    return InvalidParams(
        text,
        violations=(("message.metadata", text),),
        reason="NO_SUCH_EVENT",
        first="1",
        last=str(most),
    )


def _state_at(entries: Sequence[Numbered]) -> TaskState:
    """Return the state of a task whose log ends here."""
    found = (_state(one.entry) for one in reversed(entries))
    return next(state for state in found if state is not None)  # every log begins with its task


def _state(entry: Entry) -> TaskState | None:
    if isinstance(entry, Created):
        return entry.task.status.state
    return entry.update.status.state if isinstance(entry, StatusChanged) else None


def _last_failures(entries: Sequence[Numbered]) -> set[int]:
    """Return the positions of failed steps with nothing recorded behind them in their branch."""
    newest: dict[str, Numbered] = {}
    for one in entries:
        if isinstance(one.entry, RunStarted):
            newest = {}
        elif isinstance(one.entry, (*_STEPS, Asked, *_TAKEN[1:], Slept, Woke, SleepLeft)):
            newest[one.entry.branch] = one
    failed = (one for one in newest.values() if isinstance(one.entry, StepEnded) and one.entry.type)
    return {one.pos for one in failed}


def copy_log(cut: Cut, point: ForkPoint, task_id: str, now_ms: int, state: Any = None) -> Copied:
    """Return the log of a fork.

    Args:
        cut: The log of the forked task, read as that of the task `task_id`.
        point: Where it was cut.
        task_id: Of the fork.
        now_ms: The time of its last status, and from when a deadline runs that is open.
        state: Of the conversation, if the log does not say it: a `StateLoaded`.
    """
    copy = _Copy(cut, point, task_id, now_ms)
    made = [entry for one in cut.kept for entry in copy.entry(one)]
    if state is not None:
        made.append(state)
    return Copied(made, min(copy.due.values(), default=0), copy.question_ids)


def _questions(
    entries: Sequence[Numbered], task_id: str
) -> tuple[dict[str, tuple[int, tuple[str, ...]]], Numbered | None]:
    """Return where the questions of a task were asked, by their ids: the turn and the place. And
    the one that is open.
    """
    places: dict[str, tuple[int, tuple[str, ...]]] = {}
    turn, named = 0, ""
    asked: Numbered | None = None
    for one in entries:
        match one.entry:
            case RunStarted():
                turn, asked = one.entry.turn, None
            case StatusChanged(
                update=StatusUpdate(status=TaskStatus(message=Message() as message))
            ):
                named = question_named(message)
                if named == question_id(task_id, str(turn), "end"):
                    places[named] = (turn, ("end",))
            case Asked(branch=branch, n=n):
                asked = one
                if named == question_id(task_id, str(turn), branch, str(n)):
                    places[named] = (turn, (branch, str(n)))
            case Answered() | AskLeft() | AskExpired() if asked is not None:
                if _place(one.entry) == _place(asked.entry):
                    asked = None
    return places, asked


def _asked_ms(entries: Sequence[Numbered], asked: Numbered) -> int:
    """Return when a question was asked: its status says so, whoever copied it since."""
    for one in reversed(entries):
        if one.pos < asked.pos and isinstance(one.entry, StatusChanged):
            said = one.entry.update.status.timestamp
            return _ms(said) if said else asked.at_ms
    return asked.at_ms


def _ms(text: str) -> int:
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1000)


def _place(entry: Any) -> tuple[str, int]:
    return entry.branch, entry.n


def _under_way(entries: Sequence[Numbered]) -> set[int]:
    """Return the positions of delegations that have not ended, and of their deadlines."""
    open_: dict[tuple[str, str], list[int]] = {}
    for one in entries:
        entry = one.entry
        if isinstance(entry, _STEPS):
            place = (entry.branch, step_label(entry.name, entry.n))
            if isinstance(entry, Delegated):
                open_.setdefault(place, []).append(one.pos)
            else:
                open_.pop(place, None)
    left_out = {pos for found in open_.values() for pos in found}
    limits = {
        f"{branch}/{label}#within" if branch else f"{label}#within" for branch, label in open_
    }
    for one in entries:
        if isinstance(one.entry, Slept) and one.entry.branch in limits:
            left_out.add(one.pos)
    return left_out


class _Copy:
    """Goes through a log and makes another of it."""

    def __init__(self, cut: Cut, point: ForkPoint, task_id: str, now_ms: int) -> None:
        entries, asked = cut.kept, cut.asked
        self._point = point
        self._id = task_id
        self._now_ms = now_ms
        self._pos = 0  # of the last entry that was made
        self._turns: dict[int, int] = {}  # by the number they had
        self._questions, _ = _questions(entries, point.task_id)
        self._asked = asked
        # How much later the deadline of the open question is: it may be answered as long as then.
        self._later_ms = 0
        if asked is not None and isinstance(asked.entry, Asked) and asked.entry.expires_ms:
            self._later_ms = now_ms - _asked_ms(entries, asked)
        self._left_out = _under_way(entries)
        # Only the newest status says when it came to be.
        self._newest = max(one.pos for one in entries if _state(one.entry) is not None)
        self.due: dict[Any, int] = {}  # when sleeps and a deadline end, by their places
        self.question_ids: dict[str, str] = {}

    def entry(self, one: Numbered) -> Iterator[Entry]:
        """Yield what becomes of an entry, if anything does."""
        made = self._made(one)
        if made is not None:
            self._pos += 1
            if isinstance(made, Created | MessageAdded):
                self._turns[one.pos] = self._pos
            yield made

    def _made(self, one: Numbered) -> Entry | None:
        entry = one.entry
        match entry:
            case PostRefused():
                return None
            case Delegated() | Slept() if one.pos in self._left_out:
                return None
            case Attempt() | Mismatched():
                return Attempt(0)
            case Created():
                return replace(entry, task=self._task(entry.task))
            case MessageAdded():
                return replace(entry, message=self.message(entry.message), post=0)
            case StatusChanged():
                return self._status(entry, one.pos)
            case RunStarted():
                return RunStarted(self._turns[entry.turn])
            case Answered():
                return replace(entry, turn=self._turns[entry.turn])
            case Asked() if one is self._asked and entry.expires_ms:
                self.due[one.pos] = entry.expires_ms + self._later_ms
                return replace(entry, expires_ms=entry.expires_ms + self._later_ms)
            case Slept() if not entry.branch.endswith(_WITHIN):
                self.due[_place(entry)] = entry.due_ms
            case Woke() | SleepLeft():
                self.due.pop(_place(entry), None)
        return entry

    def _task(self, task: Task) -> Task:
        first, *others = [self.message(message) for message in task.history]
        known = [one for one in first.reference_task_ids if one != self._point.task_id]
        first = replace(first, reference_task_ids=[*known, self._point.task_id])
        point = ForkPoint(self._point.task_id, self._point.at)
        return replace(
            task,
            id=self._id,
            status=self._as_of_now(task.status) if self._newest == 1 else task.status,
            history=[first, *others],
            metadata={**(task.metadata or {}), **fork_metadata(point)},
        )

    def _status(self, entry: StatusChanged, pos: int) -> StatusChanged:
        update, answers = entry.update, tuple(self._turns[turn] for turn in entry.answers)
        status = self._own_status(update.status, pos)
        if pos == self._newest and status.state in INTERRUPTED:
            answers = answers or (1,)  # who forks is answered by it
        return replace(
            entry,
            update=StatusUpdate(
                task_id=self._id,
                context_id=update.context_id,
                status=status,
                metadata=update.metadata,
            ),
            answers=answers,
            refuses=tuple(self._turns[turn] for turn in entry.refuses),
            reasons=tuple((self._turns[turn], kind, why) for turn, kind, why in entry.reasons),
        )

    def _own_status(self, status: TaskStatus, pos: int) -> TaskStatus:
        message = self.message(status.message) if status.message is not None else None
        status = replace(status, message=message)
        if pos != self._newest:
            return status
        asked = Question.read(message) if message is not None else None
        if message is not None and asked is not None and asked.expires_ms and self._later_ms:
            metadata = message.metadata or {}
            until = question_metadata(asked.id, asked.expires_ms + self._later_ms)
            status = replace(status, message=replace(message, metadata={**metadata, **until}))
        return self._as_of_now(status)

    def _as_of_now(self, status: TaskStatus) -> TaskStatus:
        return replace(status, timestamp=timestamp(self._now_ms))

    def message(self, message: Message) -> Message:
        """Return a message as one of the fork's."""
        if message.task_id == self._point.task_id:
            message = replace(message, task_id=self._id)
        named = question_named(message)
        place = self._questions.get(named)
        if place is None:
            return message
        turn, where = place
        new = self.question_ids[named] = question_id(self._id, str(self._turns[turn]), *where)
        metadata = message.metadata or {}
        return replace(message, metadata={**metadata, QUESTION: {**metadata[QUESTION], "id": new}})
