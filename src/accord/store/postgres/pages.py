"""Pages of tasks: never more work than a page is worth.

Where an index has the tasks of a query in order, it is read for as many as the page has. Where none
has (the tasks of a context in one state, those of one agent for an operator) no more than SCAN
entries of the best one are read: such a page may be short, or empty, and its `next` still goes on.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ..contract import Ended, Page, Query
from ..rules import ENDED, MINUTE_MS, rough_sql
from .namespaces import number
from .rows import record_of, select

__all__ = ["SCAN", "count_ended", "ended", "page"]

SCAN = 10_000  # entries of an index that one page reads, and that one total counts
_STATES = tuple(range(1, 9))
_FAR = (1 << 63) - 1


_TOOK = "greatest(at_ms - created_ms, 0)"
_ENDED = f"""
SELECT at_ms / {MINUTE_MS}, state, {rough_sql("at_ms - created_ms")}, count(*),
  max(ARRAY[{_TOOK}, at_ms, key]) FROM {{s}}.tasks
WHERE state = ANY ($1::smallint[]) AND at_ms >= $2 AND at_ms < $3{{agent}} GROUP BY 1, 2, 3"""
_COUNT_ENDED = """
SELECT count(*) FROM {s}.tasks
WHERE state = ANY ($1::smallint[]) AND at_ms >= $2 AND at_ms < $3{agent}"""
_OF_AGENT = " AND namespace IN (SELECT namespace FROM {s}.namespaces WHERE agent = $4)"

Fetch: TypeAlias = Callable[..., Awaitable[list[Any]]]


async def ended(fetch: Fetch, schema: str, agent: str, from_ms: int, to_ms: int) -> list[Ended]:
    """Return the tasks that ended between two times, by minute, state and duration."""
    rows = await _fetch_ended(_ENDED, fetch, schema, agent, (from_ms, to_ms))
    return [
        Ended(minute * MINUTE_MS, state, took, count, *longest)
        for minute, state, took, count, longest in rows
    ]


async def count_ended(fetch: Fetch, schema: str, agent: str, from_ms: int, to_ms: int) -> int:
    """Return how many tasks ended between two times."""
    rows = await _fetch_ended(_COUNT_ENDED, fetch, schema, agent, (from_ms, to_ms))
    return int(rows[0][0])


async def _fetch_ended(
    sql: str, fetch: Fetch, schema: str, agent: str, times: tuple[int, int]
) -> list[Any]:
    sql = sql.replace("{agent}", _OF_AGENT if agent else "").replace("{s}", schema)
    return await fetch(sql, list(ENDED), *times, *([agent] if agent else []))


class _Plan:
    """Which tasks, as SQL: ranges of indexes, and what is still to be compared."""

    def __init__(self, schema: str, query: Query) -> None:
        self.schema = schema
        self.values: list[Any] = []
        self.filters: list[str] = []
        states = [query.state] if query.state else list(_STATES)
        since = query.since_ms if query.since_ms is not None else -1
        self.order = "ASC" if query.oldest_first else "DESC"
        compared = ">" if query.oldest_first else "<"
        before = query.before or ((-1, -1) if query.oldest_first else (_FAR, _FAR))
        self.since = f"t.at_ms >= {self._value(since)}"
        self.place = (
            f"t.at_ms {compared}= {self._value(before[0])}::bigint AND (t.at_ms, t.key) {compared} "
            f"(${len(self.values)}::bigint, {self._value(before[1])}::bigint)"
        )
        if query.namespace is not None:
            self.where = f"t.namespace = {self._value(number(query.namespace))}"
            self.counted = "namespace = $4"
            if query.context_id:
                self.where += f" AND t.context = {self._value(query.context_id)}"
                self.counted = ""
                if query.state:
                    self.filters.append(f"state = {self._value(query.state)}")
        else:
            self.where, self.counted = "true", "true"
            if query.agent:
                agent = self._value(query.agent)
                of_agent = f"(SELECT namespace FROM {schema}.namespaces WHERE agent = {agent})"
                self.filters.append(f"namespace IN {of_agent}")
                self.counted = f"namespace IN {of_agent}"
            if query.context_id:
                self.filters.append(f"context = {self._value(query.context_id)}")
                self.counted = ""
        is_by_context = query.namespace is not None and bool(query.context_id)
        self.states = "" if is_by_context else self._value(states)
        if query.since_ms is not None:
            self.counted = ""

    def _value(self, value: Any) -> str:
        self.values.append(value)
        return f"${len(self.values)}"

    def ranges(self, condition: str, limit: int) -> str:
        """The first entries of the indexes, no more than `limit`."""
        columns = "t.at_ms, t.key, t.state, t.namespace, t.context"
        order = f"ORDER BY {self.ordered('t.')} LIMIT {limit}"
        table = f"{self.schema}.tasks t"
        if not self.states:
            return f"SELECT {columns} FROM {table} WHERE {self.where} AND {condition} {order}"
        return (
            f"SELECT t.* FROM unnest({self.states}::smallint[]) AS s (state), "
            f"LATERAL (SELECT {columns} FROM {table} WHERE {self.where} AND t.state = s.state "
            f"AND {condition} {order}) t {order}"
        )

    def ordered(self, table: str = "") -> str:
        return f"{table}at_ms {self.order}, {table}key {self.order}"

    @property
    def filter(self) -> str:
        return " AND ".join(self.filters) or "true"

    def total(self) -> str:
        """How many there are, and whether that is all of them."""
        if self.counted:
            states = f"AND state = ANY ({self.states}::smallint[])"
            both = (
                f"SELECT n FROM {self.schema}.counts WHERE {self.counted} {states} UNION ALL "
                f"SELECT n FROM {self.schema}.deltas WHERE {self.counted} {states}"
            )
            return f"SELECT coalesce(sum(n), 0)::bigint AS total, true AS is_exact FROM ({both}) c"
        # One more than is counted says that there is more.
        return (
            f"SELECT count(*) FILTER (WHERE place <= {SCAN} AND {self.filter}) AS total, "
            f"count(*) <= {SCAN} AS is_exact FROM (SELECT t.*, row_number() OVER () AS place "
            f"FROM ({self.ranges(self.since, SCAN + 1)}) t) t"
        )


async def page(fetch: Callable[..., Awaitable[list[Any]]], schema: str, query: Query) -> Page:
    """Return the tasks of a page, and how many match in all, as they stood at one moment."""
    plan = _Plan(schema, query)
    scanned = SCAN if plan.filters else query.limit + 1
    artifacts = "coalesce(octet_length(t.artifacts), 0)" if query.has_artifacts else "0"
    size = min(query.size, _FAR >> 1)
    # `seen` is what was read of the indexes, `found` what of it is asked for, `fits` what of that
    # the page may hold.
    sql = f"""
