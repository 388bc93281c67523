"""The schema of the database, in numbered steps: one runner for SQLite and PostgreSQL."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .runner import Schema as Schema
    from .runner import SchemaVersion as SchemaVersion
    from .runner import check as check
    from .runner import migrate as migrate
    from .runner import newest as newest
    from .runner import too_old as too_old

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
