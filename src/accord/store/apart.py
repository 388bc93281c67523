"""Long pieces of text in the SQLite file, apart from the rows that hold them."""

import sqlite3
from typing import Any

from msgspec.structs import replace

from .contract import Write
from .pieces import LONG, cut, fill

__all__ = ["ROW_BITS", "ids", "put_apart", "whole"]

ROW_BITS = 24  # an id is the key of a task, then as many bits for a number within it


def ids(key: int, number: int | None = None) -> tuple[int, int]:
    """Return the first and the last id of what belongs to a task; up to and with this number, if one is given."""
    base = key << ROW_BITS
    return base, base | ((1 << ROW_BITS) - 1 if number is None else number)


def put_apart(db: sqlite3.Connection, write: Write) -> Write:
    """Store what is long and stands both in the log and in the snapshot; return the write without it.

    The one that was given stays as it is: it may have to be stored again.
    """
    if write.head is None or len(write.head) + len(write.artifacts) < LONG:
        return write
    base, end = ids(write.key)
    ((last,),) = db.execute("SELECT coalesce(max(id), ?) FROM pieces WHERE id BETWEEN ? AND ?", (base, base, end))
    lines, (head, artifacts), pieces = cut(write.lines, (write.head, write.artifacts), last - base + 1)
    db.executemany("INSERT INTO pieces VALUES (?,?)", enumerate(pieces, last + 1))
    return replace(write, lines=lines, head=head, artifacts=artifacts)


def whole(db: sqlite3.Connection, key: int, text: bytes) -> bytes:
    """Return the text with what was put apart from it; as it is, which nobody can read, if that is not there."""

    def piece(number: int) -> bytes:
        found: tuple[Any] | None = db.execute("SELECT data FROM pieces WHERE id=?", (key << ROW_BITS | number,)).fetchone()
        if found is None:
            raise ValueError(f"piece {number} of task {key} is missing")
        return bytes(found[0])

    try:
        return fill(text, piece)
    except ValueError:
        return text
