"""What an operator asks of a database, beside the replicas that use it."""

from typing import Any

from ..contract import Stats

__all__ = ["count"]

EXACT = 1_000_000  # rows of the log that are counted one by one; of more, PostgreSQL's estimate


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
    size = await db.fetchval(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'",
        schema,
    )
    return Stats(tasks=dict(states), events=counted[0], keys=counted[1], size=size)
