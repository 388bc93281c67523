"""API keys in the database of an agent's tasks. Also to be used without a server."""

import time
from typing import Any

from ..keys import StoredApiKey
from .beside import DatabaseTable, OpenDatabase

__all__ = ["PostgresKeys"]

KNOWN_S = 5.0  # for which a key is not read again: so long a replica may accept a revoked one
KNOWN = 10_000
_COLUMNS = "id, name, digest, created_ms, tenant, scopes, expires_ms, used_ms, revoked_ms"


class PostgresKeys(DatabaseTable):
    """The keys in one database."""

    def __init__(self, database: OpenDatabase) -> None:
        super().__init__(database)
        self._known: dict[str, tuple[float, StoredApiKey]] = {}

    async def add(self, key: StoredApiKey) -> None:
        await self._query(
            f"INSERT INTO {{s}}.api_keys ({_COLUMNS}) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9)",
            key.id,
            key.name,
            key.digest,
            key.created_ms,
            key.tenant,
            list(key.scopes),
            key.expires_ms,
            key.used_ms,
            key.revoked_ms,
        )

    async def find(self, id: str) -> StoredApiKey | None:
        known = self._known.get(id)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        rows = await self._read(f"SELECT {_COLUMNS} FROM {{s}}.api_keys WHERE id = $1", id)
        if not rows:
            return None
        if len(self._known) >= KNOWN:
            self._known.clear()
        found = _key_of(rows[0])
        self._known[id] = (time.monotonic() + KNOWN_S, found)
        return found

    async def list(self) -> list[StoredApiKey]:
        rows = await self._query(f"SELECT {_COLUMNS} FROM {{s}}.api_keys ORDER BY created_ms, id")
        return [_key_of(row) for row in rows]

    async def revoke(self, id: str, at_ms: int) -> bool:
        sql = "UPDATE {s}.api_keys SET revoked_ms=$2 WHERE id=$1 AND revoked_ms=0 RETURNING id"
        self._known.pop(id, None)
        return bool(await self._query(sql, id, at_ms))

    async def use(self, id: str, at_ms: int) -> None:
        self._known.pop(id, None)
        await self._query("UPDATE {s}.api_keys SET used_ms=$2 WHERE id=$1", id, at_ms)


def _key_of(row: Any) -> StoredApiKey:
    id_, name, digest, created_ms, tenant, scopes, expires_ms, used_ms, revoked_ms = row
    return StoredApiKey(
        id_,
        name,
        bytes(digest),
        created_ms,
        tenant,
        tuple(scopes),
        expires_ms,
        used_ms,
        revoked_ms,
    )
