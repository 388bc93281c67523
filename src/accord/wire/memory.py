"""Giving memory back to the system when a crowd of connections has left.

Python gives it back in pieces of 1 MiB, those with nothing left in them. After a crowd nearly every piece has something: dead
handles and iterators that uvloop and asyncio keep to use again, and what is made anew all the time (the timer of the next second),
which comes to lie wherever there is room. So the former are exchanged for ones from before the crowd, and room is kept for the
latter.
"""

import asyncio
import contextlib
import contextvars
import ctypes
import gc
from typing import Any

__all__ = ["Spares"]

CROWD = 200  # connections: when so many have left, and half of all, their memory is given back
KEPT = 256  # no less than a free list holds: 250 of uvloop's handles, 255 of asyncio's iterators and of Python's contexts
TUPLES = 2_048  # as well
FEW = 32  # in use at one time, when hardly anybody is connected
ROUNDS, ROUND_S = 20, 0.1  # until all that is made anew every second has been
LARGEST = 512  # bytes of what Python keeps in those pieces; the rest is the C library's
POOL = 16 << 10  # bytes that hold things of one size
_BYTES = 33  # of a `bytes` with nothing in it

# Looks, one a second, after a crowd has left
LEFT, SETTLED, READY = 1, 5, 30


class Spares:
    """What was made at start and lies close together, to take the place of what a crowd leaves behind."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._most = self._before = 0  # connections: since memory was last given back, and at the last look
        self._looks = 0  # since a crowd has left
        self._strewn: list[Any] = []
        self._prepare()

    def look(self, links: set[Any]) -> set[Any]:
        """Called once a second with all connections. Gives memory back when a crowd has left, and has done with leaving.

        Returns the connections; after a crowd in a set that is no larger than it has to be.
        """
        connections = len(links)
        before, self._before = self._before, connections
        self._most = max(self._most, connections)
        if self._looks:
            self._looks += 1
            if self._looks == LEFT + 1:
                self._strewn += self._make(FEW)  # that were in use before, and are not now
                self._exchange()
            elif self._looks == SETTLED:
                links = set(links)
                gc.collect()
                _trim()
            elif self._looks == READY:
                self._looks = 0
                self._prepare()
        elif connections >= before and self._most - connections > max(CROWD, connections):
            self._looks, self._most = LEFT, connections
            gc.collect()  # empties the free lists of Python itself
            for things in self._reserve:
                things[:] = [things[len(things) // 2]]  # room is taken where it was made last: from now on around this one
            self._strewn = self._make(2 * KEPT)  # more than the free lists of others hold: they are empty now
        return links

    def _prepare(self) -> None:
        """Keep what free lists hold, and some room for things of every size, from where it lies close together."""
        self._kept = [self._make(4) for _ in range(ROUNDS)]
        self._kept.append(self._make(KEPT) + [(None, *one) for one in [(), (None,)] for _ in range(TUPLES)])
        self._kept[-1] += [contextvars.copy_context() for _ in range(KEPT)]
        self._reserve = [[_thing(size) for _ in range(2 * POOL // size)] for size in range(16, LARGEST + 1, 16)]

    def _exchange(self) -> None:
        """Fill the free lists, and keep them full for a while: what is let go meanwhile is really gone."""
        if self._kept:
            self._loop.call_later(ROUND_S, self._exchange, context=self._context)
            self._kept.pop()
        self._strewn.clear()

    def _make(self, count: int) -> list[Any]:
        made: list[Any] = [self._loop.call_soon(_nothing, context=self._context) for _ in range(count)]
        made += [self._loop.call_later(60, _nothing, context=self._context) for _ in range(count)]
        for handle in made:
            handle.cancel()
        future = self._loop.create_future()
        return made + [future.__await__() for _ in range(count)]


def _thing(size: int) -> object:
    """Something that takes so many bytes."""
    return bytes(size - _BYTES) if size > 32 else float(size) if size > 16 else object()


def _nothing() -> None:
    pass


def _trim() -> None:
    """Have the C library let go what it holds unused; only glibc can."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library; Windows has no "the program itself"
        ctypes.CDLL(None).malloc_trim(0)
