"""Webhooks in the tables of a `PostgresStore`."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from ..namespace import Namespace
from ..push import DeadLetter, Outcome, Push
from ..rules import ENDED
from .clock import NOW_MS
from .namespaces import number

__all__ = ["NEEDED", "PostgresPushes"]

_ENDED = ", ".join(map(str, ENDED))

# Whether the log of a task is still to be delivered, or named by a dead letter.
NEEDED = (
    "(EXISTS (SELECT FROM {s}.pushes p WHERE p.task = key AND p.upto > p.sent AND p.disabled = '') "
    "OR EXISTS (SELECT FROM {s}.dead_letters d WHERE d.task = key))"
)

# The task's row is locked first: the commit of an event sees the webhook, or the webhook comes
# after the event.
_PUT = f"""
WITH t AS (
  UPDATE {{s}}.tasks SET pushed = pushed + 1 WHERE key = $1 RETURNING key, state
)
INSERT INTO {{s}}.pushes AS o (task, id, n, namespace, is_open, artifacts, upto, sent, due_ms,
  at_ms, endpoint, version, data)
SELECT t.key, $2, (SELECT coalesce(max(n), 0) + 1 FROM {{s}}.pushes WHERE task = $1), $3,
  t.state NOT IN ({_ENDED}), $4, $5, $6, CASE WHEN $5::int > $6::int THEN {NOW_MS} END,
  {NOW_MS}, $7, $8, $9 FROM t
ON CONFLICT (task, id) DO UPDATE SET artifacts = excluded.artifacts, at_ms = excluded.at_ms,
  endpoint = excluded.endpoint, version = excluded.version, data = excluded.data, error = '',
  disabled = '', tries = 0, failing_ms = 0, claim = o.claim + 1,
  due_ms = CASE WHEN o.upto > o.sent THEN excluded.at_ms END
RETURNING 1"""

_SELECT = (
    "SELECT p.task, p.id, n.agent, n.tenant, n.caller, p.endpoint, p.version, p.data, p.at_ms, "
    "p.artifacts, p.sent, p.upto, p.due_ms, p.tries, p.claim, p.failing_ms, p.error, p.disabled, "
    "p.n, t.id, t.context FROM {s}.pushes p JOIN {s}.namespaces n USING (namespace) "
    "JOIN {s}.tasks t ON t.key = p.task "
)
_TROUBLED = (
    "WHERE p.disabled <> '' OR p.failing_ms > 0 "
    "OR EXISTS (SELECT FROM {s}.dead_letters d WHERE d.task = p.task AND d.push = p.id) "
)
_OF_AGENTS = "namespace IN (SELECT namespace FROM {s}.namespaces WHERE agent = ANY ($1::text[]))"

_TAKE = f"""
WITH due AS MATERIALIZED (
  SELECT task, id, due_ms FROM {{s}}.pushes
  WHERE due_ms <= {NOW_MS} AND endpoint <> ALL ($2::text[]) AND {_OF_AGENTS}
  ORDER BY due_ms, task, id LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE {{s}}.pushes p SET claim = p.claim + 1, due_ms = {NOW_MS} + $4::bigint FROM due
WHERE p.task = due.task AND p.id = due.id RETURNING p.task, p.id, due.due_ms"""

_SETTLE = f"""
WITH o AS MATERIALIZED (
  SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::int[], $5::bigint[], $6::int[],
    $7::bigint[], $8::text[], $9::text[]) WITH ORDINALITY
    AS o (task, id, claim, sent, pause_ms, tries, failing_ms, error, disabled, place)
),
done AS (
  UPDATE {{s}}.pushes p SET sent = o.sent, tries = o.tries, failing_ms = o.failing_ms,
    error = o.error, disabled = o.disabled, claim = p.claim + 1,
    due_ms = CASE WHEN p.upto > o.sent AND o.disabled = '' THEN {NOW_MS} + o.pause_ms END
  FROM o WHERE p.task = o.task AND p.id = o.id AND p.claim = o.claim RETURNING o.place
)
INSERT INTO {{s}}.dead_letters (task, push, first, last, at_ms, error)
SELECT l.task, l.push, l.first, l.last, {NOW_MS}, l.error
FROM unnest($10::bigint[], $11::bigint[], $12::text[], $13::int[], $14::int[], $15::text[])
  AS l (place, task, push, first, last, error)
