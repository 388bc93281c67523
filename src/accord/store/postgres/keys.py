"""API keys in the database of an agent's tasks. Also to be used without a server."""

from ..keys import COLUMNS, INSERT, REVOKE, StoredApiKey
from ..sql import Sql, numbered
from .beside import DatabaseTable

__all__ = ["PostgresKeys"]


class PostgresKeys(DatabaseTable):
    """The keys in one database."""

    async def add(self, key: StoredApiKey, *, within: Sql | None = None) -> None:
        if within is not None:
            await within.execute(INSERT, *key.row)
        else:
            await self._query(_of_schema(INSERT), *key.row)

    async def find(self, id: str) -> StoredApiKey | None:
        rows = await self._read(f"SELECT {COLUMNS} FROM {{s}}.api_keys WHERE id = $1", id)
        return StoredApiKey.of_row(rows[0]) if rows else None

    async def list(self) -> list[StoredApiKey]:
        rows = await self._query(f"SELECT {COLUMNS} FROM {{s}}.api_keys ORDER BY created_ms, id")
        return [StoredApiKey.of_row(row) for row in rows]

    async def revoke(self, id: str, at_ms: int, *, within: Sql | None = None) -> bool:
        if within is not None:
            return bool(await within.execute(REVOKE, at_ms, id))
        return bool(await self._query(f"{_of_schema(REVOKE)} RETURNING id", at_ms, id))

    async def use(self, id: str, at_ms: int) -> None:
        await self._query("UPDATE {s}.api_keys SET used_ms=$2 WHERE id=$1", id, at_ms)


def _of_schema(sql: str) -> str:
    """Return a statement on the keys with the place of the schema's name, and numbered values."""
    return numbered(sql).replace("api_keys", "{s}.api_keys", 1)
