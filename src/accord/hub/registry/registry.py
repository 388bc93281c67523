"""The entries: agents that were added, the versions of their cards, and what became of them.

Approved means pinned: `Entry.card` is the version that was approved, whatever the agent's server
gives today. A changed card becomes a version; what matters in it waits for an admin.
"""

import logging
import re
import secrets
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from ...auth import Caller
from ...model import AgentCard, PermissionDenied, now_ms
from ...net import origin_of
from ..access import SYSTEM, Person, Policy, TrustedKeys
from ..errors import CannotAdd, Conflict, EntryNotFound, HubError, Outdated
from ..settings import HubSettings
from ..storage import Audit, Changes, Database, Inbox, Transaction
from ..teams import team_name
from .cards import CardReader, ReadCard
from .differences import Side, differences, passes, worst
from .entries import (
    LIMITS,
    CardVersion,
    Difference,
    Entry,
    EntrySettings,
    EntryState,
    Health,
    Member,
    Visibility,
    origins_of,
)
from .fence import DESCRIPTION, fence_text, suspicious
from .rows import (
    AGENT_COLUMNS,
    CARD_COLUMNS,
    decide,
    drop_undecided,
    entry_of,
    free_name,
    health_of,
    insert_card,
    is_taken,
    json_of,
    touch,
    version_of,
)

__all__ = ["RESERVED", "Registry"]

log_ = logging.getLogger("accord.hub")

Callback: TypeAlias = Callable[[Entry], None]

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# Paths of the hub itself, which an agent addressed by tenant would take.
RESERVED = frozenset(
    ["agents", "api", "ard", "console", "healthz", "hub", "mcp", "metrics", "readyz", "tasks", "v1"]
)
# How many versions of an entry's card are kept that nobody decided on: they were replaced before,
# or used at once.
UNDECIDED, UNDECIDED_BYTES = 20, 8 << 20
_LOOSE = ("pin", "hold", "follow")  # settings for changes, the strictest first
_SEEN_MS = 60_000  # how exact the time is at which a card was last seen unchanged


