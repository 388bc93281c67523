"""Results of probes and checks in the database: single ones for two weeks, hours for over a
year.
"""

from typing import Any

import msgspec

from ...check import CheckReport
from ...store import Database, Sql
from .health import Speed

__all__ = ["HourResult", "ProbeResults"]

HOUR_MS, DAY_MS = 3600 * 1000, 24 * 3600 * 1000
RAW_MS, HOURS_MS = 14 * DAY_MS, 400 * DAY_MS
_RECENT, _ENOUGH = 100, 20  # probes
_UNKNOWN = -1  # milliseconds


class HourResult(msgspec.Struct, frozen=True):
    hour_ms: int
    ok: int
    total: int
    slowest_ms: int


class ProbeResults:
    """Keeps results, and says what they come to."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(
        self, agent: str, at_ms: int, *, is_ok: bool, category: str, ms: int | None
    ) -> None:
        """Store the result of a probe. `ms` is None if its time says nothing about the agent."""
        ms = _UNKNOWN if ms is None else ms
        hour = at_ms - at_ms % HOUR_MS

        async def write(db: Sql) -> None:
            await db.execute(
                "INSERT INTO probes (agent, at_ms, ok, category, ms) VALUES (?,?,?,?,?)",
                *(agent, at_ms, int(is_ok), category, ms),
            )
            await db.execute(
                "INSERT INTO hours (agent, hour_ms, ok, total, slowest_ms) VALUES (?,?,?,1,?) "
                "ON CONFLICT (agent, hour_ms) DO UPDATE SET ok = hours.ok + excluded.ok, "
                "total = hours.total + 1, slowest_ms = CASE WHEN excluded.slowest_ms > "
                "hours.slowest_ms THEN excluded.slowest_ms ELSE hours.slowest_ms END",
                *(agent, hour, int(is_ok), max(ms, 0)),
            )

        await self._db.write(write)

    async def speed(self, agent: str, now: int) -> Speed:
        """How fast and how reliable an agent was."""
        recent = await self._times(agent, now - DAY_MS, _RECENT)
        week = await self._times(agent, now - 7 * DAY_MS, 100 * _RECENT)
        row = await self._db.fetch_one(
            "SELECT SUM(ok) AS ok, SUM(total) AS total FROM hours WHERE agent = ? AND hour_ms > ?",
            *(agent, now - 30 * DAY_MS),
        )
        total = int(row["total"] or 0) if row is not None else 0
        ok = int(row["ok"] or 0) if row is not None else 0
        return Speed(
            _at(recent, 0.5),
            _at(recent, 0.95),
            _at(week, 0.5) if len(week) >= _ENOUGH else None,
            round(ok / total, 5) if total else None,
        )

    async def _times(self, agent: str, since: int, most: int) -> list[int]:
        rows = await self._db.fetch(
            "SELECT ms FROM probes WHERE agent = ? AND at_ms > ? AND ok = 1 AND ms >= 0 "
            f"ORDER BY at_ms DESC LIMIT {most}",
            *(agent, since),
        )
        return sorted(int(row["ms"]) for row in rows)

    async def hours(self, agent: str, since_ms: int) -> list[HourResult]:
        rows = await self._db.fetch(
            "SELECT hour_ms, ok, total, slowest_ms FROM hours WHERE agent = ? AND hour_ms > ? "
            "ORDER BY hour_ms",
            *(agent, since_ms),
        )
        return [HourResult(**row) for row in rows]

    async def keep_checks(self, agent: str, at_ms: int, report: CheckReport) -> None:
        """Keep the evidence of the last run."""
        text = msgspec.json.encode(report.to_dict()).decode()
        await self._db.execute(
            "INSERT INTO checks (agent, at_ms, report) VALUES (?,?,?) "
            "ON CONFLICT (agent) DO UPDATE SET at_ms = excluded.at_ms, report = excluded.report",
            *(agent, at_ms, text),
        )

    async def last_checks(self, agent: str) -> dict[str, Any] | None:
        row = await self._db.fetch_one("SELECT at_ms, report FROM checks WHERE agent = ?", agent)
        if row is None:
            return None
        found: dict[str, Any] = msgspec.json.decode(row["report"])
        return {"at_ms": row["at_ms"], **found}

    async def clean(self, now: int) -> None:
        """Delete what is too old."""
        await self._db.execute("DELETE FROM probes WHERE at_ms < ?", now - RAW_MS)
        await self._db.execute("DELETE FROM hours WHERE hour_ms < ?", now - HOURS_MS)


def _at(times: list[int], share: float) -> float | None:
    return float(times[min(int(share * len(times)), len(times) - 1)]) if times else None
