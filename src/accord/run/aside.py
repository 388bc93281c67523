"""A thread beside the loop, for what takes long and needs nothing of it: large requests are read there, large answers written.

Python in a thread gives way to the loop every few milliseconds; a single call of C does not, but the loop has its turn between two.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

__all__ = ["LARGE", "aside"]

LARGE = 128 << 10  # bytes: what is smaller is done sooner than a thread has begun with it
MOST = 64 << 20  # that wait there: what comes beyond is done at once, so that no more is taken in meanwhile

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_pool: ThreadPoolExecutor | None = None  # one thread: two would leave the loop less of its time
_held = 0


async def aside(size: int, work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return what `work` makes of so many bytes. Who is cancelled meanwhile leaves it: it must do nothing but return."""
    global _pool, _held
    if _held + size > MOST:
        return work(*args)
    if _pool is None:
        _pool = ThreadPoolExecutor(1, "accord-aside")
    _held += size
    doing = _pool.submit(work, *args)
    doing.add_done_callback(_let_go(size, asyncio.get_running_loop()))
    return await asyncio.wrap_future(doing)
