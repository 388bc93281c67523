"""The HTTP+JSON door: verbs and paths, with and without a tenant in front."""

from typing import Any
from urllib.parse import unquote

import msgspec

from ..codec import lenient, text, v1
from ..model import A2AError, InvalidParams, MethodNotAllowed, MethodNotFound
from ..ops.service import Service
from ..ops.table import OPERATIONS, Operation
from .asgi import (
    A2A_JSON,
    JSON,
    Headers,
    Receive,
    Scope,
    Send,
    call_of,
    check_json,
    check_version,
    error_headers,
    query_of,
    read_body,
    respond,
)
from .jsonrpc import activated, encode_frame, encode_result, opaque
from .limits import Limits
from .sse import stream

__all__ = ["RestDoor", "error_body"]

# An operation is found by its verb and the shape of its path: the segments, with * for a variable one, and the `:verb` suffix.
Shape = tuple[str, ...]
Found = tuple[Operation, dict[str, str]]


class _Routes:
    def __init__(self) -> None:
        self._by_shape: dict[Shape, dict[str, tuple[Operation, tuple[str, ...]]]] = {}
        for operation in OPERATIONS:
            for verb, path in operation.routes:
                shape, names = _shape_of(path)
                self._by_shape.setdefault(shape, {})[verb] = (operation, names)

    def find(self, verb: str, path: str) -> Found:
        """Return the operation a request is for, and the fields its path holds.

        Raises:
            MethodNotFound: No operation has such a path.
            MethodNotAllowed: One has, but not with this verb.
        """
        segments = path.strip("/").split("/")
        for tenant, rest in ((None, segments), (segments[0], segments[1:])):
            for shape, values in _readings(rest):
                verbs = self._by_shape.get(shape)
                if verbs is None:
                    continue
                row = verbs.get(verb)
                if row is None:
                    raise MethodNotAllowed(f"{path[:200]} takes {' or '.join(verbs)}, not {verb}", allow=", ".join(verbs))
                fields = dict(zip(row[1], values, strict=True))
                if tenant is not None:
                    fields["tenant"] = unquote(tenant)
                return row[0], fields
        raise MethodNotFound(f"no {verb} {path[:200]} here")


def _shape_of(path: str) -> tuple[Shape, tuple[str, ...]]:
    shape, names = [], []
    for segment in path.strip("/").split("/"):
        name, _, verb = segment.partition("}")
        if name.startswith("{"):
            names.append(name[1:])
            shape.append("*" + verb)
        else:
            shape.append(segment)
    return tuple(shape), tuple(names)


def _readings(segments: list[str]) -> list[tuple[Shape, tuple[str, ...]]]:
    """The ways a path can be read, the most literal first."""
    if not segments:
        return []
    if segments[0] != "tasks":
        return [(tuple(segments), ())]
    if len(segments) == 1:
        return [(("tasks",), ())]
    task_id = unquote(segments[1])
    if len(segments) > 2:
        values = (task_id, *(unquote(s) for s in segments[3:]))
        return [(("tasks", "*", segments[2], *("*" for _ in segments[3:])), values)]
    name, colon, verb = task_id.rpartition(":")
    readings: list[tuple[Shape, tuple[str, ...]]] = [(("tasks", "*:" + verb), (name,))] if colon and name else []
    return [*readings, (("tasks", "*"), (task_id,))]


class RestDoor:
    """Answers HTTP+JSON requests of one agent."""

    def __init__(self, service: Service, limits: Limits, versions: frozenset[str]) -> None:
        self._service = service
        self._limits = limits
        self._versions = versions
        self._routes = _Routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send, headers: Headers, path: str) -> None:
        extra: tuple[tuple[bytes, bytes], ...] = ()
        content_type = answer_type(headers)
        try:
            operation, fields = self._routes.find(scope["method"], path)
            check_version(scope, headers, self._versions)
            if scope["method"] == "POST":
                request = await self._read_post(receive, headers, operation, fields)
            else:
                request = _read_query(operation, fields, query_of(scope))
            call = call_of(scope, headers)
            extra = activated(self._service, call)
            result = await operation.run(self._service, call, request)
        except A2AError as error:
            allow = ((b"allow", error.detail["allow"].encode()),) if isinstance(error, MethodNotAllowed) else ()
            # Some clients read an error only if it says plain JSON (spec 7, A2).
            kind = A2A_JSON if headers.get(b"accept", b"") == A2A_JSON else JSON
            await respond(send, error.status, error_body(error), kind, (*error_headers(error), *allow, *extra))
        except Exception:
            await respond(send, 500, error_body(opaque()))
        else:
            if operation.is_stream:
                await stream(
                    scope,
                    receive,
                    send,
                    result,
                    prefix=b"",
                    suffix=b"",
                    encode=encode_frame,
                    encode_error=error_body,
                    headers=extra,
                )
            else:
                await respond(send, 200, encode_result(operation.name, result), content_type, extra)

    async def _read_post(self, receive: Receive, headers: Headers, operation: Operation, fields: dict[str, str]) -> Any:
        body = await read_body(receive, headers, self._limits.body)
        if not body and "id" in fields:  # cancel and subscribe need no body
            return lenient.convert(fields, operation.request)
        check_json(headers)
        text.check(body)
        if not fields:
            return v1.decode(body, operation.request)
        value = text.loads(body)
        if not isinstance(value, dict):
            raise InvalidParams("the body is not a JSON object", violations=(("body", "is not a JSON object"),))
        _agree(value, fields)
        return lenient.convert(value | fields, operation.request)


def _agree(body: dict[str, Any], fields: dict[str, str]) -> None:
    """The path decides; a tenant or task in the body that says otherwise is a mistake worth telling."""
    for name, value in fields.items():
        snake = "task_id" if name == "taskId" else name
        for given in (body.pop(snake, None), body.pop(name, None)):
            if given not in (None, "", value):
                what = f"the path says {value!r:.80}, the body {given!r:.80}"
                raise InvalidParams(f"{name}: {what}", violations=((name, what),))


def _read_query(operation: Operation, fields: dict[str, str], query: dict[str, list[str]]) -> Any:
    """Read a request from the path and the query string, where everything is text (spec 3.5)."""
    known = {f.encode_name: f.type for f in msgspec.structs.fields(operation.request)}
    value: dict[str, Any] = {}
    for name, texts in query.items():
        name = _ALIASES.get(name, name)
        if name in known:
            value[name] = _from_text(name, texts[-1], known[name])
    _agree(value, fields)
    return lenient.convert(value | fields, operation.request)


_ALIASES = {"lastUpdatedAfter": "statusTimestampAfter"}  # what the Go client sends


def _from_text(name: str, given: str, type_: Any) -> Any:
    if type_ == bool | None or type_ is bool:
        if given.lower() not in ("true", "false"):
            raise InvalidParams(
                f"{name}: {given!r:.80} is neither true nor false", violations=((name, "is neither true nor false"),)
            )
        return given.lower() == "true"
    if given.isdigit() and name == "status":
        return int(given)
    return given


def answer_type(headers: Headers) -> bytes:
    """The content type of an answer: what was asked for, else what was sent, else A2A's own (spec 7, A2)."""
    accept = headers.get(b"accept", b"")
    for kind in (A2A_JSON, JSON):
        if kind in accept:
            return kind
    sent = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return sent if sent in (A2A_JSON, JSON) else A2A_JSON


def error_body(error: A2AError) -> bytes:
    body = {"code": error.status, "status": error.grpc, "message": str(error), "details": v1.error_details(error)}
    return v1.encode({"error": body})
