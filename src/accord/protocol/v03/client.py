"""A2A 0.3 and 0.2 over JSON-RPC from the client's side: the shapes are those of `v03`, in the other
direction.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ...model import (
    A2AError,
    Artifact,
    Event,
    InvalidParams,
    ListPushConfigsResponse,
    ListTasksResponse,
    Message,
    Part,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
    UnsupportedOperation,
)
from .. import legacy
from ..client import EventFrame, FrameDecoder, JsonObject, error_of
from ..mending import MessageIds, Note, ObjectReaders, read_mended
from . import codec as v03

__all__ = [
    "READERS",
    "error",
    "extensions_header",
    "frames",
    "method",
    "params",
    "read",
    "read_event",
    "result",
    "version",
]

T = TypeVar("T")

version = "0.3"
extensions_header = "X-A2A-Extensions"

_METHODS = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "ListTasks": "tasks/list",  # of a draft; agents without it say so
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    "CreateTaskPushNotificationConfig": "tasks/pushNotificationConfig/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
    "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
    "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
    "GetExtendedAgentCard": "agent/getAuthenticatedExtendedCard",
}

READERS = ObjectReaders(
    part=lambda value: legacy.convert(v03.read_part(value), Part),
    message=lambda value: legacy.convert(v03.read_message(value, role="ROLE_AGENT"), Message),
    artifact=lambda value: legacy.convert(v03.read_artifact(value), Artifact),
    task=lambda value: legacy.convert(v03.read_task(value), Task),
)

_encode = msgspec.json.Encoder().encode


def method(operation: str) -> str:
    found = _METHODS.get(operation)
    if found is None:
        raise UnsupportedOperation(f"{operation} is not part of A2A {version}")
    return found


def params(operation: str, request: Any) -> bytes:
    given = msgspec.to_builtins(request)
    match operation:
        case "SendMessage" | "SendStreamingMessage":
            # What is not said means different things to different agents: say it.
            given.setdefault("configuration", {})
            written = v03.write_send(given)
        case "GetTask" | "CancelTask" | "SubscribeToTask":
            written = v03.write_query(given)
        case "ListTasks":
            written = v03.write_list(given)
        case "CreateTaskPushNotificationConfig":
            written = v03.write_push(given)
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            written = {"id": given["taskId"], "pushNotificationConfigId": given["id"]}
        case "ListTaskPushNotificationConfigs":
            written = {"id": given["taskId"]}
        case _:
            written = {}
    return _encode(written)


def result(operation: str, raw: bytes, request: Any, note: Note) -> Any:
    def result_of(value: Any) -> Any:
        return _result(operation, value)

    return read(lambda: read_mended(raw, result_of, READERS, MessageIds(), note))


def _result(operation: str, value: Any) -> Any:
    match operation:
        case "SendMessage":
            found = v03.read_event(value)
            if "task" not in found and "message" not in found:
                raise ValueError("the answer holds neither a task nor a message")
            return legacy.convert(found, SendMessageResponse)
        case "GetTask" | "CancelTask":
            return legacy.convert(v03.read_task(value), Task)
        case "ListTasks":
            page = legacy.need(value, "result")
            tasks = [v03.read_task(task) for task in page.get("tasks") or []]
            return legacy.convert({**page, "tasks": tasks}, ListTasksResponse)
        case "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig":
            return legacy.convert(
                v03.read_push(legacy.need(value, "result")), TaskPushNotificationConfig
            )
        case "ListTaskPushNotificationConfigs":
            configs = (
                value
                if isinstance(value, list)
                else legacy.need(value, "result").get("configs") or []
            )
            return legacy.convert(
                {"configs": [v03.read_push(config) for config in configs]}, ListPushConfigsResponse
            )
        case "GetExtendedAgentCard":
            return value
    return None


def frames(request: Any, note: Note) -> FrameDecoder:
    ids = MessageIds()
    return lambda raw: read(lambda: read_mended(raw, _frame, READERS, ids, note))


def _frame(value: Any) -> EventFrame:
    event = read_event(value)
    return EventFrame((event,), isinstance(value, dict) and value.get("final") is True)


def read_event(value: Any) -> Event | Message:
    return legacy.convert(v03.read_event(value), StreamResponse).event


def error(error: JsonObject) -> A2AError:
    return error_of(error.get("code"), error.get("message"), error.get("data"))


def read(make: Callable[[], T]) -> T:
    """Return `make()`; what the old shapes do not allow is the agent's mistake, not ours."""
    try:
        return make()
    except InvalidParams as wrong:
        raise ValueError(str(wrong)) from None
