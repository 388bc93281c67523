"""How tasks and their logs stand in the tables: which columns, and how many rows are written at
once.
"""

import functools
import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any

from ..contract import Namespace, Record, Row
from .large_values import whole

__all__ = [
    "BARE_COLUMNS",
    "COLUMNS",
    "COLUMNS_WITHOUT_ARTIFACTS",
    "PLACE",
    "bare_record_of",
    "blob",
    "insert",
    "record_of",
    "rows_of",
    "select_in",
]

# The order of Record, the namespace by its number; then three that are set apart.
_PLACE = (
    "key, namespace, id, context, skill, about, state, at_ms, pos, seq, format, owner, posts, "
    "heard, snap, "
)
_APART = ", committed_ms, due_ms, created_ms"
COLUMNS = f"{_PLACE}head, artifacts{_APART}"
BARE_COLUMNS = f"{_PLACE}x'', x''{_APART}"  # without the snapshot
COLUMNS_WITHOUT_ARTIFACTS = f"{_PLACE}head, x'5b5d'{_APART}"
PLACE = (7, 0)  # where at_ms and key stand in each of them
_FIELDS = 17

_TOGETHER = 32  # rows in one statement
_WORTH_A_SEARCH = 64 << 10


def bare_record_of(row: tuple[Any, ...], namespace: Namespace) -> Record:
    """Return a task from its COLUMNS, its snapshot as it is stored."""
    record = Record(row[0], namespace, *row[2:_FIELDS])
    record.committed_ms, due_ms, record.created_ms = row[_FIELDS:]
    record.due_ms = due_ms or 0
    record.owner = record.owner or 0
    return record


def record_of(db: sqlite3.Connection, row: tuple[Any, ...], namespace: Namespace) -> Record:
    """Return a task from its COLUMNS, with its log after the snapshot."""
    key, pos, snap = row[0], row[8], row[14]
    record = bare_record_of(row, namespace)
    record.head, record.artifacts = whole(db, key, record.head), whole(db, key, record.artifacts)
    if pos > snap:
        after = db.execute(
            "SELECT task, pos, seq, at_ms, data FROM events WHERE task=? AND pos>? ORDER BY pos",
            (key, snap),
        )
        record.rows = list(rows_of(db, after))
    return record


def rows_of(db: sqlite3.Connection, found: sqlite3.Cursor) -> Iterator[Row]:
    return (
        Row(task, pos, seq, at_ms, whole(db, task, data)) for task, pos, seq, at_ms, data in found
    )


@functools.cache
def _together(sql: str, count: int) -> str:
    """The statement with `count` of its groups of question marks instead of one."""
    start = sql.index("(?")
    end = sql.index("?)") + 2
    return sql[:start] + ",".join([sql[start:end]] * count) + sql[end:]


def insert(db: sqlite3.Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """Insert many rows with few statements: each costs a look at the whole, and a struggle with the
    loop for Python's lock.
    """
    for start in range(0, len(rows), _TOGETHER):
        piece = rows[start : start + _TOGETHER]
        db.execute(_together(sql, len(piece)), list(itertools.chain.from_iterable(piece)))


def select_in(
    db: sqlite3.Connection, sql: str, rows: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Return what a query finds for many values, instead of the one group of question marks
    it has.
    """
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(rows), _TOGETHER):
        piece = rows[start : start + _TOGETHER]
        found += db.execute(
            _together(sql, len(piece)), list(itertools.chain.from_iterable(piece))
        ).fetchall()
    return found


def blob(data: bytes) -> bytes | bytearray:
    """A value as sqlite3 takes it without a search for an adapter, which costs more than copying
    what is not large.
    """
    return bytearray(data) if len(data) < _WORTH_A_SEARCH else data
