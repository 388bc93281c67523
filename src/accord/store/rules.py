"""What all stores share: states by their numbers, and how much one call returns."""

import logging
from collections.abc import Sequence

from .contract import Leaves, Row

__all__ = [
    "ENDED",
    "INPUT_REQUIRED",
    "PIECE_BYTES",
    "PIECE_ROWS",
    "WAITING",
    "WORKED_ON",
    "is_full_piece",
    "is_released",
    "log_overwritten",
]

log_ = logging.getLogger("accord")

ENDED = (3, 4, 5, 7)  # completed, failed, canceled, rejected
WORKED_ON = (1, 2)  # submitted, working
INPUT_REQUIRED = 6
WAITING = (6, 8)  # for their client: input-required, auth-required

# One `read` returns no more than this of one task, but at least a row.
PIECE_ROWS = 256
PIECE_BYTES = 4 << 20


MINUTE_MS = 60_000
_DIGITS = 7  # of a duration: it is right to less than 2 %
_LONGEST = 24  # more digits than those, beyond which all durations are alike


def rough_ms(took_ms: int) -> int:
    """Return a duration rounded down, so that few differ."""
    took_ms = max(took_ms, 0)
    less = min(max(took_ms.bit_length() - _DIGITS, 0), _LONGEST)
    return took_ms >> less << less


def rough_sql(took: str) -> str:
    """Return the same as an expression of SQL, made of one that is a duration."""
    steps = "".join(
        f"WHEN {took}<{1 << _DIGITS + n} THEN ({took})>>{n}<<{n} " for n in range(1, _LONGEST)
    )
    return (
        f"CASE WHEN {took}<0 THEN 0 WHEN {took}<{1 << _DIGITS} THEN {took} {steps}"
        f"ELSE ({took})>>{_LONGEST}<<{_LONGEST} END"
    )


def is_full_piece(rows: Sequence[Row]) -> bool:
    """Whether these rows of one task are as many as one `read` returns: there may be more."""
    return len(rows) >= PIECE_ROWS or sum(len(row.data) for row in rows) > PIECE_BYTES


def is_released(leaves: Leaves, posts: int, posts_read: int) -> bool:
    """Whether the owner leaves with a commit: never while a post is unread, unless the task has
    ended.
    """
    return leaves is Leaves.END or (leaves is Leaves.IDLE and posts == posts_read)


def log_overwritten(context_id: str) -> None:
    """Two turns of a conversation ran at once: what the first wrote is gone."""
    log_.warning(
        "conversation %s: two turns ran at once; the state that the first of them stored was "
        "replaced by that of the second",
        context_id,
    )