class Registry:
    """Entries, from a cache in memory; what is written goes to the database first."""

    def __init__(
        self,
        db: Database,
        changes: Changes,
        policy: Policy,
        audit: Audit,
        inbox: Inbox,
        reader: CardReader,
        trusted: TrustedKeys,
        settings: HubSettings,
    ) -> None:
        self._db = db
        self._changes = changes
        self._policy = policy
        self._audit = audit
        self._inbox = inbox
        self._reader = reader
        self._trusted = trusted
        self._settings = settings
        self._approved_origins = frozenset(map(_origin, settings.approve))
        self._by_id: dict[str, Entry] = {}
        self._entries: dict[str, Entry] = {}  # by name; retired ones are not here
        self._seen = 0  # the newest change that is in `_entries`
        self._callbacks: list[Callback] = []
        self.credential_of: Callable[[Entry], Any] = lambda entry: None  # for protected cards
        changes.watch(self._load)

    # Reading

    def get(self, name: str) -> Entry | None:
        """Return an entry by its name, whoever asks. Retired ones are gone."""
        return self._entries.get(name)

    def all(self) -> list[Entry]:
        """Return all entries that are not retired, by name."""
        return sorted(self._entries.values(), key=lambda entry: entry.name)

    def get_visible(self, name: str, caller: Caller) -> Entry | None:
        """Return an entry by its name; None if there is none that this caller may see."""
        entry = self.get(name)
        is_seen = entry is not None and self._sees(caller, entry)
        return entry if is_seen else None

    def visible_to(self, caller: Caller) -> list[Entry]:
        """Return the entries a caller may see, by name."""
        return [entry for entry in self.all() if self._sees(caller, entry)]

    def _sees(self, caller: Caller, entry: Entry) -> bool:
        return self._policy.decide(caller, entry, None, "see").is_allowed

    def on_change(self, callback: Callback) -> None:
        """Have `callback` called with every entry that was added or has changed, here or at another
        replica; at the start with all.
        """
        self._callbacks.append(callback)

    async def versions(self, entry: Entry) -> list[CardVersion]:
        """Return the versions of an entry's card, the newest first."""
        rows = await self._db.fetch(
            f"SELECT {CARD_COLUMNS} FROM cards WHERE agent = ? ORDER BY n DESC", entry.id
        )
        return [version_of(row) for row in rows]

    async def version(self, entry: Entry, n: int) -> CardVersion:
        """Return one version of an entry's card. Raises EntryNotFound."""
        row = await self._db.fetch_one(
            f"SELECT {CARD_COLUMNS} FROM cards WHERE agent = ? AND n = ?", entry.id, n
        )
        if row is None:
            raise EntryNotFound(
                f"{entry.name} has no card version {n}", fix=f"accord hub show {entry.name}"
            )
        return version_of(row)

    # Adding

    async def add(
        self,
        by: Person,
        *,
        caller: Caller | None = None,
        url: str = "",
        card: bytes = b"",
        name: str = "",
        visibility: Visibility = Visibility.PUBLIC,
        team: str = "",
        settings: EntrySettings | None = None,
    ) -> Entry:
        """Add an agent by its address or its card, and return its entry. The same address twice is
        the same entry; another address under a name of one's own is a member of it.

        An entry that `caller` may not see is treated as if it did not exist: its name and address
        are not taken.

        Raises:
            CannotAdd: There is no card, or none that may be used.
            Conflict: The name or the address is somebody else's.
        """
        if bool(url) == bool(card):
            raise CannotAdd("give the agent's address or its card", fix="accord hub add URL")
        if name and (not _NAME.fullmatch(name) or name in RESERVED):
            raise CannotAdd(
                f"{name[:80]!r} is no name for an entry",
                fix="use letters a-z, digits and -, at most 63; the hub's own paths are reserved",
            )
        settings = _checked(by, settings or EntrySettings(), EntrySettings())
        if team:
            team_name(team)
        if visibility is Visibility.TEAM and not team:
            raise CannotAdd("an entry for a team needs the team's name", fix="add --team NAME")
        if team and not by.is_admin and team not in by.teams:
            raise PermissionDenied(f"only members of team {team[:80]!r} add entries for it")
        found = await (self._reader.fetch(url) if url else self._reader.read(card))
        refusal = self._trusted.refusal(found.signature, self._settings.trust)
        if refusal:
            raise CannotAdd(
                f"the card of {found.card.name[:80]!r} is refused: {refusal}",
                fix="an admin trusts its key with: accord hub trust add",
            )
        seen = [entry for entry in self.all() if self._knows(by, caller, entry)]
        known = next((e for e in seen if found.url and e.card_url == found.url), None)
        if known is not None:
            return await self._added_again(by, known, found)
        namesake = next((e for e in seen if name and name in (e.name, _wanted_name(e))), None)
        if namesake is not None:
            return await self._add_member(by, namesake, found)
        return await self._insert(by, found, name, visibility, team, settings)

    def _knows(self, by: Person, caller: Caller | None, entry: Entry) -> bool:
        """Return whether somebody may know that this entry exists."""
        is_own = by.is_admin or by.identity == entry.owner
        return is_own or (caller is not None and self._sees(caller, entry))

    async def _added_again(self, by: Person, entry: Entry, found: ReadCard) -> Entry:
        if not by.is_admin and by.identity != entry.owner:
            raise Conflict(
                f"the agent at {found.url[:200]} is in the registry already",
                fix="ask an admin to show it to you",
            )
        return await self._take(entry, found)

    async def _insert(
        self,
        by: Person,
        found: ReadCard,
        name: str,
        visibility: Visibility,
        team: str,
        settings: EntrySettings,
    ) -> Entry:
        approval = self._approval(by, found)
        now, id_ = now_ms(), secrets.token_hex(8)
        async with self._changes.transaction() as db:
            own = ("", ()) if by.is_admin else (" AND owner = ?", (by.identity,))
            if found.url and await db.fetch_one(
                f"SELECT id FROM agents WHERE card_url = ? AND state <> 'retired'{own[0]}",
                *(found.url, *own[1]),
            ):
                raise Conflict(f"{found.url[:200]} was added by somebody else", fix="try again")
            name = name or _slug(found.card.name)
            if by.is_admin:
                name = await free_name(db, name)
            elif not approval or await is_taken(db, name):
                name = _provisional_name(name, id_)
            state = EntryState.APPROVED if approval else EntryState.PENDING
            await db.execute(
                f"INSERT INTO agents ({AGENT_COLUMNS}) VALUES ({', '.join('?' * 16)})",
                *(id_, name, state, visibility, team, by.identity, found.url),
                *(1 if approval else 0, 1, json_of(settings), json_of(Health())),
                *(None, now if settings.beats else 0, now, 1, db.changed),
            )
            decision = "approved" if approval else "waiting"
            await insert_card(db, id_, 1, found, (), decision, now)
            await self._audit.write(
                by.name, "agent.add", name, {"url": found.url, "state": state}, within=db
            )
            if not approval:
                said = f"{name} was added by {by.name} and waits for approval"
                if settings.changes == "follow" or settings.texts == "follow":
                    said += "; later changes of its texts would not wait"
                detail = {"version": 1, "warnings": found.warnings}
                await self._inbox.add("approval", name, said, detail, within=db)
        return self._by_id[id_]

    def _approval(self, by: Person, found: ReadCard) -> str:
        """Why an entry needs no admin's approval; empty if it does."""
        if found.warnings:
            return ""
        if by.is_admin:
            return "an admin added it"
        if found.signature.status == "trusted":
            return "a trusted key signed it"
        # A card that was handed over was fetched from no origin, and may name any.
        origins = origins_of(found.card, found.url) if found.url else ()
        if origins and self._approved_origins.issuperset(origins):
            return "its origin needs no approval"
        return ""

    async def _add_member(self, by: Person, entry: Entry, found: ReadCard) -> Entry:
        if not by.is_admin and by.identity != entry.owner:
            raise Conflict(f"the name {entry.name!r} is taken", fix="choose another with --name")
        if not found.url:
            raise Conflict(f"the name {entry.name!r} is taken", fix="choose another with --name")
        same = {skill.id for skill in found.card.skills} == {s.id for s in entry.card.skills}
        if not same:
            raise Conflict(
                f"{found.url[:200]} has other skills than {entry.name} and can't stand in for it",
                fix="add it under a name of its own with --name",
            )
        if not by.is_admin and not self._may_join(by, entry, found):
            raise Conflict(
                f"{found.url[:200]} needs an admin's approval to stand in for {entry.name}",
                fix=f"an admin adds it with: accord hub add {found.url[:200]} --name {entry.name}",
            )
        async with self._changes.transaction() as db:
            await db.execute(
                "INSERT INTO members (agent, card_url, added_ms, card) VALUES (?,?,?,?) "
                "ON CONFLICT (agent, card_url) DO UPDATE SET "
                "added_ms = excluded.added_ms, card = excluded.card",
                *(entry.id, found.url, now_ms(), json_of(found.card)),
            )
            await touch(db, entry)
            await self._audit.write(by.name, "member.add", entry.name, found.url, within=db)
        return self._by_id[entry.id]

    def _may_join(self, by: Person, entry: Entry, found: ReadCard) -> bool:
        """Whether a member needs no admin: it would be approved as an entry, or its card could take
        the place of the approved one.
        """
        if not entry.approved or found.warnings or entry.settings.changes == "pin":
            return False
        changed = differences(
            Side(entry.card, entry.card_url, entry.signature),
            Side(found.card, found.url, found.signature),
        )
        return bool(self._approval(by, found)) or passes(changed, entry.settings)

    async def remove_member(self, by: Person, entry: Entry, card_url: str) -> Entry:
        async with self._changes.transaction() as db:
            gone = await db.execute(
                "DELETE FROM members WHERE agent = ? AND card_url = ?", entry.id, card_url
            )
            if not gone:
                raise EntryNotFound(f"{card_url[:200]} is no member of {entry.name}")
            await touch(db, entry)
            await self._audit.write(by.name, "member.remove", entry.name, card_url, within=db)
        return self._by_id[entry.id]

    # Cards that change

    async def refresh(self, name: str) -> Entry:
        """Fetch an entry's card again. What has changed is taken or waits, as the entry's settings
        say. Raises CannotAdd if the card can't be had or read: then nothing changes.
        """
        entry = self._living(name)
        if not entry.card_url:
            return entry
        found = await self._reader.fetch(entry.card_url, self.credential_of(entry))
        return await self._take(self._current(entry), found)

    async def paste(self, by: Person, name: str, card: bytes) -> Entry:
        """Take a new card for an entry that has no address of its own."""
        entry = self._living(name)
        if entry.card_url:
            raise Conflict(f"{name} has a card of its own at {entry.card_url}")
        found = await self._reader.read(card)
        return await self._take(self._current(entry), found)

    async def _take(self, entry: Entry, found: ReadCard) -> Entry:
        latest = await self.version(entry, entry.latest)
        now = now_ms()
        if found.sha256 == latest.sha256 and found.signature == latest.signature:
            if now - latest.last_ms > _SEEN_MS:
                await self._db.execute(
                    "UPDATE cards SET last_ms = ? WHERE agent = ? AND n = ?",
                    *(now, entry.id, latest.n),
                )
            return entry
        base = latest if not entry.approved else await self.version(entry, entry.approved)
        changed = differences(
            Side(base.card, entry.card_url, base.signature),
            Side(found.card, found.url or entry.card_url, found.signature),
        )
        refusal = self._trusted.refusal(found.signature, self._settings.trust)
        refusal = refusal or "; ".join(w for w in found.warnings if w not in base.notes)
        refusal = refusal or self._lapsing(entry, msgspec.structs.replace(entry, card=found.card))
        is_taken = bool(entry.approved) and not refusal and passes(changed, entry.settings)
        async with self._changes.transaction() as db:
            version = entry.latest + 1
            taken = await db.execute(
                "UPDATE agents SET latest = ?, approved = ?, revision = revision + 1, changed = ? "
                "WHERE id = ? AND latest = ? AND revision = ?",
                *(version, version if is_taken else entry.approved),
                *(db.changed, entry.id, entry.latest, entry.revision),
            )
            if not taken:
                raise Conflict(f"{entry.name} was changed by somebody else", fix="try again")
            await db.execute(
                "UPDATE cards SET decision = 'replaced' WHERE agent = ? AND decision = 'waiting'",
                entry.id,
            )
            decision = "taken" if is_taken else "waiting"
            await insert_card(db, entry.id, version, found, changed, decision, now)
            in_use = version if is_taken else entry.approved
            await drop_undecided(db, entry.id, (version, in_use), UNDECIDED, UNDECIDED_BYTES)
            await self._tell_change(db, entry, version, changed, refusal, is_taken=is_taken)
        return self._by_id[entry.id]

    def _lapsing(self, entry: Entry, changed: Entry) -> str:
        """Say which rules would no longer bind an entry; empty if none."""
        rules = self._policy.lapsing(entry, changed) if entry.approved else []
        return f"it would no longer be bound by: {'; '.join(rules)}" if rules else ""

    async def _tell_change(
        self,
        db: Transaction,
        entry: Entry,
        version: int,
        changed: tuple[Difference, ...],
        refusal: str,
        *,
        is_taken: bool,
    ) -> None:
        kinds = sorted({one.kind for one in changed}) or ["no difference that is read"]
        what = ", ".join(kinds)
        detail = {"version": version, "kinds": kinds, "weight": worst(changed), "why": refusal}
        await self._audit.write(
            SYSTEM.name, "card.changed", entry.name, detail | {"taken": is_taken}, within=db
        )
        await self._inbox.close(entry.name, "card", within=db)
        if is_taken:
            said = f"the card of {entry.name} has changed and is in use: {what}"
            await self._inbox.close(entry.name, "news", within=db)  # only the last one is news
            await self._inbox.add("news", entry.name, said, detail, within=db)
        else:
            said = f"the card of {entry.name} has changed and waits for approval: {what}"
            await self._inbox.add(
                "card", entry.name, f"{said}. {refusal}".strip(". "), detail, within=db
            )

    async def approve(self, by: Person, name: str, n: int = 0) -> Entry:
        """Approve a version of a card, the latest if none is named: it is the one in use from now
        on. A pending entry is approved with it, and gets the name it was added under, if that is
        free.
        """
        entry = self._living(name)
        version = await self.version(entry, n or entry.latest)
        if version.decision in ("rejected", "replaced") and n == 0:
            raise Conflict(f"version {version.n} of {name} was {version.decision}")
        is_pending = entry.state is EntryState.PENDING
        state = EntryState.APPROVED if is_pending else entry.state
        async with self._changes.transaction() as db:
            final = await self._final_name(db, entry) if is_pending else name
            await self._write(db, entry, state=state, approved=version.n, name=final)
            await decide(db, entry, version.n, "approved")
            await self._inbox.close(name, "approval", within=db)
            if version.n == entry.latest:  # else a newer one still waits
                await self._inbox.close(name, "card", within=db)
            detail = {"version": version.n, "sha256": version.sha256, "added_as": name}
            await self._audit.write(by.name, "card.approve", final, detail, within=db)
        return self._by_id[entry.id]

    async def _final_name(self, db: Transaction, entry: Entry) -> str:
        """Return the name of a pending entry once it is approved. Raises Conflict if the agent is
        in the registry already.
        """
        other = await db.fetch_one(
            "SELECT name FROM agents WHERE card_url = ? AND card_url <> '' AND id <> ? "
            "AND state NOT IN ('retired', 'pending')",
            *(entry.card_url, entry.id),
        )
        if other is not None:
            raise Conflict(
                f"the agent at {entry.card_url[:200]} is in the registry as {other['name']}",
                fix=f"accord hub reject {entry.name}",
            )
        wanted = _wanted_name(entry)
        return entry.name if await is_taken(db, wanted) else wanted

    async def reject(self, by: Person, name: str, n: int = 0) -> Entry:
        """Refuse a version of a card; a pending entry is retired with it."""
        entry = self._living(name)
        version = await self.version(entry, n or entry.latest)
        if version.n == entry.approved:
            raise Conflict(
                f"version {version.n} of {name} is in use",
                fix=f"approve another one, or: accord hub suspend {name}",
            )
        async with self._changes.transaction() as db:
            is_pending = entry.state is EntryState.PENDING
            to = EntryState.RETIRED if is_pending else entry.state
            await self._write(db, entry, **_moved(entry, to))
            await decide(db, entry, version.n, "rejected")
            for kind in ("approval", "card"):
                await self._inbox.close(name, kind, within=db)
            await self._audit.write(by.name, "card.reject", name, {"version": version.n}, within=db)
        return self._by_id[entry.id]

    # The life of an entry

    async def suspend(self, by: Person, name: str) -> Entry:
        """Stop calls to an agent until it is resumed."""
        return await self._move(by, name, EntryState.SUSPENDED, from_=EntryState.APPROVED)

    async def resume(self, by: Person, name: str) -> Entry:
        return await self._move(by, name, EntryState.APPROVED, from_=EntryState.SUSPENDED)

    async def retire(self, by: Person, name: str) -> Entry:
        """Remove an agent for good. Its name is free for another entry."""
        return await self._move(by, name, EntryState.RETIRED, from_=None)

    async def _move(
        self, by: Person, name: str, to: EntryState, *, from_: EntryState | None
    ) -> Entry:
        entry = self._living(name)
        if entry.state is to:
            return entry
        if from_ is not None and entry.state is not from_:
            raise Conflict(
                f"{name} is {entry.state}; only an entry that is {from_} becomes {to}",
                fix=f"accord hub approve {name}" if entry.state is EntryState.PENDING else "",
            )
        async with self._changes.transaction() as db:
            await self._write(db, entry, **_moved(entry, to))
            if to is EntryState.RETIRED:
                await db.execute("DELETE FROM credentials WHERE agent = ?", entry.id)
            await self._audit.write(by.name, f"agent.{to}", name, within=db)
        return self._by_id[entry.id]

    async def change(
        self,
        by: Person,
        name: str,
        *,
        visibility: Visibility | None = None,
        team: str | None = None,
        owner: str | None = None,
        settings: EntrySettings | None = None,
        if_revision: int | None = None,
    ) -> Entry:
        """Change what an owner may set. With `if_revision` only if nobody has changed it since.

        Raises:
            Outdated: Somebody has.
        """
        entry = self._living(name)
        if team:
            team_name(team)
        settings = _checked(by, settings or entry.settings, entry.settings)
        if not by.is_admin:
            self._check_loosened(entry, settings)
        changed = {
            "visibility": visibility or entry.visibility,
            "team": entry.team if team is None else team,
            "owner": owner or entry.owner,
            "settings": json_of(settings),
        }
        if changed["visibility"] is Visibility.TEAM and not changed["team"]:
            raise HubError("an entry for a team needs the team's name", fix="give team too")
        async with self._changes.transaction() as db:
            await self._write(db, entry, if_revision=if_revision, **changed)
            await self._audit.write(by.name, "agent.change", name, changed, within=db)
        return self._by_id[entry.id]

    def _check_loosened(self, entry: Entry, settings: EntrySettings) -> None:
        """Raise PermissionDenied if settings would skip an admin's approval."""
        before = entry.settings
        what = ""
        if _LOOSE.index(settings.changes) > _LOOSE.index(before.changes):
            what = f"changes={settings.changes}"
        elif settings.texts == "follow" != before.texts:
            what = "texts=follow"
        elif entry.approved and "follow" not in (before.changes, before.texts):
            # They replace the card's own, whose changes would wait.
            names = ("description", "tags")
            what = ", ".join(n for n in names if getattr(settings, n) != getattr(before, n))
        what = what or self._lapsing(entry, msgspec.structs.replace(entry, settings=settings))
        if what:
            raise PermissionDenied(f"only an admin sets that for {entry.name}: {what}")

    async def set_health(self, name: str, health: Health, probed_ms: int | None = None) -> Entry:
        """Store how an agent is; a new state is told in the inbox.

        With `probed_ms`, a probe that was begun then found it. An agent that has left comes back by
        its own word; one that fell silent meanwhile is not there because it answered before.
        """
        entry = self._living(name)
        async with self._changes.transaction() as db:
            # As it is stored: what was in memory may have changed while this waited for its turn.
            row = await db.fetch_one("SELECT health FROM agents WHERE id = ?", entry.id)
            before = entry.health if row is None else health_of(row)
            if probed_ms is None or not _has_left(before, probed_ms):
                since_ms = before.since_ms
                if health.state != before.state:
                    since_ms = health.since_ms or now_ms()
                    if before.state != "new":
                        said = f"{name} is {health.state}, was {before.state}. {health.sentence}"
                        # Only the last state is news: an agent that comes and goes is one line.
                        await self._inbox.close(name, "health", within=db)
                        detail = {"state": health.state}
                        await self._inbox.add("health", name, said.strip(), detail, within=db)
                await db.execute(
                    "UPDATE agents SET health = ?, changed = ? WHERE id = ?",
                    json_of(msgspec.structs.replace(health, since_ms=since_ms)),
                    *(db.changed, entry.id),
                )
        return self._by_id[entry.id]

    async def set_score(self, name: str, score: int) -> Entry:
        """Store what the checks of an agent came to."""
        entry = self._living(name)
        async with self._changes.transaction() as db:
            await db.execute(
                "UPDATE agents SET score = ?, changed = ? WHERE id = ?",
                *(score, db.changed, entry.id),
            )
        return self._by_id[entry.id]

    async def beat(self, name: str, *, is_leaving: bool = False) -> Entry:
        """An agent that registered itself says that it lives, or that it goes."""
        entry = self._living(name)
        now = now_ms()
        await self._db.execute(
            "UPDATE agents SET beat_ms = ? WHERE id = ?", 0 if is_leaving else now, entry.id
        )
        # As it is now: it may have been suspended or retired while this was written.
        entry = msgspec.structs.replace(self._current(entry), beat_ms=0 if is_leaving else now)
        self._by_id[entry.id] = self._entries[entry.name] = entry
        if is_leaving:
            left = Health(state="gone", category="LEFT", sentence="It has left.", at_ms=now)
            return await self.set_health(name, left)
        # What probes found out is theirs to take back.
        if entry.health.state == "new" or entry.health.category in ("BEATS", "LEFT"):
            return await self.set_health(name, Health(state="up", at_ms=now))
        return entry

    async def miss_beats(self) -> None:
        """Mark as down what has not said for too long that it lives."""
        wait_s = self._settings.beat_s * self._settings.missed_beats
        rows = await self._db.fetch(
            "SELECT name, settings FROM agents WHERE beat_ms > 0 AND beat_ms < ?",
            now_ms() - int(wait_s * 1000),
        )
        for row in rows:
            entry = self.get(row["name"])
            if entry is None or not entry.settings.beats or entry.health.state == "down":
                continue
            sentence = (
                f"It registered itself and has not been heard of for {wait_s:g} s: its process was "
                "killed, or can't reach the hub."
            )
            missed = Health(state="down", category="BEATS", sentence=sentence, at_ms=now_ms())
            await self.set_health(entry.name, missed)

    # The database

    def _living(self, name: str) -> Entry:
        entry = self.get(name)
        if entry is None:
            raise EntryNotFound.of_agent(name)
        return entry

    def _current(self, entry: Entry) -> Entry:
        """Return an entry as it is now. Raises EntryNotFound if it was retired."""
        entry = self._by_id[entry.id]
        if entry.state is EntryState.RETIRED:
            raise EntryNotFound.of_agent(entry.name)
        return entry

    async def _write(
        self, db: Transaction, entry: Entry, *, if_revision: int | None = None, **columns: Any
    ) -> None:
        sets = ", ".join(f"{name} = ?" for name in columns)
        count = await db.execute(
            f"UPDATE agents SET {sets}, revision = revision + 1, changed = ? "
            "WHERE id = ? AND state = ? AND (revision = ? OR ? < 0)",
            # What was decided for one state must not undo another, such as a suspension.
            *(*columns.values(), db.changed, entry.id, entry.state),
            *((-1, -1) if if_revision is None else (if_revision, if_revision)),
        )
        if not count:
            raise Outdated(
                f"{entry.name} was changed by somebody else",
                fix="read it again, and send its new ETag as If-Match",
            )

    async def _load(self) -> None:
        """Read the entries that have changed, each with the card that counts and its members."""
        async with self._db.transaction() as db:
            rows = await db.fetch(
                f"SELECT {AGENT_COLUMNS} FROM agents WHERE changed > ? ORDER BY changed", self._seen
            )
            if not rows:
                return
            cards = await db.fetch(
                "SELECT cards.* FROM cards JOIN agents ON agents.id = cards.agent AND cards.n = "
                "CASE WHEN agents.approved > 0 THEN agents.approved ELSE agents.latest END "
                "WHERE agents.changed > ?",
                self._seen,
            )
            members = await db.fetch(
                "SELECT members.* FROM members JOIN agents ON agents.id = members.agent "
                "WHERE agents.changed > ? ORDER BY members.added_ms",
                self._seen,
            )
        card_of = {card["agent"]: card for card in cards}
        members_of: dict[str, list[Member]] = {}
        for one in members:
            card = msgspec.json.decode(one["card"], type=AgentCard)
            found = Member(one["card_url"], one["added_ms"], card)
            members_of.setdefault(one["agent"], []).append(found)
        for row in rows:
            own = tuple(members_of.get(row["id"], ()))
            self._put(entry_of(row, version_of(card_of[row["id"]]), own))
            self._seen = max(self._seen, row["changed"])

    def _put(self, entry: Entry) -> None:
        """Put an entry in the cache, and tell whoever watches."""
        before = self._by_id.get(entry.id)
        if before is not None and before.name != entry.name:
            self._entries.pop(before.name, None)  # it got its final name with its approval
        self._by_id[entry.id] = entry
        if entry.state is not EntryState.RETIRED:
            self._entries[entry.name] = entry
        elif self._entries.get(entry.name, entry).id == entry.id:
            self._entries.pop(entry.name, None)
        for callback in self._callbacks:
            try:
                callback(entry)
            except Exception:
                log_.exception("a change of %s was not taken up", entry.name)


