"""What an earlier life of a run left in the log, and how a new life goes through it again.

After a restart the function is called again from the top. Answers and steps the log has are handed back without asking or
doing them again; output the log has is not sent again. From there on it goes on as if nothing had happened.
"""

import sys
from collections import Counter, deque
from typing import Any

import msgspec

from ...codec import v1
from ...model import (
    FINAL,
    INTERRUPTED,
    ArtifactUpdate,
    Limits,
    Message,
    Part,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from ..log.entry import TurnBegin
from ..runs.lives import Lives
from .answers import Answers, read_asked
from .step import Step
from .told import Marks, Told

__all__ = ["Differs", "Past", "is_vague", "read_past"]


class Differs(BaseException):
    """The function no longer does what its earlier life did. Not an Exception: what catches what steps raise has no use for it.

    It is certain unless something done beside it may yet come to what is missing.
    """

    def __init__(self, what: str, *, is_certain: bool = True) -> None:
        super().__init__(what)
        self.is_certain = is_certain


def is_vague(args: str) -> bool:
    """Whether a step was called with something that can't be told from one life to the next."""
    return not args or args.endswith("?") or args == "-"


_decode_turn = msgspec.json.Decoder(TurnBegin).decode
_decode_step = msgspec.json.Decoder(Step).decode
_decode_modes = msgspec.json.Decoder(list[str]).decode


class Past:
    """The record of one run, from the message it began with."""

    def __init__(self, message: Message, artifacts: int, heard: int = 0) -> None:
        self.message = message
        self.artifacts = artifacts  # how many the task had before this run
        self.turn = message  # the newest message the function has taken
        self.answers = Answers(heard)
        self.output_modes: list[str] = []  # that came with the message
        self.worked_s = 0.0  # in its earlier lives, as far as they came to note it
        self.lives = Lives()
        self.waiting: list[Message] = []  # came and had no turn yet
        self._forgotten = 0  # messages of the history that the log does not have any more
        self._begun: Counter[tuple[str, str | int]] = Counter()  # and not done
        self._done: dict[tuple[str, int, str], Step] = {}
        self._same: dict[tuple[str, str], deque[int]] = {}  # the calls of a step with the same arguments, in their order
        self._args: dict[tuple[str, int], str] = {}  # what the n-th call of a step was made with
        self._lent: set[tuple[str, str]] = set()  # given back to a call with other arguments
        self._mixed: set[tuple[str, str]] = set()  # of which nothing tells which is which
        self.is_parallel = False  # some were done beside each other
        self.told = Told()
        self._marks: dict[tuple[str, int, str], Marks] = {}  # how far what a step said goes

    # Going through it again

    @property
    def left(self) -> int:
        """Steps that were done and have not come up again."""
        return len(self._done)

    @property
    def asked(self) -> int:
        """The question the function waits in; 0 if in none."""
        return self.answers.open.place

    @property
    def is_watching(self) -> bool:
        """Beside the client it waits for something of its own."""
        return self.answers.open.is_watching

    @property
    def heard(self) -> int | None:
        """How long the history was at this point; None once nothing more of the past is to come."""
        if not self._done and not self.answers.is_any_left:
            return None
        return self._forgotten + max(self.answers.heard, self.told.heard)

    def answer(self, n: int, question: list[Part], digest: str) -> Message | None:
        """The next recorded answer to question n; None if it has to be asked (again)."""
        if other := self.answers.other(n, question, digest):
            raise Differs(
                f"the function now asks {other}; it has changed since (or only the text? then give the question a name: "
                "ctx.ask(..., name=...))"
            )
        found = self.answers.find(n, digest)
        if found is None and not self.answers.is_stopped(n):
            self._nothing_left(f"question {n}")
        return found

    def add_answer(self, message: Message) -> None:
        """The answer that woke the task: it is to the question the function waited in."""
        self.answers.take(self.asked, message, sys.maxsize)

    def step(self, step: Step, *, is_main: bool) -> Step | None:
        """The step as it ended in an earlier life; None if it has to be done. What it said then counts as said.

        Steps that come one after the other may be called with something else than before (a time, a process): the n-th call is
        the n-th call. If it turns out that they only came in another order, the function can't go on.
        """
        found = self._find(step, is_main=is_main)
        if found is not None and (marks := self._marks.pop((found.name, found.n, found.args), None)) is not None:
            self.told.skip(marks)
        return found

    def _find(self, step: Step, *, is_main: bool) -> Step | None:
        name, n, args = step.name, step.n, step.args
        same = self._same.get((name, args))
        if same and (name, args) in self._mixed:
            self._check_alike(name, args, same)
        if (found := self._done.pop((name, n, args), None)) is not None:
            return found
        while same:
            if (found := self._done.pop((name, same.popleft(), args), None)) is not None:
                return found
        if self._begun[name, args or n] > 0 or self._begun[name, n] > 0:
            return None
        if (name, args) in self._lent:
            raise Differs(f"step {name!r} was done before, but now comes after calls that came later then: keep their order")
        if (old := self._args.get((name, n))) is not None and (name, n, old) in self._done:
            is_known = bool(old and args)
            if not is_known or (is_main and not self.is_parallel):
                if is_known:
                    self._lent.add((name, old))
                return self._done.pop((name, n, old))
        self._nothing_left(f"step {name!r} (call {n})")
        return None

    def _check_alike(self, name: str, args: str, same: deque[int]) -> None:
        """Steps done beside each other that nothing tells apart may come in another order now: fine if they gave the same."""
        done = [step for n in same if (step := self._done.get((name, n, args))) is not None]
        given = {v1.encode(Step("", 0, step.value, step.error, is_left=step.is_left)) for step in done}
        if len(given) > 1 or (given and self._begun[name, args] > 0):
            raise Differs(
                f"step {name!r} was done beside others of its name, and nothing it was called with tells which was which; "
                f"give each a name of its own: ctx.step(..., name=...)"
            )

    def end(self) -> None:
        """The function has returned: all that was done before must have come up again."""
        self._nothing_left("its end")

    def _nothing_left(self, what: str) -> None:
        """Something new may only come once all that was done has been gone through.

        Raises:
            Differs: The function has changed, and the log does not fit it any more.
        """
        if self._done:
            name, n, _ = next(iter(self._done))
            raise Differs(
                f"the function now comes to {what}, where step {name!r} (call {n}) was done before; it has changed since",
                is_certain=False,
            )

    # Reading the record

    def take(self, kind: bytes, data: bytes, heard: int = 0) -> None:
        """One line of the log after the run's beginning, and how long the history is with it."""
        if kind == b"t":
            turn = _decode_turn(data)
            taken = _first(turn.message_id, self.waiting)
            if taken is None:
                raise ValueError(f"the log has no message {turn.message_id!r} that could have had a turn")
            self.waiting = [message for message in self.waiting if message is not taken]
            self.answers.take(turn.ask, taken, heard)
            self.turn = taken
        elif kind == b"q":
            self.answers.ask(asked := read_asked(data))
            self.worked_s = asked.worked_s
        elif kind == b"u":
            self.answers.stop(int(data))
        elif kind == b"r":
            self.lives.take(data)
            return
        elif kind == b"k":
            self.worked_s = float(data)
            return
        elif kind == b"l":
            self.worked_s = float(data or self.worked_s)
        elif kind == b"o":
            self.output_modes = _decode_modes(data)
        elif kind == b"m":
            self.waiting.append(v1.decode_message(data))
            return
        elif kind == b"s":
            step = _decode_step(data)
            self._take_step(step)
            if not step.is_done:
                return
            self.answers.got_on()
        elif kind == b"v":
            self._take_event(v1.decode_event(data), heard)
        self.lives.get_on()

    def remember(self, count: int) -> None:
        """The log has been read, and begins after so many messages of the history."""
        self._forgotten = count

    def _take_step(self, step: Step) -> None:
        if step.is_beside:
            self._mixed.add((step.name, step.args))
        if not step.is_done:
            self._begun[step.name, step.args or step.n] += 1
            self.is_parallel = True
            return
        if self._begun[step.name, step.args or step.n]:
            self._begun[step.name, step.args or step.n] -= 1
        place = (step.name, step.n, step.args)
        if place not in self._done:  # one that was done just when the function stopped waiting for it comes twice
            self._same.setdefault((step.name, step.args), deque()).append(step.n)
        self._done[place] = step
        self._args[step.name, step.n] = step.args
        if step.said or step.words:
            self._marks[place] = self.told.marks(step.said or [], step.words)

    def _take_event(self, event: Any, heard: int) -> None:
        if isinstance(event, ArtifactUpdate):
            self.told.read(event)
            self.answers.got_on()
        elif isinstance(event, StatusUpdate):
            if event.status.state in FINAL:
                self.waiting.clear()  # they were refused
            text = event.status.message.text if event.status.message is not None else ""
            self.answers.say(text, heard, is_question=event.status.state in INTERRUPTED)
            if event.status.state is TaskState.WORKING and event.status.message is not None:
                self.told.read_word(text, heard)


def read_past(rows: list[bytes], task: Task, limits: Limits) -> Past | None:
    """Return the record of the newest run in a task's whole log; None if no function was ever started for it.

    Raises:
        ValueError: The log is not what was written.
    """
    past: Past | None = None
    seen: set[str] = set()
    waiting: list[Message] = []
    draft = Task(id=task.id, status=TaskStatus(state=TaskState.SUBMITTED))  # for its history, as that grew
    for line in (line for lines in rows for line in lines.split(b"\n")):
        kind, data = line[:1], line[1:]
        if kind == b"t" and (turn := _decode_turn(data)).ask == 0:
            waiting = past.waiting if past is not None else waiting
            first = _first(turn.message_id, waiting) or _first(turn.message_id, task.history)
            if first is None:
                raise ValueError(f"the log has no message {turn.message_id!r}, which the function was started with")
            past = Past(first, len(seen), len(draft.history))
            past.waiting = [message for message in waiting if message is not first]
            continue
        if kind == b"v":
            event = v1.decode_event(data)
            if isinstance(event, ArtifactUpdate):
                seen.add(event.artifact.artifact_id)
            elif isinstance(event, StatusUpdate):
                draft.apply(event, limits)
            elif isinstance(event, Task):
                draft.history += event.history
                waiting += event.history
                continue
        elif kind == b"m":
            draft.add(v1.decode_message(data), limits)
        if past is not None:
            past.take(kind, data, len(draft.history))
        elif kind == b"m":
            waiting.append(v1.decode_message(data))
    if past is not None:
        past.remember(len(task.history) - len(draft.history))
    return past


def _first(message_id: str, messages: list[Message]) -> Message | None:
    return next((message for message in messages if message.message_id == message_id), None)
