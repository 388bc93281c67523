"""The few pieces of ASGI the doors share: types, reading a body, writing an answer."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from .. import observe
from ..model import A2AError, BodyTooLarge, InvalidRequest, UnsupportedMediaType, VersionNotSupported
from ..ops.call import Call

__all__ = [
    "Headers",
    "Pairs",
    "Receive",
    "Scope",
    "Send",
    "call_of",
    "is_json",
    "path_of",
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


def path_of(scope: Scope) -> str:
    """Return the path below the app's mount point."""
    path, root = scope["path"], scope.get("root_path", "")
    if root and path.startswith(root):
        path = path[len(root) :]
    return path or "/"


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


def call_of(scope: Scope, headers: Headers, origin: str) -> Call:
    """Return what the headers say about a call."""
    call = Call(origin=origin)
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


def check_version(scope: Scope, headers: Headers, served: frozenset[str]) -> str:
    """Return the version the caller asks for, as Major.Minor; empty if it does not say.

    Raises:
        VersionNotSupported: It names one that is not served here.
    """
    given = headers.get(b"a2a-version")
    if given is None:
        if b"2" not in scope.get("query_string", b""):
            return ""
        named = {name.lower(): values for name, values in query_of(scope).items()}
        given = named.get("a2a-version", [""])[0].encode("latin-1", "replace")
    if given == b"1.0" and "1.0" in served:
        return "1.0"
    return known_version(given.decode("latin-1"), served)


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
