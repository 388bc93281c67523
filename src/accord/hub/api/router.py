"""Routes of the REST interface: each says who may use it, what it takes and what it gives.

`ApiRoute.may` has no default: who adds a route says who may use it. `guest` is for everyone the hub
lets in, `user` for everyone with a login, `publisher` for who adds agents, `owner` for the owner of
the entry in the path, `admin` for admins. Admins may use all of them.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from ...auth import Caller
from ...model import (
    A2AError,
    InvalidParams,
    MethodNotAllowed,
    ParseError,
    PermissionDenied,
    Unauthenticated,
    whole_number,
)
from ...protocol import lenient
from ...server import (
    HttpRequest,
    HttpResponse,
    Pairs,
    StreamingResponse,
    error_headers,
    opaque,
    query_of,
)
from ..access import Callers, HubRole, Principal
from ..errors import EntryNotFound, HubError
from ..records import Refusals
from ..registry import Entry, Registry

__all__ = ["PREFIX", "ApiCall", "ApiRoute", "HubApi", "Routes", "expires_ms"]

PREFIX = "/api/v1"
Who: TypeAlias = Literal["guest", "user", "publisher", "owner", "admin"]

_json = msgspec.json.Encoder().encode
_NO_STORE = (b"cache-control", b"no-store")
_NULL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # in JSON
_RANKS = {"guest": 0, "user": 1, "publisher": 2, "owner": 1, "admin": 3}


class ApiCall(msgspec.Struct):
    """One request to the REST interface."""

    registry: Registry
    request: HttpRequest
    caller: Caller
    principal: Principal
    path: dict[str, str]  # the parts of the path that vary
    query: dict[str, str]
    body: Any = None  # of the type the route takes
    headers: Pairs = ()  # of the answer

    def entry(self) -> Entry:
        """Return the entry in the path, if the caller may see it; one that is hidden looks like one
        that is missing.

        Raises:
            EntryNotFound, Unauthenticated
        """
        return self.registry.find(self.path["name"], self.caller)

    def owns(self, entry: Entry) -> bool:
        """Whether an entry is the caller's own; to admins all are."""
        return self.principal.owns(entry.owner)

    def own_entry(self) -> Entry:
        """Return the entry in the path, if the caller may change it."""
        found = self.entry()
        if not self.owns(found):
            raise PermissionDenied(f"{found.name} is not this caller's own")
        return found

    def if_match(self, entry: Entry) -> int | None:
        """The revision the request is for; None if it does not say."""
        given = self.request.headers.get(b"if-match", b"").decode("latin-1").strip()
        if not given or given == "*":
            return None
        id_, _, revision = given.removeprefix("W/").strip('"').partition(".")
        return (whole_number(revision) or 0) if id_ == entry.id else 0

    def known_teams(self, made: Iterable[dict[str, str]]) -> set[str]:
        """Return the teams the caller may ask for: their own, and those of entries they see; an
        admin may ask for all that were made.
        """
        of_hub = {row["name"] for row in made} if self.principal.is_admin else set()
        seen = {entry.team for entry in self.registry.visible_to(self.caller) if entry.team}
        return of_hub | self.principal.teams | seen

    def check_among(self, name: str, given: str, known: Iterable[str]) -> None:
        """Raise InvalidParams if what a filter asks for is none of what there is: to a wrong word
        the answer would always be that there is nothing.
        """
        among = sorted(known)
        if given not in among:
            some = ", ".join(among[:20]) or "none"
            raise InvalidParams(f"{name}={given[:80]!r} is not known here; there is: {some}")

    def number(self, name: str, usual: int, most: int, *, least: int = 0) -> int:
        """A number in the query; one above `most` counts as that."""
        text = self.query.get(name, "")
        if not text:
            return usual
        number = whole_number(text)
        if number is None:
            raise InvalidParams(f"{name}={text[:40]!r} is not a whole number")
        if number < least:
            raise InvalidParams(f"{name}={number}: give {least} or more")
        return min(number, most)


Run: TypeAlias = Callable[[ApiCall], Awaitable[Any]]


class ApiRoute(msgspec.Struct, frozen=True):
    """One route. What `run` returns is the answer: a value to be written as JSON, or a response."""

    verb: str
    path: str  # below /api/v1: /agents/{name}:suspend
    may: Who
    run: Run
    summary: str
    takes: Any = None  # the type of the body
    gives: Any = None
    query: tuple[str, ...] = ()
    status: int = 200

    @property
    def pattern(self) -> str:
        parts = re.split(r"(\{\w+\})", self.path)
        return "".join(
            f"(?P<{part[1:-1]}>[^/:]+)" if part.startswith("{") else re.escape(part)
            for part in parts
        )


