"""A2A 0.1: the client names the task, parts have a `type`, artifacts an `index`, and a stream shows
statuses and artifacts only.

Plain JSON values in and out, as in `v03`. What 0.1 asks for beyond 1.0, it says with `Semantics`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ...model import (
    A2AError,
    CancelTaskRequest,
    Event,
    GetPushConfigRequest,
    GetTaskRequest,
    Message,
    SendMessageRequest,
    SubscribeRequest,
    TaskPushNotificationConfig,
    new_id,
)
from .. import legacy
from ..contract import Semantics, Snapshot
from ..legacy import (
    Json,
    need,
    read_modes,
    read_role,
    read_state,
    read_time,
    refuse,
    some,
    write_role,
    write_state,
)
from ..task_outline import shallow_task
from ..v1 import codec as v1

__all__ = [
    "CODEC",
    "V01",
    "read_artifact",
    "read_event",
    "read_message",
    "read_part",
    "read_push",
    "read_send",
    "read_status",
    "read_task",
    "write_artifact",
    "write_events",
    "write_message",
    "write_part",
    "write_push",
    "write_send",
    "write_status",
    "write_task",
]

# The states 0.1 does not have, and what it says instead (its own section 4.5).
_DOWN = {"TASK_STATE_REJECTED": "failed", "TASK_STATE_AUTH_REQUIRED": "input-required"}

# 1.0's codes that mean something else in 0.1, and the nearest it has.
_CODES = {-32006: -32603, -32007: -32004, -32008: -32600, -32009: -32600}


# Objects


def write_part(part: Json) -> Json:
    return legacy.write_part(part, "type")


def read_part(value: Any, field: str = "part") -> Json:
    return legacy.read_part(value, field, lone_file=True)


def write_message(message: Json) -> Json:
    written = {
        "role": write_role(message["role"]),
        "parts": [legacy.write_part(part, "type") for part in message["parts"]],
    }
    return written | some(message, "metadata")


def read_message(value: Any, field: str = "message", *, role: str = "ROLE_USER") -> Json:
    """Return the 1.0 message. 0.1 gives messages no id, so it gets one here."""
    value = need(value, field)
    message = {
        "messageId": new_id(),
        "role": read_role(value.get("role"), f"{field}.role", role),
        "parts": legacy.read_parts(value.get("parts"), f"{field}.parts", read_part),
    }
    return message | some(value, "metadata")


def write_status(status: Json) -> Json:
    state = status["state"]
    written: Json = {"state": _DOWN.get(state) or write_state(state)}
    message = status.get("message")
    if message is not None:
        if state in _DOWN:
            message = {**message, "metadata": legacy.mark(message.get("metadata"), state=state)}
        written["message"] = write_message(message)
    return written | some(status, "timestamp")


def read_status(value: Any, field: str = "status") -> Json:
    value = need(value, field)
    status: Json = {"state": read_state(value.get("state"), f"{field}.state")}
    if value.get("message") is not None:
        message = read_message(value["message"], f"{field}.message", role="ROLE_AGENT")
        metadata, facts = legacy.drop_marks(message.pop("metadata", None))
        status["state"] = facts.get("state", status["state"])
        status["message"] = message | ({"metadata": metadata} if metadata else {})
    if value.get("timestamp"):
        status["timestamp"] = read_time(value["timestamp"])
    return status


def write_artifact(artifact: Json, index: int) -> Json:
    written = some(artifact, "name", "description")
    written |= {
        "index": index,
        "parts": [legacy.write_part(part, "type") for part in artifact["parts"]],
    }
    return written | some(artifact, "metadata")


def read_artifact(value: Any, field: str = "artifact", index: int | None = None) -> Json:
    value = need(value, field)
    place = (value.get("index") or 0) if index is None else index
    return {
        "artifactId": f"artifact-{place}",
        "parts": legacy.read_parts(value.get("parts"), f"{field}.parts", read_part),
        **some(value, "name", "description", "metadata"),
    }


def write_task(task: Json) -> Json:
    written: Json = {"id": task["id"]}
    if task.get("contextId"):
        written["sessionId"] = task["contextId"]
    written["status"] = write_status(task["status"])
    if "artifacts" in task:
        written["artifacts"] = [
            write_artifact(artifact, i) for i, artifact in enumerate(task["artifacts"])
        ]
    if "history" in task:
        written["history"] = [write_message(message) for message in task["history"]]
    metadata = _mark_state(task.get("metadata"), task["status"])
    return written | ({"metadata": metadata} if metadata else {})


def read_task(value: Any, field: str = "task") -> Json:
    value = need(value, field)
    metadata, facts = legacy.drop_marks(value.get("metadata"))
    status = read_status(value.get("status"), f"{field}.status")
    status["state"] = facts.get("state", status["state"])
    task: Json = {"id": value.get("id"), "status": status}
    if value.get("sessionId"):
        task["contextId"] = value["sessionId"]
    if value.get("artifacts"):
        indexes = [
            artifact.get("index") or 0
            for artifact in value["artifacts"]
            if isinstance(artifact, dict)
        ]
        is_told = len(set(indexes)) == len(indexes)  # else the place in the list is all there is
        task["artifacts"] = [
            read_artifact(artifact, f"{field}.artifacts[{i}]", None if is_told else i)
            for i, artifact in enumerate(value["artifacts"])
        ]
    if value.get("history"):
        task["history"] = [
            read_message(m, f"{field}.history[{i}]") for i, m in enumerate(value["history"])
        ]
    return task | ({"metadata": metadata} if metadata else {})


def _mark_state(metadata: Json | None, status: Json) -> Json | None:
    """Where a status has no message to carry its true state, what is around it does."""
    if status["state"] in _DOWN and "message" not in status:
        return legacy.mark(metadata, state=status["state"])
    return metadata


# Streams


def write_events(event: Json, *, is_last: bool, index: Callable[[str], int]) -> list[Json]:
    """Return a StreamResponse of 1.0 as the events of a 0.1 stream; a whole task is its status and
    its artifacts.
    """
    if "task" in event:
        return _write_snapshot(event["task"], is_last)
    if "message" in event:
        message = event["message"]
        status = {"state": "TASK_STATE_COMPLETED", "message": message}
        return [
            _status_event({"taskId": message.get("taskId", ""), "status": status}, is_last=True)
        ]
    if "statusUpdate" in event:
        return [_status_event(event["statusUpdate"], is_last=is_last)]
    update = event["artifactUpdate"]
    artifact = write_artifact(update["artifact"], index(update["artifact"]["artifactId"]))
    artifact |= {"append": update.get("append", False), "lastChunk": update.get("lastChunk", False)}
    return [{"id": update["taskId"], "artifact": artifact, **some(update, "metadata")}]


def _write_snapshot(task: Json, is_last: bool) -> list[Json]:
    status = _status_event({"taskId": task["id"], "status": task["status"]}, is_last=is_last)
    artifacts = [
        {
            "id": task["id"],
            "artifact": write_artifact(artifact, i) | {"append": False, "lastChunk": is_last},
        }
        for i, artifact in enumerate(task.get("artifacts", ()))
    ]
    # A client stops reading at `final`, so that comes last.
    return [*artifacts, status] if is_last else [status, *artifacts]


def _status_event(update: Json, *, is_last: bool) -> Json:
    metadata = _mark_state(update.get("metadata"), update["status"])
    event = {"id": update["taskId"], "status": write_status(update["status"]), "final": is_last}
    return event | ({"metadata": metadata} if metadata else {})


def read_event(value: Any) -> Json:
    """Return the StreamResponse of an event from a 0.1 stream."""
    value = need(value, "result")
    update: Json = {
        "taskId": str(value.get("id", value.get("taskId", ""))),
        "contextId": value.get("sessionId") or "",
    }
    artifact = value.get("artifact")
    if artifact is not None:
        artifact = need(
            artifact[0] if isinstance(artifact, list) and artifact else artifact, "artifact"
        )
        flags = {
            name: True for name in ("append", "lastChunk") if artifact.get(name) or value.get(name)
        }
        return {
            "artifactUpdate": {
                **update,
                "artifact": read_artifact(artifact),
                **flags,
                **some(value, "metadata"),
            }
        }
    metadata, facts = legacy.drop_marks(value.get("metadata"))
    status = read_status(value.get("status"))
    status["state"] = facts.get("state", status["state"])
    return {
        "statusUpdate": {**update, "status": status, **({"metadata": metadata} if metadata else {})}
    }


# Parameters


def write_send(request: Json, task_id: str) -> Json:
    message = request["message"]
    params: Json = {"id": message.get("taskId") or task_id}
    if message.get("contextId"):
        params["sessionId"] = message["contextId"]
    params["message"] = write_message(message)
    configuration = request.get("configuration") or {}
    if configuration.get("historyLength"):
        params["historyLength"] = configuration["historyLength"]
    if configuration.get("acceptedOutputModes"):
        params["acceptedOutputModes"] = configuration["acceptedOutputModes"]
    if configuration.get("taskPushNotificationConfig"):
        params["pushNotification"] = _write_webhook(configuration["taskPushNotificationConfig"])
    return params | some(request, "metadata")


def read_send(value: Json) -> Json:
    message = read_message(value.get("message"))
    if value.get("sessionId") is not None:
        message["contextId"] = value["sessionId"]
    request: Json = {"message": message, "configuration": {"historyLength": _history(value)}}
    modes = value.get("acceptedOutputModes")
    if modes:
        request["configuration"]["acceptedOutputModes"] = (
            read_modes(modes) if isinstance(modes, list) else modes
        )
    if value.get("pushNotification") is not None:
        request["configuration"]["taskPushNotificationConfig"] = legacy.read_webhook(
            value["pushNotification"], "pushNotification"
        )
    return request | some(value, "metadata")


def _history(value: Json) -> Any:
    """No history unless asked for."""
    return value["historyLength"] if value.get("historyLength") is not None else 0


def _read_task_id(value: Json) -> Json:
    return {"id": legacy.task_id_of(value)}


def _read_query(value: Json) -> Json:
    return {"id": legacy.task_id_of(value), "historyLength": _history(value)}


def _write_webhook(config: Json, schemes: list[str] | None = None) -> Json:
    webhook = legacy.write_webhook(config, schemes)
    webhook.pop("id", None)  # one per task
    return webhook


def write_push(config: Json, schemes: list[str] | None = None) -> Json:
    webhook = _write_webhook(config, schemes) if config.get("url") else None
    return {"id": config["taskId"], "pushNotificationConfig": webhook}


def read_push(value: Json) -> Json:
    """Return the task's one config. A config of null takes it away, which is said by an
    empty url.
    """
    task_id = legacy.task_id_of(value, "id", "taskId")
    if "pushNotificationConfig" not in value:
        raise refuse("pushNotificationConfig", "is required")
    nested = value["pushNotificationConfig"]
    webhook = (
        legacy.read_webhook(nested, "pushNotificationConfig") if nested is not None else {"url": ""}
    )
    return {**webhook, "id": task_id, "taskId": task_id}


def _read_push_get(value: Json) -> Json:
    task_id = legacy.task_id_of(value, "id", "taskId")
    return {"taskId": task_id, "id": task_id}


# The codec

_NOTHING_MORE = Semantics()
_PUSH = Semantics(has_one_push_config=True, empty_url_removes_push=True)
_READERS: dict[str, tuple[Callable[[Json], Json], type, Semantics]] = {
    "GetTask": (_read_query, GetTaskRequest, _NOTHING_MORE),
    "CancelTask": (_read_task_id, CancelTaskRequest, Semantics(cancel_twice_fails=True)),
    "SubscribeToTask": (_read_task_id, SubscribeRequest, Semantics(ends_with_snapshot=True)),
    "CreateTaskPushNotificationConfig": (read_push, TaskPushNotificationConfig, _PUSH),
    "GetTaskPushNotificationConfig": (_read_push_get, GetPushConfigRequest, _PUSH),
}


class V01:
    """0.1, which has JSON-RPC only."""

    origin = "0.1"
    errors_in_streams = True

    def decode(self, operation: str, params: bytes) -> tuple[Any, Semantics]:
        value = legacy.load(params)
        if operation in _READERS:
            read, type_, semantics = _READERS[operation]
            return legacy.convert(legacy.read(read, value), type_), semantics
        request = legacy.convert(legacy.read(read_send, value), SendMessageRequest)
        if operation == "SendStreamingMessage" and request.configuration is not None:
            request.configuration.history_length = None  # a 0.1 stream shows none in any case
        task_id = value.get("id")
        if task_id is not None and (not isinstance(task_id, str) or not task_id):
            raise refuse("id", "is not the id of a task")
        return request, Semantics(
            new_task_id=task_id or new_id(), reopen=True, always_task=True, has_one_push_config=True
        )

    def result(self, operation: str, answer: Any) -> bytes:
        if isinstance(answer, Snapshot):
            task = write_task(shallow_task(answer.data))
            if operation == "CancelTask":  # its request can't ask for the history, as others can
                task.pop("history", None)
            return v1.encode(task)
        if isinstance(answer, TaskPushNotificationConfig):
            return v1.encode(write_push(msgspec.to_builtins(answer)))
        return b"null"

    def frames(
        self, event: Event | Message, *, seq: int, is_last: bool, index: Callable[[str], int]
    ) -> list[bytes]:
        return [
            v1.encode(frame)
            for frame in write_events(legacy.wrapped(event), is_last=is_last, index=index)
        ]

    def error(self, error: A2AError) -> Json:
        written: Json = {"code": _CODES.get(error.code, error.code), "message": str(error)}
        if data := legacy.error_data(error):
            written["data"] = data
        return written


CODEC = V01()
