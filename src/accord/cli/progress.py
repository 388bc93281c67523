"""A line on stderr that shows that work goes on, where a person is watching."""

import asyncio
import sys
import time
from collections.abc import Callable
from types import TracebackType

from ..model import StatusUpdate, Task
from .terminal import clean

__all__ = ["ProgressLine", "clear_line", "transfer_line"]

AFTER_S = 1.0  # what is quicker needs none
TURN_S = 0.2
_TURNS = "|/-\\"
_CLEAR = "\r\033[K"
_WIDTH = 78
_BAR = 20


class ProgressLine:
    """Shows how long it has taken and what the agent said last, until the block ends. Nothing is
    written if stderr is no terminal.
    """

    def __init__(self, *, is_on: bool = True) -> None:
        self._is_on = is_on and sys.stderr.isatty()
        self._said = ""
        self._bar = ""
        self._turning: asyncio.Task[None] | None = None

    def show(self, found: Task | StatusUpdate) -> None:
        """Show what the agent is at, and a bar if it says how much is done."""
        if found.status.message is None:
            return
        share = found.progress.share if found.progress is not None else None
        self._said = " ".join(clean(found.status.message.text).split())
        self._bar = "" if share is None else f"{_bar(share)}  "

    async def __aenter__(self) -> "ProgressLine":
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
            passed_s = time.monotonic() - since
            line = f"{_TURNS[n % len(_TURNS)]} {passed_s:.0f} s  {self._bar}{self._said}"
            # The cursor stays at the beginning: what others print comes in place of this line.
            sys.stderr.write(f"{_CLEAR}{line[:_WIDTH]}\r")
            sys.stderr.flush()
            n += 1
            await asyncio.sleep(TURN_S)


def _bar(share: float) -> str:
    full = int(share * _BAR)
    return f"[{'#' * full}{'.' * (_BAR - full)}] {int(share * 100):>3} %"


def clear_line() -> None:
    """Remove the line, before something else is written."""
    if sys.stderr.isatty():
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


def transfer_line(verb: str) -> Callable[[str, int, int], None] | None:
    """Return what shows on one line how much of a file has been sent or fetched: it is called with
    the name, the bytes so far, and all of them. None if stderr is no terminal.
    """
    if not sys.stderr.isatty():
        return None
    last = ""

    def show(name: str, done: int, size: int) -> None:
        nonlocal last
        line = f"{verb} {clean(name)[:_WIDTH]}: {100 * done // max(size, 1)} %"
        if line != last:
            sys.stderr.write(f"{_CLEAR}{line}" + ("\n" if done >= size else ""))
            sys.stderr.flush()
        last = line

    return show
