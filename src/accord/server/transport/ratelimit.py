"""A rate limit on what costs a client nothing to send, and us time."""

import time

__all__ = ["Flood", "RateLimit"]


class Flood(Exception):
    """A client exceeded a rate limit; the text says of what."""


class RateLimit:
    """A token bucket: a burst, and a rate per second."""

    __slots__ = ("_burst", "_per_s", "_since", "_spent")

    def __init__(self, burst: int, per_s: int) -> None:
        self._burst = burst
        self._per_s = per_s
        self._spent = 0.0
        self._since = time.monotonic()

    def spend(self, what: str, cost: int = 1) -> None:
        """Count one more, or `cost` more. The clock is asked only when it matters. Raises Flood."""
        self._spent += cost
        if self._spent > self._burst:
            now = time.monotonic()
            self._spent = max(self._spent - (now - self._since) * self._per_s, cost)
            self._since = now
            if self._spent > self._burst:
                raise Flood(f"too many {what}")
