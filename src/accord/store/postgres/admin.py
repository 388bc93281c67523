"""What an operator asks of a database, beside the replicas that use it."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ..contract import Namespace, Row, Stats, StoredLog
from ..file_index import FileStats
from ..migrations import newest
from ..parts import TASKS
from .connect import BROKEN, FREE, connected, is_pooled, missing_settings, reason
from .options import PostgresOptions
from .schema import migrate_database, versions

__all__ = [
    "DatabaseHealth",
    "Replica",
    "collect_files",
    "count",
    "file_stats",
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

    is_ours: bool  # tasks are stored there already
    server: str  # its version
    is_pooled: bool  # a pooler is in between
    is_notified: bool  # wake-ups arrive: there is a direct way for them
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


_FREE = "NOT EXISTS (SELECT FROM {s}.file_uses u WHERE u.file = f.id)"
_ELSEWHERE = "f.length > 0 AND NOT EXISTS (SELECT FROM {s}.file_bytes b WHERE b.file = f.id)"


async def file_stats(options: PostgresOptions) -> FileStats:
    """Return how many files the tasks of a database have. Changes nothing."""
    counted = "count(*) FILTER (WHERE {0}), coalesce(sum(f.length) FILTER (WHERE {0}), 0)::bigint"
    columns = ", ".join(counted.replace("{0}", one) for one in ("true", _FREE, _ELSEWHERE))
    async with _ours(options) as (db, _):
        sql = f"SELECT {columns} FROM {{s}}.files f"
        return FileStats(*await db.fetchrow(sql.replace("{s}", options.schema)))


async def collect_files(options: PostgresOptions, unused_s: float) -> int:
    """Delete the files in a database that no task has referred to for so long, as its servers do
    all the time. Return how many.
    """
    old = f"f.used_ms < extract(epoch FROM clock_timestamp()) * 1000 - $1 AND {_FREE}"
    async with _ours(options) as (db, _), db.transaction():
        doom = f"UPDATE {{s}}.files f SET used_ms = -1 WHERE {old} RETURNING f.id"
        rows = await db.fetch(doom.replace("{s}", options.schema), unused_s * 1000)
        ids = [id_ for (id_,) in rows]
        await db.execute(f"DELETE FROM {options.schema}.file_bytes WHERE file = ANY($1)", ids)
        await db.execute(f"DELETE FROM {options.schema}.files WHERE id = ANY($1)", ids)
        return len(ids)


async def logs_of(options: PostgresOptions, task_id: str) -> list[StoredLog]:
    """Return the logs of the tasks with this id, of whatever agent and caller."""
    async with _ours(options) as (db, _):
        found = await db.fetch(
            "SELECT t.key, n.agent, n.tenant, n.caller, t.context, t.state, t.skill, t.about "
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
                *(skill, about),
            )
            for key, agent, tenant, caller, context, state, skill, about in found
        ]


async def migrate_all(options: PostgresOptions) -> tuple[int, int]:
    """Bring a database to the newest schema, also by steps that take long. Return the numbers of
    its schema before and after.
    """
    async with _used(options) as (db, have):
        parts = {TASKS, *await versions(db, options)}
        await migrate_database(db, options, *sorted(parts, reverse=True), slow=True)
        return have, newest()


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


async def health(options: PostgresOptions) -> DatabaseHealth:
    """Look at a database as a replica would. Changes nothing.

    Raises:
        RuntimeError: It can't be used.
    """
    try:
        pooled = await is_pooled(options)
        async with connected(options, pooled=pooled) as db:
            found = await versions(db, options)  # raises if it is not for this release
            return DatabaseHealth(
                is_ours=TASKS in found,
                server=db.get_settings().server_version.split()[0],
                is_pooled=pooled,
                is_notified=not pooled or bool(options.listen),
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
            found = await versions(db, options)
            yield db, found[TASKS].have if TASKS in found else 0
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
