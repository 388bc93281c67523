"""A circuit breaker: who does not answer is left alone for a while."""

import asyncio
import contextlib
import enum
import time
from collections import deque
from collections.abc import Callable

from .backoff import backoff_s

__all__ = ["FAILURES", "CircuitBreaker"]

FAILURES = 5  # in a row, before it opens
RECENT, RECENT_S = 20, 30.0  # half of so many within so long open it too


class _State(enum.Enum):
    CLOSED = "calls pass"
    OPEN = "calls are refused until the pause is over"
    TRIAL = "one call finds out whether the other side is back"


class CircuitBreaker:
    """Lets calls pass while they are answered, and refuses them while they are not.

    - It opens after 5 failures in a row, or when half of the last 20 calls within 30 s failed.
    - It stays open for `open_s`; then one call tries. If that fails, the pause doubles, up to
      `longest_s`.
    - A trial without a result for `trial_s` is given up, and another call may try.

    Who was let through reports how it went: `succeeded`, `failed`, or `left`.
    """

    def __init__(
        self,
        open_s: float,
        longest_s: float,
        *,
        trial_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_s = open_s
        self._longest_s = longest_s
        self._trial_s = trial_s
        self._clock = clock
        self._state = _State.CLOSED
        self._until_s = 0.0  # of the pause, or of the trial
        self._failures = 0  # in a row
        self._opened = 0  # in a row
        self._recent: deque[tuple[float, bool]] = deque(maxlen=RECENT)  # when, whether it failed
        self._trial_over: asyncio.Event | None = None  # for those who wait for a trial

    @property
    def is_closed(self) -> bool:
        return self._state is _State.CLOSED

    @property
    def left_s(self) -> float:
        """Return how long every call is refused; 0 if one may be made."""
        if self._state is _State.CLOSED:
            return 0.0
        return max(self._until_s - self._clock(), 0.0)

    def admit(self) -> bool:
        """Return whether a call may be made now."""
        if self._state is _State.CLOSED:
            return True
        if self.left_s > 0:
            return False
        self._state, self._until_s = _State.TRIAL, self._clock() + self._trial_s
        return True

    async def admit_after_trial(self) -> bool:
        """Return whether a call may be made, once a trial that is under way has ended."""
        while self._state is _State.TRIAL and self.left_s > 0:
            if self._trial_over is None:
                self._trial_over = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._trial_over.wait(), self.left_s)
        return self.admit()

    def succeeded(self) -> None:
        """Count a call that was answered."""
        if self._state is _State.CLOSED:
            self._failures = 0
            self._recent.append((self._clock(), False))
        else:
            self.close()

    def failed(self) -> bool:
        """Count a call that was not answered. Return whether the breaker has opened by it."""
        now_s = self._clock()
        self._failures += 1
        self._recent.append((now_s, True))
        if self._state is _State.OPEN:
            return False  # a call of the time before it opened
        if self._state is _State.CLOSED and not self._fails_often(now_s):
            return False
        pause_s = backoff_s(self._opened, first_s=self._open_s, most_s=self._longest_s)
        self._opened += 1
        self._until_s = now_s + pause_s
        self._enter(_State.OPEN)
        return True

    def open(self, pause_s: float) -> None:
        """Open for a while: somebody else has found that nobody answers."""
        self._opened = max(self._opened, 1)
        self._until_s = self._clock() + pause_s
        self._enter(_State.OPEN)

    def close(self) -> None:
        """Close: somebody else was answered."""
        self._failures = self._opened = 0
        self._recent.clear()
        self._enter(_State.CLOSED)

    def left(self) -> None:
        """Count a call that ended without a result. If it was the trial, another call may try."""
        if self._state is _State.TRIAL:
            self._until_s = self._clock()
            self._enter(_State.OPEN)

    def _fails_often(self, now_s: float) -> bool:
        if self._failures >= FAILURES:
            return True
        is_full = len(self._recent) == RECENT and now_s - self._recent[0][0] <= RECENT_S
        return is_full and 2 * sum(failed for _, failed in self._recent) >= RECENT

    def _enter(self, state: _State) -> None:
        self._state = state
        over, self._trial_over = self._trial_over, None
        if over is not None:
            over.set()
