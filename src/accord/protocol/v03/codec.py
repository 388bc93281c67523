"""A2A 0.2 and 0.3 as JSON-RPC writes them: `kind` on everything, states and roles as words.

Both are one codec: a request never tells which of the two its sender speaks, and every object of
0.3 is one of 0.2 with optional extras. The functions take and give plain JSON values, so that a
client can use them in the other direction. Those that write take the value over: they may change it
into the one they return, which costs half of building another.
"""

import datetime
from collections.abc import Callable
from typing import Any

import msgspec

from ...model import (
    A2AError,
    CancelTaskRequest,
    DeletePushConfigRequest,
    Event,
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    GetExtendedCardRequest,
    GetPushConfigRequest,
    GetTaskRequest,
    ListPushConfigsRequest,
    ListPushConfigsResponse,
    ListTasksRequest,
    Message,
    ParseError,
    SendMessageRequest,
    SubscribeRequest,
    TaskPushNotificationConfig,
    now_ms,
    timestamp,
)
from .. import legacy, legacy_card
from ..contract import DEFAULT_SEMANTICS, Semantics, Snapshot, TaskPage
from ..legacy import (
    Json,
    need,
    read_modes,
    read_parts,
    read_role,
    read_state,
    read_time,
    read_webhook,
    refuse,
    some,
    task_id_of,
    wrapped,
    write_role,
    write_state,
    write_webhook,
)
from ..task_outline import shallow_task
from ..v1 import codec as v1
from . import text_send

__all__ = [
    "CODEC",
    "READERS",
    "V03",
    "check_past",
    "error_name",
    "read_artifact",
    "read_event",
    "read_list",
    "read_message",
    "read_part",
    "read_push",
    "read_query",
    "read_send",
    "read_status",
    "read_task",
    "read_task_id",
    "write_artifact",
    "write_event",
    "write_list",
    "write_message",
    "write_part",
    "write_push",
    "write_query",
    "write_send",
    "write_status",
    "write_task",
]

_KINDS = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}
_MESSAGE = ("contextId", "taskId", "extensions", "referenceTaskIds")


# Objects


def write_part(part: Json) -> Json:
    return legacy.write_part(part, "kind")


def read_part(value: Any, field: str = "part") -> Json:
    return legacy.read_part(value, field)


def write_message(message: Json) -> Json:
    message["kind"] = "message"
    message["role"] = write_role(message["role"])
    message["parts"] = [legacy.write_part(part, "kind") for part in message["parts"]]
    return message


def read_message(value: Any, field: str = "message", *, role: str = "") -> Json:
    """Return the 1.0 message. `role` is for peers that leave theirs out."""
    value = need(value, field)
    message_id = value.get("messageId")
    if message_id is None:
        raise refuse(f"{field}.messageId", "is required")
    message = {
        "messageId": message_id,
        "role": read_role(value.get("role"), f"{field}.role", role),
        "parts": read_parts(value.get("parts"), f"{field}.parts", read_part),
        **some(value, *_MESSAGE),
    }
    if value.get("metadata") is not None:
        message["metadata"] = value["metadata"]
    return message


def write_status(status: Json) -> Json:
    status["state"] = write_state(status["state"])
    if "message" in status:
        write_message(status["message"])
    return status


def read_status(value: Any, field: str = "status") -> Json:
    value = need(value, field)
    status: Json = {"state": read_state(value.get("state"), f"{field}.state")}
    if value.get("message"):
        status["message"] = read_message(value["message"], f"{field}.message", role="ROLE_AGENT")
    if value.get("timestamp"):
        status["timestamp"] = read_time(value["timestamp"])
    return status


def write_artifact(artifact: Json) -> Json:
    artifact["parts"] = [legacy.write_part(part, "kind") for part in artifact["parts"]]
    return artifact


def read_artifact(value: Any, field: str = "artifact") -> Json:
    value = need(value, field)
    return {
        "artifactId": value.get("artifactId") or "",
        "parts": read_parts(value.get("parts"), f"{field}.parts", read_part),
        **some(value, "name", "description", "metadata", "extensions"),
    }


