"""What waits for a person, and what they should know of."""

import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from ...store import Database, Sql, SqlRow
from ..errors import EntryNotFound
from .audit import Audit

if TYPE_CHECKING:
    from ..access import Principal

__all__ = ["Alert", "Inbox"]


KEPT_MS = 90 * 24 * 3600 * 1000  # that a closed alert is kept


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

    def __init__(self, db: Database, audit: Audit) -> None:
        self._db = db
        self._audit = audit

    async def add(
        self,
        kind: str,
        agent: str,
        said: str,
        detail: Any = None,
        *,
        within: Sql | None = None,
    ) -> None:
        if within is None:
            return await self._db.write(lambda db: self.add(kind, agent, said, detail, within=db))
        await within.execute(
            "INSERT INTO alerts (id, at_ms, kind, agent, said, detail, done_ms) "
            "VALUES (?,?,?,?,?,?,0)",
            *(secrets.token_hex(8), self._db.now_ms(), kind, agent, said),
            msgspec.json.encode(detail).decode(),
        )

    async def close(self, agent: str, kind: str = "", *, within: Sql) -> None:
        """Close what is open about an agent: of one kind, or all of it."""
        await within.execute(
            "UPDATE alerts SET done_ms = ? WHERE agent = ? AND ? IN ('', kind) AND done_ms = 0",
            *(self._db.now_ms(), agent, kind),
        )

    async def purge(self) -> None:
        """Delete what was closed long ago."""
        before_ms = self._db.now_ms() - KEPT_MS
        await self._db.execute("DELETE FROM alerts WHERE done_ms > 0 AND done_ms < ?", before_ms)

    async def dismiss(self, by: "Principal", id: str) -> None:
        """Close an alert. The audit log says who did it, and what the alert was about."""

        async def work(db: Sql) -> None:
            row = await db.fetch_one(
                "SELECT kind, agent FROM alerts WHERE id = ? AND done_ms = 0", id
            )
            closed = "UPDATE alerts SET done_ms = ? WHERE id = ? AND done_ms = 0"
            if row is None or not await db.execute(closed, self._db.now_ms(), id):
                raise EntryNotFound(
                    f"there is no open alert {id[:80]!r}",
                    fix="see which there are with: accord hub inbox",
                )
            await self._audit.write(
                by.name, "alert.dismiss", row["agent"], {"id": id, "kind": row["kind"]}, within=db
            )

        await self._db.write(work)

    async def dismiss_all(self, by: "Principal", kind: str) -> int:
        """Close every open alert of a kind, and return how many there were. The audit log says so
        once.
        """

        async def work(db: Sql) -> int:
            closed = await db.execute(
                "UPDATE alerts SET done_ms = ? WHERE kind = ? AND done_ms = 0",
                *(self._db.now_ms(), kind),
            )
            if closed:
                await self._audit.write(
                    by.name, "alert.dismiss", "", {"kind": kind, "count": closed}, within=db
                )
            return closed

        return await self._db.write(work)

    async def count_by_kind(self, *, owner: str | None = None) -> dict[str, int]:
        """Return how many alerts of each kind are open, however many are listed."""
        own = "AND agent IN (SELECT name FROM agents WHERE owner = ?) " if owner is not None else ""
        rows = await self._db.fetch(
            f"SELECT kind, COUNT(*) AS n FROM alerts WHERE done_ms = 0 {own}GROUP BY kind",
            *([] if owner is None else [owner]),
        )
        return {str(row["kind"]): int(row["n"]) for row in rows}

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


def _alert_of(row: SqlRow) -> Alert:
    return msgspec.convert({**row, "detail": msgspec.json.decode(row["detail"])}, Alert)
