"""A store by its URL."""

import os
from collections.abc import Collection

from ..extras import install_command
from .clock import StoreClock
from .contract import Store
from .memory import MemoryStore
from .parts import TASKS

__all__ = ["open_store"]


def open_store(
    url: str, *, parts: Collection[str] = (TASKS,), clock: StoreClock | None = None
) -> Store:
    """Return the store `url` names: `memory://`, `sqlite:///path/to/file` (three slashes, then the
    path) or `postgresql://user:password@host/database`.

    Args:
        parts: What its database is for: `TASKS`, and `HUB` if a hub uses it.
        clock: A clock for tests, instead of this process's. PostgreSQL has its own.

    Raises:
        ValueError: The URL names no store we have, or something in it is wrong.
        RuntimeError: What the store needs is not installed.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "memory" and not rest:
        return MemoryStore(clock=clock)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from .sqlite import SqliteStore  # a memory store does not need it, and it is slow to import

        path = rest[1:]
        if path.endswith("/") or os.path.isdir(path):
            raise ValueError(f"{path} is a folder; name a file in it, as in sqlite:///accord.db")
        return SqliteStore(path, parts=parts, clock=clock)
    if scheme in ("postgresql", "postgres") and rest:
        if clock is not None:
            raise ValueError(
                "a PostgreSQL store goes by the database's clock; test with memory:// or SQLite"
            )
        try:
            from .postgres import PostgresStore
        except ImportError as error:
            raise RuntimeError(
                "a PostgreSQL store needs asyncpg, which is not installed: "
                + install_command("postgres")
            ) from error
        return PostgresStore(url, parts=parts)
    raise ValueError(
        f"no store for {url!r}; use memory:// or sqlite:///accord.db "
        "(sqlite:////var/lib/accord.db for an absolute path), or postgresql://host/database"
    )
