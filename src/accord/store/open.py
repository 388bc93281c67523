"""A store by its URL."""

from ..extras import install_command
from .contract import Store
from .memory import MemoryStore

__all__ = ["open_store"]


def open_store(url: str) -> Store:
    """Return the store `url` names: `memory://`, `sqlite:///path/to/file` (three slashes, then the
    path) or `postgresql://user:password@host/database`.

    Raises:
        ValueError: The URL names no store we have, or something in it is wrong.
        RuntimeError: What the store needs is not installed.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "memory" and not rest:
        return MemoryStore()
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from .sqlite import SqliteStore  # a memory store does not need it, and it is slow to import

        return SqliteStore(rest[1:])
    if scheme in ("postgresql", "postgres") and rest:
        try:
            from .postgres import PostgresStore
        except ImportError as error:
            raise RuntimeError(
                "a PostgreSQL store needs asyncpg, which is not installed: "
                + install_command("postgres")
            ) from error
        return PostgresStore(url)
    raise ValueError(
        f"no store for {url!r}; use memory:// or sqlite:///accord.db "
        "(sqlite:////var/lib/accord.db for an absolute path), or postgresql://host/database"
    )
