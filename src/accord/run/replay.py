"""What an earlier life of a run left in the log, and how a new life goes through it again.

After a restart the function is called again from the top. Answers and steps the log has are handed back without asking or
doing them again; output the log has is not sent again. From there on it goes on as if nothing had happened.
"""

from collections import Counter, deque
from typing import Any

import msgspec

from ..codec import v1
from ..model import FINAL, Artifact, ArtifactUpdate, Message, Part, StatusUpdate, Task, TaskState
from .entry import TurnBegin
from .step import Step

__all__ = ["Differs", "Past", "read_past"]


class Differs(Exception):
    """The function no longer does what its earlier life did."""


_decode_turn = msgspec.json.Decoder(TurnBegin).decode
_decode_step = msgspec.json.Decoder(Step).decode


class Past:
    """The record of one run, from the message it began with."""

    def __init__(self, message: Message, artifacts: int) -> None:
        self.message = message
        self.artifacts = artifacts  # how many the task had before this run
        self.turn = message  # the newest message the function has taken
        self.asked = 0  # the question the function waits in; 0 if in none
        self.is_watching = False  # beside the client it waits for something of its own
        self.lives = 0  # begun by replay since anything new was done, and not ended in good order
        self.waiting: list[Message] = []  # came and had no turn yet
        self._answers: dict[int, list[Message]] = {}
        self._unanswered: set[int] = set()  # the function stopped waiting for an answer
        self._begun: Counter[tuple[str, str | int]] = Counter()  # and not done
        self._done: dict[tuple[str, int, str], Step] = {}
        self._same: dict[tuple[str, str], deque[int]] = {}  # the calls of a step with the same arguments, in their order
        self._args: dict[tuple[str, int], str] = {}  # what the n-th call of a step was made with
        self._lent: set[tuple[str, str]] = set()  # given back to a call with other arguments
        self._is_parallel = False
        self._chunks: list[ArtifactUpdate] = []
        self._words: list[str] = []
        self._sent: dict[str, list[Part]] = {}

    # Going through it again

    @property
    def left(self) -> int:
        """Steps that were done and have not come up again."""
        return len(self._done)

    def answer(self, n: int) -> Message | None:
        """The next recorded answer to question n; None if it has to be asked (again)."""
        found = self._answers.get(n)
        if not found:
            if n not in self._unanswered:
                self._nothing_left(f"question {n}")
            return None
        return found.pop(0)

    def is_unanswered(self, n: int) -> bool:
        """Whether the function stopped waiting for an answer to question n."""
        return n in self._unanswered

    def add_answer(self, message: Message) -> None:
        """The answer that woke the task: it is to the question the function waited in."""
        self._answers.setdefault(self.asked, []).append(message)

    def step(self, step: Step, *, is_in_order: bool) -> Step | None:
        """The step as it ended in an earlier life; None if it has to be done.

        Steps that come one after the other may be called with something else than before (a time, a process): the n-th call is
        the n-th call. If it turns out that they only came in another order, the function can't go on.
        """
        name, n, args = step.name, step.n, step.args
        same = self._same.get((name, args))
        while same:
            if (found := self._done.pop((name, same.popleft(), args), None)) is not None:
                return found
        if self._begun[name, args or n] > 0 or self._begun[name, n] > 0:
            return None
        if (name, args) in self._lent:
            raise Differs(f"step {name!r} was done before, but now comes after calls that came later then: keep their order")
        if (old := self._args.get((name, n))) is not None and (name, n, old) in self._done:
            is_known = bool(old and args)
            if not is_known or (is_in_order and not self._is_parallel):
                if is_known:
                    self._lent.add((name, old))
                return self._done.pop((name, n, old))
        self._nothing_left(f"step {name!r}")
        return None

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
            raise Differs(f"the function now comes to {what}, where step {name!r} (call {n}) was done before; it has changed since")

    def chunk(self, artifact: Artifact, *, append: bool, is_last: bool) -> tuple[Artifact, bool] | None:
        """What to send for a chunk: nothing if it was sent before, else the chunk and whether to append it.

        Output is compared by position. The first chunk that differs is sent as the whole artifact so far.
        """
        sent = self._sent.setdefault(artifact.artifact_id, [])
        sent += artifact.parts
        if not self._chunks:
            return artifact, append
        known = self._chunks.pop(0)
        if (known.artifact, known.append) == (artifact, append):
            return None
        self._chunks.clear()
        return msgspec.structs.replace(artifact, parts=list(sent)), False

    def word(self, text: str) -> bool:
        """Whether a progress message was said before, at this point."""
        if self._words and self._words[0] == text:
            self._words.pop(0)
            return True
        self._words.clear()
        return False

    # Reading the record

    def take(self, kind: bytes, data: bytes) -> None:
        """One line of the log after the run's beginning."""
        if kind == b"t":
            turn = _decode_turn(data)
            taken = _first(turn.message_id, self.waiting)
            if taken is None:
                raise ValueError(f"the log has no message {turn.message_id!r} that could have had a turn")
            self.waiting = [message for message in self.waiting if message is not taken]
            self._answers.setdefault(turn.ask, []).append(taken)
            self.turn = taken
            self.asked = 0
        elif kind == b"q":
            self.asked, self.is_watching = int(data.removesuffix(b"+")), data.endswith(b"+")
        elif kind == b"u":
            self._unanswered.add(int(data))
            self.asked = 0
        elif kind == b"r":
            self.lives += 1
            return
        elif kind == b"m":
            self.waiting.append(v1.decode_message(data))
        elif kind == b"s":
            step = _decode_step(data)
            self._take_step(step)
            if not step.is_done:
                return
        elif kind == b"v":
            self._take_event(v1.decode_event(data))
        self.lives = 0

    def _take_step(self, step: Step) -> None:
        if not step.is_done:
            self._begun[step.name, step.args or step.n] += 1
            self._is_parallel = True
            return
        if self._begun[step.name, step.args or step.n]:
            self._begun[step.name, step.args or step.n] -= 1
        self._done[step.name, step.n, step.args] = step
        self._same.setdefault((step.name, step.args), deque()).append(step.n)
        self._args[step.name, step.n] = step.args

    def _take_event(self, event: Any) -> None:
        if isinstance(event, ArtifactUpdate):
            self._chunks.append(event)
        elif isinstance(event, StatusUpdate):
            if event.status.state in FINAL:
                self.waiting.clear()  # they were refused
            if event.status.state is TaskState.WORKING and event.status.message is not None:
                self._words.append(event.status.message.text)


