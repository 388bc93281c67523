"""Who did what: rows that are only added. Each holds the hash of the one before, so that a row that
was changed or taken out is noticed.
"""

import hashlib
from collections import Counter
from typing import Any

import msgspec

from ...model import now_ms
from .db import Database, Transaction

__all__ = ["Audit", "AuditRow", "RefusedGuests"]

VERIFY_PAGE = 500
FLUSH_S = 60.0
MOST_NAMED = 20


class AuditRow(msgspec.Struct, frozen=True):
    """One thing that somebody did. It never holds content or secrets."""

    n: int
    at_ms: int
    who: str
    did: str
    what: str
    detail: str
    hash: str


class Audit:
    """Writes and reads the audit log."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def write(
        self,
        who: str,
        did: str,
        what: str,
        detail: Any = None,
        *,
        within: Transaction | None = None,
    ) -> None:
        """Add a row: within a transaction, so that a change and its row are stored together, or by
        itself.
        """
        if within is None:
            async with self._db.transaction() as db:
                await self.write(who, did, what, detail, within=db)
            return
        await within.lock()  # one chain: rows are added one after the other
        last = await within.fetch_one("SELECT n, hash FROM audit ORDER BY n DESC LIMIT 1")
        n, before = (last["n"] + 1, last["hash"]) if last is not None else (1, "")
        text = "" if detail is None else msgspec.json.encode(detail).decode()
        row = AuditRow(n, now_ms(), who, did, what, text, "")
        await within.execute(
            "INSERT INTO audit (n, at_ms, who, did, what, detail, hash) VALUES (?,?,?,?,?,?,?)",
            *(n, row.at_ms, who, did, what, text, _hash(row, before)),
        )

    async def rows(self, *, before: int = 0, limit: int = 100, what: str = "") -> list[AuditRow]:
        """Return rows, the newest first."""
        conditions, values = ["n < ?"], [before or 1 << 60]
        extra: list[Any] = []
        if what:
            conditions.append("what = ?")
            extra.append(what)
        sql = f"SELECT * FROM audit WHERE {' AND '.join(conditions)} ORDER BY n DESC LIMIT ?"
        found = await self._db.fetch(sql, *values, *extra, limit)
        return [msgspec.convert(row, AuditRow) for row in found]

    async def verify(self) -> str:
        """Return what is wrong with the log; empty if nothing is."""
        before, n = "", 0
        while True:  # in pages: the log may be larger than the memory
            rows = await self._db.fetch(
                "SELECT * FROM audit WHERE n > ? ORDER BY n LIMIT ?", n, VERIFY_PAGE
            )
            for found in rows:
                row, n = msgspec.convert(found, AuditRow), n + 1
                if row.n != n:
                    return f"row {n} is missing"
                if _hash(row, before) != row.hash:
                    return f"row {n} was changed"
                before = row.hash
            if len(rows) < VERIFY_PAGE:
                return ""


class RefusedGuests:
    """Counts calls of guests that were refused: anybody can make as many as they like, so they get
    one row in the log per minute, and none if there were none.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._calls: Counter[str] = Counter()  # by agent; empty for the REST interface

    def count(self, agent: str = "") -> None:
        """Count a call to an agent that is there, or a request to the REST interface."""
        self._calls[agent] += 1

    async def flush(self) -> None:
        """Write what was counted since the last time."""
        if not self._calls:
            return
        calls, self._calls = self._calls, Counter()
        named = {agent: count for agent, count in calls.most_common(MOST_NAMED) if agent}
        detail = {"calls": calls.total(), "agents": named}
        await self._audit.write("guest", "refused", "*", detail)


def _hash(row: AuditRow, before: str) -> str:
    body = [before, row.n, row.at_ms, row.who, row.did, row.what, row.detail]
    return hashlib.sha256(msgspec.json.encode(body)).hexdigest()
