"""What is known of files, in the database of an agent's tasks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ...model import Unavailable
from ..contract import CommitFailed, Namespace
from ..file_index import MADE, Grow, StoredFile
from .beside import DatabaseTable, OpenDatabase
from .connect import BROKEN, transaction
from .sessions import FileSessions

__all__ = ["PostgresFileIndex"]

_COLUMNS = "id, agent, tenant, caller, name, media_type, used_ms, length, size, sha256"
_FREE = "NOT EXISTS (SELECT FROM {s}.file_uses u WHERE u.file = files.id)"


_GROWS = "id = $1 AND length = $2 AND sha256 = '' AND used_ms >= 0"
_GROW = f"UPDATE {{s}}.files SET length = $3, sha256 = $4, used_ms = $5 WHERE {_GROWS} RETURNING id"
WRITE_TIMEOUT = "120s"  # a bucket may be slow to take what is written


class PostgresFileIndex(DatabaseTable):
    """The files known to one database."""

    def __init__(self, database: OpenDatabase) -> None:
        super().__init__(database)
        self._sessions = FileSessions(database.options)

    async def add(self, file: StoredFile) -> None:
        await self._query(
            f"INSERT INTO {{s}}.files ({_COLUMNS}) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)",
            *(file.id, *file.namespace, file.name, file.media_type),
            *(file.used_ms, file.length, file.size, file.sha256),
        )

    async def find(self, id: str) -> StoredFile | None:
        rows = await self._read(
            f"SELECT {_COLUMNS} FROM {{s}}.files WHERE id = $1 AND used_ms >= 0", id
        )
        return _file_of(rows[0]) if rows else None

    @asynccontextmanager
    async def growing(self, id: str, before: int) -> AsyncIterator[Grow | None]:
        # The row is locked while the bytes are written: another process waits, and then finds that
        # it has another length. A process that dies lets go of it.
        try:
            async with (
                self._sessions.connection() as db,
                transaction(db, idle_in_transaction_session_timeout=WRITE_TIMEOUT),
            ):

                async def grow(length: int, sha256: bytes, at_ms: int) -> bool:
                    values = (id, before, length, sha256, at_ms)
                    return bool(
                        await db.fetch(_GROW.replace("{s}", self._db.options.schema), *values)
                    )

                sql = f"SELECT FROM {self._db.options.schema}.files WHERE {_GROWS} FOR UPDATE"
                yield grow if await db.fetch(sql, id, before) else None
        except BROKEN as error:
            raise Unavailable(f"the database can't be used: {error}", retry_after_s=5) from error

    async def close(self) -> None:
        await self._sessions.close()

    async def grow(self, id: str, before: int, length: int, sha256: bytes, at_ms: int) -> bool:
        return bool(await self._query(_GROW, id, before, length, sha256, at_ms))

    async def hold(self, id: str, hold: int, at_ms: int) -> bool:
        sql = (
            "WITH there AS (UPDATE {s}.files SET used_ms = $3 WHERE id = $1 AND used_ms >= 0 "
            "RETURNING id) INSERT INTO {s}.file_uses (file, task) SELECT id, $2 FROM there "
            "RETURNING file"
        )
        return bool(await self._query(sql, id, hold, at_ms))

    async def release(self, id: str, hold: int) -> None:
        await self._query("DELETE FROM {s}.file_uses WHERE file = $1 AND task = $2", id, hold)

    async def expire_holds(self, before_ms: int) -> None:
        sql = (
            "DELETE FROM {s}.file_uses u USING {s}.files f "
            "WHERE u.task < 0 AND f.id = u.file AND f.used_ms < $1"
        )
        await self._query(sql, before_ms)

    async def total(self, agent: str, caller: str) -> tuple[int, int]:
        ((size, unfinished),) = await self._read(
            "SELECT coalesce(sum(greatest(length, size)), 0)::bigint, "
            "count(*) FILTER (WHERE sha256 = '' AND size <> $3) "
            "FROM {s}.files WHERE agent = $1 AND caller = $2",
            *(agent, caller, MADE),
        )
        return size, unfinished

    async def unused(self, before_ms: int, limit: int) -> list[str]:
        sql = (
            f"SELECT id FROM {{s}}.files files WHERE used_ms < $1 AND {_FREE} "
            "ORDER BY used_ms LIMIT $2"
        )
        return [id_ for (id_,) in await self._read(sql, before_ms, limit)]

    async def doom(self, id: str, before_ms: int) -> bool:
        # Who refers to the file or holds it writes to its row too. A statement that waits for the
        # row does not see the reference for which it waited; the one after it does.
        schema = self._db.options.schema
        doom = f"UPDATE {{s}}.files SET used_ms = -1 WHERE id = $1 AND {_FREE} RETURNING id"
        lock = "SELECT FROM {s}.files WHERE id = $1 AND used_ms < $2 FOR UPDATE"
        try:
            async with self._sessions.connection() as db, transaction(db):
                if not await db.fetch(lock.replace("{s}", schema), id, before_ms):
                    return False
                return bool(await db.fetch(doom.replace("{s}", schema), id))
        except BROKEN as error:
            raise CommitFailed(f"the database can't be used: {error}") from error

    async def remove(self, id: str) -> None:
        await self._query("DELETE FROM {s}.files WHERE id = $1", id)

    async def ids(self, after: str, limit: int) -> list[str]:
        sql = "SELECT id FROM {s}.files WHERE id > $1 ORDER BY id LIMIT $2"
        return [id_ for (id_,) in await self._read(sql, after, limit)]

    async def sums(self) -> tuple[int, int]:
        sql = "SELECT count(*), coalesce(sum(length), 0)::bigint FROM {s}.files"
        ((count, size),) = await self._read(sql)
        return count, size


def _file_of(row: Any) -> StoredFile:
    id_, agent, tenant, caller, name, media_type, used_ms, length, size, sha256 = row
    namespace = Namespace(agent, tenant, caller)
    return StoredFile(id_, namespace, name, media_type, used_ms, length, size, bytes(sha256))
