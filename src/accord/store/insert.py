"""Many rows into a table of SQLite, cheaply."""

import functools
import itertools
import sqlite3
from typing import Any

__all__ = ["blob", "insert"]

_TOGETHER = 32  # rows in one statement
_LARGE = 64 << 10


@functools.cache
def _together(sql: str, count: int) -> str:
    """The statement that inserts `count` rows at once."""
    start = sql.index("(?")
    end = sql.index("?)") + 2
    return sql[:start] + ",".join([sql[start:end]] * count) + sql[end:]


def insert(db: sqlite3.Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """Insert many rows with few statements: each costs a look at the whole, and a struggle with the loop for Python's lock."""
    for start in range(0, len(rows), _TOGETHER):
        piece = rows[start : start + _TOGETHER]
        db.execute(_together(sql, len(piece)), list(itertools.chain.from_iterable(piece)))


def blob(data: bytes) -> bytes | bytearray:
    """A value as sqlite3 takes it without a search for an adapter, which costs more than copying what is not large."""
    return bytearray(data) if len(data) < _LARGE else data
