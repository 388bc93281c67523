"""HTTP/1.1 requests from bytes: heads, and bodies by length or in chunks (RFC 9112). No connection,
no clock.

Heads and chunks are read by llhttp, strictly. Where a request ends is decided here, by what its
headers say: two servers that disagree about that can be played off against each other, so whatever
leaves room for two opinions is refused.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote

import httptools
import msgspec

from ..request import Headers, Target

__all__ = ["Bad", "Chunked", "RequestHead", "Sized", "is_request", "read_head"]

HEADERS = 256  # of one request
USUAL_BYTES = 8  # that say how long a chunk is
SAID_BYTES = 8 << 10  # beyond that, about all chunks, and after the last one: nobody needs it
CHUNKS = 4_096  # before it counts how small they are
SMALL_BYTES = 32

_BEGINNING = re.compile(rb"[A-Z-]{1,24}(?: |\Z)")
_CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"\r\n\r\n"
_HTTP2 = b"PRI * HTTP/2.0\r\n"


class Bad(Exception):
    """What came is no request, or none that can be answered."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class RequestHead(msgspec.Struct):
    """The head of a request."""

    target: Target
    headers: Headers
    pairs: list[tuple[bytes, bytes]]
    length: int  # of the body; -1: it comes in chunks
    is_keep_alive: bool  # the client may send another request when it has the answer
    is_old: bool  # HTTP/1.0, which knows no chunks
    is_waiting: bool  # for a word from us before it sends the body


def is_request(data: bytes | bytearray) -> bool:
    """Whether this may be the beginning of one."""
    return _BEGINNING.match(data) is not None


class _Lines:
    """Collects what llhttp finds in a head."""

    __slots__ = ("pairs", "url")

    def __init__(self) -> None:
        self.url = b""
        self.pairs: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.pairs) >= HEADERS:
            raise Bad(f"there are more than {HEADERS} headers", 431)
        self.pairs.append((name.lower(), value))


def read_head(data: bytes) -> RequestHead:
    """Return the head of a request, of which `data` is all and nothing more.

    Raises:
        Bad: It is none.
    """
    if data.startswith(_HTTP2):
        raise Bad("this port is for HTTP/1.1; gRPC has its own port", 505)
    lines = _Lines()
    parser = httptools.HttpRequestParser(lines)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        # We never offer an upgrade: a client that asks for HTTP/2 is answered in this protocol.
        pass
    except httptools.HttpParserInvalidMethodError:
        raise Bad("the request does not begin with a known HTTP method", 501) from None
    except httptools.HttpParserCallbackError as error:
        raise error.__context__ if isinstance(error.__context__, Bad) else error from None
    except httptools.HttpParserError as error:
        raise Bad(f"not a valid HTTP request: {error}") from None
    version = parser.get_http_version()
    if version not in ("1.0", "1.1"):
        raise Bad(f"HTTP/{version} is not supported; use HTTP/1.1", 505)
    return _judged(parser.get_method().decode("ascii"), lines, is_old=version == "1.0")


def _judged(verb: str, lines: _Lines, *, is_old: bool) -> RequestHead:
    pairs = lines.pairs
    headers = dict(pairs)
    if len(headers) != len(pairs):
        _check_twice(pairs)
    if b"host" not in headers and not is_old:
        raise Bad("not a valid HTTP request: it has no Host header")
    is_keep_alive = not is_old
    if b"connection" in headers:
        said = b",".join(
            [value for name, value in pairs if name == b"connection"]
        ).lower()  # it may come several times
        words = {word.strip() for word in said.split(b",")}
        is_keep_alive = b"close" not in words and (not is_old or b"keep-alive" in words)
    expected = headers.get(b"expect", b"").lower()
    if expected and expected != b"100-continue":
        raise Bad(f"this server can't meet the expectation: {expected[:80]!r}", 417)
    target = _target(verb, lines.url, headers)
    is_waiting = bool(expected) and not is_old
    return RequestHead(
        target, headers, pairs, _length(headers, is_old=is_old), is_keep_alive, is_old, is_waiting
    )


def _check_twice(pairs: list[tuple[bytes, bytes]]) -> None:
    """Some headers may come twice; those that say whom and how much must not."""
    names = [name for name, _ in pairs]
    for name in (b"host", b"content-length", b"transfer-encoding"):
        if names.count(name) > 1:
            raise Bad(f"not a valid HTTP request: {name.decode().title()} twice")


