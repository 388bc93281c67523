"""Long work without long pauses for others.

Large requests are read, and large answers written, in a thread beside the loop. Python in a thread gives way to the loop every few
milliseconds. A single call of C does not; after one that took long there is a rest of the same length, in which all that has
waited can be done: a turn of the loop alone would be one step of somebody's many.
"""

import asyncio
import functools
import os
import time
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from .threads import Threads

__all__ = ["LARGE", "aside", "give_way"]

LARGE = 128 << 10  # bytes: what is smaller is done sooner than a thread has begun with it
MOST = 64 << 20  # that wait there: what comes beyond is done at once, so that no more is taken in meanwhile
LONG_S = 0.02
REST_S = 0.05  # at most

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_thread = Threads(1, "accord-aside")  # two would leave the loop less of its time
_held = 0
_rests_until_s = 0.0


async def aside(size: int, work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return what `work` makes of so many bytes. Who is cancelled meanwhile leaves it: it must do nothing but return."""
    global _held
    if _held + size > MOST:
        return work(*args)
    _held += size
    job: list[Callable[[], T]] = [functools.partial(work, *args)]
    try:
        found: T = await _thread.run(lambda: _do(job), "large requests")
        return found
    finally:
        _held -= size
        job.clear()  # left before its time came, it waits there without its bytes


async def give_way(began_s: float) -> None:
    """Let others have their turn after a piece of work on the loop, which began then."""
    await asyncio.sleep(_rest_s(began_s))


def _do(job: list[Callable[[], T]]) -> T:
    global _rests_until_s
    time.sleep(max(_rests_until_s - time.monotonic(), 0))
    work, began_s = job.pop(), time.monotonic()
    try:
        return work()
    finally:
        _rests_until_s = time.monotonic() + _rest_s(began_s)


def _rest_s(began_s: float) -> float:
    took_s = time.monotonic() - began_s
    return min(took_s, REST_S) if took_s > LONG_S else 0


def _forked() -> None:
    global _thread, _held
    _thread, _held = Threads(1, "accord-aside"), 0  # a child has no threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
