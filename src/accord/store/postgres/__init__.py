"""The store in a PostgreSQL database, which many processes share. Needs `accord[postgres]`."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .options import Lease as Lease
    from .options import Options as Options
    from .store import PostgresStore as PostgresStore

__getattr__ = lazy(
    __name__,
    {
        "Lease": "options",
        "Options": "options",
        "PostgresStore": "store",
    },
)
