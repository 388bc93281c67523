"""A circuit breaker: an agent that does not answer is not asked by every caller again."""

import math
import time
from collections import deque
from collections.abc import Callable

from ...client import AgentFault
from ...model import InvalidAgentResponse, Unavailable

__all__ = ["CircuitBreaker"]

FAILURES = 5  # in a row, before it opens
RECENT, RECENT_S = 20, 30.0  # half of so many within so long open it too
TRIAL_S = 1.0  # for the call that finds out whether the agent is back, before another may


class CircuitBreaker:
    """Closed: calls pass. Open: they are refused at once; after a while one call at a time tries.

    What an agent answers is no failure, whatever it says; that nobody answers is one.
    """

    def __init__(
        self,
        open_s: float = 5.0,
        longest_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_s = open_s
        self._longest_s = longest_s
        self._clock = clock
        self._failures = 0  # in a row
        self._recent: deque[tuple[float, bool]] = deque(maxlen=RECENT)  # when, whether it failed
        self._pause_s = open_s
        self._until_s = 0.0
        self.is_open = False

    def check(self, name: str) -> None:
        """Raise Unavailable while no call may be made."""
        if not self.is_open:
            return
        left_s = self._until_s - self._clock()
        if left_s > 0:
            raise Unavailable(
                f"agent {name!r} does not answer; it is tried again in {math.ceil(left_s)} s",
                retry_after_s=math.ceil(left_s),
            )
        self._until_s = self._clock() + TRIAL_S

    def ended(self, error: Exception | None) -> None:
        """Count a call that ended: with this error, None if the agent answered."""
        now, has_failed = self._clock(), _is_failure(error)
        self._recent.append((now, has_failed))
        if not has_failed:
            self._failures = 0
            if self.is_open:
                self.is_open = False
                self._recent.clear()
            return
        self._failures += 1
        if self.is_open:
            self._pause_s = min(self._pause_s * 2, self._longest_s)
        elif self._failures >= FAILURES or self._fails_often(now):
            self.is_open, self._pause_s = True, self._open_s
        self._until_s = now + self._pause_s

    def _fails_often(self, now: float) -> bool:
        """Half of the last calls failed, all of them not long ago."""
        is_full = len(self._recent) == RECENT and now - self._recent[0][0] <= RECENT_S
        return is_full and 2 * sum(failed for _, failed in self._recent) >= RECENT


def _is_failure(error: Exception | None) -> bool:
    if isinstance(error, InvalidAgentResponse):
        return False  # it breaks the protocol, but it is there
    return isinstance(error, AgentFault | Unavailable)
