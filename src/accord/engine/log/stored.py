"""Tasks as they are stored, made objects again: a small one in one go, a large one piece by piece."""

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from ...codec import v1
from ...codec.contract import Snapshot
from ...codec.outline import outline, texts
from ...model import InvalidAgentResponse, Limits, Task
from ...store import Record
from ..offload import LARGE, yield_to_loop
from .entry import event_of
from .picture import Texts

__all__ = ["check_whole", "read", "shortened", "size_of", "snapshot_of", "task_of"]

T = TypeVar("T")

_skim = msgspec.json.Decoder(Raw).decode


def size_of(record: Record) -> int:
    """How many bytes are to be read."""
    return len(record.head) + len(record.artifacts) + sum(map(len, record.tail))


def check_whole(record: Record) -> None:
    """Raise ValueError for a snapshot that is no JSON of a task: it is sent without being decoded, beside others."""
    if not (record.head.startswith(b'{"id":"') and record.artifacts.startswith(b"[")):
        raise ValueError("the snapshot is broken")
    for piece in (record.head, record.artifacts):
        _skim(piece)  # a look at the text alone, at several GB a second
        if not piece.isascii():
            piece.decode()


def task_of(record: Record, limits: Limits) -> Task:
    """Return a stored task: its snapshot, brought up to date by the lines after it.

    Raises:
        ValueError: It is not what was written.
    """
    task = v1.decode_task(record.head)
    task.artifacts = v1.decode_artifacts(record.artifacts)
    for line in record.tail:
        _go_on(task, line, limits)
    return task


async def read(record: Record, limits: Limits) -> tuple[Task, Texts]:
    """Return the same for a large task, message by message, with turns for others in between; and the texts it was read from."""
    head, made = outline(record.head), texts(record.artifacts)
    said, head.history = head.history, []
    task = v1.decode_task(v1.encode(head))
    task.history = await _each(said, v1.decode_message)
    task.artifacts = await _each(made, v1.decode_artifact)
    if record.tail:  # of which an artifact may be another one afterwards
        await _each(record.tail, lambda line: _go_on(task, line, limits))
        made = []
    ids = [artifact.artifact_id for artifact in task.artifacts]
    return task, Texts([memoryview(text) for text in said], {id_: memoryview(text) for id_, text in zip(ids, made, strict=False)})


async def _each(pieces: list[Raw] | list[bytes], decode: Callable[[Raw | bytes], T]) -> list[T]:
    found: list[T] = []
    size, began_s = 0, time.monotonic()
    for piece in pieces:
        found.append(decode(piece))
        size += len(memoryview(piece))
        if size > LARGE:
            await yield_to_loop(began_s)
            size, began_s = 0, time.monotonic()
    return found


def _go_on(task: Task, line: bytes, limits: Limits) -> None:
    try:
        if line.startswith(b"v"):
            task.apply(event_of(line[1:]), limits)
        elif line.startswith(b"m"):
            task.add(v1.decode_message(line[1:]), limits)
    except InvalidAgentResponse as error:
        raise ValueError(f"the log is broken: {error}") from error


def shortened(head: bytes, history_length: int) -> bytes:
    """Return the text of a task with no more than its last messages."""
    task = outline(head)
    task.history = task.history[max(len(task.history) - history_length, 0) :]
    return v1.encode(task)


def snapshot_of(record: Record, history_length: int | None, limits: Limits) -> Snapshot:
    """Return a stored task that has gone on since its snapshot."""
    task = task_of(record, limits)
    if history_length is not None:
        task.history = task.history[max(len(task.history) - history_length, 0) :]
    artifacts, task.artifacts = task.artifacts, []
    return Snapshot(record.seq, task.status.state, v1.encode(task), v1.encode(artifacts))
