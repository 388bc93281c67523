"""Tables beside the tasks, in the database of an open store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import asyncpg

from ...model import Unavailable
from ..sql import Database, Work
from .connect import BROKEN, ROLE_SETTINGS, is_pooled, reason, transaction
from .options import PostgresOptions
from .statements import PostgresSql

__all__ = ["PostgresDatabase"]

T = TypeVar("T")

CONNECTIONS = 5
PATIENCE_S = 5.0  # for a connection
STATEMENT_S = 10.0


class PostgresDatabase(Database):
    """Has connections of its own: what is done here takes none from commits, posts and wake-ups."""

    is_shared = True

    def __init__(self, options: PostgresOptions, now_ms: Callable[[], int]) -> None:
        self._options = options
        self.place = options.place
        self.id = f"{options.place} {options.schema}"
        self.now_ms = now_ms
        self._pool: Any = None
        self._is_open = False

    def open(self) -> None:
        """Allow connections. They are made when they are needed."""
        self._opening, self._is_open = asyncio.Lock(), True

    async def close(self) -> None:
        """Close all connections."""
        self._is_open = False
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    async def write(self, work: Work[T]) -> T:
        async with self._session() as db:
            return await work(PostgresSql(db))

    async def read(self, work: Work[T]) -> T:
        async with self._session() as db:
            return await work(PostgresSql(db))

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        try:
            pool = await self._connected()
            async with (
                pool.acquire(timeout=PATIENCE_S) as db,
                transaction(db, search_path=self._options.schema),
            ):
                yield db
        except BROKEN as error:
            raise Unavailable(
                f"{self.place} can't be used: {reason(self._options, error)}"
            ) from error

    async def _connected(self) -> Any:
        if not self._is_open:
            raise Unavailable(f"{self.place} is closed")
        async with self._opening:
            if self._pool is None:
                pooled = await is_pooled(self._options)
                self._pool = await asyncpg.create_pool(
                    self._options.dsn,
                    min_size=1,
                    max_size=CONNECTIONS,
                    timeout=PATIENCE_S,
                    command_timeout=STATEMENT_S,
                    statement_cache_size=0 if pooled else 100,
                    server_settings=None if pooled else ROLE_SETTINGS,
                    reset=_keep,
                )
            return self._pool


async def _keep(db: Any) -> None:
    """Reset nothing between two uses: nothing was set but for one transaction."""
