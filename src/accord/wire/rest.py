"""The HTTP+JSON door: verbs and paths, with and without a tenant in front."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from ..codec import text, v1
from ..codec.contract import Codec
from ..model import A2AError, InvalidParams, Limits, MethodNotAllowed, MethodNotFound
from ..ops.service import Service
from ..ops.table import OPERATIONS, Operation, Version
from .asgi import (
    A2A_JSON,
    JSON,
    Headers,
    Pairs,
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
from .jsonrpc import activated, opaque
from .sse import Frames, stream

__all__ = ["RestDoor", "error_body"]

# A row is found by its verb and the shape of its path: the segments, with * for a variable one, and the `:verb` suffix.
Shape = tuple[str, ...]


class Row(NamedTuple):
    operation: Operation
    names: tuple[str, ...]
    codec: Codec


class Routes:
    """The paths of all versions served."""

    def __init__(self, versions: Sequence[Version]) -> None:
        self._by_shape: dict[Shape, dict[str, Row]] = {}
        for version in versions:
            for verb, path, name in version.rest:
                shape, names = _shape_of(path)
                self._by_shape.setdefault(shape, {})[verb] = Row(OPERATIONS[name], names, version.rest_codec)

    def find(self, verb: str, path: str) -> tuple[Row, dict[str, str]]:
        """Return the row a request is for, and the fields its path holds.

        Raises:
            MethodNotFound: No operation has such a path.
            MethodNotAllowed: One has, but not with this verb.
        """
        segments = path.strip("/").split("/")
        allowed: list[str] = []  # a path may have a second reading, in which the verb fits: a tenant may be called "tasks"
        for tenant, rest in ((None, segments), (segments[0], segments[1:])):
            for shape, values in _readings(rest):
                verbs = self._by_shape.get(shape)
                if verbs is None:
                    continue
                row = verbs.get(verb)
                if row is None:
                    allowed += [known for known in verbs if known not in allowed]
                    continue
                fields = dict(zip(row.names, values, strict=True))
                if tenant is not None:
                    fields["tenant"] = unquote(tenant)
                return row, fields
        if allowed:
            raise MethodNotAllowed(f"{path[:200]} takes {' or '.join(allowed)}, not {verb}", allow=", ".join(allowed))
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

    def __init__(self, service: Service, limits: Limits, versions: Sequence[Version]) -> None:
        self._service = service
        self._limits = limits
        self._numbers = frozenset(version.number for version in versions)
        self._routes = Routes(versions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send, headers: Headers, path: str) -> None:
        extra: Pairs = ()
        try:
            row, fields = self._routes.find(scope["method"], path)
            check_version(scope, headers, self._numbers)
            operation, _, codec = row
            call = call_of(scope, headers, codec.origin)
            params = await self._params(scope, receive, headers, operation.name, fields)
            request, call.semantics = codec.decode(operation.name, params)
            extra = activated(self._service, call)
            answer = await operation.run(self._service, call, request)
        except A2AError as error:
            allow = ((b"allow", error.detail["allow"].encode()),) if isinstance(error, MethodNotAllowed) else ()
            # Some clients read an error only if it says plain JSON (spec 7, A2).
            kind = A2A_JSON if headers.get(b"accept", b"") == A2A_JSON else JSON
            await respond(send, error.status, error_body(error), kind, (*error_headers(error), *allow, *extra))
        except Exception:
            await respond(send, 500, error_body(opaque()))
        else:
            if operation.is_stream:
                await stream(scope, receive, send, answer, Frames(codec, b"", b"", error_body), headers=extra)
            else:
                await respond(send, 200, codec.result(operation.name, answer), answer_type(headers), extra)

    async def _params(self, scope: Scope, receive: Receive, headers: Headers, operation: str, fields: dict[str, str]) -> bytes:
        """Return the request as one JSON object, whatever of it came by path, query or body."""
        if scope["method"] != "POST":
            return v1.encode(_from_query(operation, query_of(scope), fields))
        body = await read_body(receive, headers, self._limits.body)
        if not body and "id" in fields:  # cancel and subscribe need no body
            return v1.encode(fields)
        check_json(headers)
        text.check(body, self._limits)
        if not fields:
            return body
        value = text.loads(body)
        if not isinstance(value, dict):
            raise InvalidParams("the body is not a JSON object", violations=(("body", "is not a JSON object"),))
        _agree(value, fields)
        return v1.encode(value | fields)


def _agree(body: dict[str, Any], fields: dict[str, str]) -> None:
    """The path decides; a tenant or task in the body that says otherwise is a mistake worth telling."""
    for name, value in fields.items():
        snake = "task_id" if name == "taskId" else name
        for given in (body.pop(snake, None), body.pop(name, None)):
            if given not in (None, "", value):
                what = f"the path says {value!r:.80}, the body {given!r:.80}"
                raise InvalidParams(f"{name}: {what}", violations=((name, what),))


def _from_query(operation: str, query: dict[str, list[str]], fields: dict[str, str]) -> dict[str, Any]:
    """Read a request from the path and the query string, where everything is text (spec 3.5)."""
    known = {f.encode_name: f.type for f in msgspec.structs.fields(v1.REQUESTS[operation])}
    value: dict[str, Any] = {}
    for name, texts in query.items():
        name = _ALIASES.get(name, name)
        if name in known:
            value[name] = _from_text(name, texts[-1], known[name])
    _agree(value, fields)
    return value | fields


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
