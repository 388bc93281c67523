"""A2A 0.3 as its protobuf definition writes it in JSON: the objects of `/v1/...` and, field for
field, of its gRPC.

Its readers are strict, so exactly the fields of 0.3 are written; ours take every spelling that was
ever in use: snake_case, enum numbers, the names of the drafts on both sides of 0.3. Plain JSON
values in and out; nothing here knows HTTP.
"""

import contextlib
import datetime
import re
from functools import partial
from typing import Any, NamedTuple

from ...model import whole_number
from ..legacy import (
    WRAPPED,
    Json,
    drop_marks,
    need,
    read_parts,
    read_role,
    read_state,
    read_time,
    read_webhook,
    refuse,
    some,
    write_webhook,
)
from ..task_outline import is_object
from . import codec as v03
from .file_bytes import Form, read_bytes, write_bytes

__all__ = [
    "DRAFT",
    "RELEASED",
    "Names",
    "config_name",
    "read_artifact",
    "read_config_name",
    "read_event",
    "read_list",
    "read_message",
    "read_number",
    "read_part",
    "read_push",
    "read_send",
    "read_status",
    "read_task",
    "read_task_name",
    "task_name",
    "write_artifact",
    "write_event",
    "write_message",
    "write_part",
    "write_push",
    "write_send",
    "write_status",
    "write_task",
    "write_webhook",
]


class Names(NamedTuple):
    """What differs among those who speak it: the members whose names changed after 0.3, and how
    file bytes travel.
    """

    content: str
    media_type: str
    push: str
    has_references: bool
    form: Form = Form.RAW


RELEASED = Names("content", "mimeType", "pushNotification", False)
DRAFT = Names("parts", "mediaType", "pushNotificationConfig", True)

_CANCELED, _CANCELLED = "TASK_STATE_CANCELED", "TASK_STATE_CANCELLED"
_UPPER = re.compile(r"_([a-z0-9])")
_TASK_NAME = re.compile(r"tasks/([^/]+)")
_CONFIG_NAME = re.compile(r"tasks/([^/]+)/(?:pushNotificationConfigs|pushNotifications)/([^/]+)")


def _members(value: Any, field: str) -> Json:
    """The members of an object by their camelCase names, null ones left out."""
    return {
        _UPPER.sub(lambda m: m[1].upper(), name) if "_" in name else name: item
        for name, item in need(value, field).items()
        if item is not None
    }


