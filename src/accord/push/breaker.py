"""A circuit breaker per endpoint: one that keeps failing is left alone for a while."""

import asyncio
import time
from collections.abc import Callable

__all__ = ["Breaker"]

FAILURES = 5  # one after the other, before it opens
LONGEST_S = 600.0


class Breaker:
    """Closed: attempts pass. Open: none do, until a while has passed; then one tries, and others
    wait for how that goes.
    """

    def __init__(self, open_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.until_s = 0.0  # by the clock; 0 while it is closed
        self._open_s = open_s
        self._clock = clock
        self._failures = 0
        self._opened = 0  # how often in a row
        self._probe: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._clock() < self.until_s

    @property
    def left_s(self) -> float:
        """How long it stays open."""
        return max(self.until_s - self._clock(), 0.0)

    async def admit(self) -> bool:
        """Whether an attempt may be made. Who gets True has to say how it went."""
        while self.until_s:
            if self.is_open:
                return False
            if self._probe is None:
                self._probe = asyncio.get_running_loop().create_future()
                return True
            await asyncio.shield(self._probe)
        return True

    def succeeded(self) -> None:
        self._failures = self._opened = 0
        self.until_s = 0.0
        self._end_probe()

    def failed(self) -> bool:
        """Return whether it has just opened."""
        self._failures += 1
        was_probe = self._probe is not None
        opens = was_probe or (not self.until_s and self._failures >= FAILURES)
        if opens:
            pause_s = min(self._open_s * 2**self._opened, LONGEST_S)
            self._opened += 1
            self.until_s = self._clock() + pause_s
        self._end_probe()
        return opens

    def left(self) -> None:
        """An attempt was given up without a result."""
        self._end_probe()

    def _end_probe(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None and not probe.done():
            probe.set_result(None)
