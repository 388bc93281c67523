"""A2A 1.0 from the client's side: requests to JSON, answers to model."""

import re
from typing import Any, TypeVar

import msgspec

from ...model import (
    A2AError,
    Artifact,
    Event,
    ListPushConfigsResponse,
    ListTasksResponse,
    Message,
    Part,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
)
from .. import lenient
from ..client import EventFrame, FrameDecoder, JsonObject, error_of
from ..mending import MessageIds, Note, ObjectReaders, has_empty_id, read_mended

__all__ = [
    "error",
    "extensions_header",
    "frames",
    "method",
    "params",
    "read_event",
    "result",
    "version",
]

T = TypeVar("T")

version = "1.0"
extensions_header = "A2A-Extensions"

params_of = msgspec.json.Encoder().encode
_any = msgspec.json.Decoder()

RESULTS: dict[str, type] = {
    "SendMessage": SendMessageResponse,
    "GetTask": Task,
    "ListTasks": ListTasksResponse,
    "CancelTask": Task,
    "CreateTaskPushNotificationConfig": TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": TaskPushNotificationConfig,
    "ListTaskPushNotificationConfigs": ListPushConfigsResponse,
}
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(type_) for name, type_ in RESULTS.items()
}
_frame = msgspec.json.Decoder(StreamResponse)
_READERS = ObjectReaders(
    part=lambda value: lenient.convert(value, Part),
    message=lambda value: lenient.convert(value, Message),
    artifact=lambda value: lenient.convert(value, Artifact),
    task=lambda value: lenient.convert(_plain(value), Task),
)
# What the model has and this version does not: another version reads it. Here they are members that
# nobody knows, whatever an agent means by them.
_UNKNOWN = ("generation", "timeline", "artifactGenerations", "artifact_generations")
_find_unknown = re.compile(f'"(?:{"|".join(_UNKNOWN)})"'.encode()).search


def method(operation: str) -> str:
    return operation


def params(operation: str, request: Any) -> bytes:
    return params_of(request)


def result(operation: str, raw: bytes, request: Any, note: Note) -> Any:
    """Return the result of an operation: strictly at first, with a second look at what strict
    decoding refuses.
    """
    if operation == "DeleteTaskPushNotificationConfig":
        return None
    if operation == "GetExtendedAgentCard":
        return _any.decode(raw)
    found = _read(raw, _decoders[operation], RESULTS[operation], MessageIds(), note)
    if isinstance(found, SendMessageResponse) and (found.task is None) == (found.message is None):
        raise ValueError(
            "the answer holds neither a task nor a message"
            if found.task is None
            else "both a task and a message"
        )
    return found


def frames(request: Any, note: Note) -> FrameDecoder:
    ids = MessageIds()
    return lambda raw: EventFrame((read_event(raw, ids, note),))


def read_event(raw: bytes, ids: MessageIds, note: Note) -> Event | Message:
    """Return the event in a message of a stream, or in a push notification."""
    return _read(raw, _frame, StreamResponse, ids, note).event


def _read(
    raw: bytes, decoder: msgspec.json.Decoder[T], type_: type[T], ids: MessageIds, note: Note
) -> T:
    if not has_empty_id(raw) and _find_unknown(raw) is None:
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError:
            pass
    try:
        return read_mended(raw, lambda value: _lenient(value, type_), _READERS, ids, note)
    except A2AError as wrong:
        raise ValueError(str(wrong)) from None


def _lenient(value: Any, type_: type[T]) -> T:
    """Return `value` as a `type_`. Events may come without a context."""
    if isinstance(value, dict):
        tasks = value.get("tasks")
        _plain(value)
        for one in (value.get("task"), *(tasks if isinstance(tasks, list) else ())):
            _plain(one)
    for name in ("statusUpdate", "artifactUpdate", "status_update", "artifact_update"):
        event = _plain(value.get(name)) if isinstance(value, dict) else None
        if isinstance(event, dict) and "context_id" not in event:
            event["contextId"] = event.get("contextId") or ""
    return lenient.convert(value, type_)


def _plain(value: Any) -> Any:
    """Return a task or an event, as JSON, without what this version does not know."""
    if isinstance(value, dict):
        for name in _UNKNOWN:
            value.pop(name, None)
    return value


def error(error: JsonObject) -> A2AError:
    return error_of(error.get("code"), error.get("message"), error.get("data"))
