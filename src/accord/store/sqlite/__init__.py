"""The store in a SQLite file."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .backup import backup as backup
    from .backup import restore as restore
    from .files import check_file as check_file
    from .files import file_stats as file_stats
    from .files import files_folder as files_folder
    from .files import inspect as inspect
    from .files import logs_of as logs_of
    from .files import parts_of as parts_of
    from .files import size_of as size_of
    from .keys import SqliteKeys as SqliteKeys
    from .pushes import PushesBeside as PushesBeside
    from .schema import migrate_file as migrate_file
    from .store import SqliteStore as SqliteStore

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
