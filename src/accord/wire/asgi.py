"""The HTTP front: one raw ASGI app that finds the door for a request, and what the doors share."""

import abc
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, quote

from .. import observe
from ..codec import v1
from ..model import (
    A2AError,
    BodyTooLarge,
    InvalidRequest,
    MethodNotAllowed,
    MethodNotFound,
    UnsupportedMediaType,
    VersionNotSupported,
)
from ..ops.call import Call

if TYPE_CHECKING:
    from .jsonrpc import JsonRpcDoor
    from .rest import RestDoor
    from .wellknown import CardDoor

__all__ = [
    "Front",
    "Headers",
    "Pairs",
    "Receive",
    "Scope",
    "Send",
    "call_of",
    "check_json",
    "error_headers",
    "is_json",
    "known_version",
    "query_of",
    "read_body",
    "respond",
]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = dict[bytes, bytes]
Pairs: TypeAlias = tuple[tuple[bytes, bytes], ...]

JSON = b"application/json"
A2A_JSON = b"application/a2a+json"
CARD_PATH = "/.well-known/agent-card.json"


class Front(abc.ABC):
    """Routes HTTP requests: the card, JSON-RPC at its path, HTTP+JSON below its base."""

    is_open = False

    def __init__(self, rpc: "JsonRpcDoor", rest: "RestDoor", card: "CardDoor", *, rpc_path: str, rest_path: str) -> None:
        self._rpc = rpc
        self._rest = rest
        self._card = card
        self._rpc_path = rpc_path.rstrip("/")
        self._rest_path = rest_path

    @abc.abstractmethod
    async def open(self) -> None:
        """Get ready to answer; once, however many ask."""

    @property
    @abc.abstractmethod
    def is_ready(self) -> bool:
        """Whether new work may come."""

    @abc.abstractmethod
    async def live(self, receive: Receive, send: Send) -> None:
        """Follow the life of the server this app runs in."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        if not self.is_open:
            await self.open()
        headers = dict(scope["headers"])
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        if path.rstrip("/") != self._rpc_path:
            await self._elsewhere(scope, receive, send, headers, path)
        elif scope["method"] == "POST":
            await self._rpc(scope, receive, send, headers)
        else:
            error = MethodNotAllowed(f"JSON-RPC requests are sent with POST; the agent card is at {CARD_PATH}", allow="POST")
            await respond(send, 405, v1.CODEC.failure(error)[1], headers=((b"allow", b"POST"),))

    async def _elsewhere(self, scope: Scope, receive: Receive, send: Send, headers: Headers, path: str) -> None:
        verb = scope["method"]
        if path in self._card.paths and verb in ("GET", "HEAD"):
            await self._card(scope, send, headers)
        elif path == "/healthz" and verb == "GET":
            await respond(send, 200, b'{"status":"ok"}')
        elif path == "/readyz" and verb == "GET":
            if self.is_ready:
                await respond(send, 200, b'{"status":"ready"}')
            else:
                await respond(send, 503, b'{"status":"stopping"}', headers=((b"retry-after", b"1"),))
        else:
            # Undecoded, so that an id with a slash in it stays one segment.
            raw = scope["raw_path"].decode("latin-1") if scope.get("raw_path") else quote(scope["path"])
            path = raw.removeprefix(scope.get("root_path", ""))
            if path.startswith(self._rest_path + "/"):
                await self._rest(scope, receive, send, headers, self._rest.below_any(path) or path.removeprefix(self._rest_path))
            elif below := self._rest.below_any(path):
                await self._rest(scope, receive, send, headers, below)
            else:
                await respond(send, 404, v1.CODEC.failure(MethodNotFound(f"no {verb} {path[:200]} here"))[1])

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})


def query_of(scope: Scope) -> dict[str, list[str]]:
    raw = scope.get("query_string", b"")
    return parse_qs(raw.decode("latin-1"), keep_blank_values=True) if raw else {}


def is_json(headers: Headers) -> bool:
    """Whether the request says it is JSON. A browser can't send this type across sites without asking first."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() in (JSON, A2A_JSON)


