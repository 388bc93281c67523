"""The store in a PostgreSQL database, which many processes share. Needs `accord[postgres]`."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .admin import DatabaseHealth as DatabaseHealth
    from .admin import Replica as Replica
    from .admin import backup as backup
    from .admin import health as health
    from .admin import inspect as inspect
    from .admin import logs_of as logs_of
    from .admin import migrate_all as migrate_all
    from .admin import replicas as replicas
    from .admin import vacuum as vacuum
    from .connect import ROLE_SETTINGS as ROLE_SETTINGS
    from .connect import is_pooled as is_pooled
    from .connect import transaction as transaction
    from .migrations import newest as newest
    from .options import Lease as Lease
    from .options import PostgresOptions as PostgresOptions
    from .options import parse as parse
    from .store import PostgresStore as PostgresStore

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "DatabaseHealth": "admin",
            "Lease": "options",
            "PostgresOptions": "options",
            "PostgresStore": "store",
            "Replica": "admin",
            "ROLE_SETTINGS": "connect",
            "backup": "admin",
            "health": "admin",
            "inspect": "admin",
            "is_pooled": "connect",
            "logs_of": "admin",
            "migrate_all": "admin",
            "newest": "migrations",
            "parse": "options",
            "replicas": "admin",
            "transaction": "connect",
            "vacuum": "admin",
        },
    )
