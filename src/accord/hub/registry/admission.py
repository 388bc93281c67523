"""How agents come in: by their address or their card, as an entry or as a member of one."""

import re
import secrets

from ...auth import Caller
from ...model import PermissionDenied
from ...net import origin_of
from ...slug import slug_of
from ..access import Principal, TrustedKeys
from ..errors import CannotAdd, Conflict, EntryNotFound
from ..records import Change, HubRecords
from ..settings import HubSettings
from ..teams import team_name
from .cards import CardReader, ReadCard
from .differences import Side, differences, passes
from .entries import Entry, EntrySettings, EntryState, Health, Visibility, origins_of
from .registry import Registry, checked
from .rows import AGENT_COLUMNS, free_name, insert_card, is_taken, json_of, touch
from .versions import CardVersions, wanted_name

__all__ = ["RESERVED", "AgentAdmission"]

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# Paths of the hub itself, which an agent addressed by tenant would take.
RESERVED = frozenset(
    ["agents", "api", "ard", "console", "healthz", "hub", "mcp", "metrics", "readyz", "tasks", "v1"]
)


class AgentAdmission:
    """Adds agents."""

    def __init__(
        self,
        registry: Registry,
        versions: CardVersions,
        records: HubRecords,
        reader: CardReader,
        trusted: TrustedKeys,
        settings: HubSettings,
    ) -> None:
        self._registry = registry
        self._versions = versions
        self._records = records
        self._reader = reader
        self._trusted = trusted
        self._settings = settings
        self._approved_origins = frozenset(map(_origin, settings.approve))

    async def add(
        self,
        by: Principal,
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
                f"{name[:80]!r} can't be the name of an entry",
                fix="use letters a-z, digits and -, at most 63; the hub's own paths are reserved",
            )
        settings = checked(by, settings or EntrySettings(), EntrySettings())
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
        seen = [entry for entry in self._registry.all() if self._knows(by, caller, entry)]
        known = next((e for e in seen if found.url and e.card_url == found.url), None)
        if known is not None:
            return await self._added_again(by, known, found)
        namesake = next((e for e in seen if name and name in (e.name, wanted_name(e))), None)
        if namesake is not None:
            return await self._add_member(by, namesake, found)
        return await self._insert(by, found, name, visibility, team, settings)

    def _knows(self, by: Principal, caller: Caller | None, entry: Entry) -> bool:
        """Return whether somebody may know that this entry exists."""
        is_own = by.is_admin or by.identity == entry.owner
        return is_own or (caller is not None and self._registry.sees(caller, entry))

    async def _added_again(self, by: Principal, entry: Entry, found: ReadCard) -> Entry:
        if not by.is_admin and by.identity != entry.owner:
            raise Conflict(
                f"the agent at {found.url[:200]} is in the registry already",
                fix="ask an admin to show it to you",
            )
        return await self._versions.take(entry, found)

    async def _insert(
        self,
        by: Principal,
        found: ReadCard,
        name: str,
        visibility: Visibility,
        team: str,
        settings: EntrySettings,
    ) -> Entry:
        approval = self._approval(by, found)
        now, id_ = self._records.db.now_ms(), secrets.token_hex(8)

        async def write(db: Change) -> None:
            wanted = name or _slug(found.card.name)
            own = ("", ()) if by.is_admin else (" AND owner = ?", (by.identity,))
            if found.url and await db.fetch_one(
                f"SELECT id FROM agents WHERE card_url = ? AND state <> 'retired'{own[0]}",
                *(found.url, *own[1]),
            ):
                raise Conflict(f"{found.url[:200]} was added by somebody else", fix="try again")
            if by.is_admin:
                wanted = await free_name(db, wanted)
            elif not approval or await is_taken(db, wanted):
                wanted = _provisional_name(wanted, id_)
            state = EntryState.APPROVED if approval else EntryState.PENDING
            await db.execute(
                f"INSERT INTO agents ({AGENT_COLUMNS}) VALUES ({', '.join('?' * 16)})",
                *(id_, wanted, state, visibility, team, by.identity, found.url),
                *(1 if approval else 0, 1, json_of(settings), json_of(Health())),
                *(None, now if settings.heartbeats else 0, now, 1, db.changed),
            )
            decision = "approved" if approval else "waiting"
            await insert_card(db, id_, 1, found, (), decision, now)
            await self._records.audit.write(
                by.name, "agent.add", wanted, {"url": found.url, "state": state}, within=db
            )
            if not approval:
                said = f"{wanted} was added by {by.name} and waits for approval"
                if settings.changes == "follow" or settings.texts == "follow":
                    said += "; later changes of its texts would not wait"
                detail = {"version": 1, "warnings": found.warnings}
                await self._records.inbox.add("approval", wanted, said, detail, within=db)

        await self._records.changes.write(write)
        return self._registry.by_id(id_)

    def _approval(self, by: Principal, found: ReadCard) -> str:
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

    async def _add_member(self, by: Principal, entry: Entry, found: ReadCard) -> Entry:
        if not by.is_admin and by.identity != entry.owner:
            raise Conflict(f"the name {entry.name!r} is taken", fix="choose another with --name")
        if not found.url:
            raise Conflict(f"the name {entry.name!r} is taken", fix="choose another with --name")
        same = {skill.id for skill in found.card.skills} == {s.id for s in entry.card.skills}
        if not same:
            raise Conflict(
                f"{found.url[:200]} does not have the skills of {entry.name}, so it can't join it",
                fix="add it under a name of its own with --name",
            )
        if not by.is_admin and not self._may_join(by, entry, found):
            raise Conflict(
                f"{found.url[:200]} needs an admin's approval to join {entry.name}",
                fix=f"an admin adds it with: accord hub add {found.url[:200]} --name {entry.name}",
            )

        async def write(db: Change) -> None:
            await db.execute(
                "INSERT INTO members (agent, card_url, added_ms, card) VALUES (?,?,?,?) "
                "ON CONFLICT (agent, card_url) DO UPDATE SET "
                "added_ms = excluded.added_ms, card = excluded.card",
                *(entry.id, found.url, self._records.db.now_ms(), json_of(found.card)),
            )
            await touch(db, entry)
            await self._records.audit.write(by.name, "member.add", entry.name, found.url, within=db)

        await self._records.changes.write(write)
        return self._registry.by_id(entry.id)

    def _may_join(self, by: Principal, entry: Entry, found: ReadCard) -> bool:
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

    async def remove_member(self, by: Principal, entry: Entry, card_url: str) -> Entry:
        async def write(db: Change) -> None:
            gone = await db.execute(
                "DELETE FROM members WHERE agent = ? AND card_url = ?", entry.id, card_url
            )
            if not gone:
                raise EntryNotFound(f"{card_url[:200]} is not a member of {entry.name}")
            await touch(db, entry)
            await self._records.audit.write(
                by.name, "member.remove", entry.name, card_url, within=db
            )

        await self._records.changes.write(write)
        return self._registry.by_id(entry.id)


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


def _slug(name: str) -> str:
    found = slug_of(name, most=50)
    return f"{found}-agent" if found in RESERVED else found
