"""Several processes that serve one agent: whether its store is one that they can share."""

import logging

from ..siblings import SEVERAL, parent_of_workers, worker_beside_us
from ..store import Store

__all__ = ["check_shared", "check_siblings"]

_log = logging.getLogger("accord")


def check_shared(store: Store, processes: int) -> None:
    """Raise ValueError if the store is one that several processes can't share."""
    if not store.is_shared:
        what = "tasks in memory are" if store.is_volatile else "a SQLite file is"
        raise ValueError(
            f"{processes} workers need a store that they can share, but {what} for one "
            "process; use --store postgresql://..., or one worker"
        )


def check_siblings(store: Store, name: str) -> None:
    """Log an error if another worker of our parent serves the agent from its own memory."""
    if store.is_shared or not store.is_volatile:
        return  # a shared store is right for workers; a file refuses the second process itself
    if other := worker_beside_us(name):
        _log.error(
            "process %d, a worker of the same parent (process %d), serves %r too. Both keep tasks "
            "in memory, so neither finds the tasks of the other; %s",
            *(other, parent_of_workers(), name, SEVERAL),
        )
