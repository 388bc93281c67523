"""Tables beside the tasks, in the file of an open store."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from ...model import Unavailable
from ..contract import CommitFailed
from ..sql import Database, Work, at_once
from .statements import SqliteSql
from .worker import Worker

__all__ = ["SqliteDatabase", "WriterThread"]

T = TypeVar("T")


class WriterThread:
    """The thread of a store that writes, and its transactions."""

    def __init__(
        self, worker: Worker, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]]
    ) -> None:
        self._worker = worker
        self._transaction = transaction

    def do(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        def write() -> T:
            with self._transaction() as db:
                return work(db)

        return self._worker.do(write)


class SqliteDatabase(Database):
    """Writes in the store's own thread, one transaction at a time, so that a commit of tasks waits
    for one of them at most. Reads in a thread of its own.
    """

    is_shared = False

    def __init__(self, place: str, now_ms: Callable[[], int]) -> None:
        self.place = place
        self.id = str(Path(place).absolute())
        self.now_ms = now_ms
        self._writer: WriterThread | None = None
        self._reader: Worker | None = None

    def open(self, writer: WriterThread, connection: sqlite3.Connection) -> None:
        """Use the threads of a store that is open, and a connection for reading."""
        self._writer, self._connection = writer, connection
        self._writing = asyncio.Lock()
        self._reader = Worker("accord-sqlite-beside")

    async def close(self) -> None:
        """Return when all that was begun is done."""
        if self._reader is None:
            return
        async with self._writing:
            self._writer = None
        reader, self._reader = self._reader, None
        await reader.stop()
        self._connection.close()

    async def write(self, work: Work[T]) -> T:
        if self._reader is None:
            raise Unavailable(f"{self.place} is closed")
        async with self._writing:
            if self._writer is None:
                raise Unavailable(f"{self.place} is closed")
            doing = self._writer.do(lambda db: at_once(work(SqliteSql(db))))
            try:
                return await asyncio.shield(doing)
            except asyncio.CancelledError:  # the next one begins when this one has ended
                await asyncio.wait({doing})
                raise
            except (sqlite3.Error, CommitFailed) as error:
                raise Unavailable(f"{self.place} can't be used: {error}") from error

    async def read(self, work: Work[T]) -> T:
        if self._reader is None:
            raise Unavailable(f"{self.place} is closed")

        def snapshot() -> T:
            self._connection.execute("BEGIN")
            try:
                return at_once(work(SqliteSql(self._connection)))
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")

        try:
            return await self._reader.do(snapshot)
        except sqlite3.Error as error:
            raise Unavailable(f"{self.place} can't be used: {error}") from error
