"""Pages of tasks in a SQLite file."""

import contextlib
import heapq
import sqlite3
from collections.abc import Iterator
from typing import Any, TypeAlias

from .apart import whole
from .contract import Page, Query, Record

__all__ = ["BEGUN", "COLUMNS", "page"]

COLUMNS = "key, id, context, state, at_ms, seq, pos, snap_pos, about, head, artifacts"
BEGUN = "key, id, context, state, at_ms, seq, pos, 0, about, x'', x''"  # the same, of one that has no snapshot yet
_BARE = COLUMNS.removesuffix("artifacts") + "x'5b5d'"

Row: TypeAlias = tuple[Any, ...]


def page(db: sqlite3.Connection, query: Query, scope: int | None) -> Page:
    """Return the tasks of a page, read one by one until there are enough of them, and how many match in all."""
    where, args = "scope=?", list[Any]([scope])
    if query.context_id:
        where, args = where + " AND context=?", [*args, query.context_id]
    if query.state:
        where, args = where + " AND state=?", [*args, query.state]
    if query.since_ms is not None:
        where, args = where + " AND at_ms>=?", [*args, query.since_ms]
    total = _total(db, query, scope, where, args)
    if query.before is not None:
        where, args = where + " AND (at_ms, key) < (?,?)", [*args, *query.before]
    where, args = where + " ORDER BY at_ms DESC, key DESC LIMIT ?", [*args, query.limit + 1]
    # First: one that gets its snapshot meanwhile is not missed.
    begun = db.execute(f"SELECT {BEGUN} FROM begun WHERE {where}", args).fetchall()
    columns = COLUMNS if query.has_artifacts else _BARE
    with contextlib.closing(db.execute(f"SELECT {columns} FROM tasks WHERE {where}", args)) as told:
        tasks, is_cut = _fitting(db, query, heapq.merge(told, begun, key=_newest) if begun else told)
    return Page(tasks=tasks, total=total, next=(tasks[-1].at_ms, tasks[-1].key) if is_cut else None)


def _newest(row: Row) -> tuple[int, int]:
    return -row[4], -row[0]


def _fitting(db: sqlite3.Connection, query: Query, rows: Iterator[Row]) -> tuple[list[Record], bool]:
    """As many tasks as a page may have, and whether there are more."""
    tasks: list[Record] = []
    seen: set[int] = set()
    size = 0
    for row in rows:
        key = row[0]
        if key in seen:  # begun a moment ago: it stands as it is told of
            continue
        if len(tasks) == query.limit:
            return tasks, True
        record = Record(key, query.scope, *row[1:])
        record.head, record.artifacts = whole(db, key, record.head), whole(db, key, record.artifacts)
        size += len(record.head) + (len(record.artifacts) if query.has_artifacts else 0)
        if tasks and size > query.size:
            return tasks, True
        seen.add(key)
        tasks.append(record)
    return tasks, False


def _total(db: sqlite3.Connection, query: Query, scope: int | None, where: str, args: list[Any]) -> int:
    if query.context_id or query.since_ms is not None:
        counted, counts = f"SELECT count(*) FROM tasks WHERE {where}", args
    else:  # as kept with every commit
        counted, counts = "SELECT coalesce(sum(n), 0) FROM counts WHERE scope=?", [scope]
        if query.state:
            counted, counts = counted + " AND state=?", [*counts, query.state]
    ((total,),) = db.execute(f"SELECT ({counted}) + (SELECT count(*) FROM begun WHERE {where})", [*counts, *args])
    return int(total)
