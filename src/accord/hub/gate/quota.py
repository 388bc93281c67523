"""How often callers may call: per caller, per entry and per rule, in a minute.

Several hubs on one database each grant their share, the limit divided by the hubs that live. So no
call needs a statement, and all together stay within the limit, right to a heartbeat.
"""

import math
import time
from collections.abc import Callable

from ...model import TooManyRequests
from ...net import Rate, TokenBuckets

__all__ = ["CallQuota"]

MINUTE_S = 60.0


class CallQuota:
    """Counts calls: as many at once as a minute allows, then one whenever there is room for it."""

    def __init__(
        self,
        hubs: Callable[[], int] = lambda: 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hubs = hubs  # how many share each limit
        self._buckets = TokenBuckets(clock=clock)

    def take(self, key: tuple[str, ...], most: int, limit: str, of: str) -> None:
        """Count a call. Raises TooManyRequests, which names the limit, if it is one too many."""
        share = most / self._hubs()
        wait_s = self._buckets.take(key, Rate(max(share, 1.0), share / MINUTE_S))
        if wait_s:
            raise TooManyRequests(
                f"{of} may be called {most} times a minute",
                retry_after_s=math.ceil(wait_s),
                limit=limit,
            )
