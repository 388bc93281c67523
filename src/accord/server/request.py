"""An HTTP request and its response, independent of the server."""

import asyncio
import logging
import re
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qs

import msgspec

from ..auth import ANONYMOUS, Caller
from ..model import (
    FILES,
    A2AError,
    BodyTooLarge,
    InvalidRequest,
    TooManyRequests,
    UnsupportedMediaType,
)
from ..observe import ObservedRequest

__all__ = [
    "A2A_JSON",
    "JSON",
    "BodyStream",
    "Headers",
    "HttpRequest",
    "HttpResponse",
    "Pairs",
    "Peer",
    "Problem",
    "ResponseWriter",
    "ServerUrl",
    "SizedResponse",
    "StreamingResponse",
    "Target",
    "check_header",
    "check_json",
    "error_headers",
    "host_name",
    "http_date",
    "is_json",
    "is_upload",
    "not_read",
    "opaque",
    "query_of",
    "too_busy",
    "too_large",
]

Headers: TypeAlias = dict[bytes, bytes]
Pairs: TypeAlias = tuple[tuple[bytes, bytes], ...]
Problem: TypeAlias = A2AError

JSON = b"application/json"
A2A_JSON = b"application/a2a+json"

log_ = logging.getLogger("accord")


class ServerUrl(NamedTuple):
    """Name the address a request came to, for the agent card."""

    scheme: str
    server: tuple[str, int | None]
    root: str = ""  # what a host has put in front of our paths


class Peer(NamedTuple):
    """Name the other end of the connection."""

    address: str = ""
    certificate: Mapping[str, Any] | None = None  # verified by TLS


class Target(msgspec.Struct, frozen=True, gc=False):
    """Name what a request is for. The path begins below the root, without the host's prefix."""

    verb: str
    path: str  # decoded
    raw: str  # as it was written, so that an id with a slash in it stays one segment
    query: bytes = b""


class HttpRequest(msgspec.Struct):
    """A request, all of it. Names of headers are in lower case; of those that come twice `headers`
    has the last.
    """

    target: Target
    headers: Headers
    pairs: list[tuple[bytes, bytes]]
    server_url: Callable[[], ServerUrl]
    body: bytes = b""
    problem: Problem | None = (
        # the body did not come as a whole, so there is none: what to say to whoever would read it
        None
    )
    peer: Callable[[], Peer] = Peer
    caller: Caller = ANONYMOUS
    observed: ObservedRequest | None = None  # None: nobody observes the requests of this app
    stream: "BodyStream | None" = None  # the body of an upload, as it comes

    def base_url(self) -> str:
        """The address the caller used, where that can be trusted: the Host header counts only if it
        names this machine's loopback or the address the server is bound to.
        """
        scheme, (name, port), root, *_ = self.server_url()
        host = self.headers.get(b"host", b"").decode("latin-1")
        if host_name(host) not in ("localhost", "127.0.0.1", "[::1]", name):
            address = f"[{name}]" if ":" in name else name
            host = f"{address}:{port}" if port is not None else address
        return f"{scheme}://{host}{root}"

    def below(self, prefix: str) -> "HttpRequest":
        """The same request as something at that path sees it."""
        target, at = self.target, self.server_url

        def server_url() -> ServerUrl:
            url = at()
            return url._replace(root=url.root + prefix)

        inner = Target(
            target.verb,
            target.path.removeprefix(prefix) or "/",
            target.raw.removeprefix(prefix) or "/",
            target.query,
        )
        return msgspec.structs.replace(self, target=inner, server_url=server_url)


_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def host_name(host: str) -> str:
    """The name in a Host header, without the port. Empty if the header is anything else than a name
    and a port: `localhost:80@evil.example` would be another address in a URL.
    """
    found = _HOST.fullmatch(host)
    return found[1].lower().rstrip(".") if found else ""


def check_header(name: bytes, value: bytes) -> None:
    """Refuse a value that would end its line: what follows it would be headers, or a body."""
    if b"\n" in value or b"\r" in value:
        raise ValueError(f"the header {name!r} would split the response")


