"""Pages of tasks in a SQLite file."""

from collections.abc import Callable
from typing import Any, TypeAlias

from .contract import Query

__all__ = ["BEGUN", "COLUMNS", "page"]

COLUMNS = "key, id, context, state, at_ms, seq, pos, snap_pos, about, head, artifacts"
BEGUN = "key, id, context, state, at_ms, seq, pos, 0, about, x'', x''"  # the same, of one that has no snapshot yet

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Callable[..., list[Row]]


def page(rows: Rows, query: Query, scope: int | None) -> tuple[list[Row], int]:
    """Return the tasks of a page and one more, if there is one; and how many match in all."""
    where, args = "scope=?", list[Any]([scope])
    if query.context_id:
        where, args = where + " AND context=?", [*args, query.context_id]
    if query.state:
        where, args = where + " AND state=?", [*args, query.state]
    if query.since_ms is not None:
        where, args = where + " AND at_ms>=?", [*args, query.since_ms]
    total = _total(rows, query, scope, where, args)
    if query.before is not None:
        where, args = where + " AND (at_ms, key) < (?,?)", [*args, *query.before]
    where, args = where + " ORDER BY at_ms DESC, key DESC LIMIT ?", [*args, query.limit + 1]
    begun = rows(f"SELECT {BEGUN} FROM begun WHERE {where}", *args)  # first: one that gets its snapshot meanwhile is not missed
    found = rows(f"SELECT {COLUMNS} FROM tasks WHERE {where}", *args)
    if begun:
        seen = {row[0] for row in found}
        found = sorted([*found, *(row for row in begun if row[0] not in seen)], key=lambda row: (-row[4], -row[0]))
    return found, total


def _total(rows: Rows, query: Query, scope: int | None, where: str, args: list[Any]) -> int:
    if query.context_id or query.since_ms is not None:
        counted, counts = f"SELECT count(*) FROM tasks WHERE {where}", args
    else:  # as kept with every commit
        counted, counts = "SELECT coalesce(sum(n), 0) FROM counts WHERE scope=?", [scope]
        if query.state:
            counted, counts = counted + " AND state=?", [*counts, query.state]
    ((total,),) = rows(f"SELECT ({counted}) + (SELECT count(*) FROM begun WHERE {where})", *counts, *args)
    return int(total)
