"""Connections for the bytes of files, apart from those of the tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from .connect import BROKEN, open_session
from .options import PostgresOptions

__all__ = ["FileSessions"]

CONNECTIONS = 4


class FileSessions:
    """A few connections that are kept: a file that takes long holds up no task."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._idle: list[Any] = []
        self._places = asyncio.Semaphore(CONNECTIONS)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Borrow a connection. What the database raises comes through, and ends the connection."""
        async with self._places:
            db = None
            try:
                while self._idle and (db is None or db.is_closed()):
                    db = self._idle.pop()
                if db is None or db.is_closed():
                    db = await open_session(self._options)
                yield db
            except (*BROKEN, asyncio.CancelledError):
                if db is not None:
                    db.terminate()
                raise
            finally:
                if db is not None and not db.is_closed():
                    self._idle.append(db)

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for db in idle:
            await db.close()
