"""The connections that read and claim: a few, made when they are needed and given back when they
are not.

A replica needs two connections, the writer's and the heartbeat's. Readers take what is left. If the
database has none left for them, reads go through the writer's, one after the other.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from .connect import FULL, close, connect, kill
from .options import PostgresOptions

__all__ = ["Readers"]

log_ = logging.getLogger("accord")

MOST = 4
IDLE_S = 10.0  # after which one that nobody uses is given back
FULL_S = 1.0  # after a refusal, until another connection is tried
YIELD_S = 5.0  # for which none is kept, once the writer or the heartbeat gets no connection
WAIT_S = 5.0  # for a free one

_SETTINGS = {
    # A claim or a watch that a crash of the database undoes harms nobody: the next append is
    # refused, and what commits after it is on the disk only together with it.
    "synchronous_commit": "off",
}


class Readers:
    """Connections to use for a while, as long as the store is open."""

    def __init__(
        self,
        options: PostgresOptions,
        *,
        pooled: bool,
        borrow: Callable[[], AbstractAsyncContextManager[Any]],
    ) -> None:
        self._options = options
        self._pooled = pooled
        self._borrow = borrow  # the writer's connection
        self._idle: list[tuple[Any, float]] = []  # with when each was used last; newest last
        self._size = 0  # connections, idle ones and used ones
        self._places = asyncio.Semaphore(MOST)  # a place is a connection that there may be
        self._yields_until_s = 0.0
        self._is_short = False
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[Any]:
        """A connection. What the database raises when it is made comes through.

        Raises:
            TimeoutError: All of them were used for too long.
        """
        db = await self._take()
        if db is None:
            try:
                async with self._borrow() as db, _answering(db):
                    yield db
            finally:
                self._places.release()
            return
        try:
            async with _answering(db):
                yield db
        finally:
            self._put_back(db)

    def give_way(self) -> None:
        """The writer or the heartbeat gets no connection, ours or another replica's: give back what
        we have, and make no more for a while.
        """
        self._say_short("others have none")
        self._yields_until_s = time.monotonic() + YIELD_S
        for db, _ in self._idle:
            self._drop(db)
        self._idle = []

    async def give_back(self, idle_s: float | None = None) -> None:
        """Close what nobody has used for a while."""
        used_s = time.monotonic() - (IDLE_S if idle_s is None else idle_s)
        old = [db for db, at_s in self._idle if at_s <= used_s]
        self._idle = [(db, at_s) for db, at_s in self._idle if at_s > used_s]
        self._size -= len(old)
        await asyncio.gather(*(close(db) for db in old))

    async def close(self) -> None:
        self._is_closed = True
        await self.give_back(0)

    async def _take(self) -> Any:
        """A connection of ours, with its place; None with a place if there is none to be had."""
        async with asyncio.timeout(WAIT_S):
            while True:
                await self._places.acquire()
                try:
                    while self._idle:
                        db, _ = self._idle.pop()
                        if not db.is_closed():
                            return db
                        self._size -= 1
                    if db := await self._make():
                        return db
                except BaseException:
                    self._places.release()
                    raise
                if not self._size:
                    return None
                # Others have connections: wait for one of these, and leave this place empty.
                asyncio.get_running_loop().call_later(FULL_S, self._places.release)

    async def _make(self) -> Any:
        """A new connection; None if there is none to be had."""
        if time.monotonic() < self._yields_until_s:
            return None
        self._size += 1
        try:
            db = await connect(self._options, settings=_SETTINGS, pooled=self._pooled)
        except BaseException as error:
            self._size -= 1
            if not isinstance(error, FULL):
                raise
            self._say_short(str(error))
            return None
        self._is_short = False
        return db

    def _say_short(self, why: str) -> None:
        """Say, once for each time it begins, why reads are slow."""
        if not self._is_short:
            self._is_short = True
            log_.warning(
                "%s has no connection left for reading (%s): reads share those there are",
                *(self._options.place, why),
            )

    def _put_back(self, db: Any) -> None:
        now_s = time.monotonic()
        is_yielding = self._is_closed or now_s < self._yields_until_s
        if is_yielding or db.is_closed() or db.is_in_transaction():
            self._drop(db)
        else:
            self._idle.append((db, now_s))
        self._places.release()

    def _drop(self, db: Any) -> None:
        self._size -= 1
        kill(db)


@contextlib.asynccontextmanager
async def _answering(db: Any) -> AsyncIterator[None]:
    """Close a connection that has not answered in time: who uses it next would wait for it too."""
    try:
        yield
    except (TimeoutError, asyncio.CancelledError):
        kill(db)
        raise
