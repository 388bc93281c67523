"""How agents are: what probes found out, and what agents say of themselves."""

import msgspec

from ..records import Change, HubRecords
from ..settings import HubSettings
from .entries import Entry, Health
from .registry import Registry
from .rows import health_of, json_of

__all__ = ["HealthRecords"]


class HealthRecords:
    """Stores how agents are, and puts news in the inbox."""

    def __init__(
        self,
        registry: Registry,
        records: HubRecords,
        settings: HubSettings,
    ) -> None:
        self._registry = registry
        self._records = records
        self._settings = settings

    async def set_health(self, name: str, health: Health, probed_ms: int | None = None) -> Entry:
        """Store how an agent is; a new state is put in the inbox.

        With `probed_ms`, a probe that was begun then found it. An agent that has left comes back by
        its own word; one that fell silent meanwhile is not there because it answered before.
        """
        entry = self._registry.living(name)

        async def write(db: Change) -> None:
            # As it is stored: what was in memory may have changed while this waited for its turn.
            row = await db.fetch_one("SELECT health FROM agents WHERE id = ?", entry.id)
            before = entry.health if row is None else health_of(row)
            if probed_ms is None or not _has_left(before, probed_ms):
                since_ms = before.since_ms
                if health.state != before.state:
                    since_ms = health.since_ms or self._records.db.now_ms()
                    if before.state != "new":
                        said = f"{name} is {health.state}, was {before.state}. {health.sentence}"
                        # Only the last state is news: an agent that comes and goes is one line.
                        await self._records.inbox.close(name, "health", within=db)
                        detail = {"state": health.state}
                        await self._records.inbox.add(
                            "health", name, said.strip(), detail, within=db
                        )
                await db.execute(
                    "UPDATE agents SET health = ?, changed = ? WHERE id = ?",
                    json_of(msgspec.structs.replace(health, since_ms=since_ms)),
                    *(db.changed, entry.id),
                )

        await self._records.changes.write(write)
        return self._registry.by_id(entry.id)

    async def set_score(self, name: str, score: int) -> Entry:
        """Store what the checks of an agent came to."""
        entry = self._registry.living(name)

        async def write(db: Change) -> None:
            await db.execute(
                "UPDATE agents SET score = ?, changed = ? WHERE id = ?",
                *(score, db.changed, entry.id),
            )

        await self._records.changes.write(write)
        return self._registry.by_id(entry.id)

    async def heartbeat(self, name: str, *, is_leaving: bool = False) -> Entry:
        """An agent that registered itself says that it lives, or that it goes."""
        entry = self._registry.living(name)
        now = self._records.db.now_ms()
        await self._records.db.execute(
            "UPDATE agents SET beat_ms = ? WHERE id = ?", 0 if is_leaving else now, entry.id
        )
        # As it is now: it may have been suspended or retired while this was written.
        entry = msgspec.structs.replace(
            self._registry.current(entry), beat_ms=0 if is_leaving else now
        )
        self._registry.note(entry)
        if is_leaving:
            left = Health(state="gone", category="LEFT", sentence="It has left.", at_ms=now)
            return await self.set_health(name, left)
        # What probes found out is theirs to take back.
        if entry.health.state == "new" or entry.health.category in ("NO_HEARTBEAT", "LEFT"):
            return await self.set_health(name, Health(state="up", at_ms=now))
        return entry

    async def miss_heartbeats(self) -> None:
        """Mark as down what has not said for too long that it lives."""
        now, wait_s = (
            self._records.db.now_ms(),
            self._settings.heartbeat_s * self._settings.missed_heartbeats,
        )
        rows = await self._records.db.fetch(
            "SELECT name, settings FROM agents WHERE beat_ms > 0 AND beat_ms < ?",
            now - int(wait_s * 1000),
        )
        for row in rows:
            entry = self._registry.get(row["name"])
            if entry is None or not entry.settings.heartbeats or entry.health.state == "down":
                continue
            sentence = (
                f"It registered itself and has not been heard of for {wait_s:g} s: its process was "
                "killed, or can't reach the hub."
            )
            missed = Health(state="down", category="NO_HEARTBEAT", sentence=sentence, at_ms=now)
            await self.set_health(entry.name, missed)


def _has_left(health: Health, since_ms: int) -> bool:
    """Whether an agent has left, or fell silent since then."""
    return health.category == "LEFT" or (
        health.category == "NO_HEARTBEAT" and health.at_ms >= since_ms
    )