def _has_left(health: Health, since_ms: int) -> bool:
    """Whether an agent has left, or fell silent since then."""
    return health.category == "LEFT" or (health.category == "BEATS" and health.at_ms >= since_ms)


def _moved(entry: Entry, to: EntryState) -> dict[str, Any]:
    """The columns of an entry in another state. A retired one gives its name back."""
    if to is EntryState.RETIRED:
        return {"state": to, "name": f"{entry.name}~{entry.id}"}
    return {"state": to}


def _origin(text: str) -> str:
    """Return the origin in a setting of an admin. Raises ValueError."""
    try:
        return origin_of(text)
    except ValueError:
        raise ValueError(
            f"--approve-origin {text[:200]!r} is not an origin; write it like "
            "https://hr.corp.example"
        ) from None


def _provisional_name(name: str, id_: str) -> str:
    """Return a name for an entry of somebody who does not see all others. It is new each time, so
    that it says nothing about which names are taken.
    """
    return f"{name[:56]}-{id_[:6]}"


def _wanted_name(entry: Entry) -> str:
    """Return the name that an entry was added under."""
    return entry.name.removesuffix(f"-{entry.id[:6]}")


def _checked(by: Person, settings: EntrySettings, before: EntrySettings) -> EntrySettings:
    """Return settings as they are stored. The description stands in the hub's signed card, so it is
    cleaned as a card is, and what would make a card wait for an admin only an admin may set.

    Raises HubError, also for a number out of its range.
    """
    if not 0 < settings.tasks_days <= 36_500:
        raise HubError(
            f"tasks_days={settings.tasks_days:g} is no number of days",
            fix="give more than 0; keep=none has tasks go a minute after their end",
        )
    found = suspicious({"description": settings.description[: 4 * DESCRIPTION]})
    if found and not by.is_admin and settings.description != before.description:
        raise HubError(
            f"this can't be set: {'; '.join(found)}",
            fix="describe what the agent does, or ask an admin to set it",
        )
    for name, most in settings.limits.items():
        if name not in LIMITS or most < 0:
            raise HubError(
                f"limits: {name[:40]}={most} is none of an entry",
                fix=f"limits are {', '.join(LIMITS)}, each a number; 0 for none",
            )
    return msgspec.structs.replace(settings, description=fence_text(settings.description))


def _slug(name: str) -> str:
    found = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-") or "agent"
    return f"{found}-agent" if found in RESERVED else found
