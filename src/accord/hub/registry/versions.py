"""Cards that change: a changed card becomes a version; what matters in it waits for an admin."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import msgspec

from ..access import SYSTEM, Principal, TrustedKeys
from ..errors import Conflict, Outdated
from ..records import Change, HubRecords
from ..settings import HubSettings
from .cards import CardReader, ReadCard
from .differences import Side, differences, passes, worst
from .entries import Difference, Entry, EntryState
from .registry import Registry, moved
from .rows import decide, drop_undecided, insert_card, is_taken

__all__ = ["CardVersions", "wanted_name"]

Also: TypeAlias = Callable[[Change], Coroutine[Any, Any, None]]

# How many versions of an entry's card are kept that nobody decided on: they were replaced before,
# or used at once.
UNDECIDED, UNDECIDED_BYTES = 20, 8 << 20
_SEEN_MS = 60_000  # how exact the time is at which a card was last seen unchanged


class CardVersions:
    """Takes new versions of cards, and what admins decide about them."""

    def __init__(
        self,
        registry: Registry,
        records: HubRecords,
        reader: CardReader,
        trusted: TrustedKeys,
        settings: HubSettings,
    ) -> None:
        self._registry = registry
        self._records = records
        self._reader = reader
        self._trusted = trusted
        self._settings = settings
        self.credential_of: Callable[[Entry], Any] = lambda entry: None  # for protected cards

    async def refresh(self, name: str) -> Entry:
        """Fetch an entry's card again. What has changed is taken or waits, as the entry's settings
        say. Raises CannotAdd if the card can't be had or read: then nothing changes.
        """
        entry = self._registry.living(name)
        if not entry.card_url:
            return entry
        found = await self._reader.fetch(entry.card_url, self.credential_of(entry))
        return await self.take(self._registry.current(entry), found)

    async def paste(
        self,
        name: str,
        card: bytes,
        *,
        if_revision: int | None = None,
        also: Also | None = None,
    ) -> Entry:
        """Take a new card for an entry that has no address of its own, and do `also` in the same
        transaction. With `if_revision` only if nobody has changed the entry since.

        Raises:
            Outdated: Somebody has.
        """
        entry = self._registry.living(name)
        if entry.card_url:
            raise Conflict(f"{name} has a card of its own at {entry.card_url}")
        found = await self._reader.read(card)
        entry = self._registry.current(entry)
        if if_revision not in (None, entry.revision):
            raise Outdated.of_entry(name)
        return await self.take(entry, found, also)

    async def take(self, entry: Entry, found: ReadCard, also: Also | None = None) -> Entry:
        """Take a card that was read just now: it is used, or it waits. With it do `also`."""
        latest = await self._registry.version(entry, entry.latest)
        now = self._records.db.now_ms()
        if found.sha256 == latest.sha256 and found.signature == latest.signature:
            if now - latest.last_ms > _SEEN_MS:
                await self._records.db.execute(
                    "UPDATE cards SET last_ms = ? WHERE agent = ? AND n = ?",
                    *(now, entry.id, latest.n),
                )
            if also is not None:
                await self._records.changes.write(also)
            return self._registry.by_id(entry.id)
        base = latest if not entry.approved else await self._registry.version(entry, entry.approved)
        changed = differences(
            Side(base.card, entry.card_url, base.signature),
            Side(found.card, found.url or entry.card_url, found.signature),
        )
        refusal = self._trusted.refusal(found.signature, self._settings.trust)
        refusal = refusal or "; ".join(w for w in found.warnings if w not in base.notes)
        refusal = refusal or self._registry.lapsing(
            entry, msgspec.structs.replace(entry, card=found.card)
        )
        is_taken = bool(entry.approved) and not refusal and passes(changed, entry.settings)

        async def write(db: Change) -> None:
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
            await self._report_change(db, entry, version, changed, refusal, is_taken=is_taken)
            if also is not None:
                await also(db)

        await self._records.changes.write(write)
        return self._registry.by_id(entry.id)

    async def _report_change(
        self,
        db: Change,
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
        await self._records.audit.write(
            SYSTEM.name, "card.changed", entry.name, detail | {"taken": is_taken}, within=db
        )
        await self._records.inbox.close(entry.name, "card", within=db)
        if is_taken:
            said = f"the card of {entry.name} has changed and is in use: {what}"
            await self._records.inbox.close(
                entry.name, "news", within=db
            )  # only the last one is news
            await self._records.inbox.add("news", entry.name, said, detail, within=db)
        else:
            said = f"the card of {entry.name} has changed and waits for approval: {what}"
            await self._records.inbox.add(
                "card", entry.name, f"{said}. {refusal}".strip(". "), detail, within=db
            )

    async def approve(self, by: Principal, name: str, n: int = 0) -> Entry:
        """Approve a version of a card, the latest if none is named: it is the one in use from now
        on. A pending entry is approved with it, and gets the name it was added under, if that is
        free.
        """
        entry = self._registry.living(name)
        version = await self._registry.version(entry, n or entry.latest)
        if version.decision in ("rejected", "replaced") and n == 0:
            raise Conflict(f"version {version.n} of {name} was {version.decision}")
        is_pending = entry.state is EntryState.PENDING
        state = EntryState.APPROVED if is_pending else entry.state

        async def write(db: Change) -> None:
            final = await self._final_name(db, entry) if is_pending else name
            await self._registry.write(db, entry, state=state, approved=version.n, name=final)
            await decide(db, entry, version.n, "approved")
            await self._records.inbox.close(name, "approval", within=db)
            if version.n == entry.latest:  # else a newer one still waits
                await self._records.inbox.close(name, "card", within=db)
            detail = {"version": version.n, "sha256": version.sha256, "added_as": name}
            await self._records.audit.write(by.name, "card.approve", final, detail, within=db)

        await self._records.changes.write(write)
        return self._registry.by_id(entry.id)

    async def _final_name(self, db: Change, entry: Entry) -> str:
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
        wanted = wanted_name(entry)
        return entry.name if await is_taken(db, wanted) else wanted

    async def reject(self, by: Principal, name: str, n: int = 0) -> Entry:
        """Refuse a version of a card; a pending entry is retired with it."""
        entry = self._registry.living(name)
        version = await self._registry.version(entry, n or entry.latest)
        if version.n == entry.approved:
            raise Conflict(
                f"version {version.n} of {name} is in use",
                fix=f"approve another one, or: accord hub suspend {name}",
            )

        async def write(db: Change) -> None:
            is_pending = entry.state is EntryState.PENDING
            to = EntryState.RETIRED if is_pending else entry.state
            await self._registry.write(db, entry, **moved(entry, to))
            await decide(db, entry, version.n, "rejected")
            for kind in ("approval", "card"):
                await self._records.inbox.close(name, kind, within=db)
            await self._records.audit.write(
                by.name, "card.reject", name, {"version": version.n}, within=db
            )

        await self._records.changes.write(write)
        return self._registry.by_id(entry.id)


def wanted_name(entry: Entry) -> str:
    """Return the name that an entry was added under."""
    return entry.name.removesuffix(f"-{entry.id[:6]}")
