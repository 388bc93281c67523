"""The JSON-RPC endpoint: POST to the RPC path."""

from collections.abc import Sequence
from typing import Any

from ...engine import offload
from ...model import A2AError, InvalidRequest, Limits, MethodNotFound
from ...operations import ASSUMED, Operation, Service, Version, methods
from ...protocol import Codec, text
from ...protocol.v1 import codec as v1
from .. import request_log
from ..request import (
    JSON,
    Headers,
    HttpRequest,
    HttpResponse,
    Pairs,
    StreamingResponse,
    check_json,
    error_headers,
    opaque,
)
from ..transport import UnreadAnswers
from .endpoint import HttpEndpoint
from .sse import EVENTS, EVENTS_HEADERS, EventEncoder, answer_of

__all__ = ["JsonRpcEndpoint"]


class JsonRpcEndpoint(HttpEndpoint):
    """Answers JSON-RPC requests of one agent."""

    def __init__(
        self, service: Service, limits: Limits, versions: Sequence[Version], unread: UnreadAnswers
    ) -> None:
        super().__init__(service, limits, versions, unread)
        self._methods = methods(versions)
        self._codecs = {
            number: version.rpc_codec
            for version in versions
            for number in (version.number, *version.aliases)
        }

    async def __call__(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        id_: bytes = text.NO_ID
        codec: Codec = v1.CODEC
        operation: Operation | None = None
        extra: Pairs = ()
        headers = request.headers
        since_s = request_log.begin()
        try:
            if headers.get(b"content-type") != JSON:
                check_json(headers)
            if request.problem is not None:
                raise request.problem
            size = len(request.body)
            envelope = await offload(size, text.open_envelope, request.body, self._limits)
            id_ = envelope.id
            call = self._call(request)
            method = self._methods.get(envelope.method)
            if method is None:
                codec = self._codecs.get(call.version or ASSUMED, v1.CODEC)
                raise MethodNotFound(
                    f"no method {envelope.method!r:.80}; there are {', '.join(self._methods)}"
                )
            operation, codec, choice, lax, named = method
            if envelope.jsonrpc != "2.0" and (envelope.jsonrpc or not lax):
                raise InvalidRequest(_NO_VERSION)
            if named and call.version in named:
                codec = named[call.version]
            elif choice is not None:
                codec = await self._service.choose(choice, operation.name, envelope.params, call)
                if not envelope.jsonrpc and codec.origin not in lax:
                    raise InvalidRequest(_NO_VERSION)
            call.origin = codec.origin
            if request.observed is not None:
                request.observed.begin(operation.name, codec.origin)
            params, call.semantics = await offload(
                size, codec.decode, operation.name, envelope.params
            )
            if call.extensions:
                extra = self._activated(call, headers)
            if operation.is_stream:
                found = await self._perform(operation, call, params)
            else:
                result = await self._encoded(codec, operation, call, params)
                return HttpResponse(
                    200,
                    b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_, result),
                    JSON,
                    (*extra, *call.headers),
                )
        except A2AError as error:
            self._note_failure(request, operation, error, since_s)
            return self._failed(request, error, operation, codec, id_, extra)
        except Exception:
            fault = opaque()
            if request.observed is not None:
                request.observed.fail(fault)
            return HttpResponse(200, _error(id_, codec.error(fault)))
        return answer_of(found, _frames(codec, id_), extra, self._unread)

    def _failed(
        self,
        request: HttpRequest,
        error: A2AError,
        operation: Operation | None,
        codec: Codec,
        id_: bytes,
        extra: Pairs,
    ) -> HttpResponse:
        """The answer to a request that was read as far as these say."""
        headers = request.headers
        if isinstance(error, InvalidRequest) and id_ == text.NO_ID:
            id_ = text.id_of(request.body)
        if operation is None and codec is v1.CODEC:  # the header may say more
            codec = self._codecs.get(headers.get(b"a2a-version", b"")[:3].decode("latin-1"), codec)
        status = error.status if error.is_http_level else 200
        body = _error(id_, codec.error(error))
        is_event = operation is not None and operation.is_stream and codec.errors_in_streams
        if is_event and status == 200 and _takes_events(headers):
            return HttpResponse(200, b"data: %b\n\n" % body, EVENTS, (*EVENTS_HEADERS, *extra))
        return HttpResponse(status, body, JSON, (*error_headers(error), *extra))

    def refused(self, request: HttpRequest, error: A2AError) -> HttpResponse:
        version = request.headers.get(b"a2a-version", b"")[:3].decode("latin-1")
        codec = self._codecs.get(version, v1.CODEC)
        id_ = text.id_of(request.body) if request.body else text.NO_ID
        status = error.status if error.is_http_level else 200
        return HttpResponse(status, _error(id_, codec.error(error)), JSON, error_headers(error))


class _JsonRpcEvents(EventEncoder):
    """Events around which stands an answer of JSON-RPC."""

    __slots__ = ()

    def error(self, error: A2AError) -> bytes:
        return b'%b"error":%b}' % (
            self._prefix.removesuffix(_RESULT),
            v1.encode(self._codec.error(error)),
        )


class _OldJsonRpcEvents(_JsonRpcEvents):
    """The same for clients that know no names of events: an error is one like any other."""

    __slots__ = ()

    error_event = b""


_RESULT = b'"result":'
_NO_VERSION = 'Request payload validation error: jsonrpc must be "2.0"'


def _frames(codec: Codec, id_: bytes) -> EventEncoder:
    return (_OldJsonRpcEvents if codec.errors_in_streams else _JsonRpcEvents)(
        codec, b'{"jsonrpc":"2.0","id":%b,%b' % (id_, _RESULT), b"}"
    )


def _error(id_: bytes, problem: dict[str, Any]) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_, v1.encode(problem))


def _takes_events(headers: Headers) -> bool:
    """Whether the caller would read an event stream; who does not say would."""
    accept = headers.get(b"accept", b"")
    return not accept or b"text/event-stream" in accept or b"*/*" in accept
