"""Deleting what is older than it may get."""

import sqlite3
from collections import Counter
from collections.abc import Collection

from ..contract import Ages
from ..failpoints import point
from ..rules import ENDED
from .commit import COUNT
from .pushes import NEEDED, forget

__all__ = ["OLD", "purge"]

OLD = (
    "SELECT key FROM tasks INDEXED BY tasks_by_age WHERE folded=? AND state NOT IN (1, 2) AND "
    "state=? AND at_ms<? AND owner IS NULL"
)
_UNNEEDED = f" AND NOT {NEEDED}"  # by a webhook
# The state of a conversation without tasks. Those that are worked on are in another index.
_FORGET_STATE = (
    "DELETE FROM states WHERE namespace=?1 AND context=?2 AND NOT EXISTS "
    "(SELECT 1 FROM tasks WHERE namespace=?1 AND context=?2 AND state NOT IN (1, 2)) "
    "AND NOT EXISTS (SELECT 1 FROM tasks WHERE namespace=?1 AND state IN (1, 2) AND context=?2)"
)


def purge(
    db: sqlite3.Connection, claimed: Collection[int], now_ms: int, ages: Ages, limit: int
) -> int:
    """Delete up to `limit` of each kind of what is too old, within a transaction. Return how much
    that was.

    `claimed` are tasks that are owned though the database does not say so yet.
    """
    purged = _old(db, claimed, 0, now_ms - ages.events_ms, limit, OLD + _UNNEEDED, agent=ages.agent)
    db.executemany("UPDATE tasks SET folded=1 WHERE key=?", purged)
    # Without a snapshot the log is all there is of a task.
    db.executemany(
        "DELETE FROM events WHERE task=?1 AND (SELECT snap=pos FROM tasks WHERE key=?1)",
        purged,
    )
    point("purge.events")
    old = _old(db, claimed, 1, now_ms - ages.tasks_ms, limit, agent=ages.agent)
    gone: Counter[tuple[int, int]] = Counter()
    contexts: set[tuple[int, str]] = set()
    for (key,) in old:
        for namespace, state, context in db.execute(
            "DELETE FROM tasks WHERE key=? RETURNING namespace, state, context", (key,)
        ).fetchall():
            gone[namespace, state] += 1
            contexts.add((namespace, context))
    db.executemany(_FORGET_STATE, list(contexts))
    for table in ("events", "pieces", "posts", "file_uses"):
        db.executemany(f"DELETE FROM {table} WHERE task=?", old)
    forget(db, old)
    db.executemany(COUNT, [(namespace, state, -n) for (namespace, state), n in gone.items()])
    point("purge.tasks")
    keys = db.execute(
        "DELETE FROM keys WHERE (namespace, key) IN (SELECT namespace, key FROM keys WHERE at_ms<? LIMIT ?)",  # noqa: E501
        (now_ms - ages.keys_ms, limit),
    ).rowcount
    point("purge.keys")
    letters = db.execute(
        "DELETE FROM dead_letters WHERE n IN (SELECT n FROM dead_letters WHERE at_ms<? LIMIT ?)",
        (now_ms - ages.letters_ms, limit),
    ).rowcount
    return len(old) + len(purged) + keys + letters


def _old(
    db: sqlite3.Connection,
    claimed: Collection[int],
    is_purged: int,
    before_ms: int,
    limit: int,
    sql: str = OLD,
    *,
    agent: str = "",
) -> list[tuple[int]]:
    """Return ended tasks that nobody owns."""
    found: list[tuple[int]] = []
    values: tuple[str, ...] = ()
    if agent:
        sql += " AND namespace IN (SELECT namespace FROM namespaces WHERE agent=?)"
        values = (agent,)
    for state in ENDED:
        rows = db.execute(sql, (is_purged, state, before_ms, *values))
        while len(found) < limit and (row := rows.fetchone()) is not None:
            if row[0] not in claimed:
                found.append(row)
    return found
