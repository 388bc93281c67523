"""Whose a task is, and who watches it: claims, orphans, what is due."""

from collections.abc import Collection, Mapping
from typing import Any

from ..clock import FOREVER_MS
from ..contract import ANY_FORMAT, Can, Namespace, Owned, Record
from ..rules import ENDED, INPUT_REQUIRED, WAITING, WORKED_ON
from .claims import claim_sql
from .clock import NOW_MS
from .logs import PostgresLogs
from .namespaces import number
from .rows import bare_record_of, record_of, select, select_bare
from .session import Session

__all__ = ["PostgresOwnership"]

_ENDED = ", ".join(map(str, ENDED))
_WAITING = ", ".join(map(str, WAITING))
_ORPHANED = (
    "t.owner IS NOT NULL AND t.owner = ANY ($1::bigint[]) AND t.namespace IN "
    "(SELECT namespace FROM {s}.namespaces WHERE agent = ANY ($2::text[]))"
)
_UNOWNED = (
    f"t.owner IS NULL AND t.due_ms IS NULL AND t.state IN ({', '.join(map(str, WORKED_ON))}) "
    "AND $1::bigint IS NULL AND t.namespace IN "
    "(SELECT namespace FROM {s}.namespaces WHERE agent = ANY ($2::text[]))"
)
# By the statement's time: an index serves that, and it is never ahead of the clock.
_IS_DUE = (
    "t.owner IS NULL AND t.due_ms <= " + NOW_MS + " "
    "AND $1::bigint IS NULL AND t.namespace IN "
    "(SELECT namespace FROM {s}.namespaces WHERE agent = ANY ($2::text[]))"
)