def _length(headers: Headers, *, is_old: bool) -> int:
    coding = headers.get(b"transfer-encoding")
    if coding is None:
        return int(headers.get(b"content-length", b"0"))
    if b"content-length" in headers or is_old:  # llhttp has refused the first; should it ever not
        raise Bad("not a valid HTTP request: its length is ambiguous")
    if coding.strip().lower() != b"chunked":
        raise Bad(
            f"the transfer encoding {coding[:80]!r} is not supported; send the body "
            "plain or chunked",
            501,
        )
    return -1


def _target(verb: str, url: bytes, headers: Headers) -> Target:
    text = url.decode("latin-1").partition("#")[0]
    if not text.startswith("/"):
        if verb == "CONNECT":
            raise Bad("CONNECT is not supported", 501)
        scheme, colon, rest = text.partition("://")
        if colon and scheme.lower() in ("http", "https"):
            host = re.split(r"[/?]", rest, maxsplit=1)[0]
            # It counts, whatever Host says (RFC 9112, 3.2.2).
            headers[b"host"] = host.rpartition("@")[2].encode("latin-1")
            text = rest[len(host) :]
            if not text.startswith("/"):
                text = "/" + text
        elif not (text == "*" and verb == "OPTIONS"):
            raise Bad("not a valid HTTP request: it has no path")
    raw, _, query = text.partition("?")
    return Target(verb, unquote(raw) if "%" in raw else raw, raw, query.encode("latin-1"))


class Sized:
    """A body whose length was said."""

    __slots__ = ("_length", "data")

    def __init__(self, length: int) -> None:
        self.data = bytearray()
        self._length = length

    is_too_large = False  # that is seen before it begins

    def feed(self, data: bytes) -> bytes | None:
        """Take what has come; return what follows the body, None if more of it is to come."""
        missing = self._length - len(self.data)
        self.data += data[:missing]
        return data[missing:] if len(data) >= missing else None

    def drain(self) -> bytes:
        """Return what has come since the last time, and forget it."""
        taken = bytes(self.data)
        self._length -= len(taken)
        self.data.clear()
        return taken


class _Pieces:
    """Collects what llhttp finds in a body."""

    __slots__ = ("count", "data", "is_too_large", "is_whole", "most", "taken")

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.count = 0
        self.taken = 0  # bytes that are not in `data` any more
        self.most = most
        self.is_whole = self.is_too_large = False

    def on_body(self, data: bytes) -> None:
        self.count += 1
        if self.taken + len(self.data) + len(data) > self.most:
            self.is_too_large = True
        else:
            self.data += data

    def on_message_complete(self) -> None:
        self.is_whole = True


class Chunked:
    """A body in chunks, up to `most` bytes of it."""

    __slots__ = ("_fed", "_parser", "_pieces", "_tail", "data")

    def __init__(self, most: int) -> None:
        self._pieces = _Pieces(most)
        self.data = self._pieces.data
        self._parser = httptools.HttpRequestParser(self._pieces)
        self._parser.feed_data(_CHUNKED)  # whatever the head was: it has been read
        self._fed = 0
        self._tail = b""

    @property
    def is_too_large(self) -> bool:
        return self._pieces.is_too_large

    def feed(self, data: bytes) -> bytes | None:
        """Take what has come; return what follows the body, None if more of it is to come, or there
        is too much of it.

        Raises:
            Bad: These are no chunks.
        """
        pieces, at = self._pieces, 0
        for end in self._ends(data):
            self._give(data[at:end])
            at = end
            if pieces.is_whole:
                return data[at:]
            if pieces.is_too_large:
                return None
        self._give(data[at:])
        self._tail = (self._tail + data)[-3:]
        return None

    def drain(self) -> bytes:
        """Return what has come since the last time, and forget it."""
        taken = bytes(self.data)
        self._pieces.taken += len(taken)
        self.data.clear()
        return taken

    def _ends(self, data: bytes) -> Iterator[int]:
        """Yield where the body may be over, and then the next request begins: llhttp does not say
        where that was.
        """
        before = len(self._tail)
        found = self._tail + data if before else data
        at = found.find(_END)
        while at >= 0:
            yield at + 4 - before
            at = found.find(_END, at + 2)

    def _give(self, data: bytes) -> None:
        if not data:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise Bad(f"not a valid HTTP request: {error}") from None
        self._fed += len(data)
        count, size = self._pieces.count, self._pieces.taken + len(self.data)
        if self._fed - size > SAID_BYTES + USUAL_BYTES * count + size and not self.is_too_large:
            raise Bad("not a valid HTTP request: the chunk extensions are larger than the chunks")
        if count > CHUNKS and size < SMALL_BYTES * count:
            raise Bad(f"the body has more than {CHUNKS} chunks of less than {SMALL_BYTES} bytes")
