"""Where tasks are kept: an event log per task, a snapshot of its fold, and the indexes to find it by."""

from .contract import CommitFailed, Keep, Page, Query, Record, Scope, Store, Write
from .open import open_store

__all__ = ["CommitFailed", "Keep", "Page", "Query", "Record", "Scope", "Store", "Write", "open_store"]
