"""When a failed call may be made again, and how long to wait before.

The rule: never do the work twice. A call may be repeated if it can't have been done (no connection,
429), if doing it again changes nothing (reads), or if the agent recognises a message it has had
(idempotency).
"""

import random
from collections.abc import Callable

import msgspec

from ..model import A2AError, TooManyRequests, Unavailable
from ..net import backoff_s
from .errors import ConnectionLost, TooSlow, Unreachable

__all__ = ["NO_RETRY", "Failures", "Pause", "Retry", "is_interrupted", "may_repeat"]


class Pause(msgspec.Struct, frozen=True):
    """An attempt has failed, and there will be another."""

    error: Exception
    attempt: int  # the one that failed, counted from 1
    seconds: float


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Say how long to retry. Each pause is a random part of a limit that doubles (full jitter).

    If an agent is away, calls are retried for `max_time_s`, counted from the first failure: long
    enough to restart its server. The `timeout_s` of a call can make that shorter.
    """

    max_time_s: float = 30.0  # for a stream: without an event in between
    first_max_time_s: float = (
        5.0  # with an address where nobody has ever answered: it may be a wrong one
    )
    attempts: int | None = None  # the first one included; None: as many as there is time for
    first_s: float = 0.1
    most_s: float = 3.0
    unsafe: bool = False  # repeat a send even if the agent may do the work twice
    chance: Callable[[], float] = random.random
    on_pause: Callable[[Pause], None] | None = None  # told before each pause

    @property
    def is_on(self) -> bool:
        """Return whether anything is retried."""
        return self.attempts != 1 and self.max_time_s > 0

    def pause_s(self, attempt: int, error: Exception | None = None) -> float:
        """Return how long to wait after failed attempt number `attempt`, counted from 1; what the
        agent asks for is honoured.
        """
        longest_s = backoff_s(attempt - 1, first_s=self.first_s, most_s=self.most_s)
        own = longest_s * self.chance()
        return max(own, _asked_s(error))


NO_RETRY = Retry(attempts=1)


class Failures:
    """The failures of one call or stream, one after the other: when to give up, and how long to
    pause until then.
    """

    def __init__(self, retry: Retry) -> None:
        self.count = 0
        self._retry = retry
        self._since = 0.0

    def forget(self) -> None:
        """The agent was there: what comes now is a new failure."""
        self.count = 0

    def pause(
        self, error: Exception, now: float, deadline: float | None, *, is_first: bool = False
    ) -> Pause | None:
        """Count a failure; return the pause before the next attempt, or None if it is time to give
        up.

        `is_first`: nobody has ever answered there; then the wait for the first connection counts
        too.
        """
        retry = self._retry
        if self.count == 0:
            self._since = (
                now - error.after_s if is_first and isinstance(error, Unreachable) else now
            )
        self.count += 1
        max_time_s = min(retry.max_time_s, retry.first_max_time_s) if is_first else retry.max_time_s
        left_s = self._since + max_time_s - now
        if left_s <= 0 or self.count == retry.attempts:
            return None
        asked_s = _asked_s(error)
        seconds = max(min(retry.pause_s(self.count), left_s), asked_s)
        # What the agent asks for may take longer than our patience, if the caller has given the
        # time.
        is_late = now + seconds >= deadline if deadline is not None else asked_s > left_s
        return None if is_late else Pause(error, self.count, seconds)

    def tried(self, now: float) -> str:
        """Say in words how long and how often."""
        return (
            "tried once"
            if self.count == 1
            else f"tried {self.count} times in {now - self._since:.2g} s"
        )


def is_interrupted(error: Exception) -> bool:
    """Return whether a stream ended for a reason that has nothing to do with its task."""
    return isinstance(error, (Unreachable, ConnectionLost, TooSlow, Unavailable, TooManyRequests))


def may_repeat(error: Exception, *, is_safe: bool) -> bool:
    """Whether a call that failed with `error` may be made again; `is_safe` says that doing it twice
    does no harm.

    503 counts as unsure: a server may have begun the work before it found that it can't go on.
    """
    if isinstance(error, (Unreachable, TooManyRequests)):
        return True
    return is_safe and isinstance(error, (ConnectionLost, TooSlow, Unavailable))


def _asked_s(error: Exception | None) -> float:
    return error.retry_after_s or 0.0 if isinstance(error, A2AError) else 0.0
