"""The last attempts to deliver push notifications, with request and answer. In memory."""

import itertools
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..push import SeenAttempt
from .exchanges import BODY_BYTES, shown_body, shown_headers

__all__ = ["Attempts"]

MOST = 200
# What a webhook is sent that holds no credential; the signatures and the token do.
_HARMLESS = frozenset((b"webhook-id", b"webhook-timestamp", b"a2a-version", b"traceparent"))


class _Kept(NamedTuple):
    n: int
    seen: SeenAttempt
    body_bytes: int


class Attempts:
    """Remembers what was sent to webhooks and what they answered."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque(maxlen=MOST)
        self._count = itertools.count(1)

    def add(self, seen: SeenAttempt) -> None:
        """Remember an attempt, with the beginning of its body and of the answer."""
        size = len(seen.what.body)
        what = seen.what._replace(body=seen.what.body[:BODY_BYTES])
        kept = seen._replace(what=what, answer=seen.answer[:BODY_BYTES])
        self._kept.append(_Kept(next(self._count), kept, size))

    def of(self, task_id: str, push: str) -> list[dict[str, Any]]:
        """Return the attempts of one webhook, the newest first, without headers and bodies."""
        return [
            _shown(one)
            for one in reversed(self._kept)
            if (one.seen.what.task_id, one.seen.what.config_id) == (task_id, push)
        ]

    def one(self, n: int) -> dict[str, Any] | None:
        """Return one attempt with its headers and bodies."""
        for one in self._kept:
            if one.n == n:
                seen = one.seen
                return _shown(one) | {
                    "requestHeaders": _headers(seen.headers),
                    "requestBody": shown_body(seen.what.body, one.body_bytes),
                    "answerHeaders": _headers(seen.answer_headers),
                    "answerBody": shown_body(seen.answer, len(seen.answer)),
                }
        return None


def _headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    pairs = ((_bytes(name), _bytes(value)) for name, value in headers.items())
    return shown_headers(tuple(pairs), _HARMLESS)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _shown(one: _Kept) -> dict[str, Any]:
    seen = one.seen
    return {
        "n": one.n,
        "at": seen.at_ms,
        "ms": round(seen.ms, 1),
        "event": seen.what.number,
        "endpoint": seen.endpoint,
        "verdict": seen.verdict.value,
        "status": seen.status,
        "error": seen.error,
    }
