"""A2A 0.3 over HTTP+JSON from the client's side: `/v1/...`, in the JSON of its protobuf
definition.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec

from ...model import (
    A2AError,
    Artifact,
    ListPushConfigsResponse,
    ListTasksResponse,
    Message,
    Part,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
)
from .. import legacy
from ..client import EventFrame, FrameDecoder, JsonObject, error_of
from ..mending import MessageIds, Note, ObjectReaders, read_mended
from ..v1 import RestRequest
from . import codec as v03
from . import proto_json
from .client import READERS, read
from .file_bytes import Form, form_of_server

__all__ = ["NAMES", "RAW", "TEXT", "RestClientV03", "codec_of_server"]

NAMES = {
    "TaskNotFoundError": -32001,
    "TaskNotCancelableError": -32002,
    "PushNotificationNotSupportedError": -32003,
    "UnsupportedOperationError": -32004,
    "ContentTypeNotSupportedError": -32005,
    "InvalidAgentResponseError": -32006,
    "AuthenticatedExtendedCardNotConfiguredError": -32007,
    "JSONParseError": -32700,
    "InvalidRequestError": -32600,
    "MethodNotFoundError": -32601,
    "InvalidParamsError": -32602,
}
# What a status alone means; 404 is about a task wherever there is one in the path.
_STATUS = {
    400: -32602,
    422: -32602,
    404: -32001,
    405: -32601,
    409: -32002,
    415: -32005,
    501: -32004,
    502: -32006,
}

_encode = msgspec.json.Encoder().encode


def _readers(form: Form) -> ObjectReaders:
    """Return readers of both variants: of the proto definition, and of the prose with `kind`."""

    def either(
        prose: Callable[[Any], object], proto: Callable[[Any], object]
    ) -> Callable[[Any], object]:
        def read_either(value: Any) -> object:
            try:
                return proto(value)
            except (A2AError, AttributeError, KeyError, TypeError, ValueError):
                return prose(value)

        return read_either

    return ObjectReaders(
        part=either(
            READERS.part,
            lambda value: legacy.convert(proto_json.read_part(value, form=form), Part),
        ),
        message=either(
            READERS.message,
            lambda value: legacy.convert(
                proto_json.read_message(value, role="ROLE_AGENT", form=form), Message
            ),
        ),
        artifact=either(
            READERS.artifact,
            lambda value: legacy.convert(proto_json.read_artifact(value, form=form), Artifact),
        ),
        task=either(
            READERS.task,
            lambda value: legacy.convert(proto_json.read_task(value, form=form), Task),
        ),
    )


class RestClientV03:
    """0.3 as one kind of agent speaks it: `form` is how file bytes travel."""

    version = "0.3"
    extensions_header = "X-A2A-Extensions"

    def __init__(self, form: Form) -> None:
        self._form = form
        self._names = proto_json.RELEASED._replace(form=form)
        self._readers = _readers(form)

    def route(self, operation: str, request: Any) -> RestRequest:
        given = msgspec.to_builtins(request)
        task = "/v1/tasks/" + quote(given.get("taskId") or given.get("id") or "", safe="")
        configs = task + "/pushNotificationConfigs"
        match operation:
            case "SendMessage":
                return RestRequest("POST", "/v1/message:send", _encode(self.write_send(given)))
            case "SendStreamingMessage":
                return RestRequest("POST", "/v1/message:stream", _encode(self.write_send(given)))
            case "GetTask":
                length = request.history_length
                return RestRequest(
                    "GET", task if length is None else f"{task}?historyLength={length}", None
                )
            case "ListTasks":
                query = "&".join(
                    f"{name}={quote(_text(value), safe='')}"
                    for name, value in v03.write_list(given).items()
                )
                return RestRequest("GET", "/v1/tasks" + (f"?{query}" if query else ""), None)
            case "CancelTask":
                return RestRequest(
                    "POST", task + ":cancel", _encode({"name": proto_json.task_name(given["id"])})
                )
            case "SubscribeToTask":
                return RestRequest(
                    "POST",
                    task + ":subscribe",
                    _encode({"name": proto_json.task_name(given["id"])}),
                )
            case "CreateTaskPushNotificationConfig":
                config_id = given.get("id") or given["taskId"]
                body = {
                    "parent": proto_json.task_name(given["taskId"]),
                    "configId": config_id,
                    "config": proto_json.write_push({**given, "id": config_id}),
                }
                # The whole request is all that the Python SDK reads, the config in it all that
                # @a2a-js/sdk 1.x does.
                return RestRequest("POST", configs, _encode(body), _encode(body["config"]))
            case "ListTaskPushNotificationConfigs":
                return RestRequest("GET", configs, None)
            case "GetExtendedAgentCard":
                return RestRequest("GET", "/v1/card", None)
        verb = "DELETE" if operation == "DeleteTaskPushNotificationConfig" else "GET"
        return RestRequest(verb, f"{configs}/{quote(given['id'], safe='')}", None)

    def write_send(self, request: JsonObject) -> JsonObject:
        return proto_json.write_send(request, self._names)

    def result(self, operation: str, raw: bytes, request: Any, note: Note) -> Any:
        if operation == "DeleteTaskPushNotificationConfig":
            return None

        def result_of(value: Any) -> Any:
            return _result(operation, value, request, self._form)

        return read(lambda: read_mended(raw, result_of, self._readers, MessageIds(), note))

    def frames(self, request: Any, note: Note) -> FrameDecoder:
        ids = MessageIds()
        return lambda raw: read(lambda: read_mended(raw, self._frame, self._readers, ids, note))

    def _frame(self, value: Any) -> EventFrame:
        event = legacy.convert(_event(value, self._form), StreamResponse).event
        update = value.get("statusUpdate") or value.get("status_update") or value
        return EventFrame((event,), isinstance(update, dict) and update.get("final") is True)

    def error(self, status: int, body: JsonObject) -> A2AError | None:
        """Return the error in a body; each library had its own shape."""
        found = body.get("error")
        if isinstance(found, dict):  # as 1.0 writes it
            return error_of(_STATUS.get(status), found.get("message"), found.get("details"))
        name = body.get("type") if isinstance(body.get("type"), str) else found
        code = body.get("code")
        if isinstance(name, str) and name in NAMES:
            code = NAMES[name]
        if not isinstance(code, int):
            code = _STATUS.get(status, -32603)
        message = body.get("message") or body.get("detail")
        if message is None and name is None and "code" not in body:
            return None
        return error_of(code, message, body.get("data"))


RAW, TEXT = RestClientV03(Form.RAW), RestClientV03(Form.TEXT)


def codec_of_server(server: str) -> RestClientV03 | None:
    """Return the dialect of the agent behind a `Server` header; None if the header does not
    tell.
    """
    return TEXT if form_of_server(server) is Form.TEXT else None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _result(operation: str, value: Any, request: Any, form: Form) -> Any:
    match operation:
        case "SendMessage":
            return legacy.convert(_event(value, form), SendMessageResponse)
        case "GetTask" | "CancelTask":
            return legacy.convert(_task(value, form), Task)
        case "ListTasks":
            page = legacy.need(value, "result")
            return legacy.convert(
                {**page, "tasks": [_task(task, form) for task in page.get("tasks") or []]},
                ListTasksResponse,
            )
        case "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig":
            return legacy.convert(
                proto_json.read_push(value, request.task_id), TaskPushNotificationConfig
            )
        case "ListTaskPushNotificationConfigs":
            configs = (
                value
                if isinstance(value, list)
                else legacy.need(value, "result").get("configs") or []
            )
            read_all = [proto_json.read_push(config, request.task_id) for config in configs]
            return legacy.convert({"configs": read_all}, ListPushConfigsResponse)
    return value


def _task(value: Any, form: Form) -> Any:
    return v03.read_task(value) if _is_prose(value) else proto_json.read_task(value, form=form)


def _event(value: Any, form: Form) -> Any:
    """Return the StreamResponse; the objects inside may also be those of JSON-RPC, as the prose of
    0.3 has them.
    """
    inner = (
        next(iter(value.values()), None) if isinstance(value, dict) and len(value) == 1 else None
    )
    if _is_prose(inner):
        return v03.read_event(inner)
    if _is_prose(value):
        return v03.read_event(value)
    return proto_json.read_event(value, form)


def _is_prose(value: Any) -> bool:
    return isinstance(value, dict) and "kind" in value
