"""Opening and closing an app: once, however many ask, and before a host closes its connections."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ..server.process import hearing

__all__ = ["AppLifecycle"]

HOST_GRACE_S = 20.0  # for work that runs when a host is asked to stop, if the host is as patient


class AppLifecycle:
    """Calls what opens, drains and closes an app."""

    def __init__(
        self,
        open: Callable[[], Coroutine[Any, Any, None]],
        drain: Callable[[float], Awaitable[None]],
        close: Callable[[float], Coroutine[Any, Any, None]],
    ) -> None:
        self._open = open
        self._drain = drain
        self._close = close
        self._opening: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        await asyncio.shield(self._opening)

    async def close(self, grace_s: float = 0.0) -> None:
        if self._opening is None or _has_failed(self._opening):
            return  # what did not open has closed what it had opened
        if self._closing is None:
            closing = self._close_opened(self._opening, grace_s)
            self._closing = asyncio.get_running_loop().create_task(closing)
        await asyncio.shield(self._closing)

    async def _close_opened(self, opening: "asyncio.Task[None]", grace_s: float) -> None:
        await asyncio.wait({opening})  # who began it may have been cancelled; it goes on
        if not _has_failed(opening):
            await self._close(grace_s)

    def hosted(self) -> contextlib.AbstractContextManager[None]:
        """End streams, and the rest, when the host of an app is asked to stop, while the block
        lasts. A host says so only when its connections are closed: streams have to end before.
        """
        return hearing(self._host_stops)

    def _host_stops(self, number: int) -> None:
        if self._leaving is None and self._closing is None:
            grace_s = 0.0 if number == signal.SIGINT else HOST_GRACE_S
            self._leaving = asyncio.get_running_loop().create_task(self._leave_host(grace_s))

    async def _leave_host(self, grace_s: float) -> None:
        await self._drain(grace_s)
        await self.close()  # sooner, if the host is less patient


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
