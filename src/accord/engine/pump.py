"""A background loop, with one policy for errors."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from ..model import Unavailable
from ..store import CommitFailed

__all__ = ["Pump"]

RETRY_S = 1.0


class Pump:
    """Does a piece of work again and again: whenever it is woken, and with `pause_s` also after so
    long without being woken.

    A store that is away is waited for; that it is, the store says itself. Any other error is logged
    and costs the round it came from. The loop goes on.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[bool]],
        *,
        log: logging.Logger,
        pause_s: Callable[[], float] | None = None,
        retry_s: Callable[[], float] = lambda: RETRY_S,
    ) -> None:
        """`work` returns whether there is more to be done at once."""
        self._name = name
        self._work = work
        self._log = log
        self._pause_s = pause_s
        self._retry_s = retry_s
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        """Nothing is done, and nothing is to be done that it was woken for."""
        return self._task is None or self._task.done()

    def start(self) -> None:
        """Begin the loop, with a first round."""
        self._is_stopped = False
        self.wake()

    def wake(self) -> None:
        """Have it work, unless it was stopped."""
        self._woken.set()
        if self.is_idle and not self._is_stopped:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    async def stop(self, grace_s: float = 0.0) -> None:
        """End the loop. Work that it was woken for may go on for a while."""
        self._is_stopped = True
        if self._task is None:
            return
        if grace_s:
            await asyncio.wait({self._task}, timeout=grace_s)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while self._woken.is_set() or self._pause_s is not None:
            self._woken.clear()
            if await self._round():
                self._woken.set()
            elif self._pause_s is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s()):
                        await self._woken.wait()

    async def _round(self) -> bool:
        """Work once. Return whether to work again at once."""
        try:
            is_more = await self._work()
        except (Unavailable, CommitFailed) as error:
            self._log.debug("%s: waits for the store: %s", self._name, error)
        except Exception:
            self._log.exception("%s failed, and goes on", self._name)
        else:
            return is_more
        await asyncio.sleep(self._retry_s())
        return True