class BodyStream:
    """The body of an upload: whoever reads it slows its sender down."""

    __slots__ = ("_error", "_is_over", "_pieces", "_resume", "_size", "_waiter", "is_read")

    MOST = 1 << 20  # bytes that wait to be read; then the sender has to

    def __init__(self, resume: Callable[[], None]) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_over = False
        self._error: Exception | None = None
        self._resume = resume  # called when there is room again
        self._waiter: asyncio.Future[None] | None = None
        self.is_read = False  # somebody has begun to

    def feed(self, data: bytes) -> bool:
        """Take what has come; return whether there is room for more."""
        if data:
            self._pieces.append(data)
            self._size += len(data)
            self._wake()
        return self._size < self.MOST

    def end(self, error: Exception | None = None) -> None:
        """That was all; with an error, the rest does not come."""
        self._is_over, self._error = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what comes.

        Raises:
            ConnectionError: The sender is gone.
        """
        self.is_read = True
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                was_full = self._size >= self.MOST
                self._size -= len(piece)
                if was_full and self._size < self.MOST:
                    self._resume()
                yield piece
            if self._is_over:
                if self._error is not None:
                    raise self._error
                return
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


def is_upload(target: Target) -> bool:
    """Whether the body of a request is a file, which is taken as it comes."""
    return target.verb in ("POST", "PATCH") and _FILES_PATH.search(target.path) is not None


_FILES_PATH = re.compile(r"/files(/[A-Za-z0-9_-]{22})?$")


class HttpResponse(msgspec.Struct):
    """An answer that is there as a whole. A server adds what is its own matter: the length, the
    date.
    """

    status: int
    body: bytes = b""
    content_type: bytes = JSON
    headers: Pairs = ()


class ResponseWriter(Protocol):
    """Writes a stream to one client while it is connected."""

    @property
    def is_gone(self) -> bool:
        """The client has disconnected."""

    async def ready(self) -> None:
        """Wait until the client has read most of what was written."""

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send data, when the client can take it. Nothing follows the last."""

    async def flush(self) -> None:
        """Send the head of the answer, if nothing was written yet that it could go along with."""

    def idle(self, on_gone: Callable[[], None]) -> None:
        """The stream has nothing to say for a while: from now on say if the client goes away."""

    def abort(self) -> None:
        """Close the connection so that the client can't take it for the end of the stream."""


class StreamingResponse(Protocol):
    """An answer that comes piece by piece."""

    headers: Pairs

    async def send(self, out: ResponseWriter) -> None:
        """Write it to its end."""

    def close(self) -> None:
        """Let go of what it is made from; once, however it ended, and also if it was never
        begun.
        """


class SizedResponse:
    """An answer of a known length that comes piece by piece: a file."""

    __slots__ = ("_pieces", "headers", "length", "status")

    def __init__(
        self, status: int, length: int, headers: Pairs, pieces: AsyncIterator[bytes] | None
    ) -> None:
        self.status = status
        self.length = length
        self.headers = headers
        self._pieces = pieces  # None: to a HEAD

    async def send(self, out: ResponseWriter) -> None:
        await out.flush()
        if self._pieces is None:
            return
        async for piece in self._pieces:
            if out.is_gone:
                return
            await out.write(piece)
        await out.write(b"", is_last=True)

    def close(self) -> None:
        """The pieces are closed by whoever went through them."""


def query_of(target: Target) -> dict[str, list[str]]:
    return parse_qs(target.query.decode("latin-1"), keep_blank_values=True) if target.query else {}


def is_json(headers: Headers) -> bool:
    """Whether the request says it is JSON. A browser can't send this type across sites without
    asking first.
    """
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() in (JSON, A2A_JSON)


def check_json(headers: Headers) -> None:
    if headers.get(b"content-type") != JSON and not is_json(headers):
        kind = headers.get(b"content-type", b"").decode("latin-1")
        raise UnsupportedMediaType(
            f"content type {kind!r:.80} is not JSON; send application/json", contentType=kind[:80]
        )


def too_large(limit: int, what: str = "request body") -> BodyTooLarge:
    return BodyTooLarge(
        f"the {what} is larger than {limit} bytes; upload large files first, with POST to "
        f"/files below the agent's address (its card names it, extension {FILES}), and send the "
        "part you get",
        limit=str(limit),
    )


def too_busy() -> A2AError:
    return TooManyRequests("too many requests are in flight; try again", retry_after_s=1)


def not_read() -> A2AError:
    return InvalidRequest("the body was not read: the request is refused for its headers")


def error_headers(error: A2AError) -> Pairs:
    if isinstance(error, BodyTooLarge):
        return ((b"connection", b"close"),)  # the rest of the body is not waited for
    if error.retry_after_s is not None:
        return ((b"retry-after", b"%d" % error.retry_after_s),)
    return tuple((b"www-authenticate", text.encode("latin-1")) for text in error.challenges)


def opaque() -> A2AError:
    """An internal error: the log has the exception, the caller gets its reference number."""
    reference = secrets.token_hex(4)
    log_.exception("request failed, reference %s", reference)
    return A2AError(f"Internal error. Reference: {reference}", reference=reference)


def http_date(seconds: float) -> bytes:
    """A time as HTTP writes it, whatever the language of this machine."""
    at = time.gmtime(seconds)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    clock = f"{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}"
    return f"{day}, {at.tm_mday:02d} {month} {at.tm_year} {clock} GMT".encode()


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
