"""The entries: agents that were added, and what becomes of them.

Approved means pinned: `Entry.card` is the version that was approved, whatever the agent's server
gives today. How entries come in is in `admission.py`, how their cards change in `versions.py`, and
how they are in `health.py`.
"""

import itertools
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeAlias

import msgspec

from ...auth import Caller
from ...model import AgentCard, PermissionDenied, Unauthenticated
from ...slug import nearest
from ...store import Sql, SqlRow
from ..access import Policy, Principal
from ..errors import Conflict, EntryNotFound, HubError, Outdated
from ..records import Change, HubRecords
from ..teams import team_name
from .entries import (
    LIMITS,
    CardVersion,
    Entry,
    EntrySettings,
    EntryState,
    Member,
    Visibility,
)
from .rows import AGENT_COLUMNS, CARD_COLUMNS, entry_of, json_of, version_of
from .sanitizer import DESCRIPTION, sanitize_text, suspicious

__all__ = ["Registry", "checked", "moved"]

log_ = logging.getLogger("accord.hub")

Callback: TypeAlias = Callable[[Entry], None]

_HINTS = 1000  # entries that are compared with a wrong name
_LOOSE = ("pin", "hold", "follow")  # settings for changes, the strictest first


class Registry:
    """Entries, from a cache in memory; what is written goes to the database first."""

    def __init__(self, records: HubRecords, policy: Policy) -> None:
        self._db, self._changes = records.db, records.changes
        self._audit, self._inbox = records.audit, records.inbox
        self._policy = policy
        self._by_id: dict[str, Entry] = {}
        self._entries: dict[str, Entry] = {}  # by name; retired ones are not here
        self._seen = 0  # the newest change that is in `_entries`
        self._callbacks: list[Callback] = []
        self._changes.watch(self._load)

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
        is_seen = entry is not None and self.sees(caller, entry)
        return entry if is_seen else None

    def find(self, name: str, caller: Caller) -> Entry:
        """Return an entry by its name. One that this caller may not see looks like one that is
        missing; a guest may have to log in first.

        Raises:
            EntryNotFound, Unauthenticated
        """
        found = self.get_visible(name, caller)
        if found is None:
            if self._policy.is_guest(caller):
                raise Unauthenticated("log in to see more than public agents")
            raise EntryNotFound.of_agent(name, nearest(name, self.names(caller)))
        return found

    async def catch_up(self) -> None:
        """Read what other hubs have changed until now."""
        await self._changes.catch_up()

    def names(self, caller: Caller) -> Iterator[str]:
        """Return names of entries that a caller may see, to suggest the one that was meant. They
        have no order, and not all are returned if there are very many.
        """
        some = itertools.islice(self._entries.values(), _HINTS)
        return (entry.name for entry in some if self.sees(caller, entry))

    def visible_to(self, caller: Caller) -> list[Entry]:
        """Return the entries a caller may see, by name."""
        return [entry for entry in self.all() if self.sees(caller, entry)]

    def sees(self, caller: Caller, entry: Entry) -> bool:
        return self._policy.decide(caller, entry, None, "see").is_allowed

    def on_change(self, callback: Callback) -> None:
        """Call `callback` with every entry that is added or changed, here or at another replica.
        At the start it is called with all entries.
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

    def by_id(self, id: str) -> Entry:
        """Return an entry by its id, also one that was retired."""
        return self._by_id[id]

    def living(self, name: str) -> Entry:
        entry = self.get(name)
        if entry is None:
            raise EntryNotFound.of_agent(name)
        return entry

    def current(self, entry: Entry) -> Entry:
        """Return an entry as it is now. Raises EntryNotFound if it was retired."""
        entry = self._by_id[entry.id]
        if entry.state is EntryState.RETIRED:
            raise EntryNotFound.of_agent(entry.name)
        return entry

    # The life of an entry

    async def suspend(self, by: Principal, name: str) -> Entry:
        """Stop calls to an agent until it is resumed."""
        return await self._move(by, name, EntryState.SUSPENDED, from_=EntryState.APPROVED)

    async def resume(self, by: Principal, name: str) -> Entry:
        return await self._move(by, name, EntryState.APPROVED, from_=EntryState.SUSPENDED)

    async def retire(self, by: Principal, name: str) -> Entry:
        """Remove an agent for good. Its name is free for another entry."""
        return await self._move(by, name, EntryState.RETIRED, from_=None)

    async def _move(
        self, by: Principal, name: str, to: EntryState, *, from_: EntryState | None
    ) -> Entry:
        entry = self.living(name)
        if entry.state is to:
            return entry
        if from_ is not None and entry.state is not from_:
            raise Conflict(
                f"{name} is {entry.state}; only an entry that is {from_} becomes {to}",
                fix=f"accord hub approve {name}" if entry.state is EntryState.PENDING else "",
            )

        async def write(db: Change) -> None:
            await self.write(db, entry, **moved(entry, to))
            if to is EntryState.RETIRED:
                await db.execute("DELETE FROM credentials WHERE agent = ?", entry.id)
                await self._inbox.close(name, within=db)  # nobody has to decide on it any more
            await self._audit.write(by.name, f"agent.{to}", name, within=db)

        await self._changes.write(write)
        return self._by_id[entry.id]

    async def change(
        self,
        by: Principal,
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
        entry = self.living(name)
        work = self.prepared(
            *(by, entry, if_revision),
            visibility=visibility,
            team=team,
            owner=owner,
            settings=settings,
        )
        await self._changes.write(work)
        return self._by_id[entry.id]

    def prepared(
        self,
        by: Principal,
        entry: Entry,
        if_revision: int | None = None,
        *,
        visibility: Visibility | None = None,
        team: str | None = None,
        owner: str | None = None,
        settings: EntrySettings | None = None,
    ) -> Callable[[Change], Coroutine[Any, Any, None]]:
        """Return a function that changes an entry within a transaction. Raises now for a setting
        that this caller may not change.
        """
        if team:
            team_name(team)
        settings = checked(by, settings or entry.settings, entry.settings)
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

        async def write(db: Change) -> None:
            await self.write(db, entry, if_revision=if_revision, **changed)
            await self._audit.write(by.name, "agent.change", entry.name, changed, within=db)

        return write

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
        what = what or self.lapsing(entry, msgspec.structs.replace(entry, settings=settings))
        if what:
            raise PermissionDenied(f"only an admin sets that for {entry.name}: {what}")

    def lapsing(self, entry: Entry, changed: Entry) -> str:
        """Say which rules would no longer bind an entry; empty if none."""
        rules = self._policy.lapsing(entry, changed) if entry.approved else []
        return f"it would no longer be bound by: {'; '.join(rules)}" if rules else ""

    # The database

    async def write(
        self, db: Change, entry: Entry, *, if_revision: int | None = None, **columns: Any
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
            raise Outdated.of_entry(entry.name)

    def note(self, entry: Entry) -> None:
        """Replace an entry in the cache of this process only."""
        self._by_id[entry.id] = self._entries[entry.name] = entry

    async def _load(self) -> None:
        """Read the entries that have changed, each with the card that counts and its members."""

        async def read(db: Sql) -> tuple[list[SqlRow], list[SqlRow], list[SqlRow]]:
            rows = await db.fetch(
                f"SELECT {AGENT_COLUMNS} FROM agents WHERE changed > ? ORDER BY changed", self._seen
            )
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
            return rows, cards, members

        rows, cards, members = await self._db.read(read)
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
        """Put an entry in the cache, and notify whoever watches."""
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


def moved(entry: Entry, to: EntryState) -> dict[str, Any]:
    """The columns of an entry in another state. A retired one gives its name back."""
    if to is EntryState.RETIRED:
        return {"state": to, "name": f"{entry.name}~{entry.id}"}
    return {"state": to}


def checked(by: Principal, settings: EntrySettings, before: EntrySettings) -> EntrySettings:
    """Return settings as they are stored. The description stands in the hub's signed card, so it is
    cleaned as a card is, and what would make a card wait for an admin only an admin may set.

    Raises HubError, also for a number out of its range.
    """
    if not 0 < settings.tasks_days <= 36_500:
        raise HubError(
            f"tasks_days={settings.tasks_days:g} is not a number of days",
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
                f"limits: {name[:40]}={most} can't be a limit of an entry",
                fix=f"limits are {', '.join(LIMITS)}, each a number; 0 for none",
            )
    return msgspec.structs.replace(settings, description=sanitize_text(settings.description))
