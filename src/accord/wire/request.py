"""One HTTP request and its answer, whatever server they come and go by; and what the doors read from a request."""

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qs

import msgspec

from .. import observe
from ..model import A2AError, BodyTooLarge, UnsupportedMediaType, VersionNotSupported
from ..ops.call import Call

__all__ = [
    "A2A_JSON",
    "JSON",
    "Answer",
    "Headers",
    "Out",
    "Pairs",
    "Place",
    "Request",
    "Stream",
    "Target",
    "call_of",
    "check_json",
    "error_headers",
    "http_date",
    "is_json",
    "known_version",
    "query_of",
    "too_large",
]

Headers: TypeAlias = dict[bytes, bytes]
Pairs: TypeAlias = tuple[tuple[bytes, bytes], ...]

JSON = b"application/json"
A2A_JSON = b"application/a2a+json"


class Place(NamedTuple):
    """Where a request came to: for the address in the agent card."""

    scheme: str
    server: tuple[str, int | None]
    root: str = ""  # what a host has put in front of our paths


class Target(msgspec.Struct, frozen=True, gc=False):
    """What a request is for. Below the root: what a host has put in front is gone."""

    verb: str
    path: str  # decoded
    raw: str  # as it was written, so that an id with a slash in it stays one segment
    query: bytes = b""


class Request(msgspec.Struct):
    """A request, all of it. Names of headers are in lower case; of those that come twice `headers` has the last."""

    target: Target
    headers: Headers
    pairs: list[tuple[bytes, bytes]]
    place: Callable[[], Place]
    body: bytes = b""
    problem: A2AError | None = None  # the body is not all there, and this is what to say to whoever would read it

    def whole(self) -> bytes:
        """Return the body.

        Raises:
            BodyTooLarge: There is more of it than anyone may send.
            InvalidRequest: The client went away in the middle: what came may look whole, and is not to be acted on.
        """
        if self.problem is not None:
            raise self.problem
        return self.body


class Answer(msgspec.Struct):
    """An answer that is there as a whole. A server adds what is its own matter: the length, the date."""

    status: int
    body: bytes = b""
    content_type: bytes = JSON
    headers: Pairs = ()


class Out(Protocol):
    """Where a stream goes to: one client, for as long as it is there and takes something."""

    @property
    def is_gone(self) -> bool:
        """Nobody is there any more."""

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send a piece, when the client has room for it. Nothing comes after the last."""

    async def flush(self) -> None:
        """Send the head of the answer, if nothing was written yet that it could go along with."""

    def idle(self, on_gone: Callable[[], None]) -> None:
        """The stream has nothing to say for a while: from now on say if the client goes away."""

    def abort(self) -> None:
        """Break off, so that it can't look like an end."""


class Stream(Protocol):
    """An answer that comes piece by piece."""

    headers: Pairs

    async def send(self, out: Out) -> None:
        """Write it to its end."""

    def close(self) -> None:
        """Let go of what it is made from; once, however it ended, and also if it was never begun."""


def query_of(target: Target) -> dict[str, list[str]]:
    return parse_qs(target.query.decode("latin-1"), keep_blank_values=True) if target.query else {}


def is_json(headers: Headers) -> bool:
    """Whether the request says it is JSON. A browser can't send this type across sites without asking first."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() in (JSON, A2A_JSON)


def check_json(headers: Headers) -> None:
    if headers.get(b"content-type") != JSON and not is_json(headers):
        kind = headers.get(b"content-type", b"").decode("latin-1")
        raise UnsupportedMediaType(f"content type {kind!r:.80} is not JSON; send application/json", contentType=kind[:80])


def too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the request body is larger than {limit} bytes; send large files as a url part", limit=str(limit))


def call_of(request: Request, served: frozenset[str]) -> Call:
    """Return what the headers say about a call.

    Raises:
        VersionNotSupported: They name a version that is not served here.
    """
    headers = request.headers
    version = headers.get(b"a2a-version")
    if version == b"1.0" and "1.0" in served:
        call = Call(version="1.0")
    elif version is not None or request.target.query:
        call = Call(version=_version(version, request.target, served))
    else:
        call = Call()
    if _OPTIONS.isdisjoint(headers):
        return call
    if b"a2a-extensions" in headers or b"x-a2a-extensions" in headers:
        names = b",".join(v for k, v in request.pairs if k in (b"a2a-extensions", b"x-a2a-extensions"))
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


def _version(given: bytes | None, target: Target, served: frozenset[str]) -> str:
    """The version the caller asks for, as Major.Minor; empty if it does not say."""
    if given is not None:
        return known_version(given.decode("latin-1"), served)
    if b"2" not in target.query:
        return ""
    named = {name.lower(): values for name, values in query_of(target).items()}
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


def error_headers(error: A2AError) -> Pairs:
    if isinstance(error, BodyTooLarge):
        return ((b"connection", b"close"),)  # the rest of the body is not waited for
    if error.retry_after_s is not None:
        return ((b"retry-after", b"%d" % error.retry_after_s),)
    return ()


def http_date(seconds: float) -> bytes:
    """A time as HTTP writes it, whatever the language of this machine."""
    at = time.gmtime(seconds)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return f"{day}, {at.tm_mday:02d} {month} {at.tm_year} {at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d} GMT".encode()


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
