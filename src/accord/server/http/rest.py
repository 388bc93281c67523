"""The HTTP+JSON endpoint: verbs and paths, with or without a tenant in front."""

from collections.abc import Sequence
from typing import NamedTuple, cast
from urllib.parse import unquote

from ...auth import Caller
from ...engine import offload
from ...model import A2AError, AgentNotFound, Limits, MethodNotAllowed, MethodNotFound
from ...operations import OPERATIONS, Operation, Service, Version, numbers
from ...protocol import CodecChoice, RestCodec, text
from ...protocol.v1 import codec as v1
from ...slug import nearest
from .. import request_log
from ..request import (
    A2A_JSON,
    JSON,
    HttpRequest,
    HttpResponse,
    Pairs,
    StreamingResponse,
    Target,
    check_json,
    error_headers,
    opaque,
    query_of,
)
from ..transport import UnreadAnswers
from .endpoint import HttpEndpoint
from .sse import EventEncoder, answer_of

__all__ = ["RestEndpoint"]

# A row is found by its verb and the shape of its path: the segments, with * for a variable one, and
# the `:verb` suffix.
Shape = tuple[str, ...]


_BEFORE_IDS = ("tasks", "task")
_NO_STORE: Pairs = ((b"cache-control", b"no-store"),)
_NO_QUERY: dict[str, list[str]] = {}


class RouteRow(NamedTuple):
    operation: Operation
    names: tuple[str, ...]
    codec: RestCodec
    choice: CodecChoice | None
    version: Version
    numbers: frozenset[str]


class RouteMatch(NamedTuple):
    """The row a request is for, and the fields its path holds."""

    row: RouteRow
    fields: dict[str, str]
    alternative: "RouteMatch | None" = (
        None  # the row of another version, whose the request is if its body can be of no other
    )


