"""What is read of the tasks in a database: logs, posts, keys, lists."""

from collections.abc import Collection, Mapping

from ..clock import FOREVER_MS
from ..contract import (
    ConversationState,
    Ended,
    Idempotency,
    LogEnd,
    Namespace,
    Page,
    PostKind,
    Query,
    ReceivedPost,
    Record,
    Row,
    Stats,
)
from ..rules import PIECE_BYTES, PIECE_ROWS
from .admin import count
from .clock import NOW_MS
from .namespaces import number
from .pages import count_ended, ended, page
from .rows import record_of, select
from .session import Session

__all__ = ["PostgresLogs"]

# What the tasks of a caller take: their snapshots, and the log of those without one.
_STORED = """
WITH t AS (
  SELECT key, snap, octet_length(coalesce(head, '')) + octet_length(coalesce(artifacts, ''))
    AS size FROM {s}.tasks
  WHERE namespace IN (SELECT namespace FROM {s}.namespaces WHERE agent = $1 AND caller = $2)
)
SELECT coalesce((SELECT sum(size) FROM t), 0) + coalesce((SELECT sum(octet_length(e.data))
  FROM {s}.events e JOIN t ON t.key = e.task AND t.snap = 0), 0)
  + coalesce((SELECT sum(octet_length(data)) FROM {s}.states
  WHERE namespace IN (SELECT namespace FROM {s}.namespaces WHERE agent = $1 AND caller = $2)), 0)"""


class PostgresLogs:
    """Reads tasks, and changes nothing. What it raises is in the contract of `Store`."""

    def __init__(self, session: Session) -> None:
        self._db = session

    async def load(self, namespace: Namespace, task_id: str) -> Record | None:
        rows = await self._db.fetch(
            select(self._db.options.schema) + "WHERE t.namespace = $1 AND t.id = $2",
            number(namespace),
            task_id,
        )
        record = record_of(rows[0]) if rows else None
        return record if record is not None and record.namespace == namespace else None

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        # For each task from the row that holds the next position, if there is one; of large rows
        # no more than the piece has, but at least one.
        rows = await self._db.fetch(
            "SELECT e.task, e.pos, e.seq, e.at_ms, e.data, "
            "CASE WHEN e.pos <= a.pos + 1 THEN coalesce((SELECT b.at_ms FROM {s}.events b "
            "  WHERE b.task = a.task AND b.pos < e.pos ORDER BY b.pos DESC LIMIT 1), 0) ELSE 0 END "
            "FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY AS a (task, pos, place) "
            "JOIN {s}.tasks t ON t.key = a.task AND t.pos > a.pos, "
            "LATERAL (SELECT e.*, sum(octet_length(e.data)) OVER (ORDER BY e.pos) "
            "  - octet_length(e.data) AS before FROM (SELECT * FROM {s}.events e "
            "  WHERE e.task = a.task AND e.pos >= coalesce((SELECT max(pos) FROM {s}.events "
            "    WHERE task = a.task AND pos <= a.pos + 1), 0) "
            "  ORDER BY e.pos LIMIT $3) e) e "
            "WHERE e.before <= $4 ORDER BY a.place, e.pos",
            list(after),
            [min(pos, 2**31 - 2) for pos in after.values()],
            PIECE_ROWS,
            PIECE_BYTES,
        )
        return [Row(*row) for row in rows]

    async def ends(self, tasks: Collection[int]) -> dict[int, LogEnd]:
        rows = await self._db.fetch(
            "SELECT key, pos, committed_ms FROM {s}.tasks WHERE key = ANY ($1::bigint[])",
            list(tasks),
        )
        return {key: LogEnd(pos, at_ms) for key, pos, at_ms in rows}

    async def locate(self, task: int, seq: int) -> int:
        # The first row that reaches this number has it, unless rows before it are gone. Both
        # numbers only grow, so halving finds it: the index has them both.
        rows = await self._db.fetch(
            """
WITH RECURSIVE last AS (
  SELECT pos, seq FROM {s}.events WHERE task = $1 ORDER BY pos DESC LIMIT 1
),
wanted AS (SELECT least($2::int, seq) AS seq FROM last),
halving (low, found) AS (
  SELECT 1, pos FROM last
  UNION ALL
  SELECT CASE WHEN m.seq >= w.seq THEN low ELSE (low + found) / 2 + 1 END,
    CASE WHEN m.seq >= w.seq THEN m.pos ELSE found END
  FROM halving CROSS JOIN wanted w LEFT JOIN LATERAL (
    SELECT pos, seq FROM {s}.events WHERE task = $1 AND pos <= (low + found) / 2
    ORDER BY pos DESC LIMIT 1
  ) m ON true
  WHERE low < found
)
SELECT h.found, w.seq, EXISTS (SELECT FROM {s}.events WHERE task = $1 AND pos < h.found)
FROM halving h, wanted w WHERE h.low >= h.found""",
            task,
            min(seq, 2**31 - 1),
        )
        if not rows or rows[0][1] <= 0:
            return 0
        found, _, has_before = rows[0]
        return int(found) if found == 1 or has_before else 0

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        which = "" if tasks is None else "t.key = ANY ($2::bigint[]) AND "
        rows = await self._db.fetch(
            "SELECT p.task, p.n, p.id, p.kind, p.body FROM {s}.posts p "
            f"JOIN {{s}}.tasks t ON t.key = p.task WHERE {which}t.owner = $1 "
            "AND p.n > t.posts_read ORDER BY p.task, p.n",
            self._db.replica,
            *(() if tasks is None else (list(tasks),)),
        )
        return [
            ReceivedPost(task, n, id_, PostKind(kind), body) for task, n, id_, kind, body in rows
        ]

    async def idempotency(
        self, namespace: Namespace, key: str, kept_ms: int = FOREVER_MS
    ) -> Idempotency | None:
        rows = await self._db.fetch(
            "SELECT digest, 0, task, turn, post, reply, at_ms FROM {s}.keys "
            f"WHERE namespace = $1 AND key = $2 AND at_ms >= {NOW_MS} - $3::bigint",
            number(namespace),
            key,
            kept_ms,
        )
        return Idempotency(namespace, key, *rows[0]) if rows else None

    async def conversation_state(
        self, namespace: Namespace, context_id: str
    ) -> ConversationState | None:
        if "\0" in context_id:
            return None
        rows = await self._db.fetch(
            "SELECT n, data FROM {s}.states JOIN {s}.namespaces USING (namespace) "
            "WHERE namespace = $1 AND context = $2 AND (agent, tenant, caller) = ($3, $4, $5)",
            number(namespace),
            context_id,
            *namespace,
        )
        return ConversationState(*rows[0]) if rows else None

    async def page(self, query: Query) -> Page:
        return await page(self._db.fetch, self._db.options.schema, query)

    async def ended(self, agent: str, from_ms: int, to_ms: int) -> list[Ended]:
        return await ended(self._db.fetch, self._db.options.schema, agent, from_ms, to_ms)

    async def count_ended(self, agent: str, from_ms: int, to_ms: int) -> int:
        return await count_ended(self._db.fetch, self._db.options.schema, agent, from_ms, to_ms)

    async def stored(self, agent: str, caller: str) -> int:
        rows = await self._db.fetch(_STORED, agent, caller)
        return int(rows[0][0])

    async def stats(self) -> Stats:
        async with self._db.reading() as db:
            return await count(db, self._db.options.schema)
