"""A2A 0.1 over JSON-RPC from the client's side.

Here the client names the task: a new one gets the id of its first message. Messages have no ids;
they get one made of what they say, so that a message read twice is known to be the same. A stream
never shows the task itself: its first event stands for it.
"""

import hashlib
from typing import Any

import msgspec

from ...model import (
    A2AError,
    Artifact,
    InvalidParams,
    InvalidRequest,
    Message,
    MethodNotFound,
    ParseError,
    Part,
    PermissionDenied,
    PushNotificationNotSupported,
    SendMessageRequest,
    SendMessageResponse,
    StatusUpdate,
    StreamResponse,
    Task,
    TaskNotCancelable,
    TaskNotFound,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedOperation,
)
from ...model import ContentTypeNotSupported as ContentType
from .. import legacy
from ..client import EventFrame, FrameDecoder, JsonObject, error_of
from ..mending import MessageIds, Note, ObjectReaders, read_mended
from ..v03 import read
from . import codec as v01

__all__ = [
    "READERS",
    "error",
    "extensions_header",
    "frames",
    "method",
    "params",
    "read_task",
    "result",
    "version",
]

version = ""
extensions_header = "X-A2A-Extensions"

_METHODS = {
    "SendMessage": "tasks/send",
    "SendStreamingMessage": "tasks/sendSubscribe",
    "GetTask": "tasks/get",
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    "CreateTaskPushNotificationConfig": "tasks/pushNotification/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotification/get",
}
# The numbers meant other things before 0.2.
_CODES: dict[int, type[A2AError]] = {
    -32700: ParseError,
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32001: TaskNotFound,
    -32002: TaskNotCancelable,
    -32003: PushNotificationNotSupported,
    -32004: UnsupportedOperation,
    -32005: ContentType,
    -32006: UnsupportedOperation,
    -32007: Unauthenticated,
    -32008: PermissionDenied,
    -32009: UnsupportedOperation,
    -32010: TooManyRequests,
    -32011: Unavailable,
}

_ALL = 10_000

READERS = ObjectReaders(
    part=lambda value: legacy.convert(v01.read_part(value), Part),
    message=lambda value: legacy.convert(v01.read_message(value, role="ROLE_AGENT"), Message),
    artifact=lambda value: legacy.convert(v01.read_artifact(value), Artifact),
    task=lambda value: legacy.convert(v01.read_task(value), Task),
)

_encode = msgspec.json.Encoder(order="deterministic").encode


def method(operation: str) -> str:
    found = _METHODS.get(operation)
    if found is None:
        raise UnsupportedOperation(f"{operation} is not part of A2A 0.1")
    return found


def params(operation: str, request: Any) -> bytes:
    given = msgspec.to_builtins(request)
    match operation:
        case "SendMessage" | "SendStreamingMessage":
            return _encode(v01.write_send(given, request.message.message_id))
        case "CreateTaskPushNotificationConfig":
            return _encode(v01.write_push(given))
        case "GetTaskPushNotificationConfig":
            return _encode({"id": given["taskId"]})
        case "GetTask":
            given.setdefault("historyLength", _ALL)  # to say nothing is to ask for none
    return _encode(legacy.some(given, "id", "historyLength", "metadata"))


def result(operation: str, raw: bytes, request: Any, note: Note) -> Any:
    def result_of(value: Any) -> Any:
        return _result(operation, value, request)

    return read(lambda: read_mended(raw, result_of, READERS, MessageIds(), note))


def _result(operation: str, value: Any, request: Any) -> Any:
    match operation:
        case "SendMessage":
            return SendMessageResponse(task=_task(value, request))
        case "GetTask" | "CancelTask":
            return _task(value, request)
    return legacy.convert(v01.read_push(legacy.need(value, "result")), TaskPushNotificationConfig)


def read_task(value: Any) -> Task:
    task = v01.read_task(value)
    _set_id(task["status"].get("message"))
    for message in task.get("history", ()):
        _set_id(message)
    return legacy.convert(task, Task)


def _task(value: Any, request: Any) -> Task:
    found = read_task(value)
    found.context_id = found.context_id or _context(request)
    return found


def frames(request: Any, note: Note) -> FrameDecoder:
    is_first = isinstance(request, SendMessageRequest)
    ids = MessageIds()

    def frame(raw: bytes) -> EventFrame:
        return read(lambda: read_mended(raw, read_frame, READERS, ids, note))

    def read_frame(value: Any) -> EventFrame:
        nonlocal is_first
        event = _event(value, request)
        is_last = isinstance(value, dict) and value.get("final") is True
        if not is_first or isinstance(event, Task):
            return EventFrame((event,), is_last)
        is_first = False
        is_status = isinstance(event, StatusUpdate)
        status = event.status if is_status else TaskStatus(state=TaskState.WORKING)
        said = msgspec.to_builtins(request.message)
        _set_id(said)  # the id it will have in the history that the agent sends
        task = Task(
            id=event.task_id,
            context_id=event.context_id,
            status=status,
            history=[legacy.convert(said, Message)],
        )
        return EventFrame((task,) if is_status else (task, event), is_last)

    return frame


def _event(value: Any, request: Any) -> Any:
    if (
        isinstance(value, dict)
        and "status" in value
        and ("artifacts" in value or "history" in value)
    ):
        return _task(value, request)  # a whole task, as the answer of an agent that does not stream
    event = v01.read_event(value)
    status = event.get("statusUpdate", {}).get("status")
    if status is not None:
        _set_id(status.get("message"))
    found = legacy.convert(event, StreamResponse).event
    found.context_id = found.context_id or _context(request)
    return found


def _context(request: Any) -> str:
    return request.message.context_id if isinstance(request, SendMessageRequest) else ""


def _set_id(message: JsonObject | None) -> None:
    """Give a message an id by its content: 0.1 has none, and the same message comes again."""
    if message is not None:
        said = _encode([message["role"], message["parts"]])
        message["messageId"] = hashlib.sha256(said).hexdigest()[:32]


def error(error: JsonObject) -> A2AError:
    return error_of(error.get("code"), error.get("message"), error.get("data"), codes=_CODES)
