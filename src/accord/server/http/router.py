"""The router, which finds the endpoint of an HTTP request.

It is an ASGI app for any server. Our own server calls it directly.
"""

import abc
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from ...auth import Authenticator, Caller, Credentials
from ...model import A2AError, Limits, MethodNotAllowed, MethodNotFound, Unauthenticated
from ...observe import ObservedRequest, Observer
from ...protocol.v1 import codec as v1
from .. import request_log
from ..request import (
    HttpRequest,
    HttpResponse,
    ResponseWriter,
    StreamingResponse,
    opaque,
)
from ..transport import UnreadAnswers
from .asgi import Receive, Scope, Send, converse
from .card import CARD_PATH, CardEndpoint
from .catalog import CATALOG_PATH
from .endpoint import HttpEndpoint
from .files import FilesEndpoint, is_file_path
from .screen import Screen

__all__ = ["Router"]

JWKS_PATH = "/.well-known/jwks.json"

_JWKS_HEADERS = ((b"cache-control", b"public, max-age=300"),)
Mounted: TypeAlias = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse | StreamingResponse]]
Answered: TypeAlias = HttpResponse | StreamingResponse
Watcher: TypeAlias = Callable[[HttpRequest, Answered, float], Answered]

_READY = b'{"status":"ready"}'
METADATA_PATH = "/.well-known/oauth-protected-resource"
_VERBS = b"GET, HEAD, POST, DELETE, OPTIONS"


class PageSessions(Protocol):
    """The browsers that are logged in at a page of this server."""

    def shows(self, request: HttpRequest) -> bool:
        """Return whether a request shows a session, valid or not."""
        ...

    async def caller(self, request: HttpRequest) -> Caller | None:
        """Return the caller of a request's session; None if it has no valid one."""
        ...