class Routes:
    """The table of routes."""

    def __init__(self, routes: Sequence[ApiRoute] = ()) -> None:
        self.all: list[ApiRoute] = []
        self._patterns: list[tuple[re.Pattern[str], ApiRoute]] = []
        self.add(*routes)

    def add(self, *routes: ApiRoute) -> None:
        for route in routes:
            self.all.append(route)
            self._patterns.append((re.compile(route.pattern), route))

    def find(self, verb: str, path: str) -> tuple[ApiRoute, dict[str, str]]:
        """Return the route of a path, and what varies in it.

        Raises:
            EntryNotFound: There is none.
            MethodNotAllowed: There is one for other verbs.
        """
        others = []
        for pattern, route in self._patterns:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if route.verb == verb or (verb == "HEAD" and route.verb == "GET"):
                return route, {name: unquote(part) for name, part in match.groupdict().items()}
            others.append(route.verb)
        if others:
            raise MethodNotAllowed(f"use {' or '.join(others)}", allow=", ".join(others))
        raise EntryNotFound(
            f"the hub has no {path[:80]!r}", fix=f"{PREFIX}/openapi.json lists what there is"
        )


class HubApi:
    """Answers requests below /api/v1."""

    def __init__(
        self,
        routes: Routes,
        callers: Callers,
        registry: Registry,
        refusals: Refusals,
        *,
        is_strict: bool = True,
    ) -> None:
        self.routes = routes
        self._callers = callers
        self._registry = registry
        self._refusals = refusals
        self._is_strict = is_strict  # a name in the query that the route does not take is refused

    async def answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request. Errors are answers too."""
        try:
            if request.problem is not None:
                raise request.problem
            return await self._answer(request)
        except PermissionDenied as error:
            who = self._callers.principals.of(request.caller)
            self._refusals.count(who, f"{request.target.verb} {request.target.path[:200]}")
            return _failed(error)
        except A2AError as error:
            return _failed(error)
        except Exception:
            return _failed(opaque())

    async def _answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        raw = request.target.raw.partition("?")[0].removeprefix(PREFIX)
        caller = request.caller = await self._callers.of(request)
        route, path = self.routes.find(request.target.verb, raw)
        await self._registry.catch_up()  # what another hub has answered holds here too
        principal = self._callers.principals.of(caller)
        self._check(route, principal)
        query = {name: values[-1] for name, values in query_of(request.target).items()}
        if self._is_strict and (unknown := sorted(query.keys() - set(route.query))):
            known = ", ".join(route.query) or "none"
            raise InvalidParams(f"{unknown[0][:80]!r} is not known here; there is: {known}")
        _check_text(request, *path.values(), *query.values())
        call = ApiCall(self._registry, request, caller, principal, path, query)
        if route.may == "owner":
            call.own_entry()
        if route.takes is not None:
            call.body = _body(request, route.takes)
        answer = await route.run(call)
        if isinstance(answer, HttpResponse):
            return answer
        if answer is not None and not isinstance(answer, msgspec.Struct | dict | list):
            stream: StreamingResponse = answer
            return stream
        body = b"" if answer is None else _json(answer)
        status = 204 if answer is None else route.status
        return HttpResponse(status, body, headers=(_NO_STORE, *call.headers))

    def _check(self, route: ApiRoute, principal: Principal) -> None:
        if principal.role.rank >= _RANKS[route.may]:
            return
        if principal.role is HubRole.GUEST:
            raise Unauthenticated("this needs a login: send a key as X-API-Key")
        raise PermissionDenied(f"this is for the role {route.may}, not for {principal.role}")


def expires_ms(now_ms: int, days: float | None) -> int:
    """Return when something ends that is for so many days; 0 for never."""
    if days is None:
        return 0
    if not 0 < days < 36_500:
        raise InvalidParams("expires_days is a number of days, more than 0")
    return now_ms + int(days * 86_400_000)


def _check_text(request: HttpRequest, *values: str) -> None:
    """Raise InvalidParams for a null character: PostgreSQL stores no text with it."""
    if any("\0" in value for value in values) or _NULL.search(request.body):
        raise InvalidParams("text for the hub may have no null character (U+0000)")


def _body(request: HttpRequest, kind: Any) -> Any:
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        [(field, wrong)] = lenient.bad_field(error).violations
        where = "" if field == "params" else f"{field}: "  # else it is about the whole body
        raise InvalidParams(f"the body does not fit: {where}{wrong}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"the body is not JSON: {error}") from None


def _failed(error: A2AError) -> HttpResponse:
    fix = error.fix if isinstance(error, HubError) else _FIXES.get(error.status, "")
    body = {"code": error.status, "reason": error.reason, "message": str(error), "fix": fix}
    headers = (_NO_STORE, *error_headers(error))
    if isinstance(error, MethodNotAllowed):
        headers = (*headers, (b"allow", error.detail.get("allow", "").encode()))
    return HttpResponse(error.status, _json({"error": body}), headers=headers)


_FIXES = {
    401: "send a key as X-API-Key; an admin makes one with: accord hub key new NAME --role user",
    403: "ask an admin of the hub for the role, or to do it",
    429: "try again later",
    503: "try again later",
}
