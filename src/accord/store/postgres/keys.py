"""API keys in the database of an agent's tasks. Also to be used without a server."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

from ..contract import CommitFailed
from ..keys import StoredApiKey
from .connect import BROKEN, connected, is_pooled, reason
from .migrations import check, migrate, version
from .options import PostgresOptions

__all__ = ["PostgresKeys"]

KNOWN_S = 5.0  # for which a key is not read again: so long a replica may accept a revoked one
KNOWN = 10_000
_COLUMNS = "id, name, digest, created_ms, tenant, scopes, expires_ms, used_ms, revoked_ms"


class OpenDatabase(Protocol):
    """A store, which has a pool of connections while it is open."""

    options: PostgresOptions

    @property
    def is_open(self) -> bool: ...

    async def fetch(self, sql: str, *values: Any) -> list[Any]: ...

    async def write(self, sql: str, *values: Any) -> list[Any]: ...


class PostgresKeys:
    """The keys in one database."""

    def __init__(self, database: OpenDatabase) -> None:
        self._db = database
        self._known: dict[str, tuple[float, StoredApiKey]] = {}

    async def prepare(self) -> None:
        options = self._db.options
        try:
            async with connected(options, pooled=await is_pooled(options)) as db:
                check(options.place, *await version(db, options.schema))
                await migrate(db, options.schema)
        except BROKEN as error:
            raise RuntimeError(f"the database can't be used: {reason(options, error)}") from error

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
        sql = f"SELECT {_COLUMNS} FROM {{s}}.api_keys WHERE id = $1"
        rows = await (self._db.fetch(sql, id) if self._db.is_open else self._query(sql, id))
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

    async def _query(self, sql: str, *values: Any) -> Sequence[Any]:
        """Through the pool of the store or, if that is not open, a connection of our own."""
        if self._db.is_open:
            return await self._db.write(sql, *values)
        options = self._db.options
        try:
            async with connected(options, pooled=await is_pooled(options)) as db:
                found: Sequence[Any] = await db.fetch(sql.replace("{s}", options.schema), *values)
                return found
        except BROKEN as error:
            raise CommitFailed(reason(options, error)) from error


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
