"""What an operator asks of a database, beside the replicas that use it."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from ..contract import Namespace, Row, Stats, StoredLog
from .connect import BROKEN, FREE, connected, is_pooled, missing_settings, reason
from .migrations import check, migrate, version
from .options import PostgresOptions

__all__ = [
    "DatabaseHealth",
    "Replica",
    "backup",
    "count",
    "health",
    "inspect",
    "logs_of",
    "migrate_all",
    "replicas",
    "vacuum",
]

EXACT = 1_000_000  # rows of the log that are counted one by one; of more, PostgreSQL's estimate


class Replica(msgspec.Struct, frozen=True):
    """A process that uses, or used, the database."""

    number: int
    name: str  # host and process
    started_ms: int
    seen_ms: int  # when it last showed that it lives, by its own clock
    is_dead: bool
    tasks: int  # that it owns


class DatabaseHealth(msgspec.Struct, frozen=True):
    """What a database is like for a replica that would use it."""

    server: str  # its version
    is_pooled: bool  # a pooler is in between
    is_heard: bool  # wake-ups arrive: there is a direct way for them
    missing: list[str]  # statements that would give the role its settings
    free: int  # connections that are left; behind a pooler, of the database


async def count(db: Any, schema: str) -> Stats:
    """Return how much the store holds."""
    states = await db.fetch(
        f"SELECT state, sum(n)::bigint FROM (SELECT state, n FROM {schema}.counts UNION ALL "
        f"SELECT state, n FROM {schema}.deltas) c GROUP BY 1 HAVING sum(n) <> 0"
    )
    counted = []
    for table in ("events", "keys"):
        estimate = await db.fetchval(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = $1::regclass", f"{schema}.{table}"
        )
        counted.append(
            estimate
            if estimate > EXACT
            else await db.fetchval(f"SELECT count(*) FROM {schema}.{table}")
        )
    return Stats(
        tasks=dict(states), events=counted[0], keys=counted[1], size=await _size(db, schema)
    )


async def _size(db: Any, schema: str) -> int:
    size: int = await db.fetchval(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'",
        schema,
    )
    return size


async def inspect(options: PostgresOptions) -> tuple[Stats, int]:
    """Return how much a database holds, and the number of its schema. Changes nothing.

    Raises:
        RuntimeError: It can't be used, or there is nothing of ours in it.
    """
    async with _ours(options) as (db, have):
        return await count(db, options.schema), have


async def logs_of(options: PostgresOptions, task_id: str) -> list[StoredLog]:
    """Return the logs of the tasks with this id, of whatever agent and caller."""
    async with _ours(options) as (db, _):
        found = await db.fetch(
            "SELECT t.key, n.agent, n.tenant, n.caller, t.context, t.state "
            f"FROM {options.schema}.tasks t JOIN {options.schema}.namespaces n USING (namespace) "
            "WHERE t.id = $1",
            task_id,
        )
        events = (
            f"SELECT task, pos, seq, at_ms, data FROM {options.schema}.events "
            "WHERE task = $1 ORDER BY pos"
        )
        return [
            StoredLog(
                Namespace(agent, tenant, caller),
                context,
                state,
                [Row(*row) for row in await db.fetch(events, key)],
            )
            for key, agent, tenant, caller, context, state in found
        ]


async def migrate_all(options: PostgresOptions) -> tuple[int, int]:
    """Bring a database to the newest schema, also by steps that take long. Return the numbers of
    its schema before and after.
    """
    async with _used(options) as (db, have):
        return have, await migrate(db, options.schema, slow=True)


async def vacuum(options: PostgresOptions) -> tuple[int, int]:
    """Make the room of deleted rows usable again. Return the bytes before and after."""
    async with _ours(options) as (db, _):
        before = await _size(db, options.schema)
        tables = await db.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1", options.schema
        )
        for (table,) in tables:
            await db.execute(f"VACUUM (ANALYZE) {options.schema}.{table}")
        return before, await _size(db, options.schema)


async def backup(options: PostgresOptions, file: Path) -> None:
    """Write all there is into a file, as it stands at one moment, while replicas go on. It is put
    back with pg_restore.

    Raises:
        RuntimeError: It can't be done; says why.
    """
    command = shutil.which("pg_dump")
    if command is None:
        raise RuntimeError("pg_dump is not there; install PostgreSQL's client programs")
    async with _ours(options):
        pass
    # Not in the command line, which everybody on the machine can read.
    parts = urlsplit(options.dsn)
    name, at, host = parts.netloc.rpartition("@")
    user, _, password = name.partition(":")
    dsn = urlunsplit(parts._replace(netloc=f"{user}{at}{host}"))
    environment = os.environ | ({"PGPASSWORD": unquote(password)} if password else {})
    process = await asyncio.create_subprocess_exec(
        command,
        "--format=custom",
        f"--schema={options.schema}",
        f"--file={file}",
        f"--dbname={dsn}",
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"pg_dump failed: {said.decode(errors='replace').strip()}")


async def health(options: PostgresOptions) -> DatabaseHealth:
    """Look at a database as a replica would. Changes nothing.

    Raises:
        RuntimeError: It can't be used.
    """
    try:
        pooled = await is_pooled(options)
        async with connected(options, pooled=pooled) as db:
            return DatabaseHealth(
                server=".".join(str(n) for n in db.get_server_version()[:2]),
                is_pooled=pooled,
                is_heard=not pooled or bool(options.listen),
                missing=await missing_settings(db),
                free=await db.fetchval(FREE),
            )
    except BROKEN as error:
        raise RuntimeError(f"the database can't be used: {reason(options, error)}") from error


async def replicas(options: PostgresOptions) -> list[Replica]:
    """Return the processes that use the database, and dead ones that are not forgotten yet."""
    schema = options.schema
    async with _ours(options) as (db, _):
        rows = await db.fetch(
            "SELECT r.id, r.name, (extract(epoch FROM r.started) * 1000)::bigint, r.seen_ms, "
            f"r.died IS NOT NULL, (SELECT count(*) FROM {schema}.tasks t WHERE t.owner = r.id) "
            f"FROM {schema}.replicas r ORDER BY r.id"
        )
    return [Replica(*row) for row in rows]


@contextlib.asynccontextmanager
async def _used(options: PostgresOptions) -> AsyncIterator[tuple[Any, int]]:
    """A connection, and the number of the schema."""
    try:
        async with connected(options, pooled=await is_pooled(options)) as db:
            have, needs = await version(db, options.schema)
            check(options.place, have, needs)
            yield db, have
    except BROKEN as error:
        raise RuntimeError(f"the database can't be used: {reason(options, error)}") from error


@contextlib.asynccontextmanager
async def _ours(options: PostgresOptions) -> AsyncIterator[tuple[Any, int]]:
    async with _used(options) as (db, have):
        if not have:
            raise RuntimeError(
                f"{options.place} has no schema {options.schema!r}; accord serve makes one"
            )
        yield db, have
