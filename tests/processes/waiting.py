"""Waiting for a condition, where there is no event to wait for."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["PATIENCE_S", "until", "until_sync"]

PATIENCE_S = 60.0  # far more than anything takes, also on a loaded machine
_SHORTEST_S, _LONGEST_S = 0.001, 0.02  # between two looks

T = TypeVar("T")


async def until(
    condition: Callable[[], T | None], what: str = "", *, seconds: float = PATIENCE_S
) -> T:
    """Wait until `condition()` is true and return what it gave; the event loop goes on."""
    deadline, pause_s = time.monotonic() + seconds, _SHORTEST_S
    while not (found := condition()):
        _check(deadline, condition, what, seconds)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_S)
    return found


def until_sync(
    condition: Callable[[], T | None], what: str = "", *, seconds: float = PATIENCE_S
) -> T:
    """As `until`, for tests without an event loop."""
    deadline, pause_s = time.monotonic() + seconds, _SHORTEST_S
    while not (found := condition()):
        _check(deadline, condition, what, seconds)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_S)
    return found


def _check(deadline: float, condition: Callable[[], object], what: str, seconds: float) -> None:
    if time.monotonic() > deadline:
        name = what or getattr(condition, "__qualname__", repr(condition))
        raise AssertionError(f"waited {seconds:g} s in vain: {name}")
