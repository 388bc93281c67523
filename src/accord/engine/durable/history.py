"""The record of what a run has done, and how the next attempt goes through it.

The function is called again from the top. It claims what is recorded by the same keys under which
it was recorded: a step by (branch, name, n), an answer by (branch, n). If a key is missing while
others of the same branch are unclaimed, the function has changed since, which is a Mismatch.
Nothing is searched for, and nothing is waited for.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from ...model import ArtifactUpdate, Limits, Message, Part, Task, TaskState
from ..log import (
    Answered,
    ArtifactChanged,
    Asked,
    AskExpired,
    AskLeft,
    Attempt,
    Created,
    Delegated,
    Entry,
    MessageAdded,
    Mismatched,
    Noted,
    Numbered,
    Patched,
    Released,
    RunStarted,
    Sender,
    SleepLeft,
    Slept,
    StateLoaded,
    StatusChanged,
    StepEnded,
    StepLeft,
    Woke,
    Worked,
)
from .branches import step_label

__all__ = ["History", "Mismatch", "RecordedOutput", "read_history"]

StepEntry: TypeAlias = StepEnded | StepLeft | Delegated
SleepEntry: TypeAlias = Slept | Woke | SleepLeft
AnswerEntry: TypeAlias = Answered | AskLeft | AskExpired
# name and number of a step; "" and the number of a question; SLEEP and the number of a sleep
Key: TypeAlias = "tuple[str, int]"
SLEEP = "\0"  # no step is called that

_LIMITS = Limits()
_MOST_SHOWN = 200  # of the text of a question, in an error


class Mismatch(BaseException):
    """The function no longer does what is recorded. Not an Exception: code that catches what steps
    raise has no use for it.
    """


class _Answer(NamedTuple):
    asked: Asked | None
    entry: AnswerEntry


class RecordedOutput:
    """The output of one branch, as the log has it."""

    __slots__ = ("content", "statuses", "steps", "wholes")

    def __init__(self) -> None:
        self.statuses = 0  # said outside of steps
        self.wholes = 0  # whole artifacts, outside of steps
        # by label; of a step done several times, those of the last time
        self.steps: dict[str, list[ArtifactUpdate]] = {}
        self.content: dict[str, list[Part]] = {}  # of artifacts written in chunks, by id

    def read(self, update: ArtifactUpdate, step: str) -> None:
        artifact = update.artifact
        if step:
            self.steps.setdefault(step, []).append(update)
        known = self.content.get(artifact.artifact_id)
        if known is not None and update.append:
            known += artifact.parts
        elif known is not None or update.append or not update.last_chunk:
            self.content[artifact.artifact_id] = list(artifact.parts)
        elif not step:
            self.wholes += 1  # sent in one piece, and never added to


class _Recorded:
    """Hold what one branch has done."""

    __slots__ = ("asked", "ended", "open", "output", "patches", "unclaimed")

    def __init__(self) -> None:
        # in the order of the log
        self.unclaimed: dict[Key, StepEntry | SleepEntry | deque[_Answer]] = {}
        self.patches: set[str] = set()
        self.open: int = 0  # the question it waits in
        self.asked: dict[int, Asked] = {}
        self.ended: set[str] = set()  # the labels of steps that have an end
        self.output = RecordedOutput()


class History:
    """The record of one run."""

    def __init__(self, turn: int, artifacts: int, length: int) -> None:
        self.turn = turn  # the message the function was called with
        self.artifacts = artifacts  # how many the task had before
        self.worked_s = 0.0
        self.attempts = 0  # that died with nothing new recorded
        self.is_released = False  # the last attempt was given up in good order: it did not die
        self.question: Asked | None = None  # the one it waits in
        self.expired_ms = 0  # the deadline that ended the last question; 0 if something else did
        self.mismatched: Mismatched | None = None  # if nothing was recorded since
        self.cursor = ""  # where a bridge's other side stood behind the last event it passed on
        self.private = ""  # the newest of the records that were noted
        self.waiting: list[int] = []  # turns that nothing has been done with yet, in order
        self.mismatch: Mismatch | None = None  # found in this attempt, whoever caught it
        self.begun: list[int] = []  # turns that were taken, and not answered by a status
        self.state: StateLoaded | None = None  # of the conversation, if the function has asked
        self._branches: dict[str, _Recorded] = {}
        self._lengths = {turn: length}
        self._messages: dict[int, tuple[Message, tuple[str, ...], Sender | None]] = {}

    def message(self, turn: int) -> Message:
        """The message of a turn."""
        return self._messages[turn][0]

    def modes(self, turn: int) -> tuple[str, ...]:
        """The media types its sender can take."""
        return self._messages[turn][1]

    def sender(self, turn: int) -> Sender | None:
        """Return who sent the message; None for the sender of the task's first message."""
        return self._messages[turn][2]

    # What the function claims

    def is_replaying(self, branch: str) -> bool:
        """Whether the function has not come yet to where the record of this branch ends."""
        recorded = self._branches.get(branch)
        return (
            recorded is not None and bool(recorded.unclaimed or recorded.open)
        ) or self._goes_on_below(branch)

    def _goes_on_below(self, branch: str) -> bool:
        """Whether members of a gather that is still to come have done something."""
        above = f"{branch}/" if branch else ""
        return any(
            recorded.unclaimed and path != branch and path.startswith(above) and _is_member(path)
            for path, recorded in self._branches.items()
        )

    def step(self, branch: str, name: str, n: int) -> StepEntry | None:
        """Claim a step: how it ended, or a delegation under way; None if it is to be done.

        Raises:
            Mismatch: It is not recorded, and something else is.
        """
        recorded = self._recorded(branch)
        if recorded is None:
            return None
        found = recorded.unclaimed.pop((name, n), None)
        if found is None:
            self._must_be_through(branch, recorded, f"calls step {name!r} (call {n})")
            return None
        assert isinstance(found, StepEntry)  # others have names that no step has
        if not isinstance(found, Delegated):
            # A delegation's questions are over with it.
            self._branches.pop(_below(branch, step_label(name, n)), None)
        return found

    def sleep(self, branch: str, n: int) -> SleepEntry | None:
        """Claim a sleep: until when it lasts, or how it ended; None if it is new.

        Raises:
            Mismatch: It is not recorded, and something else is.
        """
        recorded = self._recorded(branch)
        if recorded is None:
            return None
        found = recorded.unclaimed.pop((SLEEP, n), None)
        if found is None:
            self._must_be_through(branch, recorded, f"sleeps (sleep {n})")
            return None
        assert isinstance(found, SleepEntry)  # by its name
        return found

    def expires_ms(self, branch: str, n: int) -> int:
        """Until when a question that was asked before may be answered; 0: for ever, or not asked
        yet.
        """
        recorded = self._branches.get(branch)
        asked = recorded.asked.get(n) if recorded is not None else None
        return asked.expires_ms if asked is not None else 0

    def answer(
        self, branch: str, n: int, text: str, type: str, is_named: bool
    ) -> AnswerEntry | None:
        """Claim the next answer to a question; None if it is to be asked. A wrong answer is
        followed by another one.

        Args:
            branch: Which asks.
            n: The number of the question in it.
            text: Of the question, or its name.
            type: Of the answer.
            is_named: Whether it has a name.

        Raises:
            Mismatch: Another question was answered here, or something else was done.
        """
        recorded = self._recorded(branch)
        if recorded is None:
            return None
        if _is_delegation(branch):
            return _found(recorded, (text, type, is_named))
        answers = recorded.unclaimed.get(("", n))
        if answers is None:
            self._must_be_through(branch, recorded, f"asks {_shown(text)} (question {n})")
            return None
        assert isinstance(answers, deque)  # no step has an empty name
        asked, entry = answers[0]
        if (
            asked is not None
            and isinstance(entry, Answered | AskExpired)
            and _about(asked) != (text, type, is_named)
        ):
            how = f" for an answer of type {type}" if text == asked.text else ""
            then = f" for one of type {asked.type}" if text == asked.text else ""
            raise self.differs(
                f"the function now asks {_shown(text)}{how} (question {n}{_in(branch)}), "
                f"where {_shown(asked.text)}{then} was "
                f"asked and {_how(entry)}; deploy the version that asked it. If only its wording "
                "changes, name it: ctx.ask(..., name=...)"
            )
        answers.popleft()
        if not answers:
            del recorded.unclaimed["", n]
        return entry

    def patched(self, branch: str, name: str) -> bool | None:
        """Claim a patch: True if it was taken, False if the record went past this place without it,
        None if it is new.
        """
        recorded = self._recorded(branch)
        if recorded is not None and name in recorded.patches:
            recorded.patches.remove(name)
            return True
        is_past = recorded is not None and bool(recorded.unclaimed or recorded.patches)
        return False if is_past or self._goes_on_below(branch) else None

    def end(self, branch: str) -> None:
        """A branch has ended. Raises Mismatch if something recorded was not claimed."""
        recorded = self._recorded(branch)
        if recorded is not None:
            self._must_be_through(branch, recorded, "ends")

    def end_all(self) -> None:
        """The function has ended. Raises Mismatch if something recorded was not claimed, or if one
        was found before.

        Steps of tasks the user started are left out: such a task may not have come to its step yet,
        and needs not be waited for.
        """
        if self.mismatch is not None:
            raise self.mismatch
        for branch in self._branches:
            if not branch or _is_member(branch):
                self.end(branch)

    def forget(self, branch: str) -> None:
        """A branch was cancelled, perhaps earlier than the time before: nothing more of it, and of
        those below, has to come.
        """
        self._branches.pop(branch, None)
        for path in [path for path in self._branches if path.startswith(f"{branch}/")]:
            del self._branches[path]

    def differs(self, what: str) -> Mismatch:
        """The error for what differs. From now on every claim raises it."""
        self.mismatch = self.mismatch or Mismatch(what)
        return self.mismatch

    def output(self, branch: str) -> RecordedOutput | None:
        """What a branch had said, if anything of it is recorded."""
        recorded = self._branches.get(branch)
        return recorded.output if recorded is not None else None

    def history_length(self, turn: int) -> int:
        """Return how many messages the task's history had when the function took this turn."""
        return self._lengths[turn]

    def _recorded(self, branch: str) -> _Recorded | None:
        if self.mismatch is not None:
            raise self.mismatch
        return self._branches.get(branch)

    def _must_be_through(self, branch: str, recorded: _Recorded, what: str) -> None:
        recorded.open = 0
        if not recorded.unclaimed:
            return
        (name, n), found = next(iter(recorded.unclaimed.items()))
        if isinstance(found, SleepEntry):
            then = f"sleep {n}"
        elif not isinstance(found, deque):
            then = (
                f"{'the delegation' if isinstance(found, Delegated) else 'step'} {name!r} "
                f"(call {n})"
            )
        else:
            then = (
                f"question {n} ({_shown(found[0].asked.text)})"
                if found[0].asked is not None
                else f"question {n}"
            )
        raise self.differs(
            f"the function now {what}{_in(branch)}, where {then} was recorded; deploy the "
            "version that recorded it, or keep "
            "the old way for runs under way: if ctx.patched('name'): new else: old"
        )

    # Reading the log

    def _take(self, entry: Entry, length: int) -> None:
        if isinstance(entry, ArtifactChanged | StatusChanged) and entry.cursor is not None:
            # A bridge finds out by itself what it has passed on: for it, that is progress.
            self.cursor = entry.cursor or self.cursor
            self.attempts, self.is_released, self.mismatched = 0, False, None
        elif isinstance(entry, ArtifactChanged):
            self._of(entry.branch).output.read(entry.update, entry.step)
        elif isinstance(entry, StatusChanged):
            status = entry.update.status
            if status.state is TaskState.WORKING and status.message is not None and not entry.step:
                self._of(entry.branch).output.statuses += 1
        elif isinstance(entry, _NEXT_ATTEMPT):
            self._drop_unfinished()
            self.is_released = isinstance(entry, Released)
            if isinstance(entry, Attempt):
                self.attempts = entry.count
            elif isinstance(entry, Released):
                self.worked_s = entry.worked_s
            else:
                self.mismatched = entry
        elif isinstance(entry, Worked):
            self.worked_s = entry.worked_s
        elif isinstance(entry, StateLoaded):
            self.state = self.state or entry  # of a fork, what it left follows
        elif isinstance(entry, Noted):
            self.private = entry.value
        elif isinstance(entry, _PROGRESS):
            # Output is no progress: if nothing else is recorded after it, the next attempt says it
            # again.
            self.attempts, self.is_released, self.mismatched = 0, False, None
            self._take_progress(entry, length)

    def _take_progress(self, entry: Any, length: int) -> None:
        recorded = self._of(entry.branch)
        if isinstance(entry, StepEntry):
            # A step that was cancelled while its end was stored has ended, and is left.
            recorded.unclaimed[entry.name, entry.n] = entry
            if not isinstance(entry, Delegated):
                recorded.ended.add(step_label(entry.name, entry.n))
        elif isinstance(entry, SleepEntry):
            recorded.unclaimed[SLEEP, entry.n] = entry
        elif isinstance(entry, Asked):
            recorded.asked[entry.n], recorded.open = entry, entry.n
            self.question, self.worked_s, self.expired_ms = entry, entry.worked_s, 0
        elif isinstance(entry, Patched):
            recorded.patches.add(entry.name)
        else:
            answers = recorded.unclaimed.setdefault(("", entry.n), deque())
            assert isinstance(answers, deque)  # no step has an empty name
            if isinstance(entry, AskLeft) and answers and recorded.open != entry.n:
                # the answer came in the moment in which the function left: it never got it
                answers.pop()
            answers.append(_Answer(recorded.asked.get(entry.n), entry))
            if recorded.open == entry.n:
                recorded.open = 0
            if self.question is not None and (self.question.branch, self.question.n) == (
                entry.branch,
                entry.n,
            ):
                self.question = None
            if isinstance(entry, Answered):
                self._lengths[entry.turn] = length
            elif isinstance(entry, AskExpired):
                self.expired_ms = recorded.asked[entry.n].expires_ms
            elif isinstance(entry, AskLeft):
                self.expired_ms = entry.expired_ms

    def _drop_unfinished(self) -> None:
        """An attempt is over: a step that had not ended is done again, and says again what
        it said.
        """
        for recorded in self._branches.values():
            steps = recorded.output.steps
            for label in [label for label in steps if label not in recorded.ended]:
                del steps[label]

    def _of(self, branch: str) -> _Recorded:
        recorded = self._branches.get(branch)
        if recorded is None:
            recorded = self._branches[branch] = _Recorded()
        return recorded


