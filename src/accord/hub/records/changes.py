"""What is kept in memory of the database, and how it stays true when another process writes.

A number in the table `changes` grows with every change that other processes have to know of.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ...pump import Pump
from ...store import Database, Sql, SqlRow

__all__ = ["Change", "Changes"]

T = TypeVar("T")

log_ = logging.getLogger("accord.hub")

LOOK_S = 0.01  # between two looks before an answer: many who ask must not load the database
LOST_S = 10.0  # a hub that could not read its database for so long is not ready


class Change(Sql):
    """A transaction of the hub. Rows that carry its number, `changed`, are read again by every
    process of this hub.
    """

    def __init__(self, db: Sql, changed: int) -> None:
        self._db = db
        self.changed = changed

    @classmethod
    async def begun(cls, db: Sql) -> "Change":
        """Take the next number. Other changes wait until this one has ended."""
        await db.execute("UPDATE changes SET n = n + 1")
        row = await db.fetch_one("SELECT n FROM changes")
        assert row is not None  # the schema has it
        return cls(db, int(row["n"]))

    async def execute(self, sql: str, *values: Any) -> int:
        return await self._db.execute(sql, *values)

    async def execute_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        await self._db.execute_many(sql, rows)

    async def fetch(self, sql: str, *values: Any) -> list[SqlRow]:
        return await self._db.fetch(sql, *values)


class Changes:
    """Reads caches again when the number in the table `changes` has grown."""

    def __init__(self, db: Database, poll_s: float) -> None:
        self._db = db
        self._loads: list[Callable[[], Awaitable[None]]] = []
        self._seen = 0
        self._asked = self._answered = 0  # readings, by their numbers
        self._lock = asyncio.Lock()
        self._polling = Pump(
            *("changes of other hubs", self._poll),
            log=log_,
            pause_s=lambda: poll_s,
            retry_s=lambda: poll_s,
        )
        self._read_s = 0.0  # when the database was last read

    def watch(self, load: Callable[[], Awaitable[None]]) -> None:
        """Have `load` called at the start, and after every change."""
        self._loads.append(load)

    async def open(self) -> None:
        await self.sync()
        if self._db.is_shared:
            self._polling.start(pauses_first=True)

    async def close(self) -> None:
        await self._polling.stop()

    @property
    def trouble(self) -> str:
        """Why what is in memory may be too old; empty if it is not."""
        if not self._db.is_shared or not self._read_s:
            return ""
        silent_s = asyncio.get_running_loop().time() - self._read_s
        return f"{self._db.place} was not read for {silent_s:.0f} s" if silent_s > LOST_S else ""

    async def write(self, work: Callable[[Change], Coroutine[Any, Any, T]]) -> T:
        """Do work that changes what is in memory, here and in every other process, in one
        transaction. It waits for nothing but the database. What is in memory here is read again
        before this returns.
        """

        async def change(db: Sql) -> T:
            return await work(await Change.begun(db))

        async def write() -> T:
            done = await self._db.write(change)
            await self.sync()
            return done

        # A caller who goes away must not leave the memory behind what is stored.
        writing = asyncio.ensure_future(write())
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise

    async def catch_up(self) -> None:
        """Read what other hubs have changed until now, before an answer says what there is, or
        that something is not there. However many ask, there are 100 readings a second at most.
        """
        if self._db.is_shared:
            await self.sync(pause_s=LOOK_S)

    async def sync(self, *, pause_s: float = 0.0) -> None:
        """Read what has changed, so long after the last reading. Those who wait for it at the same
        time share one reading.
        """
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._answered >= mine:
                return  # a reading that began after we asked
            early_s = self._read_s + pause_s - asyncio.get_running_loop().time()
            if pause_s and early_s > 0:
                await asyncio.sleep(early_s)
            asked = self._asked
            row = await self._db.fetch_one("SELECT n FROM changes")
            assert row is not None  # the schema has it
            if row["n"] != self._seen:
                for load in self._loads:
                    await load()
                self._seen = row["n"]
            self._answered = asked
            self._read_s = asyncio.get_running_loop().time()

    async def _poll(self) -> bool:
        await self.sync()
        return False
