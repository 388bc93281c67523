"""The database's clock, as its replicas know it."""

from typing import Any

from ...model import now_ms
from ..clock import SystemClock, elapsed_s

__all__ = ["NOW_MS", "DatabaseClock"]

# The time of a statement by the database's clock, in milliseconds. It is the same everywhere in one
# statement.
NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

SLOW_S = 1.0  # an answer that took longer says too little about the time


class DatabaseClock(SystemClock):
    """The time by the database's clock: this process's steady clock, and how far the database was
    from it when it last gave its time. Heartbeats bring it.
    """

    def __init__(self) -> None:
        self._offset_ms: float | None = None
        self.ahead_s = 0.0  # how far the clock of this process is ahead of the database's

    def now_ms(self) -> int:
        if self._offset_ms is None:
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
        if self._offset_ms is not None and got_s - sent_s > SLOW_S:
            return
        self.ahead_s = (now_ms() - theirs_ms) / 1000
        # The time was read somewhere between question and answer.
        self._offset_ms = theirs_ms - (sent_s + got_s) / 2 * 1000
