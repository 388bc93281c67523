"""What is kept in memory of the database, and how it stays true when another process writes."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from ...model import A2AError
from .db import Database, Transaction

__all__ = ["Changes"]

log_ = logging.getLogger("accord.hub")

LOST_S = 10.0  # a hub that could not read its database for so long is not ready


class Changes:
    """Reads caches again when the number in the table `changes` has grown."""

    def __init__(self, db: Database, poll_s: float) -> None:
        self._db = db
        self._poll_s = poll_s
        self._loads: list[Callable[[], Awaitable[None]]] = []
        self._seen = 0
        self._lock = asyncio.Lock()
        self._polling: asyncio.Task[None] | None = None
        self._read_s = 0.0  # when the database was last read

    def watch(self, load: Callable[[], Awaitable[None]]) -> None:
        """Have `load` called at the start, and after every change."""
        self._loads.append(load)

    async def open(self) -> None:
        await self.sync()
        if self._db.is_shared:
            self._polling = asyncio.create_task(self._poll())

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._polling
            self._polling = None

    @property
    def trouble(self) -> str:
        """Why what is in memory may be too old; empty if it is not."""
        if self._polling is None:
            return ""
        silent_s = asyncio.get_running_loop().time() - self._read_s
        return f"{self._db.place} was not read for {silent_s:.0f} s" if silent_s > LOST_S else ""

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A transaction that changes what is in memory, here and in every other process. It is read
        again here before the block is left.
        """
        async with self._db.transaction() as db:
            await db.change()
            yield db
        await self.sync()

    async def sync(self) -> None:
        """Read what has changed."""
        async with self._lock:
            row = await self._db.fetch_one("SELECT n FROM changes")
            assert row is not None  # the first migration made it
            if row["n"] != self._seen:
                for load in self._loads:
                    await load()
                self._seen = row["n"]
            self._read_s = asyncio.get_running_loop().time()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                await self.sync()
            except A2AError as error:
                log_.warning("changes of other hubs can't be read: %s", error)
            except Exception:
                log_.exception("changes of other hubs can't be read")
