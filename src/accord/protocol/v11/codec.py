"""A2A 1.1 as JSON: that of 1.0, with generations.

A task and its events are stored as 1.0 writes them, and have numbers: those are the generations.
They are put into the stored text. ProtoJSON writes whole numbers of 64 bits as text.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ...model import Event, Message, TaskStatus
from .. import lenient, text
from ..contract import Semantics, Snapshot, TaskPage, Timeline
from ..task_outline import texts
from ..v1 import codec as v1
from . import requests

__all__ = ["CODEC", "grpc_pool"]


class _Entry(msgspec.Struct, omit_defaults=True):
    generation: str
    message: Message | None = None
    status: TaskStatus | None = None


class _Named(msgspec.Struct):
    id: str = msgspec.field(name="artifactId")


_REQUESTS = v1.REQUESTS | {
    "SendMessage": requests.SendMessage,
    "SendStreamingMessage": requests.SendMessage,
    "GetTask": requests.GetTask,
}
_decode: dict[str, Callable[[bytes], Any]] = {
    operation: msgspec.json.Decoder(type_).decode for operation, type_ in _REQUESTS.items()
}
_names = msgspec.json.Decoder(list[_Named]).decode


class V11(v1.V1):
    """A2A 1.1 as a codec: the same JSON on JSON-RPC and HTTP+JSON."""

    origin = "1.1"
    requests = _REQUESTS

    def decode(self, operation: str, params: bytes) -> tuple[Any, Semantics]:
        try:
            return requests.split(_decode[operation](params))
        except msgspec.ValidationError:
            return requests.split(lenient.convert(text.loads(params), _REQUESTS[operation]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise text.parse_error(error) from None

    def result(self, operation: str, answer: Any) -> bytes:
        match answer:
            case Snapshot():
                task = _task(answer)
                return b'{"task":%b}' % task if operation == "SendMessage" else task
            case TaskPage():
                tasks = [
                    _with(task, b'"generation":"%d"' % seq)
                    for task, seq in zip(answer.tasks, answer.seqs, strict=True)
                ]
                return super().result(operation, msgspec.structs.replace(answer, tasks=tasks))
        return super().result(operation, answer)

    def frames(
        self, event: Event | Message, *, seq: int, is_last: bool, index: Callable[[str], int]
    ) -> list[bytes]:
        data = v1.encode_event(event)
        if isinstance(event, Message):
            return [data]
        return [b'%b,"generation":"%d"}}' % (data[:-2], seq)]

    def join(
        self, operation: str, fields: dict[str, str], query: dict[str, list[str]], body: bytes
    ) -> bytes:
        if body:
            return super().join(operation, fields, query, body)
        value = v1.from_query(_REQUESTS[operation], query)
        v1.agree(value, fields)
        return v1.encode(value | fields)


CODEC = V11()


def grpc_pool() -> Any:
    """Return the schema. Only servers and clients with gRPC have what it needs."""
    from .schema import POOL

    return POOL


def _task(snapshot: Snapshot) -> bytes:
    """Return a task with its generation and, while its log is kept, how it came about."""
    members = [b'"generation":"%d"' % snapshot.seq]
    artifacts, timeline = snapshot.artifacts, snapshot.timeline
    if timeline is not None:
        members.append(b'"timeline":%b' % _timeline(timeline))
        artifacts = _artifacts(artifacts, timeline.artifacts)
    if artifacts != b"[]":
        members.append(b'"artifacts":%b' % artifacts)
    return _with(snapshot.head, *members)


def _timeline(timeline: Timeline) -> bytes:
    return v1.encode(
        [_Entry(str(one.generation), one.message, one.status) for one in timeline.entries]
    )


def _artifacts(artifacts: bytes, written: dict[str, tuple[int, int]]) -> bytes:
    found = []
    for artifact, named in zip(texts(artifacts), _names(artifacts), strict=True):
        data = bytes(artifact)
        if named.id in written:
            first, last = written[named.id]
            numbers = b'"startGeneration":"%d","endGeneration":"%d"' % (first, last)
            data = _with(data, numbers)
        found.append(data)
    return b"[%b]" % b",".join(found)


def _with(object_: bytes, *members: bytes) -> bytes:
    """Return a JSON object, which is not empty, with more members."""
    return b"%b,%b}" % (object_[:-1], b",".join(members))
