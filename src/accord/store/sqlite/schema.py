"""The schema of a SQLite file: which it has, and how it gets the newest."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from ..migrations import SchemaVersion, migrate, too_old
from ..sql import Sql, at_once
from .statements import SqliteSql

__all__ = ["migrate_file", "versions"]

# Tables of files that were made before there was a release: of tasks, and of a hub.
_EARLIER = ({"tasks", "events", "keys", "counts"}, {"agents", "cards", "alerts", "audit"})


def migrate_file(db: sqlite3.Connection, path: Path, *parts: str) -> None:
    """Bring parts of a file to the newest schema. The caller holds the file's lock."""
    at_once(migrate(_FileSchema(db, path), *parts))


def versions(db: sqlite3.Connection, path: Path) -> Mapping[str, SchemaVersion]:
    """Return the number of each part of a file; none if it is empty.

    Raises:
        RuntimeError: It is not ours, or older than the first release.
    """
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    columns = {name for _, name, *_ in db.execute("PRAGMA table_info(migrations)")}
    if "part" in columns:
        rows = db.execute("SELECT part, max(version), max(needs) FROM migrations GROUP BY part")
        return {part: SchemaVersion(have, needs) for part, have, needs in rows}
    if any(tables >= earlier for earlier in _EARLIER):
        raise too_old(str(path))
    if tables:
        raise RuntimeError(
            f"{path} is a database, but not Accord's; give another file with --store"
        )
    return {}


class _FileSchema:
    prefix = ""
    dialect = SqliteSql.dialect

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db, self._path = db, path
        self.place = str(path)

    async def versions(self) -> Mapping[str, SchemaVersion]:
        return versions(self._db, self._path)

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[Sql]:
        self._db.execute("BEGIN EXCLUSIVE")
        try:
            yield SqliteSql(self._db)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    async def slowly(self, statement: str) -> None:
        self._db.execute(statement)
