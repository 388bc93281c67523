"""The text of a long or large task."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from ...codec import v1
from ...codec.contract import Snapshot
from ...model import Artifact, ArtifactUpdate, Event, Message, Task

__all__ = ["LARGE", "LONG", "Texts"]

LARGE = 64 << 10
LONG = 8

_NOTHING: list[Any] = []
_NONE: dict[str, memoryview] = {}
_HOLE: Any = Raw(b"\0")  # stands for a part of an object whose text is known; JSON never has this byte


class Texts:
    """What is encoded once of a long or large task, however often it is shown.

    Writing a file as base64 costs more than all the rest that is done with it: its text is taken from the event that told of it.
    """

    __slots__ = ("_artifacts", "_history")

    def __init__(self, history: Sequence[memoryview] = (), artifacts: Mapping[str, memoryview] = _NONE) -> None:
        self._history: list[bytes | memoryview] = list(history)  # of the first messages
        self._artifacts: dict[str, memoryview] = dict(artifacts)  # of large ones that are whole

    def keep(self, event: Event, data: bytes) -> None:
        """Take what can be used again from `data`, the StreamResponse of `event`."""
        if isinstance(event, ArtifactUpdate):
            self._artifacts.pop(event.artifact.artifact_id, None)  # it is another one now
            if len(data) > LARGE and not event.append:
                self._artifacts[event.artifact.artifact_id] = _text_in(data, replace(event, artifact=_HOLE))
        elif isinstance(event, Task) and len(event.history) == 1:
            self._history = [_text_in(data, replace(event, history=[_HOLE]))]

    def keep_message(self, history: list[Message], data: bytes) -> None:
        """Take the text of the newest message."""
        self._encode(history[:-1])
        self._history.append(data)

    def picture(self, task: Task, seq: int, history_length: int | None) -> Snapshot:
        """Encode the task, with as much of its history as is asked for."""
        # Its twin: a plain function, in its thread, may be looking at the task.
        head = v1.encode(replace(task, artifacts=_NOTHING, history=_NOTHING))
        if task.history and history_length != 0:
            self._encode(task.history)
            shown = self._history if history_length is None else self._history[-history_length:]
            head = b"".join((head[:-1], b',"history":[', *_listed(shown), b"]}"))
        return Snapshot(seq, task.status.state, head, self._encoded(task.artifacts))

    def _encode(self, history: list[Message]) -> None:
        done = self._history
        done += [v1.encode(message) for message in history[len(done) :]]

    def _encoded(self, artifacts: list[Artifact]) -> bytes:
        known = self._artifacts
        if not known:
            return v1.encode(artifacts) if artifacts else b"[]"
        texts = [known.get(artifact.artifact_id) or v1.encode(artifact) for artifact in artifacts]
        return b"".join((b"[", *_listed(texts), b"]"))


def _listed(texts: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """The texts with commas between them: what is large is copied once, when all of it is joined."""
    with_commas: list[bytes | memoryview] = [b","] * (2 * len(texts) - 1)
    with_commas[::2] = texts
    return with_commas


def _text_in(data: bytes, twin: Event) -> memoryview:
    """What stands in the text of an event where its twin has a hole."""
    before, _, after = v1.encode_event(twin).partition(b"\0")
    return memoryview(data)[len(before) : len(data) - len(after)]