class Router(abc.ABC):
    """Routes HTTP requests: JSON-RPC at its path, the card and health at theirs, HTTP+JSON all
    others.
    """

    is_open = False
    unread: UnreadAnswers

    def __init__(
        self,
        rpc: HttpEndpoint,
        rest: HttpEndpoint,
        card: CardEndpoint,
        *,
        rpc_path: str,
        limits: Limits,
        screen: Screen,
        jwks: Callable[[], bytes] | None = None,
        authenticator: Authenticator | None = None,
        is_card_public: bool = True,
    ) -> None:
        self._rpc = rpc
        self._rest = rest
        self._card = card
        self._rpc_path = rpc_path.rstrip("/")
        self._jwks = jwks  # the keys this server signs with; None if it signs nothing
        self.limits = limits
        self._screen = screen
        self._hosts = screen.hosts
        self._authenticator = authenticator
        self._mounts: list[tuple[str, Mounted]] = []
        self.routers: dict[str, Router] = {}  # of other agents, by the path they are below
        self.card_answer: Mounted | None = None  # instead of the card that is the same for all
        self.index: Callable[[HttpRequest], HttpResponse] | None = None  # what `/` shows
        # lists the agents whose cards everybody may read
        self.catalog: Callable[[HttpRequest], HttpResponse] | None = None
        # Called with every request to the agent and its answer; returns the answer to send.
        self.on_exchange: Watcher | None = None
        self.observer: Observer | None = None  # of traces and metrics
        self.sessions: PageSessions | None = None
        self.files: FilesEndpoint | None = None  # None: this agent keeps no files
        self._public = frozenset(
            [
                "/healthz",
                "/readyz",
                METADATA_PATH,
                JWKS_PATH,
                CATALOG_PATH,
                *(card.paths if is_card_public else ()),
            ]
        )

    def has_path(self, path: str) -> bool:
        """Return whether a path is one of the router's own, so that no agent can be below it."""
        return path in self._public or (self.files is not None and path == "/files")

    def mount(self, prefix: str, answer: "Mounted") -> None:
        """Have another answer requests to a path and all below it. It asks by itself who calls."""
        self._mounts.append((prefix, answer))

    @abc.abstractmethod
    async def open(self) -> None:
        """Get ready to answer. Only the first call does anything."""

    @abc.abstractmethod
    async def close(self, grace_s: float = 0.0) -> None:
        """Take no new work, give running tasks `grace_s` to end, then end them."""

    @property
    @abc.abstractmethod
    def trouble(self) -> str:
        """Why no new work should come; empty if it may."""

    @abc.abstractmethod
    async def live(self, receive: Receive, send: Send) -> None:
        """Start and stop with the server this app runs in (ASGI lifespan)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await converse(self.answer, scope, receive, send, self.limits, self.is_refused)
        elif scope["type"] == "lifespan":
            await self.live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    def answer(self, request: HttpRequest) -> Coroutine[Any, Any, HttpResponse | StreamingResponse]:
        """Answer a request. Errors are answers too."""
        if not self.is_open:
            return self._prepared(request)
        if self.routers and (found := self._below(request.target.raw)) is not None:
            prefix, router = found
            return router.answer(request.below(prefix))
        headers = request.headers
        if self.files is not None and self.files.is_signed(request):
            return self.files(request)
        if (
            headers.get(b"host") not in self._hosts
            or b"origin" in headers
            or b"sec-fetch-site" in headers
        ):
            return self._screened(request)
        if self._authenticator is not None:
            caller = self._authenticator.recall(self._credentials(request))
            if caller is None:
                return self._screened(request)
            request.caller = caller
        return self._routed(request)

    def _routed(
        self, request: HttpRequest
    ) -> Coroutine[Any, Any, HttpResponse | StreamingResponse]:
        if self._mounts and (mounted := self._mounted(request.target.path)) is not None:
            return mounted(request)
        if self.on_exchange is not None:
            return self._watched(request, self.on_exchange)
        return self._answered(request)

    def _answered(
        self, request: HttpRequest
    ) -> Coroutine[Any, Any, HttpResponse | StreamingResponse]:
        if request.target.path.rstrip("/") != self._rpc_path or request.target.verb != "POST":
            return self._elsewhere(request)
        if self.observer is not None:
            has_trace = b"traceparent" in request.headers
            observed = self.observer.request("JSONRPC", has_trace=has_trace)
            if observed is not None:
                return self._observed(self._rpc, request, observed)
        return self._rpc(request)

    async def _observed(
        self, endpoint: HttpEndpoint, request: HttpRequest, observed: ObservedRequest
    ) -> HttpResponse | StreamingResponse:
        """Answer a request of the protocol, and say how it went."""
        request.observed = observed
        try:
            answer = await endpoint(request)
        except BaseException:
            observed.end()
            raise
        if isinstance(answer, HttpResponse):
            observed.end()
            return answer
        observed.answered()
        return _ObservedStream(answer, observed)

    async def _watched(
        self, request: HttpRequest, watcher: "Watcher"
    ) -> HttpResponse | StreamingResponse:
        since_s = time.monotonic()
        return watcher(request, await self._answered(request), since_s)

    def _below(self, raw: str) -> "tuple[str, Router] | None":
        """The agent a path belongs to, of those that are below one."""
        end = raw.find("/", 1)
        while end > 0:
            router = self.routers.get(raw[:end])
            if router is not None:
                return raw[:end], router
            end = raw.find("/", end + 1)
        router = self.routers.get(raw)
        return (raw, router) if router is not None else None

    def _mounted(self, path: str) -> "Mounted | None":
        for prefix, answer in self._mounts:
            if path == prefix or path.startswith(prefix + "/"):
                return answer
        return None

    async def _prepared(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        await self.open()
        return await self.answer(request)

    async def _screened(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request if it is for us and its caller may ask."""
        path = request.target.path
        since_s = request_log.begin()
        try:
            if path not in self._public:
                self._screen.check(request)
            if request.target.verb == "OPTIONS":
                preflight = self._screen.preflight(request)
                if preflight is not None:
                    return preflight
            if (
                self._authenticator is not None
                and path not in self._public
                and self._mounted(path) is None
            ):
                session = await self.sessions.caller(request) if self.sessions else None
                request.caller = session or await self._authenticator.authenticate(
                    self._credentials(request), lambda: self._metadata_url(request)
                )
        except A2AError as error:
            # A caller that is not authenticated is logged with the reason, by the authenticator.
            if since_s and not isinstance(error, Unauthenticated):
                request_log.log_refused("", request.caller, error, since_s)
            answer: HttpResponse | StreamingResponse = self._refused(request, error)
        except Exception:
            answer = self._refused(request, opaque())
        else:
            answer = await self._routed(request)
        if b"origin" in request.headers:
            answer.headers = (*answer.headers, *self._screen.shared(request))
        return answer

    def is_refused(self, request: HttpRequest) -> bool:
        """Whether a request is refused for what its headers say, so that its body need not be read.
        It is answered all the same.
        """
        if self.routers and (found := self._below(request.target.raw)) is not None:
            prefix, router = found
            return router.is_refused(request.below(prefix))
        path = request.target.path
        if path in self._public:
            return False
        try:
            self._screen.check(request)
        except A2AError:
            return True
        return (
            self._authenticator is not None
            and self._mounted(path) is None
            and not (self.sessions is not None and self.sessions.shows(request))
            and self._authenticator.precheck(self._credentials(request)) is not None
        )

    def _credentials(self, request: HttpRequest) -> Credentials:
        return Credentials(request.headers, request.pairs, request.target.query, request.peer)

    def _metadata_url(self, request: HttpRequest) -> str:
        assert self._authenticator is not None  # it asks
        has_issuer = any(scheme.issuer for scheme in self._authenticator.schemes)
        return self._card.base(request) + METADATA_PATH if has_issuer else ""

    def refusal(self, request: HttpRequest, error: A2AError) -> HttpResponse:
        """The answer to a request that is refused, in the form of its binding."""
        return self._refused(request, error)

    def _refused(self, request: HttpRequest, error: A2AError) -> HttpResponse:
        is_rpc = request.target.path.rstrip("/") == self._rpc_path
        if self.observer is not None:
            self.observer.refused("JSONRPC" if is_rpc else "HTTP+JSON", error)
        return (self._rpc if is_rpc else self._rest).refused(request, error)

    def _metadata(self, request: HttpRequest) -> HttpResponse:
        """What OAuth clients read to find where tokens for this agent come from (RFC 9728)."""
        schemes = self._authenticator.schemes if self._authenticator is not None else ()
        issuers = [scheme.issuer for scheme in schemes if scheme.issuer]
        if not issuers:
            return self._rest.refused(request, MethodNotFound("there are no OAuth tokens here"))
        return HttpResponse(
            200,
            v1.encode(
                {
                    "resource": self._card.base(request),
                    "authorization_servers": issuers,
                    "bearer_methods_supported": ["header"],
                    "scopes_supported": sorted(self._scopes()),
                }
            ),
        )

    def _scopes(self) -> set[str]:
        """All scopes the agent's callers may need."""
        return set()

    async def _elsewhere(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        verb, path = request.target.verb, request.target.path
        if path == "/" and verb in ("GET", "HEAD") and self.index is not None:
            return self.index(request)
        if path.rstrip("/") == self._rpc_path:
            return self._not_rpc()
        if path == METADATA_PATH and verb in ("GET", "HEAD"):
            return self._metadata(request)
        if path in self._card.paths and verb in ("GET", "HEAD"):
            since_s = request_log.begin()
            if self.card_answer is not None:
                card = await self.card_answer(request)
            else:
                card = self._card(request)
            if since_s:
                request_log.log_done("AgentCard", request.caller, "", "", since_s)
            return card
        if path == JWKS_PATH and verb in ("GET", "HEAD") and self._jwks is not None:
            return HttpResponse(200, self._jwks(), headers=_JWKS_HEADERS)
        if path == CATALOG_PATH and verb in ("GET", "HEAD") and self.catalog is not None:
            return self.catalog(request)
        if path == "/healthz" and verb in ("GET", "HEAD"):
            return HttpResponse(200, b'{"status":"ok"}')
        if path == "/readyz" and verb in ("GET", "HEAD"):
            return self._readiness()
        if path == "*" and verb == "OPTIONS":
            return HttpResponse(204, headers=((b"allow", _VERBS),))
        if self.files is not None and is_file_path(path):
            return await self.files(request)
        if self.observer is not None:
            has_trace = b"traceparent" in request.headers
            observed = self.observer.request("HTTP+JSON", has_trace=has_trace)
            if observed is not None:
                return await self._observed(self._rest, request, observed)
        return await self._rest(request)

    def _readiness(self) -> HttpResponse:
        trouble = self.trouble
        if not trouble:
            return HttpResponse(200, _READY)
        return HttpResponse(503, v1.encode({"status": trouble}), headers=((b"retry-after", b"1"),))

    def _not_rpc(self) -> HttpResponse:
        error = MethodNotAllowed(
            f"JSON-RPC requests are sent with POST; the agent card is at {CARD_PATH}", allow="POST"
        )
        return HttpResponse(405, v1.CODEC.failure(error)[1], headers=((b"allow", b"POST"),))


class _ObservedStream:
    """A stream whose end is the end of its request."""

    __slots__ = ("_observed", "_stream", "headers")

    def __init__(self, stream: StreamingResponse, observed: ObservedRequest) -> None:
        self._stream = stream
        self._observed = observed
        self.headers = stream.headers

    async def send(self, out: ResponseWriter) -> None:
        await self._stream.send(out)

    def close(self) -> None:
        self._stream.close()
        self._observed.end()