def read_past(rows: list[bytes], task: Task) -> Past | None:
    """Return the record of the newest run in a task's whole log; None if no function was ever started for it.

    Raises:
        ValueError: The log is not what was written.
    """
    past: Past | None = None
    seen: set[str] = set()
    waiting: list[Message] = []
    for line in (line for lines in rows for line in lines.split(b"\n")):
        kind, data = line[:1], line[1:]
        if kind == b"t" and (turn := _decode_turn(data)).ask == 0:
            waiting = past.waiting if past is not None else waiting
            first = _first(turn.message_id, waiting) or _first(turn.message_id, task.history)
            if first is None:
                raise ValueError(f"the log has no message {turn.message_id!r}, which the function was started with")
            past = Past(first, len(seen))
            past.waiting = [message for message in waiting if message is not first]
            continue
        if kind == b"v":
            event = v1.decode_event(data)
            if isinstance(event, ArtifactUpdate):
                seen.add(event.artifact.artifact_id)
            elif isinstance(event, Task):
                waiting += event.history
                continue
        if past is not None:
            past.take(kind, data)
        elif kind == b"m":
            waiting.append(v1.decode_message(data))
    return past


def _first(message_id: str, messages: list[Message]) -> Message | None:
    return next((message for message in messages if message.message_id == message_id), None)
