"""Every operation in every binding and version, as bytes: what the table of authorization is tried
with. Nothing here knows the inside of the server but the table of operations.
"""

import asyncio
import itertools
import json
from typing import Any, NamedTuple

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from accord.model import FORK
from accord.operations import Version
from accord.protocol.protobuf.schema import POOL

PATIENCE_S = 60.0

Json = dict[str, Any]

_ids = itertools.count(1)


class Answer(NamedTuple):
    """What came back: `kind` is ok, or what a person calls the refusal."""

    kind: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def without(self, *words: str) -> "Answer":
        """The same, with ids and numbers that are another each time left out."""
        text = self.body
        for word in words:
            text = text.replace(word.encode(), b"ID")
        return Answer(self.kind, self.status, self.headers, text)


class Asked(NamedTuple):
    """What an operation is asked with."""

    task: str = ""
    context: str = ""
    reference: str = ""
    page_token: str = ""
    fork: str = ""  # a task that is to be forked
    text: str = "hello"
    hook: str = "https://127.0.0.1/hook"  # of a push config
    is_inline: bool = False  # a message brings the push config with it


def _forking(asked: Asked) -> Json:
    at = {"taskId": asked.fork, "at": 3}
    return {"metadata": {FORK: at}} if asked.fork else {}


def _activated(asked: Asked) -> dict[str, str]:
    return {"A2A-Extensions": FORK, "X-A2A-Extensions": FORK} if asked.fork else {}


def fields(operation: str, asked: Asked, version: str) -> Json:
    """The parameters of an operation as a version's JSON-RPC has them."""
    match operation:
        case "SendMessage" | "SendStreamingMessage" if version == "0.1":
            parts = [{"type": "text", "text": asked.text}]
            task = asked.task or f"new-{next(_ids)}"
            inline: Json = {"pushNotification": {"url": asked.hook}} if asked.is_inline else {}
            said: Json = {"role": "user", "parts": parts} | _forking(asked)
            return {"id": task, "message": said} | inline
        case "SendMessage" | "SendStreamingMessage":
            is_old = version != "1.0"
            part = {"kind": "text", "text": asked.text} if is_old else {"text": asked.text}
            message: Json = {"messageId": f"m-{next(_ids)}", "parts": [part]}
            message |= {"role": "user", "kind": "message"} if is_old else {"role": "ROLE_USER"}
            named = {"taskId": asked.task, "contextId": asked.context}
            message |= {name: value for name, value in named.items() if value}
            message |= _forking(asked)
            if asked.reference:
                message["referenceTaskIds"] = [asked.reference]
            if not asked.is_inline:
                return {"message": message}
            push = "pushNotificationConfig" if is_old else "taskPushNotificationConfig"
            return {"message": message, "configuration": {push: {"url": asked.hook}}}
        case "GetTask" | "CancelTask" | "SubscribeToTask":
            return {"id": asked.task}
        case "ListTasks":
            named = {"contextId": asked.context, "pageToken": asked.page_token}
            return {name: value for name, value in named.items() if value}
        case "CreateTaskPushNotificationConfig":
            config = {"id": "c1", "url": asked.hook}
            if version == "1.0":
                return {"taskId": asked.task} | config
            if version == "0.1":
                return {"id": asked.task, "pushNotificationConfig": {"url": config["url"]}}
            return {"taskId": asked.task, "pushNotificationConfig": config}
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            if version == "1.0":
                return {"taskId": asked.task, "id": "c1"}
            return {"id": asked.task} | (
                {"pushNotificationConfigId": "c1"} if version in ("0.3", "0.2") else {}
            )
        case "ListTaskPushNotificationConfigs":
            return {"taskId": asked.task} if version == "1.0" else {"id": asked.task}
    return {}