def write_task(task: Json) -> Json:
    task["kind"] = "task"
    write_status(task["status"])
    for artifact in task.get("artifacts", ()):
        write_artifact(artifact)
    for message in task.get("history", ()):
        write_message(message)
    return task


def read_task(value: Any, field: str = "task") -> Json:
    value = need(value, field)
    task: Json = {
        "id": value.get("id"),
        "status": read_status(value.get("status"), f"{field}.status"),
        **some(value, "contextId", "metadata"),
    }
    if value.get("artifacts"):
        task["artifacts"] = [
            read_artifact(a, f"{field}.artifacts[{i}]") for i, a in enumerate(value["artifacts"])
        ]
    if value.get("history"):
        task["history"] = [
            read_message(m, f"{field}.history[{i}]", role="ROLE_AGENT")
            for i, m in enumerate(value["history"])
        ]
    return task


def write_event(event: Json, *, is_last: bool = False) -> Json:
    """Return a StreamResponse of 1.0 as the object a 0.3 stream carries. `is_last`: the stream ends
    after it.
    """
    if "task" in event:
        return write_task(event["task"])
    if "message" in event:
        return write_message(event["message"])
    if "statusUpdate" in event:
        update = event["statusUpdate"]
        return {
            "kind": "status-update",
            **update,
            "status": write_status(update["status"]),
            "final": is_last,
        }
    update = event["artifactUpdate"]
    return {"kind": "artifact-update", **update, "artifact": write_artifact(update["artifact"])}


def read_event(value: Any) -> Json:
    """Return the StreamResponse of an object from a 0.3 stream; `kind` may be missing."""
    value = need(value, "result")
    match _kind_of(value):
        case "task":
            return {"task": read_task(value)}
        case "message":
            return {"message": read_message(value, role="ROLE_AGENT")}
        case "statusUpdate":
            status = read_status(value.get("status"))
            return {"statusUpdate": {**_update(value), "status": status}}
    artifact = read_artifact(value.get("artifact"))
    return {
        "artifactUpdate": {
            **_update(value),
            "artifact": artifact,
            **some(value, "append", "lastChunk"),
        }
    }


def _kind_of(value: Json) -> str:
    kind = _KINDS.get(value.get("kind", ""))
    if kind is not None:
        return kind
    if "messageId" in value:
        return "message"
    if "artifact" in value:
        return "artifactUpdate"
    return "statusUpdate" if "taskId" in value or "final" in value else "task"


def _update(value: Json) -> Json:
    return {
        "taskId": value.get("taskId"),
        "contextId": value.get("contextId") or "",
        **some(value, "metadata"),
    }


# Parameters


def write_send(request: Json) -> Json:
    params: Json = {"message": write_message(request["message"])}
    configuration = request.get("configuration")
    if configuration is not None:
        push = configuration.get("taskPushNotificationConfig")
        params["configuration"] = {
            # Required until 0.2.5.
            "acceptedOutputModes": configuration.get("acceptedOutputModes", []),
            "blocking": not configuration.get("returnImmediately", False),
            **some(configuration, "historyLength"),
            **({"pushNotificationConfig": write_webhook(push)} if push is not None else {}),
        }
    return params | some(request, "metadata")


def read_send(value: Json) -> Json:
    message = value.get("message")
    if (
        isinstance(message, dict)
        and message.get("messageId") is None
        and value.get("messageId") is not None
    ):
        message = {**message, "messageId": value["messageId"]}
    request: Json = {"message": read_message(message)}
    configuration = value.get("configuration")
    if configuration is not None:
        request["configuration"] = read_configuration(
            need(configuration, "configuration"), "pushNotificationConfig", blocks=True
        )
    if value.get("metadata") is not None:
        request["metadata"] = value["metadata"]
    return request


