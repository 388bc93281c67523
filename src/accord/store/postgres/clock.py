"""The database's clock, as its replicas know it."""

from typing import Any

from ...model import now_ms
from ..clock import SystemClock, elapsed_s

__all__ = ["NOW_MS", "DatabaseClock"]

# The time of a statement by the database's clock, in milliseconds. It is the same everywhere in one
# statement.
NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

_DRIFT = 0.0005  # by which two clocks may differ in a second: more than any that are kept right
_ROUNDED_MS = 1.0


class DatabaseClock(SystemClock):
    """The time by the database's clock: this process's steady clock, and how far the database is
    from it. Heartbeats bring its time.

    The database read its clock between our question and its answer. So each answer gives bounds of
    the difference, and a slow one, of a busy database, does not change what a quick one has shown.
    """

    def __init__(self) -> None:
        self._bounds: tuple[float, float] | None = None  # of the difference, in milliseconds
        self._offset_ms = 0.0  # in the middle of them
        self._measured_s = 0.0
        self.ahead_s = 0.0  # how far the clock of this process is ahead of the database's

    def now_ms(self) -> int:
        if self._bounds is None:
            return now_ms()  # nothing is known of the database yet
        return int(elapsed_s() * 1000 + self._offset_ms)

    def elapsed_s(self) -> float:
        return elapsed_s()

    async def ask(self, db: Any) -> None:
        """Ask the database for its time."""
        sent_s = elapsed_s()
        self.measure(sent_s, await db.fetchval(f"SELECT {NOW_MS}"))

    def measure(self, sent_s: float, theirs_ms: int) -> None:
        """The database said its time, asked at `sent_s` by the clock of `elapsed_s`."""
        got_s = elapsed_s()
        low = theirs_ms - got_s * 1000 - _ROUNDED_MS
        high = theirs_ms - sent_s * 1000 + _ROUNDED_MS
        if self._bounds is not None:
            drift_ms = (got_s - self._measured_s) * 1000 * _DRIFT
            known_low, known_high = self._bounds[0] - drift_ms, self._bounds[1] + drift_ms
            if low <= known_high and known_low <= high:  # else the database's clock was set
                low, high = max(low, known_low), min(high, known_high)
        self._bounds, self._measured_s = (low, high), got_s
        self._offset_ms = (low + high) / 2
        self.ahead_s = (now_ms() - self.now_ms()) / 1000