def proto_fields(operation: str, asked: Asked, version: str) -> Json:
    """The same as JSON of the version's proto."""
    made = fields(operation, asked, "1.0")
    if version == "1.0":
        return made
    name = f"tasks/{asked.task}"
    match operation:
        case "SendMessage" | "SendStreamingMessage":
            message = made["message"]
            message["content"] = message.pop("parts")
            message.pop("referenceTaskIds", None)  # the proto of 0.3 has none
            push = {"pushNotification": {"url": asked.hook}} if asked.is_inline else {}
            return {"message": message, "configuration": {"blocking": True} | push}
        case "GetTask" | "CancelTask" | "SubscribeToTask":
            return {"name": name}
        case "CreateTaskPushNotificationConfig":
            config = {"pushNotificationConfig": {"id": "c1", "url": made["url"]}}
            return {"parent": name, "configId": "c1", "config": config}
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            return {"name": f"{name}/pushNotificationConfigs/c1"}
        case "ListTaskPushNotificationConfigs":
            return {"parent": name}
    return made


class Http:
    """Asks an ASGI app, in this process."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def ask(self, verb: str, path: str, headers: dict[str, str], body: Json | None) -> Answer:
        path, _, query = path.partition("?")
        data = b"" if body is None else json.dumps(body).encode()
        pairs = {"host": "localhost", "content-type": "application/json"} | headers
        scope = {
            "type": "http",
            "method": verb,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.lower().encode(), v.encode()) for k, v in pairs.items()],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "scheme": "http",
        }
        begun = asyncio.Event()
        events: list[Json] = [{"type": "http.request", "body": data}]
        start: Json = {}
        pieces: list[bytes] = []

        async def receive() -> Json:
            if events:
                return events.pop()
            await begun.wait()
            return {"type": "http.disconnect"}

        async def send(event: Json) -> None:
            if event["type"] == "http.response.start":
                start.update(event)
            elif event.get("body"):
                pieces.append(event["body"])
                begun.set()

        call = asyncio.ensure_future(self._app(scope, receive, send))
        async with asyncio.timeout(PATIENCE_S):
            first = asyncio.ensure_future(begun.wait())
            await asyncio.wait({call, first}, return_when=asyncio.FIRST_COMPLETED)
        names = [(k.decode(), v.decode()) for k, v in start["headers"]]
        is_stream = dict(names).get("content-type") == "text/event-stream"
        if not is_stream:
            await call
        first.cancel()
        call.cancel()
        await asyncio.gather(call, first, return_exceptions=True)
        shown = b"".join(pieces[:1] if is_stream else pieces)
        return _answer(start["status"], tuple(names), shown)


def _answer(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> Answer:
    text = body.removeprefix(b"data: ").strip() if body.startswith(b"data: ") else body
    if status in (401, 403):
        return Answer(str(status), status, headers, body)
    try:
        error = json.loads(text).get("error")
    except ValueError:
        error = None
    if error is None and status < 400:
        return Answer("ok", status, headers, body)
    return Answer(_reason(error, status), status, headers, body)


_OLD_REASONS = {-32001: "TASK_NOT_FOUND", -32002: "TASK_NOT_CANCELABLE"}


def _reason(error: Any, status: int) -> str:
    if isinstance(error, dict):
        for detail in [*(error.get("details") or []), *(error.get("data") or [])]:
            if isinstance(detail, dict) and "reason" in detail:
                return str(detail["reason"])
        if error.get("code") in _OLD_REASONS:
            return _OLD_REASONS[error["code"]]
        return str(error.get("status") or error.get("code"))
    return str(status)


class RpcDoor:
    """JSON-RPC, in one version; of an agent below a path, if that is given."""

    def __init__(self, app: Any, version: Version, base: str = "") -> None:
        self._http, self._version, self._base = Http(app), version, base
        self.name = f"jsonrpc {version.number}"
        self.methods: dict[str, str] = {}
        for method, operation in version.rpc.items():
            self.methods.setdefault(operation, method)

    async def ask(self, operation: str, asked: Asked, credentials: dict[str, str]) -> Answer:
        params = fields(operation, asked, self._version.number)
        envelope = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": self.methods[operation],
            "params": params,
        }
        headers = {"A2A-Version": self._version.number} | credentials | _activated(asked)
        return await self._http.ask("POST", self._base or "/", headers, envelope)


class RestDoor:
    """HTTP+JSON, in one version; of an agent below a path, if that is given."""

    def __init__(self, app: Any, version: Version, base: str = "") -> None:
        self._http, self._version, self._base = Http(app), version, base
        self.name = f"rest {version.number}"
        self.methods: dict[str, Any] = {}
        for route in version.rest:
            self.methods.setdefault(route.operation, route)

    async def ask(self, operation: str, asked: Asked, credentials: dict[str, str]) -> Answer:
        route = self.methods[operation]
        made = proto_fields(operation, asked, self._version.number)
        path, ids = route.path, {"id": asked.task, "taskId": asked.task}
        if "{taskId}" in path:
            ids["id"] = "c1"
        for name, value in ids.items():
            path = path.replace("{%s}" % name, value)
        body: Json | None = None
        if route.verb == "POST":
            taken = {"taskId", "name", "parent", "configId"}
            has_body = "Send" in operation or "Create" in operation
            body = {k: v for k, v in made.items() if k not in taken} if has_body else {}
            if "config" in body:
                body = {"config": body["config"]}
        elif operation == "ListTasks" and made:
            path += "?" + "&".join(f"{name}={value}" for name, value in made.items())
        headers = {"A2A-Version": self._version.number} | credentials | _activated(asked)
        return await self._http.ask(route.verb, self._base + path, headers, body)


class GrpcDoor:
    """gRPC, in one version, over a socket of this machine; of a tenant, if that is given."""

    def __init__(self, channel: grpc.aio.Channel, version: Version, tenant: str = "") -> None:
        self._channel, self._version, self._tenant = channel, version, tenant
        self.name = f"grpc {version.number}"
        self._service = POOL.FindServiceByName(version.grpc_service)
        self.methods: dict[str, str] = {}
        for method, operation in version.grpc.items():
            self.methods.setdefault(operation, method)

    async def ask(self, operation: str, asked: Asked, credentials: dict[str, str]) -> Answer:
        method = self._service.methods_by_name[self.methods[operation]]
        made = proto_fields(operation, asked, self._version.number)
        if operation == "ListTasks" and self._version.number != "1.0":
            made = fields(operation, asked, "1.0")
        if self._tenant and not self._version.grpc_tenant:
            made["tenant"] = self._tenant
        message = ParseDict(made, GetMessageClass(method.input_type)())
        path = f"/{self._version.grpc_service}/{method.name}"
        given = credentials | _activated(asked)
        metadata = [(name.lower(), value) for name, value in given.items()]
        if self._tenant and self._version.grpc_tenant:
            metadata.append((self._version.grpc_tenant, self._tenant))
        is_stream = operation in ("SendStreamingMessage", "SubscribeToTask")
        make = self._channel.unary_stream if is_stream else self._channel.unary_unary
        call = make(path)(message.SerializeToString(), metadata=metadata, timeout=PATIENCE_S)
        try:
            body = await (call.read() if is_stream else call)
            call.cancel()
            return Answer("ok", 0, (), body)
        except grpc.aio.AioRpcError as error:
            trailers = tuple((key, str(value)) for key, value in (error.trailing_metadata() or ()))
            kind = {"UNAUTHENTICATED": "401", "PERMISSION_DENIED": "403"}.get(error.code().name)
            kind = kind or _grpc_reason(dict(error.trailing_metadata() or ()), error)
            text = f"{error.code().name}: {error.details()}".encode()
            plain = tuple(pair for pair in trailers if pair[0] != "grpc-status-details-bin")
            return Answer(kind, error.code().value[0], plain, text)


def _grpc_reason(trailers: dict[str, Any], error: Any) -> str:
    if error.code() is grpc.StatusCode.NOT_FOUND:
        return "TASK_NOT_FOUND"
    details = trailers.get("grpc-status-details-bin", b"")
    for reason in (b"PUSH_NOTIFICATION_NOT_SUPPORTED", b"TASK_NOT_CANCELABLE", b"INVALID_PARAMS"):
        if reason in details:
            return reason.decode()
    return str(error.code().name)
