"""The task of a request."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

__all__ = ["start_task"]


def start_task(
    work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[None]:
    """Start a request's task; where Python can (3.12), it runs at once up to where it waits, which
    saves a turn of the loop.
    """
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    return loop.create_task(work)
