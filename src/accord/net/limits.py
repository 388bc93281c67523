"""Token buckets: so much at once, and so much per second after that."""

import math
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

__all__ = ["Rate", "TokenBucket", "TokenBuckets"]


class Rate(NamedTuple):
    """Set how much is allowed: `burst` at once, then `per_s`."""

    burst: float
    per_s: float


class TokenBucket:
    """Counts what one source does against a rate."""

    __slots__ = ("_clock", "_since_s", "_spent", "rate")

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate  # it may change: what was spent stays spent
        self._clock = clock
        self._spent = 0.0
        self._since_s = clock()

    def take(self, cost: float = 1.0) -> float:
        """Take `cost` tokens and return 0. If there are too few, take none and return after how
        many seconds there are enough; infinity if there never are.
        """
        wait_s = self.wait_s(cost)
        if not wait_s:
            self._spent += cost
        return wait_s

    def wait_s(self, cost: float = 1.0) -> float:
        """Return after how many seconds there are `cost` tokens; 0 if there are."""
        burst, per_s = self.rate
        now_s = self._clock()
        self._spent = max(self._spent - (now_s - self._since_s) * per_s, 0.0)
        self._since_s = now_s
        missing = self._spent + cost - burst
        if missing <= 0:
            return 0.0
        return missing / per_s if per_s and cost <= burst else math.inf


class TokenBuckets:
    """A token bucket for each key. The keys that were not used for longest are forgotten."""

    def __init__(self, most: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._buckets: dict[Hashable, TokenBucket] = {}  # the one that was used last is the last

    def take(self, key: Hashable, rate: Rate, cost: float = 1.0) -> float:
        """Take `cost` tokens of a key, as `TokenBucket.take`."""
        bucket = self._buckets.pop(key, None)
        if bucket is None:
            if len(self._buckets) >= self._most:
                del self._buckets[next(iter(self._buckets))]
            bucket = TokenBucket(rate, self._clock)
        self._buckets[key] = bucket
        bucket.rate = rate
        return bucket.take(cost)

    def wait_s(self, key: Hashable, rate: Rate, cost: float = 1.0) -> float:
        """Return after how many seconds a key has `cost` tokens, as `TokenBucket.wait_s`."""
        bucket = self._buckets.get(key) or TokenBucket(rate, self._clock)
        bucket.rate = rate
        return bucket.wait_s(cost)