class Routes:
    """The paths of all versions served."""

    def __init__(self, versions: Sequence[Version]) -> None:
        self._by_shape: dict[Shape, dict[str, list[RouteRow]]] = {}
        self._heads: dict[str, RestCodec] = {}
        for version in versions:
            for route in version.rest:
                shape, names = _shape_of(route.path)
                codec = route.codec or version.rest_codec
                choice = version.rest_variants if route.codec is None else None
                row = RouteRow(
                    OPERATIONS[route.operation], names, codec, choice, version, numbers([version])
                )
                self._by_shape.setdefault(shape, {}).setdefault(route.verb, []).append(row)
                self._heads.setdefault(shape[0], codec)
        # Paths without variables, sends among them, are looked up and not read.
        self._fixed: dict[tuple[str, str, str], RouteMatch] = {}
        asked = [
            (route, hint)
            for version in versions
            for route in version.rest
            for hint in ("", *numbers(versions))
        ]
        self._fixed = {
            (r.verb, r.path, hint): self.find(r.verb, r.path, hint)
            for r, hint in asked
            if "{" not in r.path
        }

    def find(self, verb: str, path: str, hint: str) -> RouteMatch:
        """Return the row a request is for. A path decides; if several versions have it, the one the
        caller names, else the newest.

        Raises:
            MethodNotFound: No operation has such a path.
            MethodNotAllowed: One has, but not with this verb.
        """
        fixed = self._fixed.get((verb, path, hint))
        if fixed is not None:
            return fixed
        segments = path.strip("/").split("/")
        allowed: list[
            str
            # a path may have a second reading, in which the verb fits: a tenant may be called
            # "tasks"
        ] = []
        plain = self._read(verb, segments, hint, allowed)
        if plain is not None and (not hint or hint in plain.row.numbers):
            return plain
        below = self._read(verb, segments[1:], hint, allowed, tenant=segments[0])
        if below is not None and plain is not None:
            # `v1` is the head of an old path, and a good name for a tenant: only who says 1.0 can
            # mean the tenant.
            return (
                RouteMatch(below.row, below.fields, plain) if hint in below.row.numbers else plain
            )
        found = plain or below
        if found is None and allowed:
            raise MethodNotAllowed(
                f"{path[:200]} takes {' or '.join(allowed)}, not {verb}", allow=", ".join(allowed)
            )
        if found is None:
            raise MethodNotFound(f"no {verb} {path[:200]} here")
        return found

    def _read(
        self,
        verb: str,
        segments: list[str],
        hint: str,
        allowed: list[str],
        tenant: str | None = None,
    ) -> RouteMatch | None:
        for shape, values in _readings(segments):
            verbs = self._by_shape.get(shape)
            if verbs is None:
                continue
            if tenant is not None:
                verbs = {
                    known: some
                    for known, rows in verbs.items()
                    if (some := [row for row in rows if row.version.has_tenants])
                }
            rows = verbs.get(verb, [])
            if not rows:
                allowed += [known for known in verbs if known not in allowed]
                continue
            row = rows[0]
            if hint and hint not in row.numbers:
                row = next((other for other in rows if hint in other.numbers), row)
            fields = dict(zip(row.names, values, strict=True))
            if tenant is not None:
                fields["tenant"] = unquote(tenant)
            return RouteMatch(row, fields)
        return None

    def has_below(self, head: str) -> bool:
        """Return whether there are paths that begin with this segment."""
        return head in self._heads

    def codec_below(self, path: str) -> RestCodec:
        """Return the codec for the answer that there is no such path: the first that has paths
        which begin so.
        """
        return self._heads.get(path.strip("/").partition("/")[0], v1.CODEC)


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
    # Ids stand after "tasks" (or "task", in paths of 0.2), which is first or has one literal
    # segment before it.
    at = 0 if segments[0] in _BEFORE_IDS else 1
    if at >= len(segments) - 1 or segments[at] not in _BEFORE_IDS:
        return [(tuple(segments), ())]
    before, rest = tuple(segments[: at + 1]), segments[at + 1 :]
    task_id = unquote(rest[0])
    if len(rest) > 1:
        values = (task_id, *(unquote(segment) for segment in rest[2:]))
        return [((*before, "*", rest[1], *("*" for _ in rest[2:])), values)]
    name, colon, verb = task_id.rpartition(":")
    readings: list[tuple[Shape, tuple[str, ...]]] = (
        [((*before, "*:" + verb), (name,))] if colon and name else []
    )
    return [*readings, ((*before, "*"), (task_id,))]


