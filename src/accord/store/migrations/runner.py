"""Bring a database to the newest schema.

A database has parts, each with its own number: the tasks, which every store has, and the hub. The
steps of a part are files in its folder: `0020_sqlite.sql`, `0020_postgresql.sql`, or `0020.sql`
for both databases (then INTEGER reads BIGINT on PostgreSQL, and BLOB reads BYTEA). Every statement
ends with a `;` at the end of its line, and no other line ends with one.

A step is one transaction, and of many processes that start at once one does it. A step only adds:
processes of the release before go on beside it. What an older release can't live with raises
`needs`: from then on it refuses to start.

A step that takes long on large tables of PostgreSQL (an index, say) has a name that ends in
`_slow.sql`. Only `accord db migrate` does it, statement by statement and outside of a transaction,
so that indexes can be made CONCURRENTLY.
"""

import functools
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from ...model import now_ms
from ..parts import HUB, TASKS
from ..sql import Sql, statements

__all__ = [
    "Schema",
    "SchemaVersion",
    "Step",
    "check",
    "migrate",
    "newest",
    "steps",
    "too_old",
]

FIRST = 20  # the number of the first release
NEEDS = 20  # the oldest number whose release can use what this one writes

MADE = (
    "CREATE TABLE IF NOT EXISTS {prefix}migrations (part TEXT NOT NULL, version INTEGER NOT NULL, "
    "needs INTEGER NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY (part, version))"
)

_FOLDER = Path(__file__).parent
_NAME = re.compile(r"(\d{4})(?:_(sqlite|postgresql))?(_slow)?")


class SchemaVersion(NamedTuple):
    """The number of one part of a database, and the oldest release that may use it."""

    have: int
    needs: int


class Step(NamedTuple):
    """One change of a part."""

    number: int
    sql: str
    is_slow: bool = False


class Schema(Protocol):
    """A database, as far as its schema goes."""

    place: str  # for messages
    prefix: str  # of the names of tables
    dialect: str

    async def versions(self) -> Mapping[str, SchemaVersion]:
        """Return the number of each part; none if the database is empty.

        Raises:
            RuntimeError: It is not ours.
        """
        ...

    def alone(self) -> AbstractAsyncContextManager[Sql]:
        """A transaction in which no other process changes the schema."""
        ...

    async def slowly(self, statement: str) -> None:
        """Run a statement that takes long, outside of a transaction."""
        ...


@functools.cache
def steps(part: str, dialect: str) -> list[Step]:
    """Return the steps of a part, in order."""
    found = []
    for file in sorted((_FOLDER / part).glob("*.sql")):
        name = _NAME.fullmatch(file.stem)
        assert name is not None, f"{file.name} is no name of a step"
        if name[2] in (None, dialect):
            sql = file.read_text()
            if name[2] is None and dialect == "postgresql":
                sql = re.sub(r"\bINTEGER\b", "BIGINT", re.sub(r"\bBLOB\b", "BYTEA", sql))
            found.append(Step(int(name[1]), sql, name[3] is not None))
    return found


def newest(part: str = TASKS) -> int:
    """Return the number of the newest schema we know."""
    return steps(part, "sqlite")[-1].number


def too_old(place: str) -> RuntimeError:
    """Return what is raised for a database that no release made."""
    return RuntimeError(f"{place} was made by a version before the first release; move it away")


def check(place: str, versions: Mapping[str, SchemaVersion]) -> None:
    """Raise RuntimeError if a database is too old or too new for this release."""
    for part, (have, needs) in versions.items():
        if have < FIRST:
            raise too_old(place)
        if part in (TASKS, HUB) and needs > newest(part):
            raise RuntimeError(
                f"{place} was changed by a newer release of Accord (schema {have}; this one knows "
                f"{newest(part)}); install that release"
            )


async def migrate(schema: Schema, *parts: str, slow: bool = False) -> None:
    """Make these parts, and apply what is missing of them. Without `slow` it stops before the first
    step that may take long: everything works without it.

    Raises:
        RuntimeError: The database is too old or too new.
    """
    for part in parts:
        versions = await schema.versions()
        check(schema.place, versions)
        have = versions[part].have if part in versions else 0
        is_new = have == 0  # nothing takes long in an empty database
        for step in steps(part, schema.dialect):
            if step.number <= have:
                continue
            if not step.is_slow or is_new:
                await _apply(schema, part, step)
            elif slow:
                await _apply_slowly(schema, part, step)
            else:
                break


async def _apply(schema: Schema, part: str, step: Step) -> None:
    async with schema.alone() as db:
        await db.execute(MADE.replace("{prefix}", schema.prefix))
        versions = await schema.versions()
        check(schema.place, versions)
        if part in versions and versions[part].have >= step.number:
            return  # another process was faster
        for statement in statements(step.sql.replace("CONCURRENTLY", "")):
            await db.execute(statement.replace("{schema}.", schema.prefix))
        await db.execute(_noted(schema, part, step))


async def _apply_slowly(schema: Schema, part: str, step: Step) -> None:
    for statement in statements(step.sql):
        await schema.slowly(statement.replace("{schema}.", schema.prefix))
    async with schema.alone() as db:
        await db.execute(_noted(schema, part, step) + " ON CONFLICT DO NOTHING")


def _noted(schema: Schema, part: str, step: Step) -> str:
    return (
        f"INSERT INTO {schema.prefix}migrations (part, version, needs, at_ms) "
        f"VALUES ('{part}', {step.number}, {NEEDS}, {now_ms()})"
    )
