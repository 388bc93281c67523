"""When a failed call may be made again, and how long to wait before.

The rule: never do the work twice. A call may be repeated if it can't have been done (no connection, 429), if doing it again
changes nothing (reads), or if the agent recognises a message it has had (idempotency).
"""

import random
from collections.abc import Callable

import msgspec

from ..model import A2AError, TooManyRequests, Unavailable
from .errors import ConnectionLost, TooSlow, Unreachable

__all__ = ["NO_RETRY", "Retry", "is_cut", "may_repeat"]


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how patiently to try again. Each pause is a random part of a limit that doubles (full jitter)."""

    attempts: int = 6  # the first one included; for a stream: in a row without an event in between
    first_s: float = 0.1
    most_s: float = 5.0
    unsafe: bool = False  # repeat a send even if the agent may do the work twice
    chance: Callable[[], float] = random.random

    def pause_s(self, attempt: int, error: Exception | None = None) -> float:
        """Return how long to wait after failed attempt number `attempt`, counted from 1; what the agent asks for is honoured."""
        own: float = min(self.first_s * 2 ** (attempt - 1), self.most_s) * self.chance()
        asked = error.retry_after_s if isinstance(error, A2AError) and error.retry_after_s is not None else 0.0
        return max(own, asked)


NO_RETRY = Retry(attempts=1)


def is_cut(error: Exception) -> bool:
    """Whether a stream ended for a reason that has nothing to do with its task."""
    return isinstance(error, (Unreachable, ConnectionLost, TooSlow, Unavailable, TooManyRequests))


def may_repeat(error: Exception, *, is_safe: bool) -> bool:
    """Whether a call that failed with `error` may be made again; `is_safe` says that doing it twice does no harm.

    503 counts as unsure: a server may have begun the work before it found that it can't go on.
    """
    if isinstance(error, (Unreachable, TooManyRequests)):
        return True
    return is_safe and isinstance(error, (ConnectionLost, TooSlow, Unavailable))
