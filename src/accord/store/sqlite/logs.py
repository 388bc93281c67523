"""Reading logs."""

import sqlite3
from collections.abc import Mapping

from ..contract import Row
from ..rules import PIECE_BYTES, PIECE_ROWS
from .rows import rows_of

__all__ = ["locate", "read_rows"]


def read_rows(db: sqlite3.Connection, after: Mapping[int, int]) -> list[Row]:
    """Return the rows after these positions, a piece for each task, as `Store.read` does."""
    found: list[Row] = []
    for task, pos in after.items():
        # From the row that holds the next position, if there is one.
        rows = db.execute(
            "SELECT task, pos, seq, at_ms, data FROM events WHERE task=?1 AND (SELECT pos FROM tasks WHERE key=?1) > ?2 "  # noqa: E501
            "AND pos >= coalesce((SELECT max(pos) FROM events WHERE task=?1 AND pos <= ?2 + 1), 0) ORDER BY pos LIMIT ?3",  # noqa: E501
            (task, pos, PIECE_ROWS),
        )
        size = 0
        for row in rows_of(db, rows):
            found.append(row)
            size += len(row.data)
            if size > PIECE_BYTES:
                break
    return found


def locate(db: sqlite3.Connection, task: int, seq: int) -> int:
    """Return a position near a visible number, as `Store.locate` does.

    The first row that reaches the number has it, unless rows before it are gone. Both numbers only
    grow, so halving finds it.
    """
    last = db.execute(
        "SELECT pos, seq FROM events WHERE task=? ORDER BY pos DESC LIMIT 1", (task,)
    ).fetchone()
    if last is None or (seq := min(seq, last[1])) <= 0:
        return 0
    low, found = 1, last[0]
    while low < found:
        middle = (low + found) // 2
        row = db.execute(
            "SELECT pos, seq FROM events WHERE task=? AND pos<=? ORDER BY pos DESC LIMIT 1",
            (task, middle),
        ).fetchone()
        if row is not None and row[1] >= seq:
            found = row[0]
        else:
            low = middle + 1
    is_first = (
        db.execute("SELECT 1 FROM events WHERE task=? AND pos<? LIMIT 1", (task, found)).fetchone()
        is None
    )
    return found if found == 1 or not is_first else 0
