"""The JSON of a task: made from what its run holds, or from what is stored."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ...model import (
    Artifact,
    ArtifactUpdate,
    Event,
    Fold,
    InvalidAgentResponse,
    Limits,
    Message,
    Task,
)
from ...protocol import Snapshot, outline, texts
from ...protocol.v1 import codec as v1
from ...store import Record
from ..offloading import LARGE, offload
from .entries import (
    ArtifactChanged,
    Created,
    Entry,
    Ids,
    MessageAdded,
    StatusChanged,
    entries_of,
    state_of,
)

__all__ = [
    "EncodedParts",
    "are_whole",
    "encode_task",
    "fold_entry",
    "read_snapshot",
    "read_task",
    "shorten",
]

LONG = 8  # messages: from here on they are not encoded anew with every snapshot

_NOTHING: list[Any] = []
_NONE: dict[str, memoryview] = {}
# Stands for a part of an object whose text is known; JSON never has this byte.
_HOLE: Any = Raw(b"\0")

_skim = msgspec.json.Decoder(Raw).decode
_skim_list = msgspec.json.Decoder(list[Raw]).decode


class EncodedParts:
    """What is encoded once of a long or large task, however often it is shown.

    Writing a file as base64 costs more than all the rest that is done with it: its text is taken
    from the event that brought it.
    """

    __slots__ = ("_artifacts", "_history")

    def __init__(
        self, history: Sequence[memoryview] = (), artifacts: Mapping[str, memoryview] = _NONE
    ) -> None:
        self._history: list[bytes | memoryview] = list(history)  # of the first messages
        self._artifacts: dict[str, memoryview] = dict(artifacts)  # of large ones that are whole

    def keep(self, event: Event, frame: bytes) -> None:
        """Take what can be used again from `frame`, the StreamResponse of `event`."""
        if isinstance(event, ArtifactUpdate):
            self.forget(event.artifact.artifact_id)
            if len(frame) > LARGE and not event.append:
                self._artifacts[event.artifact.artifact_id] = _text_in(
                    frame, replace(event, artifact=_HOLE)
                )
        elif isinstance(event, Task) and len(event.history) == 1:
            self._history = [_text_in(frame, replace(event, history=[_HOLE]))]

    def forget(self, artifact_id: str) -> None:
        """Forget an artifact: it is another now."""
        self._artifacts.pop(artifact_id, None)

    def keep_message(self, history: list[Message], data: bytes) -> None:
        """Take the text of the newest message."""
        self._encode(history[:-1])
        self._history.append(data)

    def snapshot(self, task: Task, seq: int, history_length: int | None) -> Snapshot:
        """Encode the task, with as much of its history as is asked for."""
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
        parts = [known.get(artifact.artifact_id) or v1.encode(artifact) for artifact in artifacts]
        return b"".join((b"[", *_listed(parts), b"]"))


def _listed(parts: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """Return the texts with commas between them: what is large is copied once, when all of it
    is joined.
    """
    with_commas: list[bytes | memoryview] = [b","] * (2 * len(parts) - 1)
    with_commas[::2] = parts
    return with_commas


def _text_in(frame: bytes, twin: Event) -> memoryview:
    """Return what stands in the text of an event where its twin has a hole."""
    before, _, after = v1.encode_event(twin).partition(b"\0")
    return memoryview(frame)[len(before) : len(frame) - len(after)]


def encode_task(task: Task, seq: int) -> Snapshot:
    """Encode a small task."""
    artifacts = task.artifacts
    head = v1.encode(replace(task, artifacts=_NOTHING))
    return Snapshot(seq, task.status.state, head, v1.encode(artifacts) if artifacts else b"[]")


# From what is stored


def fold_entry(fold: Fold, entry: Entry, limits: Limits) -> None:
    """Apply an entry to a task. Raises ValueError if it can't be what was
    written.
    """
    try:
        if isinstance(entry, StatusChanged | ArtifactChanged):
            fold.apply(entry.update, limits)
        elif isinstance(entry, MessageAdded):
            fold.draft.add(entry.message, limits)
    except InvalidAgentResponse as error:
        raise ValueError(f"the log is broken: {error}") from error


def read_task(
    record: Record, limits: Limits, upto: int | None = None
) -> tuple[Fold, EncodedParts | None]:
    """Return a stored task, and of a large one the texts it was read from; `upto` a position, if
    one is given.

    Raises:
        ValueError: It is not what was written.
    """
    numbered = entries_of(record.rows, Ids(record.id, record.context_id))
    if record.snap:
        fold, parts = _read_pieces(record) if record.size > LARGE else (_read_small(record), None)
    else:
        first = next(numbered, None)
        if first is None or not isinstance(first.entry, Created):
            raise ValueError("the log does not begin with the task")
        fold, parts = Fold(first.entry.task), None
    for pos, _, _, entry in numbered:
        if upto is not None and pos > upto:
            break
        if parts is not None and isinstance(entry, ArtifactChanged):
            parts.forget(entry.update.artifact.artifact_id)
        fold_entry(fold, entry, limits)
    return fold, parts


def _read_small(record: Record) -> Fold:
    task = v1.decode_task(record.head)
    task.artifacts = v1.decode_artifacts(record.artifacts)
    return Fold(task)


def _read_pieces(record: Record) -> tuple[Fold, EncodedParts]:
    """Read a large task message by message: one long call would hold up the loop from whatever
    thread it is made.
    """
    head, made = outline(record.head), texts(record.artifacts)
    said, head.history = head.history, []
    task = v1.decode_task(v1.encode(head))
    task.history = [v1.decode_message(text) for text in said]
    task.artifacts = [v1.decode_artifact(text) for text in made]
    names = [artifact.artifact_id for artifact in task.artifacts]
    parts = EncodedParts(
        [memoryview(text) for text in said],
        {name: memoryview(text) for name, text in zip(names, made, strict=True)},
    )
    return Fold(task), parts


async def read_snapshot(
    record: Record, history_length: int | None, limits: Limits, *, is_trusted: bool = False
) -> Snapshot:
    """Return a stored task as JSON. What can be passed on as it is stays text.

    Raises:
        ValueError: It is not what was written.
    """
    # done at once: a thread would be no faster, and those who wait for it would hold their bytes
    # meanwhile
    if not record.is_stale:
        if not (is_trusted or _is_whole(record)):
            raise ValueError("the snapshot is broken")
        head = record.head if history_length is None else _shortened(record.head, history_length)
        return Snapshot(record.seq, state_of(record.state), head, record.artifacts)
    return await offload(record.size, _read_stale, record, history_length, limits)


def _read_stale(record: Record, history_length: int | None, limits: Limits) -> Snapshot:
    fold, parts = read_task(record, limits)
    return (parts or EncodedParts()).snapshot(fold.joined(), record.seq, history_length)


def _is_whole(record: Record) -> bool:
    """Return whether a snapshot is the JSON of a task: it is sent undecoded, beside others."""
    if not (record.head.startswith(b'{"id":"') and record.artifacts.startswith(b"[")):
        return False
    try:
        for piece in (record.head, record.artifacts):
            _skim(piece)  # a look at the text alone, at several GB a second
            if not piece.isascii():
                piece.decode()
    except ValueError:
        return False
    return True


def are_whole(heads: list[bytes]) -> bool:
    """Return whether each of these is the JSON of a task without artifacts. One look at all of
    them costs a fifth of a look at each.
    """
    for head in heads:
        if not head.startswith(b'{"id":"'):
            return False
    joined = b"[%b]" % b",".join(heads)
    try:
        if not joined.isascii():
            joined.decode()
        return len(_skim_list(joined)) == len(heads)
    except ValueError:
        return False


def shorten(snapshot: Snapshot, history_length: int | None) -> Snapshot:
    """Return a task with no more than its last messages."""
    if history_length is None:
        return snapshot
    return replace(snapshot, head=_shortened(snapshot.head, history_length))


def _shortened(head: bytes, history_length: int) -> bytes:
    """Return the text of a task with no more than its last messages."""
    task = outline(head)
    task.history = task.history[max(len(task.history) - history_length, 0) :]
    return v1.encode(task)