def _whole(value: Any) -> Any:
    """A Struct has only doubles: 1.0 was 1 when it was written."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


# Names of resources


def task_name(task_id: str) -> str:
    return f"tasks/{task_id}"


def read_task_name(name: str, field: str = "name") -> str:
    """Return the id in `tasks/{id}`; a bare id is taken too."""
    match = _TASK_NAME.fullmatch(name)
    if match is None and (not name or "/" in name):
        raise refuse(field, f"{name!r:.80} is not tasks/{{id}}")
    return match[1] if match else name


def config_name(task_id: str, config_id: str) -> str:
    return f"tasks/{task_id}/pushNotificationConfigs/{config_id}"


def read_config_name(name: str, field: str = "name") -> tuple[str, str]:
    """Return the ids of the task and of the config."""
    match = _CONFIG_NAME.fullmatch(name)
    if match is None:
        raise refuse(field, f"{name!r:.80} is not tasks/{{id}}/pushNotificationConfigs/{{id}}")
    return match[1], match[2]


# Objects


def write_part(part: Json, names: Names = RELEASED) -> Json:
    metadata = part.get("metadata")
    if "text" in part:
        written: Json = {"text": part["text"]}
    elif "data" in part:
        data = part["data"]
        if not is_object(data):
            data, metadata = {"value": data}, {**(metadata or {}), WRAPPED: True}
        written = {"data": {"data": data}}
    else:
        if "raw" in part:
            metadata, _ = drop_marks(metadata)
            file = {"fileWithBytes": write_bytes(part["raw"], names.form)}
        else:
            file = {"fileWithUri": part["url"]}
        if part.get("mediaType"):
            file[names.media_type] = part["mediaType"]
        if part.get("filename"):
            file["name"] = part["filename"]
        written = {"file": file}
    if metadata:  # a field added after 0.3.0: never written empty
        written["metadata"] = metadata
    return written


def read_part(value: Any, field: str = "part", form: Form = Form.RAW) -> Json:
    value = _members(value, field)
    metadata = _whole(value.get("metadata"))
    if isinstance(value.get("text"), str):
        part: Json = {"text": value["text"]}
    elif "data" in value:
        data = _whole(need(value["data"], f"{field}.data").get("data", {}))
        if isinstance(metadata, dict) and metadata.get(WRAPPED) is True:
            data = data.get("value") if isinstance(data, dict) else data
            metadata = {key: item for key, item in metadata.items() if key != WRAPPED}
        part = {"data": data}
    elif "file" in value:
        part = _read_file(_members(value["file"], f"{field}.file"), f"{field}.file", form)
    else:
        raise refuse(field, "holds none of text, file, data")
    if metadata:
        part["metadata"] = metadata
    return part


def _read_file(file: Json, field: str, form: Form) -> Json:
    kind = file.get("mimeType") or file.get("mediaType") or ""
    if not isinstance(kind, str):
        raise refuse(f"{field}.mimeType", "is not text")
    part: Json
    if file.get("fileWithBytes") is not None:
        part = {"raw": read_bytes(file["fileWithBytes"], f"{field}.fileWithBytes", form)}
    elif file.get("fileWithUri") is not None:
        part = {"url": file["fileWithUri"]}
    else:
        raise refuse(field, "has neither fileWithBytes nor fileWithUri")
    if file.get("name"):
        part["filename"] = file["name"]
    if kind:
        part["mediaType"] = kind
    return part


def write_message(message: Json, names: Names = RELEASED) -> Json:
    written = some(message, "messageId", "contextId", "taskId")
    written["role"] = "ROLE_USER" if message["role"] == "ROLE_USER" else "ROLE_AGENT"
    written[names.content] = [write_part(part, names) for part in message["parts"]]
    written |= some(message, "metadata", "extensions")
    if names.has_references:
        written |= some(message, "referenceTaskIds")
    return written


def read_message(
    value: Any, field: str = "message", *, role: str = "", form: Form = Form.RAW
) -> Json:
    value = _members(value, field)
    if not value.get("messageId"):
        raise refuse(f"{field}.messageId", "is required")
    name = "content" if "content" in value else "parts"
    message = {
        "messageId": value["messageId"],
        "role": read_role(value.get("role"), f"{field}.role", role),
        # An empty list is not written.
        "parts": read_parts(value.get(name, []), f"{field}.{name}", partial(read_part, form=form)),
        **some(value, "contextId", "taskId", "extensions", "referenceTaskIds"),
    }
    if value.get("metadata"):
        message["metadata"] = _whole(value["metadata"])
    return message


def write_status(status: Json, names: Names = RELEASED) -> Json:
    written: Json = {}
    state = status["state"]
    if state != "TASK_STATE_UNSPECIFIED":  # zero: absent
        written["state"] = _CANCELLED if state == _CANCELED else state
    if "message" in status:
        written["message"] = write_message(status["message"], names)
    return written | some(status, "timestamp")


def read_status(value: Any, field: str = "status", form: Form = Form.RAW) -> Json:
    value = _members(value, field)
    status: Json = {"state": read_state(value.get("state", 0), f"{field}.state")}
    message = value.get("message") or value.get("update")  # old Python peers write an empty one
    if message:
        status["message"] = read_message(message, f"{field}.message", role="ROLE_AGENT", form=form)
    if value.get("timestamp"):
        status["timestamp"] = read_time(value["timestamp"])
    return status


def write_artifact(artifact: Json, names: Names = RELEASED) -> Json:
    written = some(artifact, "artifactId", "name", "description")
    written["parts"] = [write_part(part, names) for part in artifact["parts"]]
    return written | some(artifact, "metadata", "extensions")


def read_artifact(value: Any, field: str = "artifact", form: Form = Form.RAW) -> Json:
    value = _members(value, field)
    artifact = {
        "artifactId": value.get("artifactId") or "",
        "parts": read_parts(value.get("parts"), f"{field}.parts", partial(read_part, form=form)),
        **some(value, "name", "description", "extensions"),
    }
    if value.get("metadata"):
        artifact["metadata"] = _whole(value["metadata"])
    return artifact


def write_task(task: Json, names: Names = RELEASED) -> Json:
    written = some(task, "id", "contextId")
    written["status"] = write_status(task["status"], names)
    if "artifacts" in task:
        written["artifacts"] = [write_artifact(artifact, names) for artifact in task["artifacts"]]
    if "history" in task:
        written["history"] = [write_message(message, names) for message in task["history"]]
    return written | some(task, "metadata")


def read_task(value: Any, field: str = "task", form: Form = Form.RAW) -> Json:
    value = _members(value, field)
    task: Json = {
        "id": value.get("id"),
        "status": read_status(value.get("status", {}), f"{field}.status", form),
        **some(value, "contextId"),
    }
    if value.get("artifacts"):
        task["artifacts"] = [
            read_artifact(a, f"{field}.artifacts[{i}]", form)
            for i, a in enumerate(value["artifacts"])
        ]
    if value.get("history"):
        task["history"] = [
            read_message(m, f"{field}.history[{i}]", role="ROLE_AGENT", form=form)
            for i, m in enumerate(value["history"])
        ]
    if value.get("metadata"):
        task["metadata"] = _whole(value["metadata"])
    return task


def write_event(event: Json, *, is_last: bool = False, names: Names = RELEASED) -> Json:
    """Return a StreamResponse of 1.0 as 0.3's. `is_last`: the stream ends after it."""
    if "task" in event:
        return {"task": write_task(event["task"], names)}
    if "message" in event:
        return {"message": write_message(event["message"], names)}
    if "statusUpdate" in event:
        update = event["statusUpdate"]
        status = some(update, "taskId", "contextId") | {
            "status": write_status(update["status"], names)
        }
        return {
            "statusUpdate": status | ({"final": True} if is_last else {}) | some(update, "metadata")
        }
    update = event["artifactUpdate"]
    artifact = some(update, "taskId", "contextId") | {
        "artifact": write_artifact(update["artifact"], names)
    }
    flags = {name: True for name in ("append", "lastChunk") if update.get(name)}
    return {"artifactUpdate": artifact | flags | some(update, "metadata")}


