"""The schema of a PostgreSQL database: which it has, and how it gets the newest."""

import contextlib
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ..migrations import SchemaVersion, check, migrate, too_old
from ..sql import Sql
from .connect import transaction
from .options import PostgresOptions
from .statements import PostgresSql

__all__ = ["migrate_database", "versions"]


async def migrate_database(
    db: Any, options: PostgresOptions, *parts: str, slow: bool = False
) -> None:
    """Bring parts of a database to the newest schema.

    Raises:
        RuntimeError: It is too old or too new for this release.
    """
    await migrate(_DatabaseSchema(db, options), *parts, slow=slow)


async def versions(db: Any, options: PostgresOptions) -> Mapping[str, SchemaVersion]:
    """Return the number of each part of a database; none if there is no schema of ours.

    Raises:
        RuntimeError: It is too old or too new for this release.
    """
    found = await _DatabaseSchema(db, options).versions()
    check(options.place, found)
    return found


class _DatabaseSchema:
    dialect = PostgresSql.dialect

    def __init__(self, db: Any, options: PostgresOptions) -> None:
        self._db, self._schema = db, options.schema
        self.place, self.prefix = options.place, f"{options.schema}."

    async def versions(self) -> Mapping[str, SchemaVersion]:
        table = f"{self._schema}.migrations"
        if not await self._db.fetchval("SELECT to_regclass($1) IS NOT NULL", table):
            return {}
        if not await self._db.fetchval(
            "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) "
            "AND attname = 'part')",
            table,
        ):
            raise too_old(f"schema {self._schema} of {self.place}")
        rows = await self._db.fetch(
            f"SELECT part, max(version), max(needs) FROM {table} GROUP BY part"
        )
        return {part: SchemaVersion(have, needs) for part, have, needs in rows}

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[Sql]:
        """Others may be at it, for as long as it takes."""
        lock = zlib.crc32(f"accord migrate {self._schema}".encode())
        async with transaction(self._db, lock_timeout="0"):
            await self._db.execute(f"SELECT pg_advisory_xact_lock({lock})")
            await self._db.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
            await self._db.execute(f"SET LOCAL search_path TO {self._schema}")
            yield PostgresSql(self._db)

    async def slowly(self, statement: str) -> None:
        await self._db.execute("SET lock_timeout = 0")  # it waits for transactions that go on
        await self._db.execute(statement)
