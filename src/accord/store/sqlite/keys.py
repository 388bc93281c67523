"""API keys in the file of an agent's tasks. Also to be used while a server uses the file: a key has
to be revoked without stopping it.
"""

from ..keys import COLUMNS, INSERT, REVOKE, StoredApiKey
from ..sql import Sql
from .beside import FileTable

__all__ = ["SqliteKeys"]


class SqliteKeys(FileTable):
    """The keys in one file."""

    async def add(self, key: StoredApiKey, *, within: Sql | None = None) -> None:
        if within is not None:
            await within.execute(INSERT, *key.row)
        else:
            await self._write(INSERT, key.row)

    async def find(self, id: str) -> StoredApiKey | None:
        with self._reading() as db:
            row = db.execute(f"SELECT {COLUMNS} FROM api_keys WHERE id=?", (id,)).fetchone()
        return StoredApiKey.of_row(row) if row is not None else None

    async def list(self) -> list[StoredApiKey]:
        with self._reading() as db:
            rows = db.execute(f"SELECT {COLUMNS} FROM api_keys ORDER BY created_ms, id").fetchall()
        return [StoredApiKey.of_row(row) for row in rows]

    async def revoke(self, id: str, at_ms: int, *, within: Sql | None = None) -> bool:
        if within is not None:
            return bool(await within.execute(REVOKE, at_ms, id))
        return bool(await self._write(REVOKE, (at_ms, id)))

    async def use(self, id: str, at_ms: int) -> None:
        await self._write("UPDATE api_keys SET used_ms=? WHERE id=?", (at_ms, id))
