"""Rounds: which agent is probed when.

A round of an agent is a row with the time it is due. Whoever moves that time on has the round: with
several processes each is made once. A process that dies with one leaves it to the next time.

| round | what | when |
|---|---|---|
| card | fetch the card, compare | 5 min, 1 min for agents that send heartbeats; up to 6 h while gone |
| reach | `GetTask` of a random id on every interface | 60 s, unless a call has succeeded meanwhile; down: 1, 2, 4 … 30 min |
| message | a real message | when approved, daily; not if the entry's `probe` is free or off |
| checks | all conformance checks | when a card is approved, weekly; likewise |
"""  # noqa: E501

import asyncio
import functools
import logging
import random
from typing import Any

import msgspec

from ...check import (
    MESSAGE,
    CheckReport,
    InterfaceProbe,
    ProbeReport,
    probe,
    probe_message,
    run_checks,
)
from ...model import A2AError
from ...net import backoff_s, host_of, origin_of
from ...store import Database
from ..access import Networks, Vault
from ..registry import CardVersions, Entry, EntryState, HealthRecords, Registry
from ..settings import HubSettings
from .busy import LoopWatch
from .health import MISSES, after_message, after_reach
from .results import ProbeResults

__all__ = ["Prober"]

log_ = logging.getLogger("accord.hub")

AT_ONCE = 20
TIMEOUT_S = 15.0
JITTER = 0.2
_DOWN_MOST_S, _GONE_MOST_S = 30 * 60.0, 6 * 3600.0
_CLEAN_MS = 3600 * 1000
ROUNDS = ("card", "reach", "message", "checks")


