"""Files in the database of the tasks: rows of up to 1 MiB, each with the place where it begins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from ..store.postgres import BROKEN, FileSessions, PostgresOptions
from .contract import PIECE_BYTES, lost, no_space, unusable

__all__ = ["PostgresFiles"]

ROW_BYTES = 1 << 20


class PostgresFiles:
    """Files in a PostgreSQL database, which all replicas of an agent share."""

    batch = 2 << 20

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._sessions = FileSessions(options)

    async def open(self) -> None:
        """The store of the tasks has opened the database, and said what is wrong with it."""

    async def close(self) -> None:
        await self._sessions.close()

    async def write(self, id: str, start: int, data: bytes) -> None:
        rows = [
            (id, start + at, data[at : at + ROW_BYTES]) for at in range(0, len(data), ROW_BYTES)
        ]
        async with self._connection() as db, db.transaction():
            await db.execute(
                self._sql("DELETE FROM {s}.file_bytes WHERE file=$1 AND at>=$2"), id, start
            )
            await db.executemany(self._sql("INSERT INTO {s}.file_bytes VALUES ($1, $2, $3)"), rows)

    async def read(self, id: str, start: int, stop: int) -> AsyncIterator[bytes]:
        sql = self._sql(
            "SELECT at, substring(data FROM ($2::bigint - at + 1)::int FOR $3::int) "
            "FROM {s}.file_bytes WHERE file = $1 AND at <= $2 AND at > $2::bigint - $4::int "
            "ORDER BY at DESC LIMIT 1"
        )
        while start < stop:
            size = min(PIECE_BYTES, stop - start)
            async with self._connection() as db:
                row = await db.fetchrow(sql, id, start, size, ROW_BYTES)
            if row is None or not row[1]:
                raise lost(id)
            start += len(row[1])
            yield row[1]

    async def delete(self, id: str) -> None:
        async with self._connection() as db:
            await db.execute(self._sql("DELETE FROM {s}.file_bytes WHERE file = $1"), id)

    def _sql(self, text: str) -> str:
        return text.replace("{s}", self._options.schema)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        try:
            async with self._sessions.connection() as db:
                yield db
        except asyncpg.DiskFullError as error:
            raise no_space("in the database") from error
        except BROKEN as error:
            raise unusable(error) from error
