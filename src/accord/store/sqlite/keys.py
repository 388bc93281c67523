"""API keys in the file of an agent's tasks. Also to be used while a server uses the file: a key has
to be revoked without stopping it.
"""

from typing import Any

from ..keys import StoredApiKey
from .beside import FileTable

__all__ = ["SqliteKeys"]

_COLUMNS = "id, name, digest, created_ms, tenant, scopes, expires_ms, used_ms, revoked_ms"


class SqliteKeys(FileTable):
    """The keys in one file."""

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
