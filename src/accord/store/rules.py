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
