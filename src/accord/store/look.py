"""A look at a SQLite file that leaves it as it is: whether it is ours, and how much is in it."""

import contextlib
import errno
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from .contract import Stats
from .migrate import newest

__all__ = ["NO_ROOM", "check_file", "count", "look", "size_of", "unusable"]

_OURS = {"tasks", "events", "keys", "counts", "scopes"}  # tables of every schema
_MAGIC = b"SQLite format 3\0"
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_STUCK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)  # which of them SQLite says depends on the file that could not grow

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # for all, for this user, for this process
_PROBE = 64 << 10


def check_file(path: Path) -> int:
    """Return the number of a file's schema; 0 if nothing is there yet.

    Raises:
        RuntimeError: It is no database of ours, or none we can use.
    """
    try:
        if path.is_dir():
            raise RuntimeError(f"{path} is a folder; name a file in it, as in --store sqlite:///accord.db")
        if not path.exists() or path.stat().st_size == 0:
            return 0
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise RuntimeError(f"{path} can't be used as a database: it is none; give another file with --store")
    except OSError as error:
        raise RuntimeError(f"{path} can't be opened: {error.strerror}") from error
    with _reading(path) as db:
        ((schema,),) = db.execute("PRAGMA user_version")
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and not (schema and tables >= _OURS):
        raise RuntimeError(f"{path} is a database, but not Accord's; give another file with --store")
    if schema > newest("sqlite"):
        raise RuntimeError(f"{path} has schema {schema}, this Accord knows up to {newest('sqlite')}; use a newer Accord")
    return int(schema)


def look(path: Path) -> Stats:
    """Return how much is in a file of ours, of whatever schema, also while a server uses it."""
    with _reading(path) as db:
        return count(db, path)


def count(db: sqlite3.Connection, path: Path) -> Stats:
    tasks = Counter(dict(db.execute("SELECT state, sum(n) FROM counts GROUP BY state HAVING sum(n) > 0").fetchall()))
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'begun'").fetchone():  # not in every schema
        tasks += Counter(dict(db.execute("SELECT state, count(*) FROM begun GROUP BY state").fetchall()))
    ((events,),) = db.execute("SELECT count(*) FROM events")
    ((keys,),) = db.execute("SELECT count(*) FROM keys")
    return Stats(tasks=dict(tasks), events=events, keys=keys, size=size_of(path))


def size_of(path: Path) -> int:
    """Return how many bytes a database takes, with what has not found its way from the log into the file."""
    return sum(file.stat().st_size for file in (path, _log_of(path)) if file.exists())


def unusable(path: Path, error: sqlite3.Error) -> RuntimeError:
    """What a person is told of a file SQLite has given up on."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of the number says where it was seen
    if code in _STUCK and _is_full(path.parent):
        return RuntimeError(f"{path} can't be used as a database: the disk is full")
    if code in _DAMAGED:
        return RuntimeError(
            f"{path} is damaged: {error}. Put a copy of it back, or begin a new one with --store; what can still be read may be "
            f"saved with SQLite's own tool: sqlite3 {path} .recover"
        )
    return RuntimeError(f"{path} can't be used as a database: {error}")


def _is_full(folder: Path) -> bool:
    import tempfile  # slow to import

    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            return (probe.write(bytes(_PROBE)) or 0) < _PROBE
    except OSError as error:
        return error.errno in NO_ROOM


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, opened so that nothing is written; without a log beside it not even one is made."""
    how = "mode=ro" if _log_of(path).exists() else "immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True)) as db:
            yield db
    except sqlite3.DatabaseError as error:
        raise unusable(path, error) from error


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")
