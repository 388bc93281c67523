"""A line on stderr that shows that work goes on, where a person is watching."""

import asyncio
import sys
import time
from types import TracebackType

__all__ = ["Progress", "clear_line"]

AFTER_S = 1.0  # what is quicker needs none
TURN_S = 0.2
_TURNS = "|/-\\"
_CLEAR = "\r\033[K"
_WIDTH = 78


class Progress:
    """Shows how long it has taken and what the agent said last, until the block ends. Nothing is
    written if stderr is no terminal.
    """

    def __init__(self, *, is_on: bool = True) -> None:
        self._is_on = is_on and sys.stderr.isatty()
        self._said = ""
        self._turning: asyncio.Task[None] | None = None

    def say(self, text: str) -> None:
        """What the agent is at."""
        self._said = " ".join(text.split())

    async def __aenter__(self) -> "Progress":
        if self._is_on:
            self._turning = asyncio.create_task(self._turn())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._turning is not None:
            self._turning.cancel()
            await asyncio.wait([self._turning])
            clear_line()

    async def _turn(self) -> None:
        since = time.monotonic()
        await asyncio.sleep(AFTER_S)
        n = 0
        while True:
            line = f"{_TURNS[n % len(_TURNS)]} {time.monotonic() - since:.0f} s  {self._said}"
            # The cursor stays at the beginning: what others print comes in place of this line.
            sys.stderr.write(f"{_CLEAR}{line[:_WIDTH]}\r")
            sys.stderr.flush()
            n += 1
            await asyncio.sleep(TURN_S)


def clear_line() -> None:
    """Remove the line, before something else is written."""
    if sys.stderr.isatty():
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
