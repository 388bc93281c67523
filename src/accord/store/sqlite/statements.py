"""Statements on a connection to SQLite."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from ..sql import Sql, SqlRow

__all__ = ["SqliteSql"]


class SqliteSql(Sql):
    """Statements on a connection to SQLite. They run at once, in the thread that calls them."""

    dialect = "sqlite"

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    async def execute(self, sql: str, *values: Any) -> int:
        return self._db.execute(sql, values).rowcount

    async def execute_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._db.executemany(sql, rows)

    async def fetch(self, sql: str, *values: Any) -> list[SqlRow]:
        found = self._db.execute(sql, values)
        names = [name for name, *_ in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
