"""What waits for a person, and what they should know of."""

import secrets
from typing import Any

import msgspec

from ...model import now_ms
from ..errors import EntryNotFound
from .db import Database, Row, Transaction

__all__ = ["Alert", "Inbox"]


class Alert(msgspec.Struct, frozen=True):
    """Something for a person. `approval` and `card` wait for a decision, the others are news."""

    id: str
    at_ms: int
    kind: str
    agent: str
    said: str
    detail: Any
    done_ms: int  # 0: still open


class Inbox:
    """Alerts, in the database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(
        self,
        kind: str,
        agent: str,
        said: str,
        detail: Any = None,
        *,
        within: Transaction | None = None,
    ) -> None:
        if within is None:
            async with self._db.transaction() as db:
                await self.add(kind, agent, said, detail, within=db)
            return
        await within.execute(
            "INSERT INTO alerts (id, at_ms, kind, agent, said, detail, done_ms) "
            "VALUES (?,?,?,?,?,?,0)",
            *(secrets.token_hex(8), now_ms(), kind, agent, said),
            msgspec.json.encode(detail).decode(),
        )

    async def close(self, agent: str, kind: str, *, within: Transaction) -> None:
        """What waited for a decision is decided."""
        await within.execute(
            "UPDATE alerts SET done_ms = ? WHERE agent = ? AND kind = ? AND done_ms = 0",
            *(now_ms(), agent, kind),
        )

    async def dismiss(self, id: str) -> None:
        count = await self._db.execute(
            "UPDATE alerts SET done_ms = ? WHERE id = ? AND done_ms = 0", now_ms(), id
        )
        if not count:
            raise EntryNotFound(f"there is no open alert {id[:80]!r}", fix="accord hub inbox")

    async def open_alerts(self, limit: int = 200, *, owner: str | None = None) -> list[Alert]:
        """Return what is open: what waits for a decision before news, so that no amount of news
        hides it, and the oldest first. With `owner` only what is about that caller's entries.
        """
        own = "AND agent IN (SELECT name FROM agents WHERE owner = ?) " if owner is not None else ""
        rows = await self._db.fetch(
            "SELECT id, at_ms, kind, agent, said, detail, done_ms FROM alerts WHERE done_ms = 0 "
            f"{own}ORDER BY CASE WHEN kind IN ('approval', 'card') THEN 0 ELSE 1 END, "
            "at_ms, id LIMIT ?",
            *([] if owner is None else [owner]),
            limit,
        )
        return [_alert_of(row) for row in rows]

    async def count_open(self, *, owner: str | None = None) -> int:
        """Return how many alerts are open, however many are listed."""
        own = "AND agent IN (SELECT name FROM agents WHERE owner = ?)" if owner is not None else ""
        row = await self._db.fetch_one(
            f"SELECT COUNT(*) AS n FROM alerts WHERE done_ms = 0 {own}",
            *([] if owner is None else [owner]),
        )
        return int(row["n"]) if row is not None else 0


def _alert_of(row: Row) -> Alert:
    return msgspec.convert({**row, "detail": msgspec.json.decode(row["detail"])}, Alert)