def read_configuration(value: Json, push: str, *, blocks: bool) -> Json:
    """`blocks`: what it means to say nothing about blocking."""
    blocking = value.get("blocking")
    if blocking is None:
        blocking = blocks
    if not isinstance(blocking, bool):
        raise refuse("configuration.blocking", "is neither true nor false")
    configuration: Json = some(value, "historyLength")
    if not blocking:
        configuration["returnImmediately"] = True
    modes = value.get("acceptedOutputModes")
    if modes:
        configuration["acceptedOutputModes"] = (
            read_modes(modes) if isinstance(modes, list) else modes
        )
    if value.get(push) is not None:
        configuration["taskPushNotificationConfig"] = read_webhook(
            value[push], f"configuration.{push}"
        )
    return configuration


def read_task_id(value: Json) -> Json:
    return {"id": task_id_of(value)}


def _read_cancel(value: Json) -> Json:
    return {"id": task_id_of(value), **some(value, "metadata")}


def read_query(value: Json) -> Json:
    return {"id": task_id_of(value), **some(value, "historyLength")}


def write_query(request: Json) -> Json:
    return some(request, "id", "historyLength", "metadata")


def read_list(value: Json) -> Json:
    request = {
        "historyLength": 0,
        **some(value, "contextId", "pageSize", "pageToken", "historyLength", "includeArtifacts"),
    }
    if value.get("status") is not None:
        request["status"] = read_state(value["status"], "status")
    after = value.get("lastUpdatedAfter")
    if after is not None:
        if not isinstance(after, int) or isinstance(after, bool) or not 0 <= after < 1 << 48:
            raise refuse("lastUpdatedAfter", "is not a number of milliseconds since 1970")
        check_past(after)
        request["statusTimestampAfter"] = timestamp(after)
    return request


_SKEW_MS = 60_000  # how far clocks may differ


def check_past(after_ms: float) -> None:
    """Refuse a `lastUpdatedAfter` in the future, further off than clocks may be."""
    if after_ms > now_ms() + _SKEW_MS:
        raise refuse("lastUpdatedAfter", "is in the future")


def write_list(request: Json) -> Json:
    params = some(
        request, "contextId", "pageSize", "pageToken", "historyLength", "includeArtifacts"
    )
    if request.get("status"):
        params["status"] = write_state(request["status"])
    after = request.get("statusTimestampAfter")
    if after:
        params["lastUpdatedAfter"] = int(datetime.datetime.fromisoformat(after).timestamp() * 1000)
    return params


# Push configs


def write_push(config: Json, schemes: list[str] | None = None) -> Json:
    return {
        "taskId": config.get("taskId", ""),
        "pushNotificationConfig": write_webhook(config, schemes),
    }


def read_push(value: Json) -> Json:
    """Without an id a config gets the task's: there was one per task, and a second replaces the
    first.
    """
    nested = value.get("pushNotificationConfig")
    if nested is None and value.get("url") is not None:
        nested = {
            name: item
            for name, item in value.items()
            if name != "taskId" and not (name == "id" and "taskId" not in value)
        }
    task_id = task_id_of(value, "taskId", "id")
    return {"id": task_id, **read_webhook(nested, "pushNotificationConfig"), "taskId": task_id}


def _read_push_get(value: Json) -> Json:
    names = (
        "pushNotificationConfigId",
        "configId",
        *(("id",) if value.get("taskId") is not None else ()),
    )
    config_id = next((value[name] for name in names if value.get(name) is not None), "")
    return {"taskId": task_id_of(value, "taskId", "id"), "id": config_id}


def _read_push_delete(value: Json) -> Json:
    request = _read_push_get(value)
    if not request["id"]:
        raise refuse("pushNotificationConfigId", "is required")
    return request


def _read_push_list(value: Json) -> Json:
    return {"taskId": task_id_of(value, "taskId", "id")}


# The codec

_SENDS = ("SendMessage", "SendStreamingMessage")
_CANCEL = Semantics(cancel_twice_fails=True)
_SUBSCRIBE = Semantics(ends_with_snapshot=True)
_PUSH = Semantics(has_one_push_config=True)

