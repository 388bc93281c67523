"""The JSON-RPC door: POST to the RPC path."""

import logging
import secrets
from collections.abc import Sequence

from ..codec import jsonrpc, v1
from ..codec.contract import Codec
from ..model import A2AError, InvalidRequest, Limits, MethodNotFound
from ..ops.call import Call
from ..ops.service import Service
from ..ops.table import OPERATIONS, Operation, Version
from .asgi import Headers, Pairs, Receive, Scope, Send, call_of, check_json, check_version, error_headers, read_body, respond
from .sse import Frames, stream

__all__ = ["JsonRpcDoor", "activated", "opaque"]

log_ = logging.getLogger("accord")


class JsonRpcDoor:
    """Answers JSON-RPC requests of one agent."""

    def __init__(self, service: Service, limits: Limits, versions: Sequence[Version]) -> None:
        self._service = service
        self._limits = limits
        self._numbers = frozenset(version.number for version in versions)
        self._methods = {
            method: (OPERATIONS[name], version.rpc_codec) for version in versions for method, name in version.rpc.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        id_, body = jsonrpc.NO_ID, b""
        codec: Codec = v1.CODEC
        extra: Pairs = ()
        try:
            check_json(headers)
            body = await read_body(receive, headers, self._limits.body)
            envelope = jsonrpc.open_envelope(body, self._limits)
            id_ = envelope.id
            check_version(scope, headers, self._numbers)
            operation, codec = self._row(envelope.method)
            if envelope.jsonrpc != "2.0":
                raise InvalidRequest('Request payload validation error: jsonrpc must be "2.0"')
            call = call_of(scope, headers, codec.origin)
            request, call.semantics = codec.decode(operation.name, envelope.params)
            extra = activated(self._service, call)
            answer = await operation.run(self._service, call, request)
        except A2AError as error:
            if isinstance(error, InvalidRequest) and id_ == jsonrpc.NO_ID:
                id_ = jsonrpc.id_of(body)
            status = error.status if error.is_http_level else 200
            await respond(send, status, jsonrpc.error(id_, codec.error(error)), headers=(*error_headers(error), *extra))
        except Exception:
            await respond(send, 200, jsonrpc.error(id_, codec.error(opaque())))
        else:
            if operation.is_stream:
                frames = Frames(
                    codec, b'{"jsonrpc":"2.0","id":%b,"result":' % id_, b"}", lambda error: jsonrpc.error(id_, codec.error(error))
                )
                await stream(scope, receive, send, answer, frames, headers=extra)
            else:
                await respond(send, 200, jsonrpc.result(id_, codec.result(operation.name, answer)), headers=extra)

    def _row(self, method: str) -> tuple[Operation, Codec]:
        row = self._methods.get(method)
        if row is None:
            raise MethodNotFound(f"no method {method!r:.80}; there are {', '.join(self._methods)}")
        return row


def activated(service: Service, call: Call) -> Pairs:
    """The answer names the extensions that are in force (spec EXT-3)."""
    if not call.extensions:
        return ()
    active = call.extensions & service.offered
    return ((b"a2a-extensions", ", ".join(sorted(active)).encode()),) if active else ()


def opaque() -> A2AError:
    """Our own fault: the log has it all, the caller gets a number to quote."""
    reference = secrets.token_hex(4)
    log_.exception("request failed, reference %s", reference)
    return A2AError(f"Internal error. Reference: {reference}", reference=reference)
