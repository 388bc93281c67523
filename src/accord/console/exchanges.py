"""The last requests and their answers, for people who look at what is on the wire. In memory."""

import itertools
import re
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from ..operations import ORDINARY_HEADERS
from ..server import HttpRequest, HttpResponse, Pairs, StreamingResponse

__all__ = ["Exchanges"]

MOST = 200
BODY_BYTES = 64 << 10

# Sent by browsers of themselves, or by us; no credentials are in them.
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
    answer_body: bytes | None  # its beginning; None: it was a stream
    bytes_out: int | None


class Exchanges:
    """Remembers what passed between clients and the agent. Secrets are removed when it is read:
    of headers, the values of all that are not known to be harmless.
    """

    def __init__(self, harmless: Iterable[bytes] = ()) -> None:
        self._harmless = _HARMLESS.union(harmless)  # in lower case
        self._kept: deque[Exchange] = deque(maxlen=MOST)
        self._count = itertools.count(1)
        self.last = 0

    def add(
        self, request: HttpRequest, answer: HttpResponse | StreamingResponse, since_s: float
    ) -> None:
        ms = (time.monotonic() - since_s) * 1000
        self.last = next(self._count)
        whole = answer if isinstance(answer, HttpResponse) else None
        self._kept.append(
            Exchange(
                n=self.last,
                at_ms=int(time.time() * 1000),
                ms=ms,
                verb=request.target.verb,
                path=request.target.path,
                version=request.headers.get(b"a2a-version", b"").decode("latin-1"),
                status=whole.status if whole is not None else 200,
                request_headers=tuple(request.pairs),
                request_body=request.body[:BODY_BYTES],
                bytes_in=len(request.body),
                answer_headers=tuple(answer.headers),
                answer_body=whole.body[:BODY_BYTES] if whole is not None else None,
                bytes_out=len(whole.body) if whole is not None else None,
            )
        )

    def after(self, n: int) -> list[dict[str, Any]]:
        """Return what came after the n-th, oldest first, without bodies."""
        return [_shown(one) for one in self._kept if one.n > n]

    def one(self, n: int) -> dict[str, Any] | None:
        """Return one exchange with its headers and bodies."""
        for one in self._kept:
            if one.n == n:
                return _shown(one) | {
                    "requestHeaders": self._headers(one.request_headers),
                    "requestBody": _body(one.request_body, one.bytes_in),
                    "answerHeaders": self._headers(one.answer_headers),
                    "answerBody": _body(one.answer_body, one.bytes_out),
                }
        return None

    def _headers(self, pairs: Pairs) -> list[tuple[str, str]]:
        return [
            (
                name.decode("latin-1"),
                value.decode("latin-1") if name.lower() in self._harmless else "(removed)",
            )
            for name, value in pairs
        ]


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
        "isStream": one.answer_body is None,
        "bytesIn": one.bytes_in,
        "bytesOut": one.bytes_out,
    }


_METHOD = re.compile(rb'"method"\s*:\s*"([^"\\]{1,60})"')


def _operation(body: bytes) -> str:
    found = _METHOD.search(body[:4096])
    return found[1].decode("latin-1") if found else ""


def _body(beginning: bytes | None, size: int | None) -> dict[str, Any] | None:
    if beginning is None or size is None:
        return None
    text = _SECRET_MEMBERS.sub(rb'\1"(removed)"', beginning).decode("utf-8", "replace")
    return {"text": text, "isCut": size > len(beginning)}
