"""Runs that are let go. Another life goes on with all they hold, so nothing of them may clean up: as far as their functions can
tell, the process has died. None of their tasks is cancelled, none of their generators closed, and none of it collected.
"""

import asyncio
import contextvars
import gc
import sys
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any, NoReturn, Protocol

__all__ = ["RUN", "forget", "leave", "sleep", "tasks_of", "watch"]


class Parkable(Protocol):
    """What is known of a run here."""

    @property
    def is_parked(self) -> bool:
        """It is let go: its function never goes on."""

    is_over: bool


# In whose function we are, also in tasks and threads it has begun. What they leave lying around does not keep the run.
RUN: "contextvars.ContextVar[weakref.ref[Parkable] | None]" = contextvars.ContextVar("accord-run", default=None)


def watch() -> None:
    """Keep the async generators of runs apart in this loop: at its end it closes all those it knows of."""
    first = sys.get_asyncgen_hooks().firstiter
    if first is not None and not isinstance(first, _Begun):
        sys.set_asyncgen_hooks(firstiter=_Begun(first))


def leave() -> None:
    """All runs are over: see to it that nobody cancels what is left of those that were let go, and leave the rest to the loop."""
    for task in asyncio.all_tasks():
        if _is_parked(_context_of(task).get(RUN)):
            forget(task)
    begun = sys.get_asyncgen_hooks().firstiter
    if isinstance(begun, _Begun):
        begun.hand_over()


def tasks_of(run: Parkable) -> "set[asyncio.Task[Any] | None]":
    """The tasks of a run that are not done: its own, and all it has begun."""
    found = ((task, _context_of(task).get(RUN)) for task in asyncio.all_tasks())
    return {task for task, known in found if known is not None and known() is run}


def forget(task: "asyncio.Task[Any]") -> None:
    """Have nobody cancel or collect a task, at the end of the loop or of the process: its function would run its `finally`."""
    import ctypes  # slow to import, and needed at the very end

    asyncio.tasks._unregister_task(task)
    if hasattr(ctypes, "pythonapi"):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


async def sleep() -> NoReturn:
    """Never go on, whoever cancels the current task."""
    task = asyncio.current_task()
    if task is not None:
        forget(task)
    await _Never()
    raise AssertionError("woken")


class _Never(asyncio.Future[None]):
    def cancel(self, msg: Any = None) -> bool:
        return False


class _Begun:
    """The generators that were begun in runs; all others are the loop's."""

    def __init__(self, first: Callable[[AsyncGenerator[Any, Any]], None]) -> None:
        self._first = first  # how the loop gets to know one
        self._runs: weakref.WeakKeyDictionary[AsyncGenerator[Any, Any], weakref.ref[Parkable]] = weakref.WeakKeyDictionary()

    def __call__(self, generator: AsyncGenerator[Any, Any]) -> None:
        run = RUN.get()
        if run is None:
            self._first(generator)
        else:
            self._runs[generator] = run

    def hand_over(self) -> None:
        for generator, known in list(self._runs.items()):
            run = known()
            if run is None or (run.is_over and not run.is_parked):
                del self._runs[generator]
                self._first(generator)


def _is_parked(known: "weakref.ref[Parkable] | None") -> bool:
    run = known() if known is not None else None
    return run is not None and run.is_parked


def _context_of(task: "asyncio.Task[Any]") -> contextvars.Context:
    if sys.version_info >= (3, 12):
        return task.get_context()
    # The first is its own; others are of those who wait for it.
    return next((found for found in gc.get_referents(task) if isinstance(found, contextvars.Context)), contextvars.Context())
