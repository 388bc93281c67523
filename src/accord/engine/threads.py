"""Threads for plain `def` skills, and for whatever else takes long."""

import asyncio
import contextvars
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["LoopThread", "Threads"]

T = TypeVar("T")

log_ = logging.getLogger("accord")

STUCK_S = 10.0  # without a free thread, while someone waits for one


class LoopThread:
    """The event loop that runs belong to, and its thread. Functions of users also run in other
    threads, and on loops of those.
    """

    __slots__ = ("loop", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make it in the thread of the loop."""
        self.loop = loop
        self.thread = threading.get_ident()

    @property
    def is_here(self) -> bool:
        """Whether the caller is in the thread of the loop."""
        return threading.get_ident() == self.thread

    @property
    def is_on_a_loop(self) -> bool:
        """Whether an event loop runs in the thread of the caller, ours or another."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    async def here(self, work: Coroutine[Any, Any, T], task: "asyncio.Task[Any] | None") -> T:
        """Await something that is a part of `task`, also on an event loop of another thread: some
        frameworks call tools there. It is cancelled when the task ends.
        """
        if self.is_here:
            return await work
        if task is None or not self.loop.is_running():
            work.close()
            raise RuntimeError("the run that this is a part of has ended")
        moved = asyncio.run_coroutine_threadsafe(work, self.loop)
        self.loop.call_soon_threadsafe(task.add_done_callback, lambda run: moved.cancel())
        return await asyncio.wrap_future(moved)


Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any], str]


class Threads:
    """At most `size` threads, each started when it is first needed; what finds none free waits.

    They are daemons: a function that never returns is left behind when the process ends. The
    threads of the standard library's pool would be waited for, and a server with one such function
    could not be stopped.
    """

    def __init__(self, size: int = 32, name: str = "accord-skill") -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = 0
        self._open = 0  # jobs handed over and not over yet; only the loop counts
        self._doing: dict[int, str] = {}
        self._moved_s = 0.0  # when the first began to wait, or a thread last took something up
        self._is_reported = False

    def run(self, function: Callable[[], Any], name: str) -> asyncio.Future[Any]:
        """Call `function` in a thread, with the context variables of the caller. By this name an
        operator knows it.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        self._open += 1
        if self._threads < min(self._open, self._size):
            self._threads += 1
            thread = threading.Thread(
                target=self._work,
                args=(self._threads,),
                name=f"{self._name}-{self._threads}",
                daemon=True,
            )
            thread.start()
        elif self._open == self._size + 1:
            self._moved_s = time.monotonic()
        self._jobs.put((loop, done, lambda: context.run(function), name))
        return done

    def _work(self, number: int) -> None:
        while (job := self._jobs.get()) is not None:
            loop, done, function, name = job
            self._doing[number] = name
            self._moved_s = time.monotonic()
            value: Any = None
            error: BaseException | None = None
            try:
                if not done.cancelled():
                    value = function()
            except StopIteration as stop:  # no future can hold one
                error = RuntimeError(f"the function raised {stop!r}")
            except BaseException as raised:
                error = raised
            del self._doing[number]
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

    def check(self) -> None:
        """Say so in the log, once, if functions hang: a thread can't be taken away from one, and
        every other waits for it.
        """
        waiting, still_s = self._open - self._size, time.monotonic() - self._moved_s
        is_stuck = waiting > 0 and still_s > STUCK_S
        if is_stuck and not self._is_reported:
            busy = ", ".join(
                f"{count} in {name}"
                for name, count in Counter(list(self._doing.values())).most_common()
            )
            log_.warning(
                "all %d threads for plain functions are busy, and none has become free for "
                "%.0f s: %s. %d call%s wait%s for one, "
                "like all that are to come; see that these functions end, or write async def",
                *(
                    self._size,
                    still_s,
                    busy,
                    waiting,
                    "" if waiting == 1 else "s",
                    "s" if waiting == 1 else "",
                ),
            )
        self._is_reported = is_stuck

    def close(self) -> None:
        """Let threads that are free end, and the others after what they do."""
        for _ in range(self._threads):
            self._jobs.put(None)