class PostgresOwnership:
    """Gives tasks to this replica, and has it woken for those of others. What it raises is in the
    contract of `Store`.
    """

    def __init__(self, session: Session, logs: PostgresLogs) -> None:
        self._db = session
        self._logs = logs

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        if "\0" in task_id:
            return None
        if watch:
            # First: what is committed from now on sees it, what was committed before is read.
            await self._db.fetch(
                "UPDATE {s}.tasks SET watchers = watchers || $3::bigint "
                "WHERE namespace = $1 AND id = $2 AND NOT (watchers @> ARRAY[$3::bigint])",
                number(namespace),
                task_id,
                self._db.replica,
            )
        record = await self._logs.load(namespace, task_id)
        if watch and record is not None:
            # Who watches it already may not have seen as much of it.
            self._db.watched.setdefault(record.key, record.pos)
        return record

    async def unwatch(self, tasks: Collection[int]) -> None:
        for key in tasks:
            self._db.watched.pop(key, None)
        await self._db.fetch(
            "UPDATE {s}.tasks SET watchers = array_remove(watchers, $2::bigint) "
            "WHERE key = ANY ($1::bigint[]) AND watchers @> ARRAY[$2::bigint]",
            list(tasks),
            self._db.replica,
        )

    async def claim(
        self,
        namespace: Namespace,
        task_id: str,
        *,
        reopen: bool = False,
        known: int = 0,
        format: int = ANY_FORMAT,
        watch: bool = False,
    ) -> Record | None:
        if "\0" in task_id:
            return None
        schema, replica = self._db.options.schema, self._db.replica  # which may be another soon
        select_ = select_bare(schema) if known else select(schema)
        rows = await self._db.fetch(
            claim_sql(reopen=reopen, watch=watch)
            + f"SELECT t.*, c.pos, c.posts, c.seen_ms, w.pos FROM ({select_} "
            "WHERE t.namespace = $1 AND t.id = $2) t "
            "LEFT JOIN claimed c ON true LEFT JOIN watched w ON true",
            number(namespace),
            task_id,
            replica,
            format,
        )
        if not rows:
            return None
        *row, claimed_pos, claimed_posts, seen_ms, watched_pos = rows[0]
        record = bare_record_of(row) if known else record_of(row)
        if record.namespace != namespace:
            return None
        # The task was read as it was before the claim, which has waited for commits under way.
        pos = claimed_pos or watched_pos or record.pos
        if pos != record.pos or (known and known != pos):
            again = await self._logs.load(namespace, task_id)
            if again is None:
                return None
            record = again
        if claimed_pos is not None:
            record.owner, record.died_ms = replica, seen_ms or 0
            record.posts = max(record.posts, claimed_posts)
        elif watch and record.owner not in (0, replica):
            self._db.watched.setdefault(record.key, record.pos)
        return record

    async def unclaim(self, key: int, pos: int) -> None:
        await self._db.fetch(
            "UPDATE {s}.tasks SET owner = NULL "
            "WHERE key = $1 AND owner = $2 AND pos = $3 AND posts = posts_read",
            key,
            self._db.replica,
            pos,
        )

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        keys: dict[int, int] = {}  # with when its owner was last seen
        dead = [
            row[0]
            for row in await self._db.fetch(
                "SELECT id FROM {s}.replicas r WHERE died IS NOT NULL "
                "AND EXISTS (SELECT FROM {s}.tasks t WHERE t.owner = r.id)"
            )
        ]
        if dead:
            await self._db.fetch(
                "UPDATE {s}.tasks t SET owner = NULL WHERE key IN (SELECT key FROM {s}.tasks t "
                f"WHERE {_ORPHANED} AND posts = posts_read AND (state IN ({_ENDED}) OR "
                f"(state = {INPUT_REQUIRED} AND (at_ms >= {NOW_MS} - $3::bigint "
                "OR due_ms IS NOT NULL))) FOR UPDATE SKIP LOCKED)",
                dead,
                list(can.agents),
                can.unanswered_ms,
            )
            keys |= await self._take(_ORPHANED, limit, can, dead)
        if len(keys) < limit and can.unanswered_ms < FOREVER_MS:
            waiting = (
                f"t.owner IS NULL AND t.due_ms IS NULL AND t.state IN ({_WAITING}) "
                f"AND t.at_ms < {NOW_MS} - $1::bigint AND t.namespace IN "
                "(SELECT namespace FROM {s}.namespaces WHERE agent = ANY ($2::text[]))"
            )
            keys |= await self._take(waiting, limit - len(keys), can, can.unanswered_ms)
        if len(keys) < limit and can.unowned:
            keys |= await self._take(_UNOWNED, limit - len(keys), can, None)
        return await self._taken(keys)

    async def due(self, limit: int, can: Can) -> list[Record]:
        keys = await self._take(_IS_DUE, limit, can, None, order="t.due_ms")
        found = await self._taken(keys)
        return sorted(found, key=lambda record: record.due_ms)

    async def _taken(self, keys: Mapping[int, int]) -> list[Record]:
        """Return tasks that we have taken, each with when its owner was last seen."""
        if not keys:
            return []
        rows = await self._db.fetch(
            select(self._db.options.schema) + "WHERE t.key = ANY ($1::bigint[]) ORDER BY t.key",
            list(keys),
        )
        found = [record_of(row) for row in rows]
        for record in found:
            record.died_ms = keys[record.key]
            record.may_live = bool(record.died_ms)
        return found

    async def owned(self) -> list[Owned]:
        rows = await self._db.fetch(
            "SELECT key, agent, tenant, caller, id, pos FROM {s}.tasks "
            "JOIN {s}.namespaces USING (namespace) WHERE owner = $1 ORDER BY key",
            self._db.replica,
        )
        return [Owned(key, Namespace(*whose), id_, pos) for key, *whose, id_, pos in rows]

    async def _take(
        self, which: str, limit: int, can: Can, first: Any, *, order: str = "t.key"
    ) -> dict[int, int]:
        """Make tasks ours. What another replica is about to take is left to it."""
        pairs = [(agent, skill) for agent, skills in can.agents.items() for skill in skills]
        rows = await self._db.fetch(
            f"""
WITH old AS MATERIALIZED (
  SELECT t.key, t.owner FROM {{s}}.tasks t
  WHERE {which} AND t.format <= $5 AND EXISTS (
    SELECT FROM {{s}}.namespaces n
    JOIN unnest($3::text[], $4::text[]) AS can (agent, skill) ON n.agent = can.agent
    WHERE n.namespace = t.namespace AND can.skill = t.skill)
  ORDER BY {order} LIMIT $6 FOR UPDATE SKIP LOCKED
)
UPDATE {{s}}.tasks t SET owner = $7 FROM old WHERE t.key = old.key
RETURNING t.key, (SELECT seen_ms FROM {{s}}.replicas WHERE id = old.owner)""",
            first,
            list(can.agents),
            [agent for agent, _ in pairs],
            [skill for _, skill in pairs],
            can.format,
            limit,
            self._db.replica,
        )
        return {key: seen_ms or 0 for key, seen_ms in rows}
