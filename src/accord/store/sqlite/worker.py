"""A thread that works for an event loop.

Each wakes the other by a byte in a pipe. Python's lock is free during that call, so the other can
go on at once. Queues of the standard library and `call_soon_threadsafe` keep the lock while they
wake the other, which then goes back to sleep until the lock is released: ten switches between the
threads for each job instead of five.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from ...after_fork import close_in_children

__all__ = ["Worker"]

T = TypeVar("T")

_BYTES = 4096  # read at once: one for each ring since the last


class Worker:
    """Does one job after the other, each when it is given by the loop it was made in."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = deque()
        self._done: deque[tuple[asyncio.Future[Any], Any, Exception | None]] = deque()
        self._given, self._give = os.pipe()
        self._reported, self._report = os.pipe()
        os.set_blocking(self._reported, False)  # the loop must never wait there
        self._open = [self._given, self._give, self._reported, self._report]
        close_in_children(self, lambda worker: worker._open)
        try:
            self._loop.add_reader(self._reported, self._settle)
            self._has_reader = True
        except NotImplementedError:  # the usual loop of Windows
            self._has_reader = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many jobs have not begun."""
        return len(self._jobs)

    def do(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Have something done. Gives what it returns, or raises what it raised."""
        done: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((done, job))
        os.write(self._give, b"\0")
        return done

    async def stop(self) -> None:
        """Return when all that was given is done, and reported."""
        self._jobs.append(None)
        os.write(self._give, b"\0")
        await asyncio.to_thread(self._thread.join)
        if self._has_reader:
            self._loop.remove_reader(self._reported)
        self._settle_all()
        while self._open:
            os.close(self._open.pop())

    def _work(self) -> None:
        while True:
            os.read(self._given, _BYTES)
            while self._jobs:
                job = self._jobs.popleft()
                if job is None:
                    return
                self._do(*job)
                del job  # it holds all that was written, and the next may be long in coming

    def _do(self, done: asyncio.Future[Any], work: Callable[[], Any]) -> None:
        try:
            result, failed = work(), None
        except Exception as error:  # whatever it is, the next job must be done
            result, failed = None, error
        self._done.append((done, result, failed))
        if self._has_reader:
            os.write(self._report, b"\0")
        else:
            self._loop.call_soon_threadsafe(self._settle_all)

    def _settle(self) -> None:
        try:
            os.read(self._reported, _BYTES)
        except BlockingIOError:
            return  # nothing was done since it was read last
        self._settle_all()

    def _settle_all(self) -> None:
        while self._done:
            done, result, error = self._done.popleft()
            if done.cancelled():
                continue
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)
