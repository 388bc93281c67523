"""A2A over gRPC from the client's side: the JSON of a version in protobuf, and the errors in its
trailers.
"""

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from ...model import (
    A2AError,
    InvalidParams,
    MethodNotFound,
    PermissionDenied,
    TaskNotCancelable,
    TaskNotFound,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedOperation,
    whole_number,
)
from ..client import MAX_WAIT_S, FrameDecoder, error_of
from ..mending import Note
from ..v03 import Form, RestClientV03, form_of_server, proto_json
from ..v03 import grpc as v03_grpc
from ..v03 import rest_client as v03_rest_client
from ..v1 import client as v1_client
from .messages import kind, kind_of
from .schema import POOL

__all__ = ["V03", "V03_TEXT", "V1", "GrpcClientCodec", "codec_of_server", "error"]

_encode = msgspec.json.Encoder().encode

# What a status means when nothing else is said.
_BY_STATUS: dict[str, type[A2AError]] = {
    "NOT_FOUND": TaskNotFound,
    "INVALID_ARGUMENT": InvalidParams,
    "FAILED_PRECONDITION": UnsupportedOperation,
    "UNIMPLEMENTED": MethodNotFound,
    "UNAUTHENTICATED": Unauthenticated,
    "PERMISSION_DENIED": PermissionDenied,
    "RESOURCE_EXHAUSTED": TooManyRequests,
    "UNAVAILABLE": Unavailable,
}


class GrpcClientCodec:
    """One package of the protocol: its rpcs, and how requests and answers look as JSON."""

    def __init__(
        self,
        version: str,
        service: str,
        *,
        rpcs: dict[str, str],
        write: Callable[[str, Any], dict[str, Any]],
        result: Callable[[str, bytes, Any, Note], Any],
        frames: Callable[[Any, Note], FrameDecoder],
        extensions: str,
        tenant: str = "",
        pool: Any = POOL,
    ) -> None:
        self.version = version
        self.extensions = extensions  # the metadata it names them in
        self.tenant = tenant  # the same for the tenant; empty: that is in the request
        self._service = service
        self._pool = pool
        self._rpcs = rpcs
        self._write = write
        self._result = result
        self._frames = frames

    def rpc(self, operation: str) -> str:
        """Return the path of an operation's rpc."""
        return f"/{self._service}/{self._rpcs.get(operation, operation)}"

    def _method(self, operation: str) -> Any:
        name = self._rpcs.get(operation, operation)
        found = self._pool.FindServiceByName(self._service).methods_by_name.get(name)
        if found is None:
            raise UnsupportedOperation(f"{operation} is not part of A2A {self.version} over gRPC")
        return found

    def request(self, operation: str, request: Any) -> bytes:
        return kind_of(self._method(operation).input_type).encode(self._write(operation, request))

    def result(self, operation: str, data: bytes, request: Any, note: Note) -> Any:
        if operation == "DeleteTaskPushNotificationConfig":
            return None
        return self._result(operation, self._json(operation, data), request, note)

    def frames(self, operation: str, request: Any, note: Note) -> FrameDecoder:
        read = self._frames(request, note)
        return lambda data: read(self._json(operation, data))

    def _json(self, operation: str, data: bytes) -> bytes:
        return _encode(kind_of(self._method(operation).output_type).decode(data))


def _write_v03(objects: RestClientV03, operation: str, request: Any) -> dict[str, Any]:
    """Requests of 0.3 name tasks and configs by resource name."""
    given: dict[str, Any] = msgspec.to_builtins(request)
    match operation:
        case "SendMessage" | "SendStreamingMessage":
            return objects.write_send(given)
        case "GetTask" | "CancelTask" | "SubscribeToTask":
            named = {"name": proto_json.task_name(given["id"])}
            return named | {name: given[name] for name in ("historyLength",) if given.get(name)}
        case "CreateTaskPushNotificationConfig":
            config_id = given.get("id") or given["taskId"]
            config = proto_json.write_push({**given, "id": config_id})
            return {
                "parent": proto_json.task_name(given["taskId"]),
                "configId": config_id,
                "config": config,
            }
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            return {"name": proto_json.config_name(given["taskId"], given["id"])}
        case "ListTaskPushNotificationConfigs":
            return {"parent": proto_json.task_name(given["taskId"])}
    return given


V1 = GrpcClientCodec(
    "1.0",
    "lf.a2a.v1.A2AService",
    rpcs={},
    write=lambda operation, request: msgspec.to_builtins(request),
    result=v1_client.result,
    frames=v1_client.frames,
    extensions="a2a-extensions",
)


def _v03(objects: RestClientV03) -> GrpcClientCodec:
    """0.3, its objects as on HTTP+JSON."""
    return GrpcClientCodec(
        "0.3",
        "a2a.v1.A2AService",
        rpcs={
            "SubscribeToTask": "TaskSubscription",
            "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
            "GetExtendedAgentCard": "GetAgentCard",
        },
        write=functools.partial(_write_v03, objects),
        result=objects.result,
        frames=objects.frames,
        extensions="x-a2a-extensions",
        tenant=v03_grpc.TENANT,
    )


V03, V03_TEXT = _v03(v03_rest_client.RAW), _v03(v03_rest_client.TEXT)


def codec_of_server(server: str) -> GrpcClientCodec | None:
    """Return the dialect of 0.3 of the agent behind a `Server` header, which came with its card;
    None if that does not tell.
    """
    return V03_TEXT if form_of_server(server) is Form.TEXT else None


def error(
    operation: str, status: str, text: str, details: bytes | None, retry_after: str | None
) -> A2AError:
    """Return the error of a call: by the typed details in its trailer, the name in front of its
    text, or its status.
    """
    name, _, rest = text.partition(": ")
    code = v03_rest_client.NAMES.get(name)
    if code is not None:
        text = rest
    found = error_of(code, text, _details(details) if details else None)
    if type(found) is A2AError and status in _BY_STATUS:
        # All that @a2a-js/sdk 0.3 says.
        is_final = operation == "CancelTask" and status == "FAILED_PRECONDITION"
        found = TaskNotCancelable(text) if is_final else _BY_STATUS[status](text)
    wait_s = whole_number(retry_after or "", MAX_WAIT_S)
    if wait_s is not None:
        found.retry_after_s = wait_s
    return found


def _details(data: bytes) -> list[dict[str, Any]]:
    found = []
    try:
        for detail in kind("google.rpc.Status").decode(data).get("details", []):
            url = detail.get("typeUrl", "")
            found.append(
                {"@type": url, **kind(url.rpartition("/")[2]).decode(detail.get("value", b""))}
            )
    except (A2AError, KeyError, TypeError, ValueError):
        return found  # details we do not know are as good as none
    return found
