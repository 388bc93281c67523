"""A background loop, with one policy for errors."""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable

from .model import Unavailable

__all__ = ["Pump"]

RETRY_S = 1.0
END_S = 5.0  # for a round that was cancelled: what it waits for may not answer


class Pump:
    """Does a piece of work again and again: whenever it is woken, and with `pause_s` also after so
    long without being woken.

    A store that is away is waited for; that it is, the store says itself. Any other error costs the
    round it came from, and the loop goes on. It is logged once, however many rounds in a row it
    costs, and so is that the loop works again. Without `pause_s` there is no asyncio task while
    there is nothing to do, unless it `stays`: then it has to be stopped.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[bool]],
        *,
        log: logging.Logger,
        pause_s: Callable[[], float] | None = None,
        retry_s: Callable[[], float] = lambda: RETRY_S,
        stays: bool = False,
        waits_for: tuple[type[Exception], ...] = (),
    ) -> None:
        """Make a loop, which `start` or `wake` begins.

        Args:
            name: What it does, for the log.
            work: One round. Returns whether there is more to be done at once.
            log: Where errors are logged.
            pause_s: How long to wait for being woken before the next round; None: for ever.
            retry_s: The same after a round that failed.
            stays: Whether it keeps its asyncio task while there is nothing to do.
            waits_for: What says, beside Unavailable, that a store or a server is away.
        """
        self._name = name
        self._work = work
        self._log = log
        self._pause_s = pause_s
        self._retry_s = retry_s
        self._stays = stays
        self._waits_for: tuple[type[Exception], ...] = (Unavailable, *waits_for)
        self._failure = ""  # what was logged last, while rounds fail
        self._is_woken = False
        self._is_stopped = False
        self._task: asyncio.Task[None] | None = None
        self._pausing: asyncio.Future[None] | None = None
        # Work is nobody's request: it must not run in the context of whoever wakes it.
        self._context = contextvars.copy_context()

    @property
    def is_idle(self) -> bool:
        """Nothing is done, and nothing is to be done that it was woken for."""
        return self._task is None or (self._pausing is not None and not self._is_woken)

    def start(self, *, pauses_first: bool = False) -> None:
        """Begin the loop, with a first round or a pause."""
        self._is_stopped = False
        if not pauses_first:
            self.wake()
        elif self._task is None:
            self._begin()

    def wake(self) -> None:
        """Have it work, unless it was stopped."""
        self._is_woken = True
        if self._task is None:
            if not self._is_stopped:
                self._begin()
        elif self._pausing is not None and not self._pausing.done():
            self._pausing.set_result(None)

    async def stop(self, grace_s: float | None = 0.0) -> None:
        """End the loop. Work that it was woken for may go on for so long; None: to its end."""
        self._is_stopped = True
        task = self._task
        if task is None:
            return
        if self._pausing is not None and not self._pausing.done():
            self._pausing.set_result(None)
        if grace_s != 0:
            await asyncio.wait({task}, timeout=grace_s)
        task.cancel()
        await asyncio.wait({task}, timeout=END_S)
        if self._task is task:
            self._task = None  # it hangs: a next start does not wait for it

    def cancel(self) -> None:
        """End the loop, and wait for nothing."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=self._name, context=self._context
        )

    async def _run(self) -> None:
        try:
            while self._is_woken or await self._is_woken_later():
                self._is_woken = False
                try:
                    is_more = await self._work()
                except self._waits_for as error:
                    self._log.debug("%s: waits, and tries again: %s", self._name, error)
                except Exception as error:
                    self._failed(error)
                else:
                    if self._failure:
                        self._failure = ""
                        self._log.warning("%s: works again", self._name)
                    if is_more:
                        self._is_woken = True
                    continue
                self._is_woken = True
                await asyncio.sleep(self._retry_s())
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    def _failed(self, error: Exception) -> None:
        """Log what a round raised, unless the round before raised the same."""
        failure = f"{type(error).__name__}: {error}"
        if failure != self._failure:
            self._failure = failure
            self._log.exception("%s: failed, and is tried again", self._name)

    async def _is_woken_later(self) -> bool:
        """Wait until there is something to do. Return False if there never will be."""
        if self._is_stopped or not (self._stays or self._pause_s is not None):
            return False
        self._pausing = asyncio.get_running_loop().create_future()
        try:
            if self._pause_s is None:
                await self._pausing
            else:
                async with asyncio.timeout(self._pause_s()):
                    await self._pausing
        except TimeoutError:
            pass
        finally:
            self._pausing = None
        return self._is_woken or not self._is_stopped
