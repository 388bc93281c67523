"""A2A 1.0 from the client's side: requests to JSON, answers to model."""

from typing import Any, TypeVar

import msgspec

from ...model import (
    A2AError,
    AgentCard,
    ListPushConfigsResponse,
    ListTasksResponse,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
)
from .. import lenient
from ..client import EventFrame, FrameDecoder, JsonObject, error_of

__all__ = ["error", "extensions_header", "frames", "method", "params", "result", "version"]

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
    "GetExtendedAgentCard": AgentCard,
}
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(type_) for name, type_ in RESULTS.items()
}
_decode_frame = msgspec.json.Decoder(StreamResponse).decode


def method(operation: str) -> str:
    return operation


def params(operation: str, request: Any) -> bytes:
    return params_of(request)


def result(operation: str, raw: bytes, request: Any) -> Any:
    """Return the result of an operation: strictly at first, with a second look at what strict
    decoding refuses.
    """
    if operation == "DeleteTaskPushNotificationConfig":
        return None
    try:
        found = _decoders[operation].decode(raw)
    except msgspec.ValidationError:
        found = mended(_any.decode(raw), RESULTS[operation])
    if isinstance(found, SendMessageResponse) and (found.task is None) == (found.message is None):
        raise ValueError(
            "the answer holds neither a task nor a message"
            if found.task is None
            else "both a task and a message"
        )
    return found


def frames(request: Any) -> FrameDecoder:
    return _frame


def _frame(raw: bytes) -> EventFrame:
    try:
        found = _decode_frame(raw)
    except msgspec.ValidationError:
        found = mended(_any.decode(raw), StreamResponse)
    return EventFrame((found.event,))


def error(error: JsonObject) -> A2AError:
    return error_of(error.get("code"), error.get("message"), error.get("data"))


def mended(value: Any, type_: type[T]) -> T:
    """Return `value` as a `type_`, with the ids agents forget filled in as empty."""
    if isinstance(value, dict):
        for name in ("statusUpdate", "artifactUpdate", "status_update", "artifact_update"):
            event = value.get(name)
            if isinstance(event, dict) and "context_id" not in event:
                event["contextId"] = event.get("contextId") or ""
        for task in (value, value.get("task"), *(value.get("tasks") or ())):
            if isinstance(task, dict) and isinstance(task.get("status"), dict):
                _mend_message(task["status"].get("message"))
        _mend_message(value.get("message"))
    try:
        return lenient.convert(value, type_)
    except A2AError as wrong:
        raise ValueError(str(wrong)) from None


def _mend_message(message: Any) -> None:
    if isinstance(message, dict) and "message_id" not in message:
        message["messageId"] = message.get("messageId") or ""
