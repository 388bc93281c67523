"""What a replica does for the database beside its work: old things go, totals are added up."""

import asyncio
import zlib
from collections.abc import Collection
from typing import Any

from ..contract import Ages
from ..failpoints import point
from ..rules import ENDED
from .clock import NOW_MS
from .connect import BROKEN, commit_failed, transaction
from .pushes import NEEDED
from .session import READ_S, Session

__all__ = ["PostgresUpkeep"]

PURGE_S = 30.0
FORGET = "1 hour"  # after which a dead replica without tasks is forgotten

_ENDED = ", ".join(map(str, ENDED))

_MERGE = """
WITH gone AS (DELETE FROM {s}.deltas RETURNING namespace, state, n)
INSERT INTO {s}.counts AS c SELECT namespace, state, sum(n) FROM gone GROUP BY 1, 2
ON CONFLICT (namespace, state) DO UPDATE SET n = c.n + excluded.n"""

# A commit deletes the posts it has read, if it sees them: not one that came while it waited for the
# task's row.
_READ_POSTS = """
DELETE FROM {s}.posts p USING {s}.tasks t WHERE t.key = p.task AND p.n <= t.posts_read"""


class PostgresUpkeep:
    """Deletes and adds up, one replica at a time: who finds another at it leaves it to that one."""

    def __init__(self, session: Session) -> None:
        self._db = session
        self._schema = session.options.schema

    async def purge(self, ages: Ages, limit: int) -> int:
        """One replica at a time: who finds another at it leaves it to that one."""
        try:
            async with asyncio.timeout(PURGE_S), self._db.connection() as db, transaction(db):
                if not await db.fetchval(
                    "SELECT pg_try_advisory_xact_lock($1)", self._lock("purge")
                ):
                    return 0
                return await self._purge(db, ages, limit)
        except BROKEN as error:
            raise commit_failed(self._db.options, error) from error

    async def _purge(self, db: Any, ages: Ages, limit: int) -> int:
        s = self._schema
        needed = NEEDED.replace("{s}", s)
        agent = (ages.agent,) if ages.agent else ()
        namespaces = f"(SELECT namespace FROM {s}.namespaces WHERE agent = $3)"
        whose = f"AND namespace IN {namespaces} " if agent else ""
        purged = await db.fetch(
            f"UPDATE {s}.tasks SET folded = true WHERE key IN (SELECT key FROM {s}.tasks "
            f"WHERE NOT folded AND state IN ({_ENDED}) AND at_ms < {NOW_MS} - $1::bigint "
            f"AND owner IS NULL AND NOT (pushed > 0 AND {needed}) {whose}"
            "ORDER BY at_ms, key LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING key, snap = pos",
            ages.events_ms,
            limit,
            *agent,
        )
        # Without a snapshot the log is all there is of a task.
        await db.execute(
            f"DELETE FROM {s}.events WHERE task = ANY ($1::bigint[])",
            [key for key, has_snapshot in purged if has_snapshot],
        )
        point("purge.events")
        old = await db.fetch(
            f"DELETE FROM {s}.tasks WHERE key IN (SELECT key FROM {s}.tasks WHERE folded "
            f"AND state IN ({_ENDED}) AND at_ms < {NOW_MS} - $1::bigint AND owner IS NULL {whose}"
            "ORDER BY at_ms, key LIMIT $2 FOR UPDATE SKIP LOCKED) "
            "RETURNING key, namespace, state, context",
            ages.tasks_ms,
            limit,
            *agent,
        )
        gone = [key for key, *_ in old]
        for table in ("events", "posts", "pushes", "dead_letters", "file_uses"):
            await db.execute(f"DELETE FROM {s}.{table} WHERE task = ANY ($1::bigint[])", gone)
        await db.execute(
            f"INSERT INTO {s}.deltas SELECT namespace, state, -count(*) "
            "FROM unnest($1::bigint[], $2::smallint[]) AS u (namespace, state) GROUP BY 1, 2",
            [namespace for _, namespace, _, _ in old],
            [state for _, _, state, _ in old],
        )
        await self._forget_states(db, {(namespace, context) for _, namespace, _, context in old})
        point("purge.tasks")
        keys = await db.fetch(
            f"DELETE FROM {s}.keys WHERE (namespace, key) IN (SELECT namespace, key FROM {s}.keys "
            f"WHERE at_ms < {NOW_MS} - $1::bigint LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1",
            ages.keys_ms,
            limit,
        )
        point("purge.keys")
        letters = await db.fetch(
            f"DELETE FROM {s}.dead_letters WHERE n IN (SELECT n FROM {s}.dead_letters "
            f"WHERE at_ms < {NOW_MS} - $1::bigint LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1",
            ages.letters_ms,
            limit,
        )
        await self._forget(db, limit)
        return len(purged) + len(old) + len(keys) + len(letters)

    async def _forget_states(self, db: Any, contexts: Collection[tuple[int, str]]) -> None:
        """Delete the states of those conversations that have no task left; not one that a turn
        writes at the same moment.
        """
        s = self._schema
        found = await db.fetch(
            f"SELECT o.namespace, o.context, o.n FROM {s}.states o "
            "JOIN unnest($1::bigint[], $2::text[]) AS u (namespace, context) "
            "USING (namespace, context) "
            f"WHERE NOT EXISTS (SELECT FROM {s}.tasks t WHERE t.namespace = o.namespace "
            "AND t.context = o.context)",
            [namespace for namespace, _ in contexts],
            [context for _, context in contexts],
        )
        if found:
            await db.execute(
                f"DELETE FROM {s}.states o "
                "USING unnest($1::bigint[], $2::text[], $3::int[]) AS u (namespace, context, n) "
                "WHERE o.namespace = u.namespace AND o.context = u.context AND o.n = u.n",
                *([row[i] for row in found] for i in range(3)),
            )

    async def _forget(self, db: Any, limit: int) -> None:
        """Delete what dead replicas left that no task names."""
        s = self._schema
        await db.execute(
            f"DELETE FROM {s}.replicas r WHERE died < clock_timestamp() - interval '{FORGET}' "
            f"AND NOT EXISTS (SELECT FROM {s}.tasks t WHERE t.owner = r.id)"
        )
        await db.execute(
            f"DELETE FROM {s}.batches b WHERE NOT EXISTS "
            f"(SELECT FROM {s}.replicas r WHERE r.id = b.replica)"
        )
        await db.execute(
            f"UPDATE {s}.tasks t SET watchers = ARRAY(SELECT w FROM unnest(t.watchers) w "
            f"JOIN {s}.replicas r ON r.id = w AND r.died IS NULL) WHERE key IN "
            f"(SELECT key FROM {s}.tasks WHERE watchers <> '{{}}' AND NOT watchers <@ "
            f"ARRAY(SELECT id FROM {s}.replicas WHERE died IS NULL) LIMIT $1 "
            "FOR UPDATE SKIP LOCKED)",
            limit,
        )

    async def merge_totals(self) -> None:
        """Add up what commits changed of the totals, and delete posts that were read. One replica
        at a time.
        """
        async with self._db.reading() as db, asyncio.timeout(READ_S), transaction(db):
            if await db.fetchval("SELECT pg_try_advisory_xact_lock($1)", self._lock("fold")):
                await db.execute(_MERGE.replace("{s}", self._schema))
                await db.execute(_READ_POSTS.replace("{s}", self._schema))

    def _lock(self, what: str) -> int:
        return zlib.crc32(f"accord {what} {self._schema}".encode())
