"""The last requests and their answers, for people who look at what is on the wire. In memory."""

import itertools
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from ..operations import ORDINARY_HEADERS
from ..server import HttpRequest, HttpResponse, Pairs, ResponseWriter, StreamingResponse

__all__ = ["BODY_BYTES", "Exchanges", "shown_body", "shown_headers"]

MOST = 200
BODY_BYTES = 64 << 10

# Headers that browsers or we send, and that hold no credentials.
_HARMLESS = ORDINARY_HEADERS | frozenset(
    b"""
    accord-total access-control-allow-headers access-control-allow-methods
    access-control-allow-origin access-control-expose-headers access-control-max-age allow
    content-security-policy dnt etag if-modified-since if-none-match last-modified location
    referrer-policy retry-after sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform sec-fetch-dest
    sec-fetch-mode sec-fetch-site upgrade-insecure-requests vary www-authenticate
    x-content-type-options
    """.split()
)
# A value may go on beyond what is kept of its body.
_SECRET_MEMBERS = re.compile(
    rb'("(?:token|credentials|password|secret|apiKey|api_key|access_token|refresh_token)"\s*:\s*)'
    rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)',
    re.DOTALL,
)


class Exchange(msgspec.Struct):
    """One request and its answer, as far as they are shown: whole bodies would be held in memory,
    and those of requests that nobody had to prove anything for too.
    """

    n: int
    at_ms: int
    ms: float
    verb: str
    path: str
    version: str
    status: int
    request_headers: Pairs
    request_body: bytes  # its beginning
    bytes_in: int
    answer_headers: Pairs
    answer_body: bytes  # its beginning
    bytes_out: int  # so far, of a stream
    is_stream: bool
    changed: int  # the number of its last change
    is_open: bool = False  # a stream that has not ended


class Exchanges:
    """Remembers what passed between clients and the agent. Secrets are removed when it is read,
    such as the values of all headers that are not known to be harmless.
    """

    def __init__(self, harmless: Iterable[bytes] = ()) -> None:
        self._harmless = frozenset(harmless)  # in lower case
        self._kept: deque[Exchange] = deque(maxlen=MOST)
        self._count = itertools.count(1)
        self.last = 0

    def add(
        self, request: HttpRequest, answer: HttpResponse | StreamingResponse, since_s: float
    ) -> HttpResponse | StreamingResponse:
        """Remember a request and its answer. Return the answer to send: a stream is wrapped, so
        that its bytes and its end are seen.
        """
        self.last = next(self._count)
        whole = answer if isinstance(answer, HttpResponse) else None
        exchange = Exchange(
            n=self.last,
            at_ms=int(time.time() * 1000),
            ms=_ms_since(since_s),
            verb=request.target.verb,
            path=request.target.path,
            version=request.headers.get(b"a2a-version", b"").decode("latin-1"),
            status=whole.status if whole is not None else 200,
            request_headers=tuple(request.pairs),
            request_body=request.body[:BODY_BYTES],
            bytes_in=len(request.body),
            answer_headers=tuple(answer.headers),
            answer_body=whole.body[:BODY_BYTES] if whole is not None else b"",
            bytes_out=len(whole.body) if whole is not None else 0,
            is_stream=whole is None,
            changed=self.last,
            is_open=whole is None,
        )
        self._kept.append(exchange)
        if isinstance(answer, HttpResponse):
            return answer

        def ended() -> None:
            exchange.ms, exchange.is_open = _ms_since(since_s), False
            exchange.changed = self.last = next(self._count)

        return _FollowedStream(answer, exchange, ended)

    def after(self, n: int) -> list[dict[str, Any]]:
        """Return what came or changed after the n-th change, oldest first, without bodies."""
        return [_shown(one) for one in self._kept if one.changed > n]

    def one(self, n: int) -> dict[str, Any] | None:
        """Return one exchange with its headers and bodies."""
        for one in self._kept:
            if one.n == n:
                return _shown(one) | {
                    "requestHeaders": shown_headers(one.request_headers, self._harmless),
                    "requestBody": shown_body(one.request_body, one.bytes_in),
                    "answerHeaders": shown_headers(one.answer_headers, self._harmless),
                    "answerBody": shown_body(one.answer_body, one.bytes_out),
                }
        return None


class _FollowedStream:
    """A stream whose bytes are counted, and whose end is noticed."""

    def __init__(
        self, stream: StreamingResponse, exchange: Exchange, ended: Callable[[], None]
    ) -> None:
        self._stream, self._exchange, self._ended = stream, exchange, ended
        self.headers = stream.headers

    async def send(self, out: ResponseWriter) -> None:
        await self._stream.send(_CountingWriter(out, self._exchange))

    def close(self) -> None:
        self._stream.close()
        self._ended()


class _CountingWriter:
    """Counts what is written, and keeps its beginning."""

    def __init__(self, out: ResponseWriter, exchange: Exchange) -> None:
        self._out, self._exchange = out, exchange
        self.ready, self.flush, self.idle, self.abort = out.ready, out.flush, out.idle, out.abort

    @property
    def is_gone(self) -> bool:
        return self._out.is_gone

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        exchange = self._exchange
        exchange.bytes_out += len(data)
        room = BODY_BYTES - len(exchange.answer_body)
        if room > 0:
            exchange.answer_body += data[:room]
        await self._out.write(data, is_last=is_last)


def _ms_since(since_s: float) -> float:
    return (time.monotonic() - since_s) * 1000


def _shown(one: Exchange) -> dict[str, Any]:
    return {
        "n": one.n,
        "at": one.at_ms,
        "ms": round(one.ms, 1),
        "verb": one.verb,
        "path": one.path,
        "operation": _operation(one.request_body),
        "version": one.version,
        "status": one.status,
        "isStream": one.is_stream,
        "isOpen": one.is_open,
        "bytesIn": one.bytes_in,
        "bytesOut": one.bytes_out,
    }


_METHOD = re.compile(rb'"method"\s*:\s*"([^"\\]{1,60})"')


def _operation(body: bytes) -> str:
    found = _METHOD.search(body[:4096])
    return found[1].decode("latin-1") if found else ""


def shown_headers(pairs: Pairs, harmless: Collection[bytes]) -> list[tuple[str, str]]:
    """Return headers as text, without the values of those that may hold a credential."""
    return [
        (
            name.decode("latin-1"),
            value.decode("latin-1")
            if name.lower() in harmless or name.lower() in _HARMLESS
            else "(removed)",
        )
        for name, value in pairs
    ]


def shown_body(beginning: bytes, size: int) -> dict[str, Any]:
    """Return a body as text, as far as it was kept, without what is secret in it."""
    text = _SECRET_MEMBERS.sub(rb'\1"(removed)"', beginning).decode("utf-8", "replace")
    return {"text": text, "isCut": size > len(beginning)}
