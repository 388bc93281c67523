"""Running a coroutine at once, as far as it goes without waiting.

Most requests are answered without waiting for anything: for these a task, and the turn of the loop it begins with, would be a good
part of the cost. One that waits gets its task then. Before, there is no current task: what is not ours asks for one (`in_task`).
"""

import asyncio
import contextvars
import types
from collections.abc import Coroutine, Generator
from typing import Any

__all__ = ["begin"]


def begin(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
    """Run `work`, in a context of its own, up to where it waits; return the task that goes on from there, None if all is done."""
    context = contextvars.copy_context()
    try:
        waiting = context.run(work.send, None)
    except StopIteration:
        return None
    if waiting is not None:
        waiting._asyncio_future_blocking = False  # taken, as a task would; others may wait for the same future
    return loop.create_task(_rest(work, waiting), context=context)


async def _rest(work: Coroutine[Any, Any, None], waiting: Any) -> None:
    steps = _steps(work, waiting)
    del waiting  # what came of it may be large
    await steps


@types.coroutine
def _steps(work: Coroutine[Any, Any, None], waiting: Any) -> Generator[Any, Any, None]:
    """The coroutine from where it waits: for a future, or (`None`) just for this."""
    while waiting is not None:
        # As its own `await` had left it.
        waiting._asyncio_future_blocking = True
        try:
            yield waiting
        except BaseException as error:  # cancelled, or the error the future holds, whose traceback has this frame
            waiting = None
            try:
                waiting = work.throw(error)
            except StopIteration:
                return
        else:
            break
    del waiting
    yield from work.__await__()
