"""What is known of files, in the file of an agent's tasks."""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from ..contract import Namespace
from ..file_index import MADE, FileUse, Grow, StoredFile, growing_here
from .pushes import TableAccess

__all__ = ["SqliteFileIndex", "refer"]

_COLUMNS = "id, agent, tenant, caller, name, media_type, used_ms, length, size, sha256"
_FREE = "NOT EXISTS (SELECT 1 FROM file_uses WHERE file=files.id)"

# The rule of `may_refer`.
_REFERRED = (
    "UPDATE files SET length=max(length, ?2), sha256=CASE WHEN ?3=x'' THEN sha256 ELSE ?3 END "
    "WHERE id=?1 AND agent=?4 AND (?5='' OR tenant=?5) AND caller=?6"
)


class SqliteFileIndex:
    """The files known to one database."""

    def __init__(self, access: TableAccess) -> None:
        self._access = access

    async def add(self, file: StoredFile) -> None:
        row = (
            *(file.id, *file.namespace, file.name, file.media_type),
            *(file.used_ms, file.length, file.size, file.sha256),
        )
        await self._write(f"INSERT INTO files ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", row)

    async def find(self, id: str) -> StoredFile | None:
        rows = self._read(f"SELECT {_COLUMNS} FROM files WHERE id=? AND used_ms>=0", (id,))
        return _file_of(rows[0]) if rows else None

    async def grow(self, id: str, before: int, length: int, sha256: bytes, at_ms: int) -> bool:
        sql = (
            "UPDATE files SET length=?, sha256=?, used_ms=? "
            "WHERE id=? AND length=? AND sha256=x'' AND used_ms>=0"
        )
        return bool(await self._write(sql, (length, sha256, at_ms, id, before)))

    def growing(self, id: str, before: int) -> AbstractAsyncContextManager[Grow | None]:
        return growing_here(self, id, before)

    async def hold(self, id: str, hold: int, at_ms: int) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            sql = "UPDATE files SET used_ms=? WHERE id=? AND used_ms>=0"
            if not db.execute(sql, (at_ms, id)).rowcount:
                return False
            db.execute("INSERT INTO file_uses (file, task) VALUES (?,?)", (id, hold))
            return True

        is_there: bool = await self._access.write(work, True)
        return is_there

    async def release(self, id: str, hold: int) -> None:
        await self._write("DELETE FROM file_uses WHERE file=? AND task=?", (id, hold))

    async def expire_holds(self, before_ms: int) -> None:
        sql = (
            "DELETE FROM file_uses WHERE task<0 AND file IN (SELECT id FROM files WHERE used_ms<?)"
        )
        await self._write(sql, (before_ms,))

    async def total(self, agent: str, caller: str) -> tuple[int, int]:
        ((size, unfinished),) = self._read(
            "SELECT coalesce(sum(max(length, size)), 0), coalesce(sum(sha256=x'' AND size<>?), 0) "
            "FROM files WHERE agent=? AND caller=?",
            (MADE, agent, caller),
        )
        return size, unfinished

    async def unused(self, before_ms: int, limit: int) -> list[str]:
        sql = f"SELECT id FROM files WHERE used_ms<? AND {_FREE} ORDER BY used_ms LIMIT ?"
        return [id_ for (id_,) in self._read(sql, (before_ms, limit))]

    async def doom(self, id: str, before_ms: int) -> bool:
        sql = f"UPDATE files SET used_ms=-1 WHERE id=? AND used_ms<? AND {_FREE}"
        return bool(await self._write(sql, (id, before_ms)))

    async def remove(self, id: str) -> None:
        await self._write("DELETE FROM files WHERE id=?", (id,))

    async def ids(self, after: str, limit: int) -> list[str]:
        sql = "SELECT id FROM files WHERE id>? ORDER BY id LIMIT ?"
        return [id_ for (id_,) in self._read(sql, (after, limit))]

    async def sums(self) -> tuple[int, int]:
        ((count, size),) = self._read("SELECT count(*), coalesce(sum(length), 0) FROM files", ())
        return count, size

    def _read(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        with self._access.reading() as db:
            return db.execute(sql, values).fetchall()

    async def _write(self, sql: str, values: tuple[Any, ...]) -> int:
        changed: int = await self._access.write(lambda db: db.execute(sql, values).rowcount, True)
        return changed


def refer(db: sqlite3.Connection, task: int, namespace: Namespace, uses: Sequence[FileUse]) -> None:
    """Store the references that came with an item of a task, and end the holds of their files."""
    for use in uses:
        values = (use.id, use.length, use.sha256, *namespace)
        if db.execute(_REFERRED, values).rowcount:
            db.execute("DELETE FROM file_uses WHERE file=? AND task<0", (use.id,))
            db.execute("INSERT OR IGNORE INTO file_uses (file, task) VALUES (?,?)", (use.id, task))


def _file_of(row: tuple[Any, ...]) -> StoredFile:
    id_, agent, tenant, caller, name, media_type, used_ms, length, size, sha256 = row
    namespace = Namespace(agent, tenant, caller)
    return StoredFile(id_, namespace, name, media_type, used_ms, length, size, bytes(sha256))