WHERE l.place IN (SELECT place FROM done) ORDER BY l.place"""

_REPLAY = f"""
WITH gone AS (
  DELETE FROM {{s}}.dead_letters WHERE n = ANY ($1::bigint[]) RETURNING task, push, first
),
again AS (
  UPDATE {{s}}.pushes p SET sent = least(p.sent, g.first - 1), disabled = '', tries = 0,
    failing_ms = 0, claim = p.claim + 1, due_ms = {NOW_MS}
  FROM (SELECT task, push, min(first) AS first FROM gone GROUP BY 1, 2) g
  WHERE p.task = g.task AND p.id = g.push
)
SELECT count(*) FROM gone"""


class Database(Protocol):
    """How the store lets its tables be used."""

    async def fetch(self, sql: str, *values: Any) -> list[Any]: ...

    async def write(self, sql: str, *values: Any, is_flushed: bool = True) -> list[Any]: ...


class PostgresPushes:
    """Webhooks of the tasks in a database. Who takes one moves its time on: if that replica dies,
    it comes due by itself.
    """

    def __init__(self, database: Database) -> None:
        self.on_due: Callable[[], None] = lambda: None
        self._db = database

    async def put(self, push: Push) -> bool:
        stored = await self._db.write(
            _PUT,
            push.task,
            push.id,
            number(push.namespace),
            push.has_artifacts,
            push.upto,
            push.sent,
            push.endpoint,
            push.version,
            push.data,
        )
        self.on_due()  # of one that was replaced, something may be
        return bool(stored)

    async def of(self, task: int) -> list[Push]:
        rows = await self._db.fetch(_SELECT + "WHERE p.task = $1 ORDER BY p.n", task)
        return [_push(row) for row in rows]

    async def delete(self, task: int, id: str) -> None:
        await self._db.write("DELETE FROM {s}.pushes WHERE task = $1 AND id = $2", task, id)

    async def count(self, namespace: Namespace) -> int:
        rows = await self._db.fetch(
            "SELECT count(*) FROM {s}.pushes WHERE namespace = $1 AND is_open", number(namespace)
        )
        return int(rows[0][0])

    async def take(
        self,
        agents: Collection[str],
        limit: int,
        *,
        lease_ms: int,
        skip: Collection[str] = (),
    ) -> list[Push]:
        taken = await self._db.fetch(_TAKE, list(agents), list(skip), limit, lease_ms)
        if not taken:
            return []
        rows = await self._db.fetch(
            _SELECT + "JOIN unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (task, id, due_ms) "
            "ON u.task = p.task AND u.id = p.id ORDER BY u.due_ms, p.task, p.id",
            *([row[i] for row in taken] for i in range(3)),
        )
        return [_push(row) for row in rows]

    async def settle(self, outcomes: Sequence[Outcome]) -> None:
        if not outcomes:
            return
        letters = [
            (place, one.letter) for place, one in enumerate(outcomes, 1) if one.letter is not None
        ]
        # Not flushed: what a crash of the database takes back is delivered once more.
        await self._db.write(
            _SETTLE,
            [one.task for one in outcomes],
            [one.id for one in outcomes],
            [one.claim for one in outcomes],
            [one.sent for one in outcomes],
            [one.pause_ms for one in outcomes],
            [one.tries for one in outcomes],
            [one.failing_ms for one in outcomes],
            [one.error for one in outcomes],
            [one.disabled for one in outcomes],
            [place for place, _ in letters],
            [letter.task for _, letter in letters],
            [letter.push for _, letter in letters],
            [letter.first for _, letter in letters],
            [letter.last for _, letter in letters],
            [letter.error for _, letter in letters],
            is_flushed=False,
        )

    async def postpone(self, agents: Collection[str], endpoint: str, pause_ms: int) -> None:
        await self._db.write(
            f"UPDATE {{s}}.pushes SET due_ms = {NOW_MS} + $3::bigint "
            f"WHERE due_ms < {NOW_MS} + $3::bigint AND endpoint = $2 AND {_OF_AGENTS}",
            list(agents),
            endpoint,
            pause_ms,
            is_flushed=False,
        )

    async def next_ms(self, agents: Collection[str]) -> int | None:
        rows = await self._db.fetch(
            f"SELECT min(due_ms) FROM {{s}}.pushes WHERE due_ms IS NOT NULL AND {_OF_AGENTS}",
            list(agents),
        )
        found: int | None = rows[0][0]
        return found

    async def listed(self, limit: int, *, is_troubled: bool = False) -> list[Push]:
        where = _TROUBLED if is_troubled else ""
        rows = await self._db.fetch(
            _SELECT + where + "ORDER BY p.at_ms DESC, p.task DESC, p.n DESC LIMIT $1", limit
        )
        return [_push(row) for row in rows]

    async def letters(self, limit: int, *, task_id: str = "") -> list[DeadLetter]:
        rows = await self._db.fetch(
            "SELECT d.task, d.push, d.first, d.last, d.at_ms, d.error, d.n, n.agent, n.tenant, "
            "n.caller, t.id FROM {s}.dead_letters d JOIN {s}.tasks t ON t.key = d.task "
            "JOIN {s}.namespaces n USING (namespace) WHERE $1 = '' OR t.id = $1 "
            "ORDER BY d.n DESC LIMIT $2",
            task_id,
            limit,
        )
        return [
            DeadLetter(task, push, first, last, error, n, at_ms, Namespace(*names), task_id_)
            for task, push, first, last, at_ms, error, n, *names, task_id_ in rows
        ]

    async def replay(self, letters: Collection[int]) -> int:
        ((count,),) = await self._db.write(_REPLAY, list(letters))
        self.on_due()
        return int(count)


def _push(row: Any) -> Push:
    task, id_, agent, tenant, caller, *rest = row
    return Push(task, id_, Namespace(agent, tenant, caller), *rest)
