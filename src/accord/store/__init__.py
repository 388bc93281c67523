"""Where tasks are kept: an event log per task, a snapshot of its fold, and the indexes to find it by."""

from .contract import Ages, CommitFailed, Fenced, Keep, Note, Page, Query, Record, Scope, Stats, Store, Write
from .open import open_store

__all__ = [
    "Ages",
    "CommitFailed",
    "Fenced",
    "Keep",
    "Note",
    "Page",
    "Query",
    "Record",
    "Scope",
    "Stats",
    "Store",
    "Write",
    "open_store",
]
