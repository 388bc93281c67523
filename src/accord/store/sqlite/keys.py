"""API keys in the file of an agent's tasks. Also to be used while a server uses the file: a key has
to be revoked without stopping it.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..contract import CommitFailed
from ..keys import StoredApiKey
from .files import check_file, hold, reason, unusable
from .migrations import migrate, newest

__all__ = ["SqliteKeys"]

_COLUMNS = "id, name, digest, created_ms, tenant, scopes, expires_ms, used_ms, revoked_ms"
PATIENCE_S = 5.0  # for another process to end its commit


class SqliteKeys:
    """The keys in one file. It has a connection of its own, opened at the first use."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._db: sqlite3.Connection | None = None

    async def prepare(self) -> None:
        if check_file(self.path) == newest():
            return
        with (
            contextlib.closing(hold(self.path)),
            contextlib.closing(self._connect()) as db,
        ):
            db.execute("PRAGMA journal_mode = WAL")
            migrate(db)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    async def add(self, key: StoredApiKey) -> None:
        row = (
            key.id,
            key.name,
            key.digest,
            key.created_ms,
            key.tenant,
            " ".join(key.scopes),
            key.expires_ms,
            key.used_ms,
            key.revoked_ms,
        )
        await self._write(f"INSERT INTO api_keys ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", row)

    async def find(self, id: str) -> StoredApiKey | None:
        # On the loop: in WAL mode a reader never waits, and a thread would cost more than the read.
        with self._reading() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM api_keys WHERE id=?", (id,)).fetchone()
        return _key_of(row) if row is not None else None

    async def list(self) -> list[StoredApiKey]:
        with self._reading() as db:
            rows = db.execute(f"SELECT {_COLUMNS} FROM api_keys ORDER BY created_ms, id").fetchall()
        return [_key_of(row) for row in rows]

    async def revoke(self, id: str, at_ms: int) -> bool:
        sql = "UPDATE api_keys SET revoked_ms=? WHERE id=? AND revoked_ms=0"
        return bool(await self._write(sql, (at_ms, id)))

    async def use(self, id: str, at_ms: int) -> None:
        await self._write("UPDATE api_keys SET used_ms=? WHERE id=?", (at_ms, id))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._db is None:
                self._db = self._connect()
            yield self._db
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
        return sqlite3.connect(
            self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
        )


def _key_of(row: tuple[Any, ...]) -> StoredApiKey:
    id_, name, digest, created_ms, tenant, scopes, expires_ms, used_ms, revoked_ms = row
    return StoredApiKey(
        id_,
        name,
        bytes(digest),
        created_ms,
        tenant,
        tuple(scopes.split()),
        expires_ms,
        used_ms,
        revoked_ms,
    )
