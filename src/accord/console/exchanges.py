"""The last requests and their answers, for people who look at what is on the wire. In memory."""

import itertools
import re
import time
from collections import deque
from typing import Any

import msgspec

from ..server import HttpRequest, HttpResponse, StreamingResponse

__all__ = ["Exchanges"]

MOST = 200
BODY_BYTES = 64 << 10

_SECRET_HEADERS = frozenset(
    [
        b"authorization",
        b"proxy-authorization",
        b"cookie",
        b"set-cookie",
        b"x-api-key",
        b"x-a2a-notification-token",
    ]
)
_SECRET_MEMBERS = re.compile(
    rb'("(?:token|credentials|password|secret|apiKey|api_key|access_token|refresh_token)"\s*:\s*)'
    rb'"(?:[^"\\]|\\.)*"'
)


class Exchange(msgspec.Struct):
    """One request and its answer."""

    n: int
    at_ms: int
    ms: float
    request: HttpRequest
    answer: HttpResponse | StreamingResponse


class Exchanges:
    """Remembers what passed between clients and the agent. Secrets are removed when it is read."""

    def __init__(self) -> None:
        self._kept: deque[Exchange] = deque(maxlen=MOST)
        self._count = itertools.count(1)
        self.last = 0

    def add(
        self, request: HttpRequest, answer: HttpResponse | StreamingResponse, since_s: float
    ) -> None:
        ms = (time.monotonic() - since_s) * 1000
        self.last = next(self._count)
        self._kept.append(Exchange(self.last, int(time.time() * 1000), ms, request, answer))

    def after(self, n: int) -> list[dict[str, Any]]:
        """Return what came after the n-th, oldest first, without bodies."""
        return [_shown(one) for one in self._kept if one.n > n]

    def one(self, n: int) -> dict[str, Any] | None:
        """Return one exchange, whole."""
        for one in self._kept:
            if one.n == n:
                answer = one.answer
                return _shown(one) | {
                    "requestHeaders": _headers(one.request.pairs),
                    "requestBody": _body(one.request.body),
                    "answerHeaders": _headers(answer.headers),
                    "answerBody": _body(answer.body) if isinstance(answer, HttpResponse) else None,
                }
        return None


def _shown(one: Exchange) -> dict[str, Any]:
    answer, target = one.answer, one.request.target
    is_whole = isinstance(answer, HttpResponse)
    return {
        "n": one.n,
        "at": one.at_ms,
        "ms": round(one.ms, 1),
        "verb": target.verb,
        "path": target.path,
        "operation": _operation(one.request),
        "version": one.request.headers.get(b"a2a-version", b"").decode("latin-1"),
        "status": answer.status if isinstance(answer, HttpResponse) else 200,
        "isStream": not is_whole,
        "bytesIn": len(one.request.body),
        "bytesOut": len(answer.body) if isinstance(answer, HttpResponse) else None,
    }


_METHOD = re.compile(rb'"method"\s*:\s*"([^"\\]{1,60})"')


def _operation(request: HttpRequest) -> str:
    found = _METHOD.search(request.body[:4096])
    return found[1].decode("latin-1") if found else ""


def _headers(pairs: Any) -> list[tuple[str, str]]:
    return [
        (
            name.decode("latin-1"),
            "(removed)" if name.lower() in _SECRET_HEADERS else value.decode("latin-1"),
        )
        for name, value in pairs
    ]


def _body(body: bytes) -> dict[str, Any]:
    text = _SECRET_MEMBERS.sub(rb'\1"(removed)"', body[:BODY_BYTES]).decode("utf-8", "replace")
    return {"text": text, "isCut": len(body) > BODY_BYTES}
