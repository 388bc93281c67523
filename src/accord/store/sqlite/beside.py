"""Tables in the file of an agent's tasks that are used beside the tasks, also by other processes
while a server uses the file.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...model import Unavailable
from ..clock import StoreClock, SystemClock
from ..contract import CommitFailed
from ..migrations import newest
from ..parts import TASKS
from .files import check_file, hold, reason, unusable
from .schema import migrate_file

__all__ = ["FileTable"]

PATIENCE_S = 5.0  # for another process to end its commit


class FileTable:
    """Reads and writes a table of one file. It has a connection of its own, opened at the first
    use.
    """

    def __init__(self, path: str | os.PathLike[str], clock: StoreClock | None = None) -> None:
        self.path = Path(path)
        self.now_ms = (clock or SystemClock()).now_ms
        self._db: sqlite3.Connection | None = None

    async def prepare(self) -> None:
        """Make the file, and the tables in it, if they are not there."""
        if check_file(self.path) == newest():
            return
        with (
            contextlib.closing(hold(self.path)),
            contextlib.closing(self._connect()) as db,
        ):
            db.execute("PRAGMA journal_mode = WAL")
            migrate_file(db, self.path, TASKS)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """On the loop: in WAL mode a reader never waits, and a thread would cost more than the
        read.
        """
        try:
            if self._db is None:
                self._db = self._connect()
            yield self._db
        except sqlite3.OperationalError as error:  # locked, full, gone: it may be there again
            raise Unavailable(reason(self.path, error), retry_after_s=5) from error
        except sqlite3.DatabaseError as error:
            raise unusable(self.path, error) from error

    async def _write(self, sql: str, values: tuple[Any, ...]) -> int:
        """In a thread: another process may be writing. The connection is that thread's alone."""

        def work() -> int:
            with contextlib.closing(self._connect()) as db:
                db.execute("PRAGMA synchronous = FULL")
                return db.execute(sql, values).rowcount

        try:
            return await asyncio.to_thread(work)
        except sqlite3.Error as error:
            raise CommitFailed(reason(self.path, error)) from error

    def _connect(self) -> sqlite3.Connection:
        """Raises sqlite3.OperationalError: The file was emptied while its log was in use. SQLite
        would take the log for one that is left over, and delete it.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        if log.exists() and not self.path.stat().st_size:
            raise sqlite3.OperationalError("the file is empty, though there is a log beside it")
        return sqlite3.connect(
            self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
        )
