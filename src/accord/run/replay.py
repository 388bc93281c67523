"""What an earlier life of a run left in the log, and how a new life goes through it again.

After a restart the function is called again from the top. Answers and steps the log has are handed back without asking or
doing them again; output the log has is not sent again. From there on it goes on as if nothing had happened.
"""

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

    def __init__(self, message_id: str, artifacts: int) -> None:
        self.message_id = message_id
        self.artifacts = artifacts  # how many the task had before this run
        self.turn_id = message_id  # the newest message the function has taken
        self.asked = 0  # the question the function waits in; 0 if in none
        self.lives = 0  # begun by replay since anything new was done, and not ended in good order
        self.waiting: list[str] = []  # messages that came and had no turn yet
        self._answers: dict[int, list[str]] = {}
        self._begun: set[tuple[str, int]] = set()
        self._done: dict[tuple[str, int], Step] = {}
        self._chunks: list[ArtifactUpdate] = []
        self._words: list[str] = []
        self._sent: dict[str, list[Part]] = {}

    # Going through it again

    @property
    def left(self) -> int:
        """Steps that were done and have not come up again."""
        return len(self._done)

    def answer(self, n: int, history: list[Message]) -> Message | None:
        """The next recorded answer to question n; None if it has to be asked (again)."""
        found = self._answers.get(n)
        if not found:
            self._nothing_left(f"question {n}")
            return None
        message_id = found.pop(0)
        return next((m for m in reversed(history) if m.message_id == message_id), None)

    def add_answer(self, message: Message) -> None:
        """The answer that woke the task: it is to the question the function waited in."""
        self._answers.setdefault(self.asked, []).append(message.message_id)

    def step(self, name: str, n: int) -> Step | None:
        """What this step gave in the earlier life; None if it has to be done."""
        step = self._done.pop((name, n), None)
        if step is None and (name, n) not in self._begun:
            self._nothing_left(f"step {name!r}")
        return step

    def end(self) -> None:
        """The function has returned: all that was done before must have come up again."""
        self._nothing_left("its end")

    def _nothing_left(self, what: str) -> None:
        """Something new may only come once all that was done has been gone through.

        Raises:
            Differs: The function has changed, and the log does not fit it any more.
        """
        if self._done:
            name, n = next(iter(self._done))
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
            self._answers.setdefault(turn.ask, []).append(turn.message_id)
            self.turn_id = turn.message_id
            self.asked = 0
            if turn.message_id in self.waiting:
                self.waiting.remove(turn.message_id)
        elif kind == b"q":
            self.asked = int(data)
        elif kind == b"r":
            self.lives += 1
            return
        elif kind == b"m":
            self.waiting.append(v1.decode_message(data).message_id)
        elif kind == b"s":
            step = _decode_step(data)
            self._begun.add((step.name, step.n))
            if not step.is_done:
                return
            self._done[step.name, step.n] = step
        elif kind == b"v":
            self._take_event(v1.decode_event(data))
        self.lives = 0

    def _take_event(self, event: Any) -> None:
        if isinstance(event, ArtifactUpdate):
            self._chunks.append(event)
        elif isinstance(event, StatusUpdate):
            if event.status.state in FINAL:
                self.waiting.clear()  # they were refused
            if event.status.state is TaskState.WORKING and event.status.message is not None:
                self._words.append(event.status.message.text)


def read_past(rows: list[bytes]) -> Past | None:
    """Return the record of the newest run in a task's whole log; None if no function was ever started for it."""
    past: Past | None = None
    seen: set[str] = set()
    for line in (line for lines in rows for line in lines.split(b"\n")):
        kind, data = line[:1], line[1:]
        if kind == b"t" and _decode_turn(data).ask == 0:
            waiting = past.waiting if past is not None else []
            past = Past(_decode_turn(data).message_id, len(seen))
            past.waiting = [m for m in waiting if m != past.message_id]
            continue
        if kind == b"v":
            event = v1.decode_event(data)
            if isinstance(event, ArtifactUpdate):
                seen.add(event.artifact.artifact_id)
            elif isinstance(event, Task):
                continue
        if past is not None:
            past.take(kind, data)
    return past
