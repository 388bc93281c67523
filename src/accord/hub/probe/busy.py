"""Notice when the hub itself is slow: then a probe says nothing about its agent."""

import asyncio
from types import TracebackType
from typing import Self

__all__ = ["BUSY_MS", "LoopWatch"]

BUSY_MS = 100.0  # a hub whose timers come later than this is busy
_STEP_S = 0.02


class LoopWatch:
    """Measures how late this event loop is while it is entered."""

    def __init__(self) -> None:
        self.late_ms = 0.0
        self._due_s = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def was_busy(self) -> bool:
        return self.late_ms > BUSY_MS

    async def __aenter__(self) -> Self:
        self._due_s = asyncio.get_running_loop().time() + _STEP_S
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None  # it was entered
        self._task.cancel()
        self._measure()  # the timer may be late now

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._due_s = loop.time() + _STEP_S
            await asyncio.sleep(_STEP_S)
            self._measure()

    def _measure(self) -> None:
        late_s = asyncio.get_running_loop().time() - self._due_s
        self.late_ms = max(self.late_ms, late_s * 1000)
