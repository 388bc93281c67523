"""The end of a process's loop: what still runs is cancelled, and what does not end then is left
behind.
"""

import asyncio
import contextlib
import logging
from types import FrameType
from typing import Any

from .stacks import place_of

__all__ = ["end_tasks"]

log_ = logging.getLogger("accord")

LEAVE_S = 5.0  # for a task to end when it was cancelled
HURRY_S = 0.5  # the same if somebody waits: Ctrl-C, twice
MOST_LOGGED = 20  # tasks that are named in the log, at most

# Collected, a task that was left would have its `finally` run in the middle of whatever this
# program does after serving.
_left: set[asyncio.Task[Any]] = set()


async def end_tasks(hurried: asyncio.Event) -> None:
    """Cancel all other tasks, give them time to end, and log the ones that do not.

    A task that was cancelled before, by the agent's own stop, has had its time.
    """
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    fresh = [task for task in rest if not task.cancelling()]
    for task in rest:
        task.cancel()
    await _ended(fresh, hurried)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HURRY_S if hurried.is_set() else LEAVE_S):
            await asyncio.get_running_loop().shutdown_asyncgens()
    _leave({task for task in rest if not task.done()})


async def _ended(tasks: list[asyncio.Task[Any]], hurried: asyncio.Event) -> None:
    """Wait until these have ended, or for as long as there is time."""
    if not tasks:
        await asyncio.sleep(0)
        return
    if not hurried.is_set():
        ending, hearing = (
            asyncio.ensure_future(asyncio.wait(tasks, timeout=LEAVE_S)),
            asyncio.ensure_future(hurried.wait()),
        )
        await asyncio.wait([ending, hearing], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        hearing.cancel()
        await asyncio.wait([ending, hearing])
    if hurried.is_set():
        await asyncio.wait(tasks, timeout=HURRY_S)


def _leave(tasks: set[asyncio.Task[Any]]) -> None:
    for task in sorted(tasks, key=asyncio.Task.get_name)[:MOST_LOGGED]:
        log_.warning(
            "%s did not end when it was cancelled; the process ends without it; it was at %s",
            task.get_name(),
            place_of(_frames_of(task)),
        )
    if len(tasks) > MOST_LOGGED:
        log_.warning(
            "%d more tasks did not end when they were cancelled",
            len(tasks) - MOST_LOGGED,
        )
    _left.update(tasks)
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("task") in tasks:
            return  # "Task was destroyed but it is pending": it is in the log already
        if before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    if tasks:
        loop.set_exception_handler(handle)


def _frames_of(task: asyncio.Task[Any]) -> list[FrameType]:
    """The frames in which a task waits, the innermost first."""
    frames: list[FrameType] = []
    at: Any = task.get_coro()
    while at is not None:
        frame = (
            getattr(at, "cr_frame", None)
            or getattr(at, "ag_frame", None)
            or getattr(at, "gi_frame", None)
        )
        if frame is not None:
            frames.append(frame)
        at = (
            getattr(at, "cr_await", None)
            or getattr(at, "ag_await", None)
            or getattr(at, "gi_yieldfrom", None)
        )
    return frames[::-1]
