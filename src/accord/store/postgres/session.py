"""How the parts of a `PostgresStore` use its database."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from .options import PostgresOptions

__all__ = ["READ_S", "Session"]

READ_S = 5.0


class Session(Protocol):
    """A store that is open: its connections, and the replica it is."""

    options: PostgresOptions
    replica: int

    @property
    def watched(self) -> dict[int, int]:
        """The tasks of others that we are woken for, with the position they were last seen
        at."""
        ...

    async def fetch(self, sql: str, *values: Any) -> list[Any]:
        """Query through the pool. Raises Unavailable if the database can't be used."""
        ...

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """Borrow a connection. What the database raises comes through."""
        ...

    def reading(self) -> AbstractAsyncContextManager[Any]:
        """Borrow a connection for several queries. Raises as `fetch` does."""
        ...
