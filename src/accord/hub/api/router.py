"""Routes of the REST interface: each says who may use it, what it takes and what it gives.

`ApiRoute.may` has no default: who adds a route says who may use it. `guest` is for everyone the hub
lets in, `user` for everyone with a login, `publisher` for who adds agents, `owner` for the owner of
the entry in the path, `admin` for admins. Admins may use all of them.
"""

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
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
    Unavailable,
    whole_number,
)
from ...server import (
    HttpRequest,
    HttpResponse,
    Pairs,
    StreamingResponse,
    error_headers,
    opaque,
    query_of,
)
from ..access import HubRole, Person
from ..errors import EntryNotFound, HubError
from ..registry import Entry

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["PREFIX", "ApiCall", "ApiRoute", "HubApi", "Routes"]

PREFIX = "/api/v1"
Who: TypeAlias = Literal["anyone", "guest", "user", "publisher", "owner", "admin"]

_json = msgspec.json.Encoder().encode
_NO_STORE = (b"cache-control", b"no-store")
_RANKS = {"guest": 0, "user": 1, "publisher": 2, "owner": 1, "admin": 3}


class ApiCall(msgspec.Struct):
    """One request to the REST interface."""

    hub: "Hub"
    request: HttpRequest
    caller: Caller
    person: Person
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
        name = self.path["name"]
        found = self.hub.registry.get_visible(name, self.caller)
        if found is None:
            raise self.hub.missing(self.caller, name)
        return found

    def owns(self, entry: Entry) -> bool:
        """Whether an entry is the caller's own; to admins all are."""
        return self.person.owns(entry.owner)

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

    def check_among(self, name: str, given: str, known: Iterable[str]) -> None:
        """Raise InvalidParams if what a filter asks for is none of what there is: to a wrong word
        the answer would always be that there is nothing.
        """
        among = sorted(known)
        if given not in among:
            some = ", ".join(among[:20]) or "none"
            raise InvalidParams(f"{name}={given[:80]!r} is not known here; there is: {some}")

    def number(self, name: str, usual: int, most: int) -> int:
        """A number in the query."""
        text = self.query.get(name, "")
        if not text:
            return usual
        number = whole_number(text)
        if number is None:
            raise InvalidParams(f"{name}={text[:40]!r} is not a whole number")
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

    def __init__(self, hub: "Hub", routes: Routes, *, is_strict: bool = True) -> None:
        self._hub = hub
        self.routes = routes
        self._is_strict = is_strict  # a name in the query that the route does not take is refused

    async def answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request. Errors are answers too."""
        try:
            if request.problem is not None:
                raise request.problem
            return await self._answer(request)
        except PermissionDenied as error:
            await self._note_refused(request, error)
            return _failed(error)
        except A2AError as error:
            return _failed(error)
        except Exception:
            return _failed(opaque())

    async def _answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        raw = request.target.raw.partition("?")[0].removeprefix(PREFIX)
        caller = request.caller = await self._hub.caller_of(request)
        person = self._hub.people.person(caller)
        route, path = self.routes.find(request.target.verb, raw)
        self._check(route, person)
        query = {name: values[-1] for name, values in query_of(request.target).items()}
        if self._is_strict and (unknown := sorted(query.keys() - set(route.query))):
            known = ", ".join(route.query) or "none"
            raise InvalidParams(f"{unknown[0][:80]!r} is not known here; there is: {known}")
        call = ApiCall(self._hub, request, caller, person, path, query)
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

    async def _note_refused(self, request: HttpRequest, error: A2AError) -> None:
        """Somebody tried what they may not."""
        if self._hub.people.person(request.caller).role is HubRole.GUEST:
            self._hub.refused_guests.count()
            return
        what = f"{request.target.verb} {request.target.path[:200]}"
        with contextlib.suppress(Unavailable):
            await self._hub.audit.write(request.caller.name, "refused", what, str(error))

    def _check(self, route: ApiRoute, person: Person) -> None:
        if person.role.rank >= _RANKS[route.may]:
            return
        if person.role is HubRole.GUEST:
            raise Unauthenticated("this needs a login: send a key as X-API-Key")
        raise PermissionDenied(f"this is for the role {route.may}, not for {person.role}")


def _body(request: HttpRequest, kind: Any) -> Any:
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"the body does not fit: {error}") from None
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