class Prober:
    """Makes the rounds of a hub, at most 20 at once and one per host."""

    def __init__(
        self,
        db: Database,
        registry: Registry,
        versions: CardVersions,
        health: HealthRecords,
        vault: Vault,
        networks: Networks,
        settings: HubSettings,
    ) -> None:
        self._db = db
        self._registry = registry
        self._versions = versions
        self._health = health
        self._vault = vault
        self._networks = networks
        self._settings = settings
        self.results = ProbeResults(db)
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._hosts: dict[str, asyncio.Lock] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._new: dict[str, Entry] = {}  # to be given their rounds
        self._approved: dict[str, int] = {}  # the card version that has been checked
        self._succeeded: dict[str, int] = {}  # when a call last did, by name
        self._cleaned = 0
        registry.on_change(self._take)

    def succeeded(self, name: str) -> None:
        """A caller's call has just succeeded: no probe has to find out."""
        self._succeeded[name] = self._db.now_ms()

    def _take(self, entry: Entry) -> None:
        if entry.state is EntryState.APPROVED and self._approved.get(entry.id) != entry.approved:
            self._approved[entry.id] = entry.approved
            self._new[entry.id] = entry

    # The schedule

    async def tick(self) -> None:
        """Begin the rounds that are due."""
        now = self._db.now_ms()
        await self._schedule(now)
        rows = await self._db.fetch(
            "SELECT agent, round, due_ms, version FROM rounds WHERE due_ms <= ? "
            "ORDER BY due_ms LIMIT 200",
            now,
        )
        entries = {entry.id: entry for entry in self._registry.all()}
        for row in rows:
            entry = entries.get(row["agent"])
            if entry is None or entry.state is not EntryState.APPROVED:
                await self._db.execute("DELETE FROM rounds WHERE agent = ?", row["agent"])
                self._approved.pop(row["agent"], None)
                continue
            key = (entry.id, row["round"])
            if key in self._tasks or len(self._tasks) >= 4 * AT_ONCE:
                continue
            next_ms = now + int(1000 * self._pause_s(entry, row["round"]))
            if await self._claim(row, next_ms):
                task = asyncio.create_task(self._run(entry.name, row["round"]))
                self._tasks[key] = task
                task.add_done_callback(functools.partial(self._ended, key))
        if now - self._cleaned > _CLEAN_MS:
            self._cleaned = now
            await self.results.clean(now)

    def _ended(self, key: tuple[str, str], _: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)

    async def _schedule(self, now: int) -> None:
        """Give new entries, and new versions of cards, their rounds: due at once."""
        new, self._new = self._new, {}
        for entry in new.values():
            for name in ROUNDS:
                await self._db.execute(
                    "INSERT INTO rounds (agent, round, due_ms, version) VALUES (?,?,?,?) "
                    "ON CONFLICT (agent, round) DO UPDATE SET due_ms = excluded.due_ms, "
                    "version = excluded.version WHERE rounds.version <> excluded.version",
                    *(entry.id, name, now, entry.approved),
                )

    async def _claim(self, row: dict[str, Any], next_ms: int) -> bool:
        count = await self._db.execute(
            "UPDATE rounds SET due_ms = ? WHERE agent = ? AND round = ? AND due_ms = ?",
            *(next_ms, row["agent"], row["round"], row["due_ms"]),
        )
        return count == 1

    def _pause_s(self, entry: Entry, round_: str) -> float:
        """How long until the round after this one."""
        settings = self._settings
        usual = {
            "card": settings.card_s / (5 if entry.settings.heartbeats else 1),
            "reach": settings.reach_s,
            "message": settings.message_s,
            "checks": settings.check_s,
        }[round_]
        misses = int(entry.health.detail.get("misses", 0))
        if round_ == "reach" and entry.health.state in ("down", "gone"):
            most = _GONE_MOST_S if entry.health.state == "gone" else _DOWN_MOST_S
            longer = max(misses - MISSES + 1, 0)  # it took so many rounds to be down
            usual = backoff_s(longer, first_s=usual, most_s=max(most, usual))
        if round_ == "card" and entry.health.state == "gone":
            usual = max(usual, _GONE_MOST_S)
        return usual * random.uniform(1 - JITTER, 1 + JITTER)

    async def _run(self, name: str, round_: str) -> None:
        entry = self._registry.get(name)
        if entry is None:
            return
        try:
            async with self._slots, self._host(entry):
                match round_:
                    case "card":
                        await self._card(entry)
                    case "reach":
                        await self._reach(entry)
                    case "message" if entry.settings.probe == "on":
                        await self._message(entry)
                    case "checks" if entry.settings.probe == "on":
                        await self._checks(entry)
        except A2AError as error:
            log_.info("%s of %s: %s", round_, name, error)
        except Exception:
            log_.exception("%s of %s failed", round_, name)

    def _host(self, entry: Entry) -> asyncio.Lock:
        url = entry.card.supported_interfaces[0].url
        host = host_of(url if "://" in url else f"http://{url}")
        if len(self._hosts) > 10_000:
            self._hosts = {h: lock for h, lock in self._hosts.items() if lock.locked()}
        return self._hosts.setdefault(host, asyncio.Lock())

    @property
    def is_busy(self) -> bool:
        """Whether a round is being made here."""
        return bool(self._tasks)

    async def close(self) -> None:
        """End the rounds that run."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # The rounds

    async def _card(self, entry: Entry) -> None:
        if entry.card_url and entry.settings.probe != "off":
            await self._versions.refresh(entry.name)

    async def _reach(self, entry: Entry) -> None:
        if entry.settings.probe == "off":
            return
        last = self._succeeded.pop(entry.name, 0)
        if self._db.now_ms() - last < 1000 * self._settings.reach_s and entry.health.state == "up":
            return
        await self.reach_now(entry)

    async def reach_now(self, entry: Entry) -> Entry:
        """Probe an agent without making it work, and store its health."""
        begun = self._db.now_ms()
        card, auth = self._vault.for_card(entry, None)
        guard = self._networks.guard()
        async with LoopWatch() as watch:
            report: ProbeReport = await probe(card, timeout_s=TIMEOUT_S, guard=guard, auth=auth)
        now = self._db.now_ms()
        times = [one.ms for one in report.interfaces if one.is_ok]
        # If the hub itself was busy, the time is not the agent's.
        ms = None if watch.was_busy else max(times, default=0)
        await self.results.add(entry.id, now, is_ok=bool(times), category=report.category, ms=ms)
        speed = await self.results.speed(entry.id, now)
        current = self._registry.get(entry.name) or entry
        found = after_reach(current.health, report, now, speed)
        return await self._health.set_health(entry.name, found, begun)

    async def _message(self, entry: Entry) -> None:
        await self.message_now(entry)

    async def message_now(self, entry: Entry) -> Entry:
        """Send an agent a real message, and store its health."""
        begun = self._db.now_ms()
        card, auth = self._vault.for_card(entry, None)
        found: InterfaceProbe = await probe_message(
            card,
            message=entry.settings.probe_message or MESSAGE,
            timeout_s=TIMEOUT_S,
            guard=self._networks.guard(),
            auth=auth,
        )
        current = self._registry.get(entry.name) or entry
        health = after_message(current.health, found, self._db.now_ms())
        return await self._health.set_health(entry.name, health, begun)

    async def _checks(self, entry: Entry) -> None:
        await self.check_now(entry)

    async def check_now(self, entry: Entry) -> CheckReport:
        """Run all checks against an agent, and keep score and evidence."""
        # The addresses are those of the approved card. It is looked at where it is served only if
        # that is the same.
        place: Any
        if entry.card_url and entry.approved == entry.latest:
            place = entry.card_url
            auth = self._vault.for_origin(entry, origin_of(place), None)
        else:
            place, auth = self._vault.for_card(entry, None)
        report = await run_checks(
            place,
            message=entry.settings.probe_message or MESSAGE,
            timeout_s=TIMEOUT_S,
            guard=self._networks.guard(),
            auth=auth,
        )
        report = msgspec.structs.replace(report, agent=entry.name)  # not what its card calls it
        await self.results.keep_checks(entry.id, self._db.now_ms(), report)
        await self._health.set_score(entry.name, report.score)
        return report
