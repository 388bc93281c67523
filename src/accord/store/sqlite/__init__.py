"""The default store: one SQLite file, used by one process."""

from .files import check_file, inspect, size_of
from .migrations import newest
from .store import SqliteStore

__all__ = ["SqliteStore", "check_file", "inspect", "newest", "size_of"]
