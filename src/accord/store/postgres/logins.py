"""Logins at the console, in the database of an agent's tasks: all its processes share them."""

from typing import Any

from ..logins import StoredLogin
from .beside import DatabaseTable

__all__ = ["PostgresLogins"]

_COLUMNS = "id, digest, created_ms, seen_ms, is_link, browser, caller"


class PostgresLogins(DatabaseTable):
    """The logins in one database."""

    async def add(self, login: StoredLogin) -> None:
        await self._query(
            f"INSERT INTO {{s}}.logins ({_COLUMNS}) VALUES ($1,$2,$3,$4,$5,$6,$7)",
            login.id,
            login.digest,
            login.created_ms,
            login.seen_ms,
            login.is_link,
            login.browser,
            login.caller,
        )

    async def find(self, id: str) -> StoredLogin | None:
        rows = await self._read(f"SELECT {_COLUMNS} FROM {{s}}.logins WHERE id = $1", id)
        return _login_of(rows[0]) if rows else None

    async def list(self) -> list[StoredLogin]:
        rows = await self._read(f"SELECT {_COLUMNS} FROM {{s}}.logins ORDER BY created_ms, id")
        return [_login_of(row) for row in rows]

    async def remove(self, id: str) -> bool:
        return bool(await self._query("DELETE FROM {s}.logins WHERE id = $1 RETURNING id", id))

    async def use(self, id: str, at_ms: int) -> None:
        await self._query("UPDATE {s}.logins SET seen_ms=$2 WHERE id=$1", id, at_ms)


def _login_of(row: Any) -> StoredLogin:
    id_, digest, created_ms, seen_ms, is_link, browser, caller = row
    return StoredLogin(id_, bytes(digest), created_ms, seen_ms, is_link, browser, caller)
