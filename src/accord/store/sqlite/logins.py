"""Logins at the console, in the file of an agent's tasks: a link can be made while a server uses
the file.
"""

from typing import Any

from ..logins import StoredLogin
from .beside import FileTable

__all__ = ["SqliteLogins"]

_COLUMNS = "id, digest, created_ms, seen_ms, is_link, browser, caller"


class SqliteLogins(FileTable):
    """The logins in one file."""

    async def add(self, login: StoredLogin) -> None:
        row = (
            login.id,
            login.digest,
            login.created_ms,
            login.seen_ms,
            login.is_link,
            login.browser,
            login.caller,
        )
        await self._write(f"INSERT INTO logins ({_COLUMNS}) VALUES (?,?,?,?,?,?,?)", row)

    async def find(self, id: str) -> StoredLogin | None:
        with self._reading() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM logins WHERE id=?", (id,)).fetchone()
        return _login_of(row) if row is not None else None

    async def list(self) -> list[StoredLogin]:
        with self._reading() as db:
            rows = db.execute(f"SELECT {_COLUMNS} FROM logins ORDER BY created_ms, id").fetchall()
        return [_login_of(row) for row in rows]

    async def remove(self, id: str) -> bool:
        return bool(await self._write("DELETE FROM logins WHERE id=?", (id,)))

    async def use(self, id: str, at_ms: int) -> None:
        await self._write("UPDATE logins SET seen_ms=? WHERE id=?", (at_ms, id))


def _login_of(row: tuple[Any, ...]) -> StoredLogin:
    id_, digest, created_ms, seen_ms, is_link, browser, caller = row
    return StoredLogin(id_, bytes(digest), created_ms, seen_ms, bool(is_link), browser, caller)
