"""HTTP/1.1 requests from bytes: heads, and bodies by length or in chunks (RFC 9112). No connection, no clock.

The head is read by llhttp, strictly. Where a request ends is decided here, by what its headers say: two servers that disagree about
that can be played off against each other, so whatever leaves room for two opinions is refused.
"""

import re
from urllib.parse import unquote

import httptools
import msgspec

from .request import Headers, Target

__all__ = ["Bad", "Chunked", "Head", "Sized", "is_request", "read_head"]

USUAL_BYTES = 8  # of a line that only says a size
LINE_BYTES = 8 << 10  # of all that lines say beyond that, and of what follows the last chunk: nobody needs it

_BEGINNING = re.compile(rb"[A-Z-]{1,24}(?: |\Z)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n")
_HTTP2 = b"PRI * HTTP/2.0\r\n"


class Bad(Exception):
    """What came is no request, or none that can be answered."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Head(msgspec.Struct):
    """The head of a request."""

    target: Target
    headers: Headers
    pairs: list[tuple[bytes, bytes]]
    length: int  # of the body; -1: it comes in chunks
    is_kept: bool  # the client may send another request when it has the answer
    is_old: bool  # HTTP/1.0, which knows no chunks
    is_waiting: bool  # for a word from us before it sends the body


def is_request(data: bytes | bytearray) -> bool:
    """Whether this may be the beginning of one."""
    return _BEGINNING.match(data) is not None


class _Lines:
    """What llhttp tells of a head."""

    __slots__ = ("pairs", "url")

    def __init__(self) -> None:
        self.url = b""
        self.pairs: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name.lower(), value))


def read_head(data: bytes) -> Head:
    """Return the head of a request, of which `data` is all and nothing more.

    Raises:
        Bad: It is none.
    """
    if data.startswith(_HTTP2):
        raise Bad("this port speaks HTTP/1.1; gRPC has a port of its own", 505)
    lines = _Lines()
    parser = httptools.HttpRequestParser(lines)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # nobody is told that we would: a client that asks for HTTP/2 gets its answer in this protocol
    except httptools.HttpParserInvalidMethodError:
        raise Bad("the request begins with no method of HTTP that is known here", 501) from None
    except httptools.HttpParserError as error:
        raise Bad(f"this is no HTTP request: {error}") from None
    version = parser.get_http_version()
    if version not in ("1.0", "1.1"):
        raise Bad(f"HTTP/{version} is not spoken here; use HTTP/1.1", 505)
    return _judged(parser.get_method().decode("ascii"), lines, is_old=version == "1.0")


def _judged(verb: str, lines: _Lines, *, is_old: bool) -> Head:
    pairs = lines.pairs
    headers = dict(pairs)
    if len(headers) != len(pairs):
        _check_twice(pairs)
    if b"host" not in headers and not is_old:
        raise Bad("this is no HTTP request: it has no Host header")
    words = headers.get(b"connection", b"").lower()
    is_kept = b"keep-alive" in words if is_old else b"close" not in words
    expected = headers.get(b"expect", b"").lower()
    if expected and expected != b"100-continue":
        raise Bad(f"nobody here can do what is expected: {expected[:80]!r}", 417)
    target = _target(verb, lines.url, headers)
    is_waiting = bool(expected) and not is_old
    return Head(target, headers, pairs, _length(headers, is_old=is_old), is_kept, is_old, is_waiting)


def _check_twice(pairs: list[tuple[bytes, bytes]]) -> None:
    """Some headers may come twice; those that say whom and how much must not."""
    names = [name for name, _ in pairs]
    for name in (b"host", b"content-length", b"transfer-encoding"):
        if names.count(name) > 1:
            raise Bad(f"this is no HTTP request: {name.decode().title()} twice")


def _length(headers: Headers, *, is_old: bool) -> int:
    coding = headers.get(b"transfer-encoding")
    if coding is None:
        return int(headers.get(b"content-length", b"0"))
    if b"content-length" in headers or is_old:  # llhttp has refused the first; should it ever not
        raise Bad("this is no HTTP request: its length is said in two ways")
    if coding.strip().lower() != b"chunked":
        raise Bad(f"the transfer encoding {coding[:80]!r} is not known here; send it plain, or chunked", 501)
    return -1


def _target(verb: str, url: bytes, headers: Headers) -> Target:
    text = url.decode("latin-1").partition("#")[0]
    if not text.startswith("/"):
        if verb == "CONNECT":
            raise Bad("nobody is connected to anything here", 501)
        scheme, colon, rest = text.partition("://")
        if colon and scheme.lower() in ("http", "https"):
            host = re.split(r"[/?]", rest, maxsplit=1)[0]
            headers[b"host"] = host.rpartition("@")[2].encode("latin-1")  # it counts, whatever Host says (RFC 9112, 3.2.2)
            text = rest[len(host) :]
            if not text.startswith("/"):
                text = "/" + text
        elif not (text == "*" and verb == "OPTIONS"):
            raise Bad("this is no HTTP request: it is for no path")
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


class Chunked:
    """A body in chunks, up to `most` bytes of it."""

    __slots__ = ("_left", "_line", "_line_bytes", "_most", "_then", "data", "is_too_large")

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.is_too_large = False
        self._most = most
        self._left = 0  # of the chunk that comes
        self._line = bytearray()  # as far as it has come
        self._line_bytes = 0  # of all lines
        self._then = Chunked._size  # what the next line is

    def feed(self, data: bytes) -> bytes | None:
        """Take what has come; return what follows the body, None if more of it is to come, or there is too much of it.

        Raises:
            Bad: These are no chunks.
        """
        at = 0
        while not self.is_too_large:
            if self._left:
                piece = data[at : at + self._left]
                self.data += piece
                self._left -= len(piece)
                at += len(piece)
                if self._left:
                    return None
            end = data.find(b"\n", at) + 1
            self._line += data[at : end or None]
            if len(self._line) + self._line_bytes > LINE_BYTES + len(self.data):  # chunks of a byte each are lawful
                raise Bad("this is no HTTP request: more is said about the chunks than in them")
            if not end:
                return None
            at = end
            line = bytes(self._line)
            self._line.clear()
            self._line_bytes += max(len(line) - USUAL_BYTES, 0)
            if self._then(self, line):
                return data[at:]
        return None

    def _size(self, line: bytes) -> bool:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise Bad(f"this is no HTTP request: a chunk begins with {line[:40]!r}, which is no size")
        self._left = int(match[1], 16)
        self.is_too_large = len(self.data) + self._left > self._most
        self._then = Chunked._after if self._left else Chunked._trailer
        return False

    def _after(self, line: bytes) -> bool:
        if line != b"\r\n":
            raise Bad("this is no HTTP request: a chunk does not end where it should")
        self._then = Chunked._size
        return False

    def _trailer(self, line: bytes) -> bool:
        if line == b"\r\n":
            return True
        if _TRAILER.fullmatch(line) is None:
            raise Bad(f"this is no HTTP request: {line[:40]!r} after the last chunk")
        self._line_bytes += USUAL_BYTES
        return False
