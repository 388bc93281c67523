"""Statements on a connection to PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from ...model import whole_number
from ..sql import Sql, SqlRow, numbered

__all__ = ["PostgresSql"]


class PostgresSql(Sql):
    """Statements on a connection of asyncpg."""

    dialect = "postgresql"

    def __init__(self, db: Any) -> None:
        self._db = db

    async def execute(self, sql: str, *values: Any) -> int:
        status = await self._db.execute(numbered(sql), *values)
        return whole_number(status.rpartition(" ")[2]) or 0

    async def execute_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        await self._db.executemany(numbered(sql), rows)

    async def fetch(self, sql: str, *values: Any) -> list[SqlRow]:
        return [dict(row) for row in await self._db.fetch(numbered(sql), *values)]
