"""Entries and versions of cards as rows of the database."""

from typing import Any

import msgspec

from ...model import AgentCard
from ...store import SqlRow
from ..errors import EntryNotFound
from ..records import Change
from .cards import ReadCard
from .entries import (
    CardVersion,
    Difference,
    Entry,
    EntrySettings,
    EntryState,
    Health,
    Member,
    SignatureReport,
    Visibility,
    origins_of,
)

__all__ = [
    "AGENT_COLUMNS",
    "CARD_COLUMNS",
    "decide",
    "drop_undecided",
    "entry_of",
    "free_name",
    "health_of",
    "insert_card",
    "is_taken",
    "json_of",
    "touch",
    "version_of",
]

AGENT_COLUMNS = (
    "id, name, state, visibility, team, owner, card_url, approved, latest, settings, health, "
    "score, beat_ms, created_ms, revision, changed"
)
CARD_COLUMNS = (
    "agent, n, raw, sha256, card, notes, signature, differences, decision, first_ms, last_ms"
)


def health_of(row: SqlRow) -> Health:
    return msgspec.json.decode(row["health"], type=Health)


def entry_of(row: SqlRow, version: CardVersion, members: tuple[Member, ...]) -> Entry:
    return Entry(
        id=row["id"],
        name=row["name"].partition("~")[0],
        state=EntryState(row["state"]),
        visibility=Visibility(row["visibility"]),
        team=row["team"],
        owner=row["owner"],
        card_url=row["card_url"],
        card=version.card,
        card_raw=version.raw,
        card_sha256=version.sha256,
        approved=row["approved"],
        latest=row["latest"],
        signature=version.signature,
        notes=version.notes,
        origins=origins_of(version.card, row["card_url"]),
        members=members,
        settings=msgspec.json.decode(row["settings"], type=EntrySettings),
        health=health_of(row),
        score=row["score"],
        beat_ms=row["beat_ms"],
        created_ms=row["created_ms"],
        revision=row["revision"],
        changed=row["changed"],
    )


def version_of(row: SqlRow) -> CardVersion:
    return CardVersion(
        n=row["n"],
        sha256=row["sha256"],
        raw=bytes(row["raw"]),
        card=msgspec.json.decode(row["card"], type=AgentCard),
        notes=tuple(msgspec.json.decode(row["notes"])),
        signature=msgspec.json.decode(row["signature"], type=SignatureReport),
        differences=msgspec.json.decode(row["differences"], type=tuple[Difference, ...]),
        decision=row["decision"],
        first_ms=row["first_ms"],
        last_ms=row["last_ms"],
    )


async def is_taken(db: Change, name: str) -> bool:
    """Return whether an entry has this name."""
    return await db.fetch_one("SELECT id FROM agents WHERE name = ?", name) is not None


async def free_name(db: Change, name: str) -> str:
    """Return the name, or the first of name-2, name-3, ... that is free."""
    n, found = 1, name
    while await is_taken(db, found):
        n += 1
        found = f"{name[:58]}-{n}"
    return found


async def touch(db: Change, entry: Entry) -> None:
    await db.execute(
        "UPDATE agents SET revision = revision + 1, changed = ? WHERE id = ?", db.changed, entry.id
    )


async def decide(db: Change, entry: Entry, n: int, decision: str) -> None:
    found = await db.execute(
        "UPDATE cards SET decision = ? WHERE agent = ? AND n = ?", decision, entry.id, n
    )
    if not found:  # it was dropped meanwhile
        raise EntryNotFound(f"{entry.name} has no card version {n} any more")


async def drop_undecided(
    db: Change, agent: str, needed: tuple[int, int], most: int, most_bytes: int
) -> None:
    """Delete versions of a card that nobody decided on, except for the last ones and `needed`."""
    await db.execute(
        "DELETE FROM cards WHERE agent = ? AND decision IN ('replaced', 'taken') "
        "AND n <> ? AND n <> ? AND n NOT IN (SELECT n FROM (SELECT n, "
        "ROW_NUMBER() OVER (ORDER BY n DESC) AS place, "
        "SUM(LENGTH(raw) + LENGTH(card) + LENGTH(differences)) OVER (ORDER BY n DESC) AS bytes "
        "FROM cards WHERE agent = ? AND decision IN ('replaced', 'taken')) AS kept "
        "WHERE place <= ? AND bytes <= ?)",
        *(agent, *needed, agent, most, most_bytes),
    )


async def insert_card(
    db: Change,
    agent: str,
    n: int,
    found: ReadCard,
    changed: tuple[Difference, ...],
    decision: str,
    now: int,
) -> None:
    await db.execute(
        f"INSERT INTO cards ({CARD_COLUMNS}) VALUES ({', '.join('?' * 11)})",
        *(
            agent,
            n,
            found.raw,
            found.sha256,
            json_of(found.card),
            json_of((*found.notes, *found.warnings)),
        ),
        *(json_of(found.signature), json_of(changed), decision, now, now),
    )


def json_of(value: Any) -> str:
    return msgspec.json.encode(value).decode()
