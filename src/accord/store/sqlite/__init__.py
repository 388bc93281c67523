"""The store in a SQLite file."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .files import check_file as check_file
    from .files import inspect as inspect
    from .files import logs_of as logs_of
    from .files import size_of as size_of
    from .keys import SqliteKeys as SqliteKeys
    from .pushes import PushesBeside as PushesBeside
    from .store import SqliteStore as SqliteStore

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "SqliteKeys": "keys",
            "PushesBeside": "pushes",
            "SqliteStore": "store",
            "check_file": "files",
            "inspect": "files",
            "logs_of": "files",
            "size_of": "files",
        },
    )