_NEXT_ATTEMPT = (Attempt, Released, Mismatched)
_PROGRESS = (
    *(StepEnded, StepLeft, Delegated, Asked, Answered, AskLeft, AskExpired),
    *(Slept, Woke, SleepLeft, Patched),
)


def read_history(entries: Iterable[Numbered], limits: Limits = _LIMITS) -> History | None:
    """Return the history of the newest run in the log of a task; None if no run was ever
    started.
    """
    history: History | None = None
    draft: Task | None = None  # for its messages, as they came
    artifacts: set[str] = set()
    waiting: dict[int, None] = {}
    begun: dict[int, None] = {}
    messages: dict[int, tuple[Message, tuple[str, ...], Sender | None]] = {}
    for pos, _, _, entry in entries:
        if isinstance(entry, Created):
            messages[pos] = (entry.task.history[0], entry.modes, None)
            draft = Task(
                id=entry.task.id, status=entry.task.status, history=list(entry.task.history)
            )
            artifacts.update(artifact.artifact_id for artifact in entry.task.artifacts)
            waiting[pos] = None
            continue
        assert draft is not None  # every log begins with its task
        if isinstance(entry, MessageAdded):
            draft.add(entry.message, limits)
            waiting[pos] = None
            messages[pos] = (entry.message, entry.modes, entry.sender)
        elif isinstance(entry, StatusChanged):
            draft.apply(entry.update, limits)
            for turn in (*entry.answers, *entry.refuses):
                waiting.pop(turn, None)
            if entry.update.status.state is not TaskState.AUTH_REQUIRED:
                begun = {turn: None for turn in begun if turn not in entry.answers}
        elif isinstance(entry, ArtifactChanged):
            artifacts.add(entry.update.artifact.artifact_id)
        elif isinstance(entry, RunStarted):
            waiting.pop(entry.turn, None)
            begun = {entry.turn: None}
            private = history.private if history is not None else ""  # it is the task's
            history = History(entry.turn, len(artifacts), len(draft.history))
            history.private = private
            continue
        elif isinstance(entry, Answered):
            waiting.pop(entry.turn, None)
            begun[entry.turn] = None
        if history is not None:
            history._take(entry, len(draft.history))
    if history is not None:
        history.waiting, history.begun, history._messages = list(waiting), list(begun), messages
        history._drop_unfinished()
    return history


def _found(recorded: _Recorded, about: tuple[str, str, bool]) -> AnswerEntry | None:
    """The answer to a question of another agent. How many it asks again after a restart is its
    business: the text counts.
    """
    for key in list(recorded.unclaimed):
        answers = recorded.unclaimed[key]
        assert isinstance(answers, deque)  # there is nothing but questions below a delegation
        while answers:
            asked, entry = answers.popleft()
            if asked is not None and _about(asked) == about:
                return entry
        del recorded.unclaimed[key]
    recorded.open = 0
    return None


def _how(entry: AnswerEntry) -> str:
    return "answered" if isinstance(entry, Answered) else "not answered in time"


def _about(asked: Asked) -> tuple[str, str, bool]:
    return asked.text, asked.type, asked.is_named


def _is_delegation(branch: str) -> bool:
    return "#" in branch.rpartition("/")[2]


def _is_member(branch: str) -> bool:
    """Whether it is a branch of a gather: not of a delegation, nor a step of a task the user
    started.
    """
    return not branch.startswith("@") and not _is_delegation(branch)


def _below(branch: str, name: str) -> str:
    return f"{branch}/{name}" if branch else name


def _in(branch: str) -> str:
    return f" in branch {branch}" if branch else ""


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")
