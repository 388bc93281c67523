"""The clock of a store. Everything that is stored with a time has the time of this clock, and is
judged by it: how old a task is, whether a key is still good, when a webhook is due.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["FOREVER_MS", "StoreClock", "SystemClock", "elapsed_s"]

FOREVER_MS = 1 << 53  # an age that nothing reaches

_LOOK_S = 60.0  # a clock may be set while we wait for a time

# The time of the world outside, also while this machine sleeps. Python's monotonic clock stands
# still in a suspended machine.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_s() -> float:
    """Return the seconds since this machine was started, those it was suspended for included."""
    return time.clock_gettime(_BOOTTIME)


class StoreClock(Protocol):
    """Gives the time of a store. `accord.testing.Clock` is one that tests can set."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        ...

    def elapsed_s(self) -> float:
        """Return a monotonic time in seconds, which setting the clock does not change. If `now_ms`
        moves by more than this, somebody has set the clock.
        """
        ...

    async def sleep_until(self, at_ms: int) -> None:
        """Return when `now_ms` has reached this time."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` in the event loop of the caller whenever a test moves the clock. Return a
        function that ends this. The system's clock moves by itself and calls nobody.
        """
        ...


class SystemClock:
    """The clock of this process."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_s(self) -> float:
        return time.monotonic()

    async def sleep_until(self, at_ms: int) -> None:
        left_ms = at_ms - self.now_ms()
        while left_ms > 0:
            await asyncio.sleep(min(left_ms / 1000, _LOOK_S))
            left_ms = at_ms - self.now_ms()

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None
