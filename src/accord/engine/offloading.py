"""Work whose time grows with its size, without long pauses for everyone else on the loop.

Large requests are decoded and large answers encoded in a thread. Python code in a thread hands the
interpreter lock to the loop every few milliseconds. A single C call does not; after one that took
long the thread pauses for the same time, so that the loop can serve what has waited: one turn of
the loop would only be one step of each client's call.
"""

import functools
import os
import time
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from .threads import Threads

__all__ = ["LARGE", "offload"]

LARGE = 128 << 10  # bytes: less is done sooner than a thread would start on it
# For the thread; more is done on the loop, so that no further requests are read meanwhile.
WAITING_BYTES = 64 << 20
LONG_S = 0.02
PAUSE_S = 0.05  # at most

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A second thread would leave the loop less of the interpreter lock.
_thread = Threads(1, "accord-offload")
_waiting = 0  # bytes
_pauses_until_s = 0.0


async def offload(size: int, work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return `work(*args)`, which handles `size` bytes: called at once if they are few, else in the
    thread.

    `work` must have no effect but its result: if the caller is cancelled while the thread works,
    the result is thrown away.
    """
    global _waiting
    if size <= LARGE or _waiting + size > WAITING_BYTES:
        return work(*args)
    _waiting += size
    job: list[Callable[[], T]] = [functools.partial(work, *args)]
    try:
        found: T = await _thread.run(lambda: _do(job), "large requests")
        return found
    finally:
        _waiting -= size
        job.clear()  # if the caller was cancelled, the queue must not keep the bytes


def _do(job: list[Callable[[], T]]) -> T:
    global _pauses_until_s
    time.sleep(max(_pauses_until_s - time.monotonic(), 0))
    work, began_s = job.pop(), time.monotonic()
    try:
        return work()
    finally:
        _pauses_until_s = time.monotonic() + _pause_s(began_s)


def _pause_s(began_s: float) -> float:
    took_s = time.monotonic() - began_s
    return min(took_s, PAUSE_S) if took_s > LONG_S else 0


def _forked() -> None:
    global _thread, _waiting
    _thread, _waiting = Threads(1, "accord-offload"), 0  # a child has no threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
