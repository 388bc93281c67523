"""Bring a file to the newest schema."""

import functools
import sqlite3
from pathlib import Path

from . import failed

__all__ = ["migrate", "newest", "scripts"]

_FOLDER = Path(__file__).parent


@functools.cache
def scripts() -> list[tuple[int, str]]:
    """Return (number, SQL) of every step, in order."""
    return sorted((int(file.name[:4]), file.read_text()) for file in _FOLDER.glob("*.sql"))


def newest() -> int:
    """Return the number of the newest schema we know."""
    return scripts()[-1][0]


def migrate(db: sqlite3.Connection) -> None:
    """Apply what is missing, each step whole or not at all. The caller holds the file's lock, and
    has looked whose file it is.
    """
    ((have,),) = db.execute("PRAGMA user_version")
    for number, script in scripts():
        if number <= have:
            continue
        if number == failed.STEP:
            failed.add_functions(db)
        try:
            db.executescript(f"BEGIN EXCLUSIVE;\n{script}")
            if number == failed.STEP:
                failed.fail_open_tasks(db)
            db.execute(f"PRAGMA user_version = {number}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
