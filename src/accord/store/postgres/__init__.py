"""The store in a PostgreSQL database, which many processes share. Needs `accord[postgres]`."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .admin import DatabaseHealth as DatabaseHealth
    from .admin import Replica as Replica
    from .admin import collect_files as collect_files
    from .admin import file_stats as file_stats
    from .admin import health as health
    from .admin import inspect as inspect
    from .admin import logs_of as logs_of
    from .admin import migrate_all as migrate_all
    from .admin import replicas as replicas
    from .admin import vacuum as vacuum
    from .backup import backup as backup
    from .backup import restore as restore
    from .connect import BROKEN as BROKEN
    from .connect import ROLE_SETTINGS as ROLE_SETTINGS
    from .connect import is_pooled as is_pooled
    from .connect import open_session as open_session
    from .connect import transaction as transaction
    from .options import Lease as Lease
    from .options import PostgresOptions as PostgresOptions
    from .options import parse as parse
    from .schema import migrate_database as migrate_database
    from .sessions import FileSessions as FileSessions
    from .store import PostgresStore as PostgresStore

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
