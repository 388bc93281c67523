"""How tasks and their logs are read: a task, its namespace and its log after the snapshot, as they
stood at one moment.
"""

from typing import Any

from ..contract import Namespace, Record, Row

__all__ = ["bare_record_of", "record_of", "select", "select_bare"]

# The order of Record, from `id` on; then the names of the namespace.
_COLUMNS = (
    "t.key, t.id, t.context, t.skill, t.about, t.state, t.at_ms, t.pos, t.seq, t.format, "
    "coalesce(t.owner, 0), t.posts, t.posts_read, t.snap"
)
_FIELDS = 14
_NAMES = "n.agent, n.tenant, n.caller, t.committed_ms, coalesce(t.due_ms, 0), t.created_ms"
_ALL = _FIELDS + 6
_LOG = (
    "LEFT JOIN LATERAL (SELECT array_agg(e.pos ORDER BY e.pos), array_agg(e.seq ORDER BY e.pos), "
    "array_agg(e.at_ms ORDER BY e.pos), array_agg(e.data ORDER BY e.pos) FROM {s}.events e "
    "WHERE e.task = t.key AND e.pos > t.snap) AS l (pos, seq, at_ms, data) ON t.pos > t.snap"
)


def select(schema: str, source: str = "", *, has_artifacts: bool = True) -> str:
    """Return the beginning of a query of whole tasks, up to its conditions. They are called `t`:
    `source` may give them by that name in place of the table.
    """
    artifacts = "coalesce(t.artifacts, '')" if has_artifacts else "'[]'::bytea"
    log = _LOG.replace("{s}", schema)
    return (
        f"SELECT {_COLUMNS}, {_NAMES}, coalesce(t.head, ''), {artifacts}, l.pos, l.seq, l.at_ms, "
        f"l.data FROM {source or f'{schema}.tasks t'} "
        f"JOIN {schema}.namespaces n ON n.namespace = t.namespace {log} "
    )


def select_bare(schema: str) -> str:
    """The same without snapshot and log."""
    return (
        f"SELECT {_COLUMNS}, {_NAMES} FROM {schema}.tasks t "
        f"JOIN {schema}.namespaces n ON n.namespace = t.namespace "
    )


def bare_record_of(row: Any) -> Record:
    """Return a task from a row of `select_bare`."""
    key, *rest = row[:_FIELDS]
    *names, committed_ms, due_ms, created_ms = row[_FIELDS:_ALL]
    fields: list[Any] = [key, Namespace(*names), *rest, b"", b""]
    record = Record(*fields)
    record.committed_ms, record.due_ms, record.created_ms = committed_ms, due_ms, created_ms
    return record


def record_of(row: Any) -> Record:
    """Return a task from a row of `select`."""
    record = bare_record_of(row)
    record.head, record.artifacts, positions, seqs, times, data = row[_ALL : _ALL + 6]
    if positions is not None:
        record.rows = [
            Row(record.key, *values) for values in zip(positions, seqs, times, data, strict=True)
        ]
    return record
