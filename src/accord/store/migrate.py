"""Bring a database to the newest schema: numbered SQL files, each applied once."""

import sqlite3
from pathlib import Path

__all__ = ["migrate_sqlite", "scripts"]

_SCHEMA = Path(__file__).parent / "schema"


def scripts(engine: str) -> list[tuple[int, str]]:
    """Return (number, SQL) of every schema step of `engine`, in order."""
    return sorted((int(file.name[:4]), file.read_text()) for file in (_SCHEMA / engine).glob("*.sql"))


def migrate_sqlite(db: sqlite3.Connection) -> int:
    """Apply what is missing and return the schema's number. The caller holds the file's lock."""
    (have,) = db.execute("PRAGMA user_version").fetchone()
    steps = scripts("sqlite")
    newest = steps[-1][0]
    if have > newest:
        raise RuntimeError(f"the database has schema {have}, this Accord knows up to {newest}; use a newer Accord")
    for number, script in steps:
        if number > have:
            db.executescript(f"BEGIN EXCLUSIVE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")
    return newest
