"""Threads for plain `def` skills."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Threads"]

Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class Threads:
    """At most `size` threads, each started when it is first needed; what finds none free waits.

    They are daemons: a function that never returns is left behind when the process ends. The threads of the standard
    library's pool would be waited for, and a server with one such function could not be stopped.
    """

    def __init__(self, size: int = 32) -> None:
        self._size = size
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = 0
        self._open = 0  # jobs handed over and not over yet; only the loop counts

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call `function` in a thread, with the context variables of the caller."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        self._open += 1
        if self._threads < min(self._open, self._size):
            self._threads += 1
            threading.Thread(target=self._work, name=f"accord-skill-{self._threads}", daemon=True).start()
        self._jobs.put((loop, done, lambda: context.run(function)))
        return done

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, done, function = job
            value: Any = None
            error: BaseException | None = None
            try:
                if not done.cancelled():
                    value = function()
            except StopIteration as stop:  # no future can hold one
                error = RuntimeError(f"the function raised {stop!r}")
            except BaseException as raised:
                error = raised
            if loop.is_closed():
                return  # nobody listens any more
            loop.call_soon_threadsafe(self._settle, done, value, error)
            del job, done, function, value, error  # nothing is kept alive by a thread that waits

    def _settle(self, done: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self._open -= 1
        if done.done():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def close(self) -> None:
        """Let threads that are free end, and the others after what they do."""
        for _ in range(self._threads):
            self._jobs.put(None)
