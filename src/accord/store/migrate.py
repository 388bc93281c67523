"""Bring a database to the newest schema: numbered SQL files, each applied once."""

import sqlite3
from pathlib import Path

__all__ = ["migrate_sqlite", "newest", "scripts"]

_SCHEMA = Path(__file__).parent / "schema"


def scripts(engine: str) -> list[tuple[int, str]]:
    """Return (number, SQL) of every schema step of `engine`, in order."""
    return sorted((int(file.name[:4]), file.read_text()) for file in (_SCHEMA / engine).glob("*.sql"))


def newest(engine: str) -> int:
    """Return the number of the newest schema we know."""
    return scripts(engine)[-1][0]


def migrate_sqlite(db: sqlite3.Connection) -> None:
    """Apply what is missing. The caller holds the file's lock, and has looked whose file it is."""
    (have,) = db.execute("PRAGMA user_version").fetchone()
    for number, script in scripts("sqlite"):
        if number > have:
            db.executescript(f"BEGIN EXCLUSIVE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")