def read_event(value: Any, form: Form = Form.RAW) -> Json:
    """Return the StreamResponse (or SendMessageResponse) of 1.0."""
    value = _members(value, "result")
    if "task" in value:
        return {"task": read_task(value["task"], form=form)}
    message = value.get("message") or value.get("msg")
    if message is not None:
        return {"message": read_message(message, role="ROLE_AGENT", form=form)}
    if "statusUpdate" in value:
        update = _members(value["statusUpdate"], "statusUpdate")
        return {
            "statusUpdate": {
                **_update(update),
                "status": read_status(update.get("status", {}), form=form),
            }
        }
    update = _members(value.get("artifactUpdate"), "artifactUpdate")
    artifact = read_artifact(update.get("artifact"), form=form)
    return {
        "artifactUpdate": {
            **_update(update),
            "artifact": artifact,
            **some(update, "append", "lastChunk"),
        }
    }


def _update(value: Json) -> Json:
    update = {"taskId": value.get("taskId"), "contextId": value.get("contextId") or ""}
    return update | {"metadata": _whole(value["metadata"])} if value.get("metadata") else update


# Requests


def write_send(request: Json, names: Names = RELEASED) -> Json:
    written: Json = {"message": write_message(request["message"], names)}
    configuration = request.get("configuration") or {}
    # A bool without presence: to say nothing is to say false, so blocking is always said.
    written["configuration"] = {
        **some(configuration, "acceptedOutputModes"),
        **(
            {"historyLength": configuration["historyLength"]}
            if configuration.get("historyLength")
            else {}
        ),
        "blocking": not configuration.get("returnImmediately", False),
    }
    push = configuration.get("taskPushNotificationConfig")
    if push is not None:
        written["configuration"][names.push] = write_webhook(push)
    return written | some(request, "metadata")