WITH seen AS MATERIALIZED ({plan.ranges(f"{plan.since} AND {plan.place}", scanned + 1)}),
found AS MATERIALIZED (
  SELECT at_ms, key FROM (SELECT * FROM seen ORDER BY {plan.ordered()} LIMIT {scanned}) s
  WHERE {plan.filter} ORDER BY {plan.ordered()} LIMIT {query.limit + 1}
),
sized AS (
  SELECT f.at_ms, f.key, row_number() OVER w AS place, sum(coalesce(octet_length(t.head), 0)
    + {artifacts} + CASE WHEN t.pos > t.snap THEN (SELECT coalesce(sum(octet_length(e.data)), 0)
    FROM {schema}.events e WHERE e.task = t.key AND e.pos > t.snap) ELSE 0 END) OVER w AS size
  FROM found f JOIN {schema}.tasks t ON t.key = f.key
  WINDOW w AS (ORDER BY {plan.ordered("f.")})
),
fits AS MATERIALIZED (
  SELECT at_ms, key FROM sized WHERE place = 1 OR (place <= {query.limit} AND size <= {size})
),
whole AS ({
        select(
            schema,
            f"(SELECT t.* FROM fits f JOIN {schema}.tasks t ON t.key = f.key) t",
            has_artifacts=query.has_artifacts,
        )
    })
SELECT x.total, x.is_exact, (SELECT count(*) FROM found), (SELECT count(*) FROM seen),
  (SELECT ARRAY[at_ms, key] FROM seen ORDER BY {plan.ordered()} OFFSET {scanned - 1} LIMIT 1),
  w.*
FROM ({plan.total()}) x LEFT JOIN whole w ON true"""
    rows = await fetch(sql, *plan.values)
    total, is_exact, found, seen, last = rows[0][:5]
    tasks = [record_of(tuple(row)[5:]) for row in rows if row[5] is not None]
    tasks.sort(key=lambda record: (record.at_ms, record.key), reverse=not query.oldest_first)
    next_ = None
    if found > len(tasks):
        next_ = (tasks[-1].at_ms, tasks[-1].key)
    elif seen > scanned:
        next_ = (last[0], last[1])
    return Page(tasks=tasks, total=total, next=next_, is_exact=is_exact)