class RestEndpoint(HttpEndpoint):
    """Answers HTTP+JSON requests of one agent, below a path that is their base."""

    def __init__(
        self,
        service: Service,
        limits: Limits,
        versions: Sequence[Version],
        unread: UnreadAnswers,
        base: str,
    ) -> None:
        super().__init__(service, limits, versions, unread)
        self._base = base
        self._routes = Routes(versions)
        self._anywhere = tuple(
            route.path for version in versions for route in version.rest if route.is_anywhere
        )

    async def __call__(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        extra: Pairs = ()
        codec: RestCodec = v1.CODEC
        headers, verb = request.headers, request.target.verb
        operation: Operation | None = None
        since_s = request_log.begin()
        try:
            path = self._path(request.target)
            call = self._call(request)
            try:
                found = self._routes.find(verb, path, call.version)
            except MethodNotFound as error:
                codec = self._routes.codec_below(path)
                if not isinstance(error, MethodNotAllowed):
                    self._check_agent(path, call.caller)
                raise
            codec = found.row.codec
            body = await self._body(request, found.fields)
            size = len(body)
            if (other := found.alternative) is not None:
                is_only_its_own = other.row.version.is_only_its_own
                if is_only_its_own is not None and await offload(size, is_only_its_own, body):
                    found = other
            row = found.row
            operation, codec, choice = row.operation, row.codec, row.choice
            if not found.fields and verb == "POST":
                params = body
            else:
                query = query_of(request.target) if verb != "POST" else _NO_QUERY
                params = await offload(size, codec.join, operation.name, found.fields, query, body)
            if choice is not None:
                chosen = await self._service.choose(choice, operation.name, params, call)
                codec = cast(RestCodec, chosen)  # what a version's dialects are
            if row.version.rest_for is not None:
                codec = row.version.rest_for(
                    codec, headers.get(b"user-agent", b"").decode("latin-1")
                )
            call.origin = codec.origin
            if request.observed is not None:
                request.observed.begin(operation.name, row.version.number)
            asked, call.semantics = await offload(size, codec.decode, operation.name, params)
            if call.extensions:
                extra = self._activated(call, headers)
            if operation.is_stream:
                answer = await self._perform(operation, call, asked)
            else:
                result = await self._encoded(codec, operation, call, asked)
                kind = codec.answer_type(
                    headers.get(b"accept", b""), headers.get(b"content-type", b"")
                )
                # Tasks are one caller's: nothing on the way may keep them for another.
                private = _NO_STORE if verb == "GET" else ()
                return HttpResponse(
                    200 if result else 204, result, kind, (*private, *extra, *call.headers)
                )
        except A2AError as error:
            self._note_failure(request, operation, error, since_s)
            return _failed(request, error, codec, extra)
        except Exception:
            fault = opaque()
            if request.observed is not None:
                request.observed.fail(fault)
            return HttpResponse(500, codec.failure(fault)[1])
        return answer_of(answer, _RestEvents(codec), extra, self._unread)

    def _check_agent(self, path: str, caller: Caller) -> None:
        """Raise AgentNotFound for a path that would be an agent's, where several share the address:
        a client that looks for a card there must not take the one of the address itself.
        """
        tenants, head = self._service.tenants, path.strip("/").partition("/")[0]
        if tenants is not None and head.strip(".") == head and not self._routes.has_below(head):
            near = nearest(unquote(head), tenants.names(caller))
            hint = f"; did you mean /{tenants.path_of(near)}/?" if near else ""
            raise AgentNotFound(f"no agent is at /{head[:80]}{hint}")

    def refused(self, request: HttpRequest, error: A2AError) -> HttpResponse:
        status, failure = self._routes.codec_below(request.target.raw).failure(error)
        return HttpResponse(status, failure, JSON, error_headers(error))

    def _path(self, target: Target) -> str:
        """What is left of a path below our base, or below any."""
        raw = target.raw
        if raw.endswith(self._anywhere):
            return next(end for end in self._anywhere if raw.endswith(end))
        if not raw.startswith(self._base + "/"):
            raise MethodNotFound(f"no {target.verb} {raw[:200]} here")
        return raw.removeprefix(self._base)

    async def _body(self, request: HttpRequest, fields: dict[str, str]) -> bytes:
        """Return the body, checked."""
        if request.target.verb != "POST":
            return b""
        if request.problem is not None:
            raise request.problem
        body = request.body
        if body or "id" not in fields:  # cancel and subscribe need no body
            check_json(request.headers)
            await offload(len(body), text.check, body, self._limits)
        return body


def _failed(request: HttpRequest, error: A2AError, codec: RestCodec, extra: Pairs) -> HttpResponse:
    allow: Pairs = ()
    if isinstance(error, MethodNotAllowed):
        allow = ((b"allow", error.detail["allow"].encode()),)
    # Some clients read an error only if it says plain JSON.
    kind = A2A_JSON if request.headers.get(b"accept", b"") == A2A_JSON else JSON
    status, failure = codec.failure(error)
    return HttpResponse(status, failure, kind, (*error_headers(error), *allow, *extra))


class _RestEvents(EventEncoder):
    """Events as they are."""

    __slots__ = ()

    def error(self, error: A2AError) -> bytes:
        return cast(RestCodec, self._codec).failure(error)[1]