def read_send(value: Any, form: Form = Form.RAW) -> Json:
    value = _members(value, "params")
    request: Json = {"message": read_message(value.get("message", value.get("request")), form=form)}
    configuration = _members(value.get("configuration", {}), "configuration")
    push = "pushNotification" if "pushNotification" in configuration else "pushNotificationConfig"
    if configuration.get("historyLength") == 0:
        # An int without presence: zero is absent, and absent is no limit.
        del configuration["historyLength"]
    request["configuration"] = v03.read_configuration(configuration, push, blocks=False)
    if value.get("metadata"):
        request["metadata"] = _whole(value["metadata"])
    return request


def read_list(value: Any) -> Json:
    """Return a ListTasksRequest; the numbers of a query string are text."""
    value = _members(value, "params")
    after = value.pop("lastUpdatedAfter", None) or value.pop("lastUpdatedTime", None)
    for name in ("pageSize", "historyLength"):
        if name in value:
            value[name] = read_number(value[name], name)
    flag = value.get("includeArtifacts")
    if isinstance(flag, str) and flag.lower() in ("true", "false"):
        value["includeArtifacts"] = flag.lower() == "true"
    status = value.get("status")
    if isinstance(status, str):
        number = whole_number(status)
        value["status"] = status if number is None else number
    if isinstance(after, str):
        number = whole_number(after)
        if number is None:
            return v03.read_list(value) | {"statusTimestampAfter": _past(after)}
        after = number
    return v03.read_list(value if after is None else value | {"lastUpdatedAfter": after})


def _past(text: str) -> str:
    """Return a time as it was written. Refuse one in the future; what is no time is refused
    later, with the whole request.
    """
    with contextlib.suppress(ValueError, OverflowError):
        v03.check_past(datetime.datetime.fromisoformat(text).timestamp() * 1000)
    return text


def read_number(value: Any, field: str) -> Any:
    if isinstance(value, str):
        if not re.fullmatch(r"-?[0-9]{1,11}", value):
            raise refuse(field, f"{value!r:.40} is not a number")
        return int(value)
    return value


# Push configs


def write_push(config: Json, schemes: list[str] | None = None) -> Json:
    task_id = config.get("taskId", "")
    return {
        "name": config_name(task_id, config.get("id") or task_id),
        "pushNotificationConfig": write_webhook(config, schemes),
    }


def read_push(value: Any, task_id: str = "") -> Json:
    """Return the config of any of the bodies in use: a whole create request, one with `config`
    only, or the config itself.

    `task_id`, from the path, wins over what the body says.
    """
    value = _members(value, "config")
    outer = _members(value["config"], "config") if "config" in value else value
    nested = outer.get("pushNotificationConfig")
    if nested is None and outer.get("url") is not None:
        nested = outer
    webhook = read_webhook(_members(nested, "pushNotificationConfig"), "pushNotificationConfig")
    named = _CONFIG_NAME.fullmatch(outer.get("name") or "")
    parent = value.get("parent") or ""
    task_id = (
        task_id
        or (read_task_name(parent, "parent") if parent else "")
        or (named[1] if named else "")
    )
    if not task_id:
        raise refuse("parent", "is required")
    config_id = webhook.get("id") or value.get("configId") or (named[2] if named else "") or task_id
    return {**webhook, "id": config_id, "taskId": task_id}
