"""Giving memory back to the system when a crowd of connections has left.

Python gives it back in pieces of 1 MiB, those with nothing left in them. After a crowd nearly every piece has something: the
dead handles and iterators that uvloop and asyncio keep to use again, a few hundred, strewn over all of them.
"""

import asyncio
import contextlib
import contextvars
import gc
from typing import Any

__all__ = ["Spares"]

KEPT = 256  # no less than a free list holds: 250 of uvloop's handles, 255 of asyncio's iterators


class Spares:
    """Handles and iterators made at start, where they lie close together, to take the place of those a crowd leaves behind."""

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        self._kept = self._make(KEPT)

    async def give_back(self) -> None:
        """Give back what nobody needs. It takes some milliseconds."""
        gc.collect()
        strewn = self._make(2 * KEPT)  # more than the free lists hold: they are empty now
        await asyncio.sleep(0)  # the loop lets go of them
        self._kept.clear()  # the free lists are full of these
        strewn.clear()
        self._kept = self._make(KEPT)  # the same ones again
        gc.collect()  # empties the free lists of Python itself
        _trim()

    def _make(self, count: int) -> list[Any]:
        loop = asyncio.get_running_loop()
        made: list[Any] = [loop.call_soon(_nothing, context=self._context) for _ in range(count)]
        made += [loop.call_later(60, _nothing, context=self._context) for _ in range(count)]
        for handle in made:
            handle.cancel()
        future = loop.create_future()
        return made + [future.__await__() for _ in range(count)]


def _nothing() -> None:
    pass


def _trim() -> None:
    """Have the C library let go what it holds unused; only glibc can."""
    import ctypes  # slow to import, and most servers never get here

    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library; Windows has no "the program itself"
        ctypes.CDLL(None).malloc_trim(0)
