"""The ways to talk to a server: each binding, in 1.0 and in 0.3, as bytes and without I/O.

Whatever is spoken, params and answers are here the JSON of 1.0, so that what was said over one way
can be held against what is heard over another. The shapes of 0.3 are written from its description;
of our own codecs only protobuf's bytes are borrowed.
"""

import itertools
import json
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from accord.protocol.protobuf.messages import kind
from tests.grpc.raw import message as framed

__all__ = ["WAYS", "Refused", "Request", "Way"]

Json = dict[str, Any]

_SENDS = ("SendMessage", "SendStreamingMessage")
_PATHS = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
}
_BY_CODE = {
    -32001: "TASK_NOT_FOUND",
    -32002: "TASK_NOT_CANCELABLE",
    -32004: "UNSUPPORTED_OPERATION",
    -32602: "INVALID_PARAMS",
}


class Refused(Exception):
    """An A2A error came back."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Request(NamedTuple):
    """What is sent: over HTTP, or as the one message of a gRPC call."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes


class Way(Protocol):
    """One binding in one version. Methods have their names of 1.0."""

    name: str
    is_grpc: bool

    def request(self, method: str, params: Json, headers: dict[str, str]) -> Request: ...

    def result(self, method: str, data: bytes, status: int = 200) -> Any:
        """What an answer says. Raises Refused."""

    def event(self, data: bytes) -> Json:
        """What a message of a stream says. Raises Refused."""


