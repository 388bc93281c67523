"""A store by its URL."""

from .contract import Store
from .memory import MemoryStore

__all__ = ["open_store"]


def open_store(url: str) -> Store:
    """Return the store `url` names: `memory://` or `sqlite:///path/to/file` (three slashes, then
    the path).

    Raises:
        ValueError: The URL names no store we have.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "memory" and not rest:
        return MemoryStore()
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from .sqlite import SqliteStore  # a memory store does not need it, and it is slow to import

        return SqliteStore(rest[1:])
    raise ValueError(
        f"no store for {url!r}; use memory:// or sqlite:///accord.db "
        "(sqlite:////var/lib/accord.db for an absolute path)"
    )
