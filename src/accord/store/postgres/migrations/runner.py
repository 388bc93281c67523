"""Bring a database to the newest schema.

Steps are files, `0001_name.sql`. Each is one transaction under a lock, so of many replicas that
start at once one does it and the others wait. A step only adds: replicas of the release before go
on beside it. What an older release can't live with raises `needs`: from then on it refuses to
start.

A step that takes long on large tables (an index, say) has a name that ends in `_slow.sql`. Only
`accord db migrate` does it, statement by statement and outside of a transaction, so that indexes
can be made CONCURRENTLY.
"""

import functools
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from ..connect import transaction

__all__ = ["Step", "check", "migrate", "newest", "steps", "version"]

NEEDS = 1  # the oldest release of the schema that can use what this one writes

_FOLDER = Path(__file__).parent


class Step(NamedTuple):
    """One change of the schema."""

    number: int
    sql: str
    is_slow: bool


@functools.cache
def steps() -> list[Step]:
    """Return all steps, in order."""
    return [
        Step(int(file.name[:4]), file.read_text(), file.stem.endswith("_slow"))
        for file in sorted(_FOLDER.glob("*.sql"))
    ]


def newest() -> int:
    """Return the number of the newest schema we know."""
    return steps()[-1].number


async def version(db: Any, schema: str) -> tuple[int, int]:
    """Return the number of a database's schema, and the oldest that may use it; 0 if there is
    none.
    """
    if not await db.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{schema}.migrations"):
        return 0, 0
    have, needs = await db.fetchrow(
        f"SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM {schema}.migrations"
    )
    return have, needs


def check(place: str, have: int, needs: int) -> None:
    """Raise RuntimeError if a database is too new for this release."""
    if needs > newest():
        raise RuntimeError(
            f"{place} was changed by a newer release of Accord (schema {have}; this one knows "
            f"{newest()}); install that release"
        )


async def migrate(db: Any, schema: str, *, slow: bool = False) -> int:
    """Apply what is missing; return the number of the schema. Without `slow` it stops before the
    first step that may take long: everything works without it.
    """
    have, _ = await version(db, schema)
    is_new = have == 0  # nothing takes long in an empty database
    for step in steps():
        if step.number <= have:
            continue
        if step.is_slow and not is_new and not slow:
            break
        if step.is_slow and not is_new:
            await _apply_slowly(db, schema, step)
        else:
            await _apply(db, schema, step)
        have = step.number
    return have


async def _apply(db: Any, schema: str, step: Step) -> None:
    async with transaction(db, lock_timeout="0"):  # others may be at it, for as long as it takes
        await db.execute(f"SELECT pg_advisory_xact_lock({_lock(schema)})")
        await db.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        await db.execute(
            f"CREATE TABLE IF NOT EXISTS {schema}.migrations "
            "(version int PRIMARY KEY, needs int NOT NULL, at timestamptz NOT NULL DEFAULT now())"
        )
        if (await version(db, schema))[0] >= step.number:
            return  # another replica was faster
        await db.execute(step.sql.replace("{schema}", schema).replace("CONCURRENTLY", ""))
        await db.execute(
            f"INSERT INTO {schema}.migrations (version, needs) VALUES ({step.number}, {NEEDS})"
        )


async def _apply_slowly(db: Any, schema: str, step: Step) -> None:
    await db.execute("SET lock_timeout = 0")  # it waits for transactions that go on
    for statement in step.sql.replace("{schema}", schema).split(";"):
        if statement.strip():
            await db.execute(statement)
    await db.execute(
        f"INSERT INTO {schema}.migrations (version, needs) VALUES ({step.number}, {NEEDS}) "
        "ON CONFLICT DO NOTHING"
    )


def _lock(schema: str) -> int:
    return zlib.crc32(f"accord migrate {schema}".encode())