READERS: dict[str, tuple[Callable[[Json], Json], type, Semantics]] = {
    "SendMessage": (read_send, SendMessageRequest, _PUSH),
    "SendStreamingMessage": (read_send, SendMessageRequest, _PUSH),
    "GetTask": (read_query, GetTaskRequest, DEFAULT_SEMANTICS),
    "ListTasks": (read_list, ListTasksRequest, DEFAULT_SEMANTICS),
    "CancelTask": (_read_cancel, CancelTaskRequest, _CANCEL),
    "SubscribeToTask": (read_task_id, SubscribeRequest, _SUBSCRIBE),
    "CreateTaskPushNotificationConfig": (read_push, TaskPushNotificationConfig, _PUSH),
    "GetTaskPushNotificationConfig": (_read_push_get, GetPushConfigRequest, _PUSH),
    "ListTaskPushNotificationConfigs": (_read_push_list, ListPushConfigsRequest, DEFAULT_SEMANTICS),
    "DeleteTaskPushNotificationConfig": (_read_push_delete, DeletePushConfigRequest, _PUSH),
    "GetExtendedAgentCard": (lambda value: {}, GetExtendedCardRequest, DEFAULT_SEMANTICS),
    "GetAgentCard": (lambda value: {}, GetExtendedCardRequest, DEFAULT_SEMANTICS),
}


class V03:
    """0.2 and 0.3 on JSON-RPC."""

    origin = "0.3"
    errors_in_streams = True  # its clients read nothing but events from a stream

    def decode(self, operation: str, params: bytes) -> tuple[Any, Semantics]:
        if operation in _SENDS and (request := text_send.read(params)) is not None:
            return request, DEFAULT_SEMANTICS
        read, type_, semantics = READERS[operation]
        return legacy.convert(legacy.read(read, legacy.load(params)), type_), semantics

    def result(self, operation: str, answer: Any) -> bytes:
        return v1.encode(self.value(answer))

    def value(self, answer: Any) -> Any:
        match answer:
            case Snapshot():
                return write_task(shallow_task(answer.data))
            case Message():
                return write_message(msgspec.to_builtins(answer))
            case TaskPage():
                return write_tasks(answer, write_task)
            case TaskPushNotificationConfig():
                return write_push(msgspec.to_builtins(answer))
            case ListPushConfigsResponse():
                return [write_push(msgspec.to_builtins(config)) for config in answer.configs]
            case None:
                return None
        return legacy_card.union(answer)

    def frames(
        self, event: Event | Message, *, seq: int, is_last: bool, index: Callable[[str], int]
    ) -> list[bytes]:
        return [v1.encode(write_event(wrapped(event), is_last=is_last))]

    def error(self, error: A2AError) -> Json:
        return write_error(error)


CODEC = V03()


def write_tasks(page: TaskPage, write: Callable[[Json], Json]) -> Json:
    return {
        "tasks": [write(shallow_task(task)) for task in page.tasks],
        "totalSize": page.total_size,
        "pageSize": page.page_size,
        "nextPageToken": page.next_page_token,
    }


# Errors

_NAMES = {
    ExtendedAgentCardNotConfigured: "AuthenticatedExtendedCardNotConfiguredError",
    ExtensionSupportRequired: "InvalidRequestError",
    ParseError: "JSONParseError",
}
_BY_CODE = {
    -32001: "TaskNotFoundError",
    -32002: "TaskNotCancelableError",
    -32003: "PushNotificationNotSupportedError",
    -32004: "UnsupportedOperationError",
    -32005: "ContentTypeNotSupportedError",
    -32006: "InvalidAgentResponseError",
    -32600: "InvalidRequestError",
    -32601: "MethodNotFoundError",
    -32602: "InvalidParamsError",
}


def error_name(error: A2AError) -> str:
    """Return the name 0.3's libraries give to an error: its HTTP+JSON and gRPC clients know an
    error by that.
    """
    return _NAMES.get(type(error)) or _BY_CODE.get(error.code, "InternalError")


def write_error(error: A2AError) -> Json:
    """Return an error with the code 0.2 and 0.3 know. They have no typed details: `data` is any
    JSON.
    """
    if isinstance(error, ExtensionSupportRequired):
        return {
            "code": -32600,
            "message": str(error),
            "data": {"extensions": error.detail.get("extensions", "").split(", ")},
        }
    written: Json = {"code": error.code, "message": str(error)}
    if data := legacy.error_data(error):
        written["data"] = data
    return written
