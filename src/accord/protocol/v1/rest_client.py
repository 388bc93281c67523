"""A2A 1.0 over HTTP+JSON from the client's side: verbs and paths, and the shape of errors."""

from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

import msgspec

from ...model import A2AError
from ..client import FrameDecoder, JsonObject, error_of
from ..mending import Note
from . import client as v1_client

__all__ = [
    "RestClientCodec",
    "RestRequest",
    "error",
    "extensions_header",
    "frames",
    "result",
    "route",
    "version",
]

version = "1.0"
extensions_header = "A2A-Extensions"

_PUSH = "/tasks/{task_id}/pushNotificationConfigs"
_PATHS = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", _PUSH),
    "GetTaskPushNotificationConfig": ("GET", _PUSH + "/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", _PUSH),
    "DeleteTaskPushNotificationConfig": ("DELETE", _PUSH + "/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}


class RestRequest(NamedTuple):
    verb: str
    path: str  # below the interface's URL, with its query
    body: bytes | None
    other_body: bytes | None = None  # for agents that expect another form and refuse this one


class RestClientCodec(Protocol):
    """One version of the protocol over HTTP+JSON, seen from the client; see `ClientCodec`."""

    version: str
    extensions_header: str

    def route(self, operation: str, request: Any) -> RestRequest: ...

    def result(self, operation: str, raw: bytes, request: Any, note: Note) -> Any: ...

    def frames(self, request: Any, note: Note) -> FrameDecoder: ...

    def error(self, status: int, body: JsonObject) -> A2AError | None: ...


def route(operation: str, request: Any) -> RestRequest:
    verb, path = _PATHS[operation]
    if request.tenant:
        path = "/" + quote(request.tenant, safe="") + path
    if "{task_id}" in path:
        path = path.replace("{task_id}", quote(request.task_id, safe=""))
    if "{id}" in path:
        path = path.replace("{id}", quote(request.id, safe=""))
    if verb == "POST":
        return RestRequest(verb, path, v1_client.params_of(request))
    query = _query(request)
    return RestRequest(verb, f"{path}?{query}" if query else path, None)


def _query(request: Any) -> str:
    """Everything that is set and not in the path, as text."""
    members = msgspec.to_builtins(request)
    for in_path in ("tenant", "id", "taskId"):
        members.pop(in_path, None)
    return urlencode(
        {k: ("true" if v else "false") if isinstance(v, bool) else v for k, v in members.items()}
    )


def result(operation: str, raw: bytes, request: Any, note: Note) -> Any:
    return v1_client.result(operation, raw, request, note)


def frames(request: Any, note: Note) -> FrameDecoder:
    return v1_client.frames(request, note)


def error(status: int, body: JsonObject) -> A2AError | None:
    """Return the error in a body, or None if there is none to be seen."""
    found = body.get("error")
    if not isinstance(found, dict):
        return None
    named = error_of(_CODES.get(status), found.get("message"), found.get("details"))
    if type(named) is A2AError and found.get("status") == "UNIMPLEMENTED":
        return error_of(-32601, found.get("message"), None)
    return named


# A status alone says less than a reason; these are the ones with one likely meaning.
_CODES = {404: -32601, 405: -32601, 400: -32602, 415: -32005, 409: -32002}