class JsonRpc:
    """1.0."""

    name = "jsonrpc"
    is_grpc = False
    _ids = itertools.count(1)

    def request(self, method: str, params: Json, headers: dict[str, str]) -> Request:
        return Request(
            "POST",
            "/",
            {"content-type": "application/json", "a2a-version": "1.0"} | headers,
            self._body(method, params),
        )

    def _body(self, method: str, params: Json) -> bytes:
        return json.dumps(
            {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        ).encode()

    def result(self, method: str, data: bytes, status: int = 200) -> Any:
        return self.event(data)

    def event(self, data: bytes) -> Any:
        answer = json.loads(data)
        if "error" in answer:
            raise Refused(answer["error"]["message"], answer["error"]["data"][0]["reason"])
        return answer["result"]


class JsonRpc03(JsonRpc):
    """0.3: methods with a slash, `kind` on everything, states and roles as words."""

    name = "jsonrpc 0.3"

    _METHODS = {
        "SendMessage": "message/send",
        "SendStreamingMessage": "message/stream",
        "GetTask": "tasks/get",
        "CancelTask": "tasks/cancel",
        "SubscribeToTask": "tasks/resubscribe",
    }
    _KINDS = {
        "task": "task",
        "message": "message",
        "status-update": "statusUpdate",
        "artifact-update": "artifactUpdate",
    }

    def request(self, method: str, params: Json, headers: dict[str, str]) -> Request:
        headers = {"content-type": "application/json"} | _old_headers(headers)
        return Request(
            "POST", "/", headers, self._body(self._METHODS[method], self._params(method, params))
        )

    def _params(self, method: str, params: Json) -> Json:
        if method not in _SENDS:
            return params
        message = params["message"]
        parts = [{"kind": "text", **part} for part in message["parts"]]
        params = params | {"message": message | {"kind": "message", "role": "user", "parts": parts}}
        if "configuration" in params:
            params["configuration"] = {"blocking": _blocks(params)}
        return params

    def result(self, method: str, data: bytes, status: int = 200) -> Any:
        event = self._open(data, status)
        return event if method in _SENDS else event["task"]

    def event(self, data: bytes) -> Json:
        return self._open(data, 503)  # what can go wrong with a stream under way

    def _open(self, data: bytes, status: int) -> Json:
        answer = json.loads(data)
        if "error" in answer:
            raise _old_refusal(status, **answer["error"])
        value = answer["result"]
        return {self._KINDS[value["kind"]]: self._now(value)}

    def _now(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._now(item) for item in value]
        if not isinstance(value, dict):
            return value
        found = {
            name: item if name == "metadata" else self._now(item) for name, item in value.items()
        }
        found.pop("kind", None)
        found.pop("final", None)
        if "state" in found:
            found["state"] = "TASK_STATE_" + found["state"].upper().replace("-", "_")
        if "role" in found:
            found["role"] = "ROLE_" + found["role"].upper()
        return found


class Rest:
    """HTTP+JSON, 1.0."""

    name = "rest"
    is_grpc = False

    def request(self, method: str, params: Json, headers: dict[str, str]) -> Request:
        headers = {"content-type": "application/json", "a2a-version": "1.0"} | headers
        verb, path = _PATHS[method]
        rest = {name: value for name, value in params.items() if "{%s}" % name not in path}
        path = path.replace("{id}", quote(str(params.get("id", "")), safe=""))
        if verb == "POST":
            return Request(verb, path, headers, json.dumps(rest).encode())
        query = urlencode(
            {k: str(v).lower() if isinstance(v, bool) else v for k, v in rest.items()}
        )
        return Request(verb, f"{path}?{query}" if query else path, headers, b"")

    def result(self, method: str, data: bytes, status: int = 200) -> Any:
        return self.event(data)

    def event(self, data: bytes) -> Any:
        answer = json.loads(data)
        if "error" in answer:
            raise Refused(answer["error"]["message"], answer["error"]["details"][0]["reason"])
        return answer


class Grpc:
    """1.0."""

    name = "grpc"
    is_grpc = True

    _ANSWERS = {"SendMessage": "SendMessageResponse", "ListTasks": "ListTasksResponse"}
    _EMPTY = {
        "ListTasks": {"tasks": [], "nextPageToken": "", "totalSize": 0}
    }  # what protobuf leaves out

    def request(self, method: str, params: Json, headers: dict[str, str]) -> Request:
        type_ = "SendMessageRequest" if method in _SENDS else f"{method}Request"
        body = framed(kind(f"lf.a2a.v1.{type_}").encode(params))
        return Request(
            "", f"/lf.a2a.v1.A2AService/{method}", {"a2a-version": "1.0"} | headers, body
        )

    def result(self, method: str, data: bytes, status: int = 200) -> Any:
        return self._EMPTY.get(method, {}) | kind(
            "lf.a2a.v1." + self._ANSWERS.get(method, "Task")
        ).decode(data)

    def event(self, data: bytes) -> Json:
        return kind("lf.a2a.v1.StreamResponse").decode(data)


class Grpc03:
    """0.3: tasks by resource name, `content` for parts."""

    name = "grpc 0.3"
    is_grpc = True

    _METHODS = {"SubscribeToTask": "TaskSubscription"}

    def request(self, method: str, params: Json, headers: dict[str, str]) -> Request:
        method = self._METHODS.get(method, method)
        if method in _SENDS:
            message = dict(params["message"])
            message["content"] = message.pop("parts")
            params = {"message": message, "configuration": {"blocking": _blocks(params)}}
        else:
            params = {"name": f"tasks/{params['id']}"}
        type_ = "SendMessageRequest" if method in _SENDS else f"{method}Request"
        return Request(
            "",
            f"/a2a.v1.A2AService/{method}",
            _old_headers(headers),
            framed(kind(f"a2a.v1.{type_}").encode(params)),
        )

    def result(self, method: str, data: bytes, status: int = 200) -> Any:
        value = kind("a2a.v1.SendMessageResponse" if method in _SENDS else "a2a.v1.Task").decode(
            data
        )
        return self._now(value)

    def event(self, data: bytes) -> Json:
        found: Json = self._now(kind("a2a.v1.StreamResponse").decode(data))
        return found

    def _now(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._now(item) for item in value]
        if not isinstance(value, dict):
            return value
        found = {
            name: item if name == "metadata" else self._now(item) for name, item in value.items()
        }
        if "content" in found:
            found["parts"] = found.pop("content")
        found.pop("final", None)
        if found.get("state") == "TASK_STATE_CANCELLED":
            found["state"] = "TASK_STATE_CANCELED"
        return found


def _blocks(params: Json) -> bool:
    return not params.get("configuration", {}).get("returnImmediately", False)


def _old_headers(headers: dict[str, str]) -> dict[str, str]:
    return {
        "x-" + name if name == "a2a-extensions" else name: value for name, value in headers.items()
    }


def _old_refusal(status: int, code: int, message: str, data: Any = None) -> Refused:
    """0.3 has only numbers, and one of them for whatever HTTP has a status for."""
    if code == -32603:
        reason = {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}[
            500 if message.startswith("Internal error") else status
        ]
    else:
        reason = _BY_CODE[code]
    return Refused(message, reason)


WAYS: dict[str, Way] = {way.name: way for way in (JsonRpc(), Rest(), Grpc(), JsonRpc03(), Grpc03())}