def check_json(headers: Headers) -> None:
    if headers.get(b"content-type") != JSON and not is_json(headers):
        kind = headers.get(b"content-type", b"").decode("latin-1")
        raise UnsupportedMediaType(f"content type {kind!r:.80} is not JSON; send application/json", contentType=kind[:80])


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """Return the body, or raise BodyTooLarge before more than `limit` of it is kept.

    Raises:
        InvalidRequest: The client went away in the middle: what came may look whole, and is not to be acted on.
    """
    length = headers.get(b"content-length", b"0")
    if len(length) > 12 or not length.isdigit() or int(length) > limit:
        raise _too_large(limit)
    event = await receive()
    body: bytes = event.get("body", b"")
    if not event.get("more_body", False):
        if len(body) > limit:
            raise _too_large(limit)
        return body
    pieces, size = [body], len(body)
    while event.get("more_body", False):
        event = await receive()
        if event["type"] == "http.disconnect":
            raise InvalidRequest("the request ended before its body did")
        piece = event.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the request body is larger than {limit} bytes; send large files as a url part", limit=str(limit))


def call_of(scope: Scope, headers: Headers, served: frozenset[str]) -> Call:
    """Return what the headers say about a call.

    Raises:
        VersionNotSupported: They name a version that is not served here.
    """
    version = headers.get(b"a2a-version")
    if version == b"1.0" and "1.0" in served:
        call = Call(version="1.0")
    elif version is not None or scope.get("query_string"):
        call = Call(version=_version(version, scope, served))
    else:
        call = Call()
    if _OPTIONS.isdisjoint(headers):
        return call
    if b"a2a-extensions" in headers or b"x-a2a-extensions" in headers:
        names = b",".join(v for k, v in scope["headers"] if k in (b"a2a-extensions", b"x-a2a-extensions"))
        call.extensions = frozenset(name for part in names.decode("latin-1").split(",") if (name := part.strip()))
    if b"traceparent" in headers:
        observe.enter(headers[b"traceparent"].decode("latin-1"))
    if b"idempotency-key" in headers:
        call.idempotency_key = headers[b"idempotency-key"].decode("latin-1").strip()
    if b"last-event-id" in headers:
        cursor = headers[b"last-event-id"].strip()
        call.last_event = int(cursor) if cursor.isdigit() and len(cursor) < 16 else None
    return call


_OPTIONS = frozenset([b"a2a-extensions", b"x-a2a-extensions", b"traceparent", b"idempotency-key", b"last-event-id"])


def _version(given: bytes | None, scope: Scope, served: frozenset[str]) -> str:
    """The version the caller asks for, as Major.Minor; empty if it does not say."""
    if given is not None:
        return known_version(given.decode("latin-1"), served)
    if b"2" not in scope["query_string"]:
        return ""
    named = {name.lower(): values for name, values in query_of(scope).items()}
    return known_version(named.get("a2a-version", [""])[0], served)


def known_version(given: str, served: frozenset[str]) -> str:
    """Return a version as Major.Minor, or raise VersionNotSupported if it is none that is served here."""
    version = ".".join(given.strip().split(".")[:2])
    if version and version not in served:
        supported = ", ".join(sorted(served))
        raise VersionNotSupported(
            f"A2A version {given!r:.40} is not supported here; use {supported}", requested=given[:40], supported=supported
        )
    return version


async def respond(send: Send, status: int, body: bytes, content_type: bytes = JSON, headers: Pairs = ()) -> None:
    """Send a whole answer."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})


def error_headers(error: A2AError) -> Pairs:
    if isinstance(error, BodyTooLarge):
        return ((b"connection", b"close"),)  # the rest of the body is not waited for
    if error.retry_after_s is not None:
        return ((b"retry-after", b"%d" % error.retry_after_s),)
    return ()
