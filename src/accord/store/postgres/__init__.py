"""The store in a PostgreSQL database, which many processes share. Needs `accord[postgres]`."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .options import Lease as Lease
    from .options import PostgresOptions as PostgresOptions
    from .store import PostgresStore as PostgresStore

__getattr__ = lazy(
    __name__,
    {
        "Lease": "options",
        "PostgresOptions": "options",
        "PostgresStore": "store",
    },
)
