"""How a task is claimed, and watched if it is another's: in one statement."""

from ..rules import ENDED

__all__ = ["claim_sql"]

_ENDED = ", ".join(map(str, ENDED))

# The row is locked first: who owned it, and whether that one lives, is asked of its newest version.
_CLAIM = """
WITH old AS MATERIALIZED (
  SELECT key, owner FROM {s}.tasks WHERE namespace = $1 AND id = $2{open} AND format <= $4
    AND (owner IS NULL
      OR NOT EXISTS (SELECT FROM {s}.replicas r WHERE r.id = owner AND r.died IS NULL))
  FOR UPDATE
),
claimed AS (
  UPDATE {s}.tasks t SET owner = $3 FROM old WHERE t.key = old.key
  RETURNING t.pos, t.posts, (SELECT seen_ms FROM {s}.replicas WHERE id = old.owner) AS seen_ms
),
watched AS ({watched})
"""
# What is committed from now on sees it, what was committed before is read.
_WATCHED = (
    "UPDATE {s}.tasks SET watchers = watchers || $3::bigint WHERE namespace = $1 AND id = $2 "
    "AND owner IS NOT NULL AND owner <> $3 AND NOT EXISTS (SELECT FROM old) "
    "AND NOT (watchers @> ARRAY[$3::bigint]) RETURNING pos"
)
_NOT_WATCHED = "SELECT NULL::int AS pos WHERE false"


def claim_sql(*, reopen: bool, watch: bool) -> str:
    """Return the beginning of a query that claims a task. `claimed` has its position, the
    number of its posts and when its last owner was seen, if it is ours now; `watched` its
    position, if it is watched from now on.

    The values are the namespace, the id, our number and the newest format we can read.
    """
    open_ = "" if reopen else f" AND state NOT IN ({_ENDED})"
    sql = _CLAIM.replace("{open}", open_)
    return sql.replace("{watched}", _WATCHED if watch else _NOT_WATCHED)
