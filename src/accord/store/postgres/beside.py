"""Tables in the database of an agent's tasks that are used beside the tasks, also without a
server.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from ...model import Unavailable
from ..contract import CommitFailed
from ..parts import TASKS
from .clock import DatabaseClock
from .connect import BROKEN, connected, is_pooled, reason
from .options import PostgresOptions
from .schema import migrate_database

__all__ = ["DatabaseTable", "OpenDatabase"]


class OpenDatabase(Protocol):
    """A store, which has a pool of connections while it is open."""

    options: PostgresOptions

    @property
    def is_open(self) -> bool: ...

    @property
    def clock(self) -> DatabaseClock: ...

    async def fetch(self, sql: str, *values: Any) -> list[Any]: ...

    async def write(self, sql: str, *values: Any) -> list[Any]: ...


class DatabaseTable:
    """Reads and writes a table of one database."""

    def __init__(self, database: OpenDatabase) -> None:
        self._db = database

    def now_ms(self) -> int:
        return self._db.clock.now_ms()

    async def prepare(self) -> None:
        """Make the tables, if they are not there."""
        options = self._db.options
        try:
            async with connected(options, pooled=await is_pooled(options)) as db:
                await migrate_database(db, options, TASKS)
                await self._db.clock.ask(db)
        except BROKEN as error:
            raise RuntimeError(f"the database can't be used: {reason(options, error)}") from error

    async def _read(self, sql: str, *values: Any) -> Sequence[Any]:
        if self._db.is_open:
            return await self._db.fetch(sql, *values)
        try:
            return await self._query(sql, *values)
        except CommitFailed as error:
            raise Unavailable(str(error), retry_after_s=5) from error

    async def _query(self, sql: str, *values: Any) -> Sequence[Any]:
        """Through the pool of the store or, if that is not open, a connection of our own."""
        if self._db.is_open:
            return await self._db.write(sql, *values)
        options = self._db.options
        try:
            async with connected(options, pooled=await is_pooled(options)) as db:
                found: Sequence[Any] = await db.fetch(sql.replace("{s}", options.schema), *values)
                return found
        except BROKEN as error:
            raise CommitFailed(reason(options, error)) from error
