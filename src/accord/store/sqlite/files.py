"""The file of the SQLite store: whether it is ours, who holds it, what is in it, and whether it is
still there.
"""

import contextlib
import errno
import os
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from ...after_fork import close_in_children
from ...model import whole_number
from ...private import private_file, private_folder, private_opener
from ...siblings import SEVERAL, parent_of_workers
from ..contract import CommitFailed, Namespace, Stats, StoredLog
from ..file_index import FileStats
from ..migrations import SchemaVersion, check
from ..parts import TASKS
from .rows import rows_of
from .schema import versions

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks are all there is
    fcntl = None  # type: ignore[assignment]  # the one platform difference, checked where it is used

__all__ = [
    "Watch",
    "check_file",
    "count",
    "file_stats",
    "files_folder",
    "hold",
    "inspect",
    "logs_of",
    "parts_of",
    "reason",
    "size_of",
    "unusable",
]

_MAGIC = b"SQLite format 3\0"
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Which of them SQLite says depends on the file that could not grow.
_STUCK = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # for all, for this user, for this process
_PROBE = 64 << 10
_LAST_PID = 2**31 - 1
_HEADER = 100  # bytes; the size of a page stands at 16, how many there are at 28


# One file, one process


def hold(path: Path) -> BinaryIO:
    """Hold `path` for this process until the returned file is closed. Its folder is made if need
    be.

    Raises:
        RuntimeError: Another process holds it, or nothing can be written there.
    """
    name = path.with_name(path.name + "-lock")
    try:
        private_folder(path.parent)
        lock = open(  # noqa: SIM115  kept open: closing it is letting go
            name, "a+b", buffering=0, opener=private_opener
        )
    except OSError as error:
        raise _no_file(path, error) from error
    if fcntl is None:
        return lock
    with contextlib.ExitStack() as undo:
        undo.enter_context(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder, _, parent = lock.read(64).decode(errors="replace").strip().partition(" ")
            if parent == str(parent_of_workers() or None):
                raise RuntimeError(
                    f"{path} is for one process, and process {holder}, a worker of the same parent "
                    f"(process {parent}), has it; {SEVERAL}"
                ) from None
            raise RuntimeError(
                f"{path} is in use by {_named(holder)}; stop that first, or use another "
                "file with --store sqlite:///other.db"
            ) from None
        close_in_children(lock, lambda lock: [lock.fileno()])
        try:
            lock.truncate(0)
            lock.write(b"%d %d\n" % (os.getpid(), parent_of_workers()))
            private_file(path)  # before SQLite does: what it makes beside it is like it
        except OSError as error:
            error.filename = error.filename or str(name)
            raise _no_file(path, error) from error
        undo.pop_all()
    return lock


def _no_file(path: Path, error: OSError) -> RuntimeError:
    what = "the disk is full" if error.errno in _NO_ROOM else error.strerror
    return RuntimeError(f"{path} can't be used as a database: {what}: {error.filename}")


def _named(holder: str) -> str:
    """Who holds it, by what stands in the file: the number of the process that took it."""
    pid = whole_number(holder, _LAST_PID)
    if pid is None:
        return "an unknown process"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return f"a child of process {holder}, which has ended, or by a process in another container"
    except OSError:
        pass  # somebody else's, and alive
    return f"process {holder}"


# Whether it is ours, and how much is in it


def files_folder(path: Path) -> Path:
    """Where the bytes of files are that the tasks of a database name, unless said otherwise."""
    return path.with_name(f"{path.name}-files")


def check_file(path: Path) -> int:
    """Return the number of the schema of a file's tasks; 0 if nothing is there yet.

    Raises:
        RuntimeError: It is no database of ours, or none we can use.
    """
    found = parts_of(path)
    return found[TASKS].have if TASKS in found else 0


def parts_of(path: Path) -> Mapping[str, SchemaVersion]:
    """Return the parts that a file has; none if nothing is there yet.

    Raises:
        RuntimeError: It is no database of ours, or none we can use.
    """
    try:
        if path.is_dir():
            raise RuntimeError(
                f"{path} is a folder; name a file in it, as in --store sqlite:///accord.db"
            )
        if not path.exists() or path.stat().st_size == 0:
            return {}
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise RuntimeError(f"{path} is not a database; give another file with --store")
    except OSError as error:
        raise RuntimeError(f"{path} can't be opened: {error.strerror}") from error
    with _reading(path) as db:
        found = versions(db, path)
    check(str(path), found)
    return found


def inspect(path: Path) -> Stats:
    """Return how much is in a file of ours, also while a server uses it."""
    with _reading(path) as db:
        return count(db, path)


def logs_of(path: Path, task_id: str) -> list[StoredLog]:
    """Return the logs of the tasks with this id, of whatever agent and caller, also while a server
    uses the file.
    """
    with _reading(path) as db:
        found = db.execute(
            "SELECT t.key, n.agent, n.tenant, n.caller, t.context, t.state, t.skill, t.about "
            "FROM tasks t JOIN namespaces n USING (namespace) WHERE t.id = ?",
            (task_id,),
        ).fetchall()
        events = "SELECT task, pos, seq, at_ms, data FROM events WHERE task = ? ORDER BY pos"
        return [
            StoredLog(
                Namespace(agent, tenant, caller),
                context,
                state,
                list(rows_of(db, db.execute(events, (key,)))),
                *(skill, about),
            )
            for key, agent, tenant, caller, context, state, skill, about in found
        ]


def count(db: sqlite3.Connection, path: Path) -> Stats:
    tasks = db.execute("SELECT state, sum(n) FROM counts GROUP BY state HAVING sum(n) > 0")
    ((events,),) = db.execute("SELECT count(*) FROM events")
    ((keys,),) = db.execute("SELECT count(*) FROM keys")
    return Stats(tasks=dict(tasks.fetchall()), events=events, keys=keys, size=size_of(path))


def file_stats(path: Path) -> FileStats:
    """Return how many files the tasks of a database have, also while a server uses it."""
    folder = files_folder(path)
    counts = [0] * 6
    with _reading(path) as db:
        rows = db.execute(
            "SELECT id, length, EXISTS (SELECT 1 FROM file_uses WHERE file=files.id) FROM files"
        )
        for id_, length, is_used in rows:
            is_elsewhere = length > 0 and not (folder / id_[:2] / id_).exists()
            for n, counts_here in enumerate((True, not is_used, is_elsewhere)):
                if counts_here:
                    counts[2 * n] += 1
                    counts[2 * n + 1] += length
    return FileStats(*counts)


def size_of(path: Path) -> int:
    """Return how many bytes a database takes, with what has not found its way from the log into the
    file.
    """
    return sum(file.stat().st_size for file in (path, _log_of(path)) if file.exists())


def unusable(path: Path, error: sqlite3.Error) -> RuntimeError:
    """Return the sentence for a file that can't be opened."""
    if _code(error) in _DAMAGED:
        return RuntimeError(
            f"{path} is damaged: {error}. Restore a copy of it, or use a new one with "
            "--store; what can still be read may be "
            f"saved with SQLite's own tool: sqlite3 {path} .recover"
        )
    return RuntimeError(f"{path} can't be used as a database: {reason(path, error)}")


def reason(path: Path, error: Exception) -> str:
    """Say in plain words why something could not be written."""
    code = _code(error)
    if (code in _STUCK or (isinstance(error, OSError) and error.errno in _NO_ROOM)) and _is_full(
        path.parent
    ):
        return "the disk is full"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another program has locked {path}"
    return str(error)


def _code(error: Exception) -> int:
    # The rest of the number says where it was seen.
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _is_full(folder: Path) -> bool:
    import tempfile  # slow to import

    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            return (probe.write(bytes(_PROBE)) or 0) < _PROBE
    except OSError as error:
        return error.errno in _NO_ROOM


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, opened so that nothing is written; without a log beside it not even one is made."""
    how = "mode=ro" if _log_of(path).exists() else "immutable=1"
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True)
        ) as db:
            yield db
    except sqlite3.DatabaseError as error:
        raise unusable(path, error) from error


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


# Whether it is still there


class Watch:
    """Notices a file that is deleted, replaced or truncated while it is open.

    SQLite would go on writing to a file that has no name any more: all that is acknowledged then is
    lost.
    """

    def __init__(self, path: Path) -> None:
        self._file, self._log = str(path), str(_log_of(path))
        self._identity, self._identity_of_log = _identity(self._file), _identity(self._log)
        self._is_lost = False
        # Open as long as the database is: to close any file of it would give up the locks SQLite
        # holds for this process.
        self._open = [os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))]
        close_in_children(self, lambda watch: watch._open)

    def close(self) -> None:
        """To be called when the database is closed."""
        while self._open:
            os.close(self._open.pop())

    def check(self) -> None:
        """Raise CommitFailed if the file is not the one that was opened. One call of the system: it
        is made for every commit.
        """
        if (found := _identity(self._file)) != self._identity:
            raise _lost(self._file, "deleted" if found is None else "replaced")
        if self._is_lost:
            self.check_all()

    def check_all(self) -> None:
        """The same of the log beside it, and of what is in the file; while something is wrong with
        these, no commit is made.
        """
        self._is_lost = True
        self._check_all()
        self._is_lost = False

    def _check_all(self) -> None:
        if (found := _identity(self._log)) != self._identity_of_log:
            raise _lost(self._log, "deleted" if found is None else "replaced")
        os.lseek(self._open[0], 0, os.SEEK_SET)
        header = os.read(self._open[0], _HEADER)
        if len(header) < _HEADER:
            raise _lost(self._file, "truncated")
        if not header.startswith(_MAGIC):
            raise _lost(self._file, "overwritten")
        page, pages = struct.unpack_from(">H10xI", header, 16)
        if os.fstat(self._open[0]).st_size < pages * (page if page != 1 else 65536):
            raise _lost(self._file, "truncated")


def _lost(file: str, how: str) -> CommitFailed:
    return CommitFailed(
        f"the database file {file} was {how} while it was in use; put it back or restart"
    )


def _identity(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino
