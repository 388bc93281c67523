"""How often callers may call: per caller, per entry and per rule, in each minute."""

import time
from collections.abc import Callable

from ...model import TooManyRequests

__all__ = ["CallQuota"]

MINUTE_S = 60.0
KEYS = 10_000


class CallQuota:
    """Counts calls in windows of a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[tuple[str, ...], tuple[float, int]] = {}  # when it ends, how many

    def take(self, key: tuple[str, ...], most: int, limit: str, of: str) -> None:
        """Count a call. Raises TooManyRequests, which names the limit, if it is one too many."""
        now = self._clock()
        ends_s, count = self._windows.get(key, (0.0, 0))
        if now >= ends_s:
            if len(self._windows) >= KEYS:
                self._windows = {k: w for k, w in self._windows.items() if w[0] > now}
            ends_s, count = now + MINUTE_S, 0
        if count >= most:
            raise TooManyRequests(
                f"{of} may be called {most} times a minute",
                retry_after_s=max(1, round(ends_s - now)),
                limit=limit,
            )
        self._windows[key] = (ends_s, count + 1)
