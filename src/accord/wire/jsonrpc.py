"""The JSON-RPC door: POST to the RPC path."""

import logging
import secrets
from typing import Any

from ..codec import jsonrpc, v1
from ..model import A2AError, InvalidRequest, Message, MethodNotFound
from ..ops.call import Call
from ..ops.service import Service, Tasks
from ..ops.table import OPERATIONS
from ..run.log import Entry, Snapshot
from .asgi import Headers, Receive, Scope, Send, call_of, check_json, check_version, error_headers, read_body, respond
from .limits import Limits
from .sse import stream

__all__ = ["JsonRpcDoor", "opaque"]

log_ = logging.getLogger("accord")

METHODS = {operation.name: operation for operation in OPERATIONS}
_CREATE = METHODS["CreateTaskPushNotificationConfig"]
_LIST = METHODS["ListTaskPushNotificationConfigs"]
METHODS |= {"SetTaskPushNotificationConfig": _CREATE, "ListTaskPushNotificationConfig": _LIST}  # names of the drafts


class JsonRpcDoor:
    """Answers JSON-RPC requests of one agent."""

    def __init__(self, service: Service, limits: Limits, versions: frozenset[str]) -> None:
        self._service = service
        self._limits = limits
        self._versions = versions

    async def __call__(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        id_ = jsonrpc.NO_ID
        body = b""
        extra: tuple[tuple[bytes, bytes], ...] = ()
        try:
            check_json(headers)
            body = await read_body(receive, headers, self._limits.body)
            envelope = jsonrpc.open_envelope(body)
            id_ = envelope.id
            check_version(scope, headers, self._versions)
            if envelope.jsonrpc != "2.0":
                raise InvalidRequest('Request payload validation error: jsonrpc must be "2.0"')
            operation = METHODS.get(envelope.method)
            if operation is None:
                raise MethodNotFound(f"no method {envelope.method!r:.80}; 1.0 has {', '.join(METHODS)}")
            request: Any = v1.decode(envelope.params, operation.request)
            call = call_of(scope, headers)
            extra = activated(self._service, call)
            result = await operation.run(self._service, call, request)
        except A2AError as error:
            id_ = jsonrpc.id_of(body) if isinstance(error, InvalidRequest) and id_ == jsonrpc.NO_ID else id_
            status = error.status if error.is_http_level else 200
            await respond(send, status, jsonrpc.error(id_, error), headers=(*error_headers(error), *extra))
        except Exception:
            await respond(send, 200, jsonrpc.error(id_, opaque()))
        else:
            if operation.is_stream:
                await stream(
                    scope,
                    receive,
                    send,
                    result,
                    prefix=b'{"jsonrpc":"2.0","id":%b,"result":' % id_,
                    suffix=b"}",
                    encode=encode_frame,
                    encode_error=lambda error: jsonrpc.error(id_, error),
                    headers=extra,
                )
            else:
                await respond(send, 200, jsonrpc.result(id_, encode_result(operation.name, result)), headers=extra)


def encode_frame(item: Entry | Message) -> bytes:
    return item.data if isinstance(item, Entry) else v1.encode_event(item)


def encode_result(name: str, result: Snapshot | Message | Tasks) -> bytes:
    """Return an operation's result as 1.0 writes it: tasks are spliced in as they were stored."""
    match result:
        case Snapshot():
            return b'{"task":%b}' % result.data if name == "SendMessage" else result.data
        case Message():
            return v1.encode_event(result)
        case Tasks():
            return b'{"tasks":[%b],"nextPageToken":"%b","pageSize":%d,"totalSize":%d}' % (
                b",".join(result.tasks),
                result.next_page_token.encode(),
                result.page_size,
                result.total_size,
            )
    raise TypeError(f"no answer of {name} looks like a {type(result).__name__}")


def activated(service: Service, call: Call) -> tuple[tuple[bytes, bytes], ...]:
    """The answer names the extensions that are in force (spec EXT-3)."""
    active = call.extensions & service.offered
    return ((b"a2a-extensions", ", ".join(sorted(active)).encode()),) if active else ()


def opaque() -> A2AError:
    """Our own fault: the log has it all, the caller gets a number to quote."""
    reference = secrets.token_hex(4)
    log_.exception("request failed, reference %s", reference)
    return A2AError(f"Internal error. Reference: {reference}", reference=reference)
