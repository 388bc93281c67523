"""What a client has said to the questions of a run, and to which: a later life takes it for those and for no other."""

from collections import deque
from typing import Any
from zlib import adler32, crc32

import msgspec

from ...codec import v1
from ...model import Message, Part, Role
from ..skills.schema import Shape

__all__ = ["Answers", "Asked", "digest_of", "parts_of", "read_asked"]

_SCHEMA = "application/schema+json"
_KIND = ("type", "title", "$ref")
FOREIGN = 1 << 32  # questions of other agents, passed on, have numbers from here on


class Asked(msgspec.Struct, array_like=True):
    """Private log entry: the function waits in this question."""

    place: int
    digest: str = ""  # what tells it from another; empty as earlier releases wrote it, and then it is taken for any
    worked_s: float = 0.0
    is_watching: bool = False  # beside the client it waits for something of its own


_decode_asked = msgspec.json.Decoder(Asked).decode


def read_asked(data: bytes) -> Asked:
    if data.startswith(b"["):
        return _decode_asked(data)
    return Asked(int(data.removesuffix(b"+")), is_watching=data.endswith(b"+"))  # as earlier releases wrote it


def parts_of(question: str | Message, type_: Any) -> list[Part]:
    """What the client is shown of a question: its text, and the schema of an answer if that is not just any text."""
    parts = list(question.parts) if isinstance(question, Message) else [Part(text=question)]
    if type_ is not None and type_ not in (str, Message):
        parts.append(Part(data=Shape(type_).schema(), media_type=_SCHEMA))
    return parts


def digest_of(question: list[Part]) -> str:
    """What tells a question from another. Of a schema only the kind counts: the rest may change with the library that wrote it,
    and an answer is held against the new one.
    """
    data = v1.encode([_kind(part) if part.media_type == _SCHEMA else part for part in question])
    return (crc32(data) << 32 | adler32(data)).to_bytes(8).hex()


def _kind(part: Part) -> Any:
    return [part.data.get(key) for key in _KIND] if isinstance(part.data, dict) else part


class _Answer(msgspec.Struct, eq=False):
    message: Message
    digest: str  # of the question
    heard: int  # how long the history was then


class Answers:
    """The questions of a run's earlier lives."""

    def __init__(self, heard: int) -> None:
        self.open = Asked(0)  # the question the function waits in; number 0 if in none
        self.heard = heard  # how long the history was where the replay has come to
        self._is_beginning = True
        self._given: dict[int, deque[_Answer]] = {}
        self._digests: dict[int, str] = {}
        self._texts: dict[int, str] = {}
        self._stopped: set[int] = set()  # the function stopped waiting for an answer
        self._unused: _Answer | None = None  # nothing is known to have been done with it
        self._taken: _Answer | None = None
        self._said = ""

    # Reading the log

    def ask(self, asked: Asked) -> None:
        self.open = asked
        place, digest = asked.place, asked.digest
        if self._digests.get(place, digest) != digest:
            self._given.pop(place, None)  # another question took its place: what was said to it was not used
            self._texts.pop(place, None)
        self._digests[place] = digest
        self._texts.setdefault(place, self._said)
        self.got_on()

    def take(self, place: int, message: Message, heard: int) -> None:
        """The newest message: it answered that question."""
        self.open = Asked(0)
        self._unused = self._taken = _Answer(message, self._digests.get(place, ""), heard)
        self._given.setdefault(place, deque()).append(self._unused)

    def stop(self, place: int) -> None:
        self._stopped.add(place)
        self.open = Asked(0)

    def say(self, text: str, heard: int, *, is_question: bool) -> None:
        """A status was told, of this text or none."""
        if self._is_beginning:
            self.heard, self._is_beginning = heard, False
        if self._taken is not None:
            self._taken.heard, self._taken = heard, None  # that the task works again is told when the message has been taken
        if text or is_question:
            self.got_on()
        if is_question:
            self._said = text

    def got_on(self) -> None:
        """Something was done after the newest answer."""
        self._unused = self._taken = None

    # Going through it again

    @property
    def is_any_left(self) -> bool:
        """Whether some have not come up again."""
        return any(self._given.values())

    def is_stopped(self, place: int) -> bool:
        """Whether the function stopped waiting for an answer to this question."""
        return place in self._stopped

    def other(self, place: int, question: list[Part], digest: str) -> str:
        """Say which other question was answered there; empty if none was."""
        given = self._given.get(place)
        if not given or given[0].digest in ("", digest) or given[0] is self._unused or place >= FOREIGN:
            return ""
        now, then = Message(message_id="", role=Role.AGENT, parts=question).text, self._texts.get(place, "")
        how = "of another type " if now == then else ""
        return f"{now!r:.200} {how}(question {place}), where {then!r:.200} was asked and answered before"

    def find(self, place: int, digest: str) -> Message | None:
        """The next recorded answer to a question; None if it has to be asked (again)."""
        given = self._given.get(place)
        if given and given[0].digest not in ("", digest):
            given.clear()  # they are to another question
        if not given:
            return None
        answer = given.popleft()
        self.heard = max(self.heard, answer.heard)
        return answer.message
