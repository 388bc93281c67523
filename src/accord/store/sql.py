"""SQL for both databases, written once, for tables beside the tasks.

SQL is written in what SQLite and PostgreSQL both understand: `?` for values, times as whole
numbers, JSON as text. Work on a connection is a coroutine function, because that is what
PostgreSQL needs. On SQLite its calls never wait: `at_once` runs it whole, in the thread it is
called in. So a transaction is a function that waits for nothing but the database.
"""

import abc
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit

__all__ = [
    "Database",
    "Sql",
    "SqlRow",
    "Work",
    "at_once",
    "numbered",
    "place_of",
    "statements",
]

T = TypeVar("T")
SqlRow: TypeAlias = dict[str, Any]


class Sql(abc.ABC):
    """Statements on one connection."""

    dialect: ClassVar[str]

    @abc.abstractmethod
    async def execute(self, sql: str, *values: Any) -> int:
        """Run a statement; return how many rows it changed."""

    @abc.abstractmethod
    async def execute_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement once for each row of values, in one go."""

    @abc.abstractmethod
    async def fetch(self, sql: str, *values: Any) -> list[SqlRow]:
        """Return the rows a statement gives."""

    async def fetch_one(self, sql: str, *values: Any) -> SqlRow | None:
        """Return the first row a statement gives; None if it gives none."""
        rows = await self.fetch(sql, *values)
        return rows[0] if rows else None


Work: TypeAlias = Callable[[Sql], Coroutine[Any, Any, T]]


class Database(abc.ABC):
    """The database of an open store. Every method raises Unavailable if it can't be used."""

    place: str  # for messages, without a password
    id: str  # which one it is, whatever other options it is opened with
    is_shared: bool  # by several processes
    now_ms: Callable[[], int]  # by the store's clock, which is the same for all who share it

    @abc.abstractmethod
    async def write(self, work: Work[T]) -> T:
        """Do work in a transaction: all of it is stored, or nothing. It may wait for nothing but
        the database: on SQLite it runs whole in the thread that writes.
        """

    @abc.abstractmethod
    async def read(self, work: Work[T]) -> T:
        """Do work that changes nothing, and return what it returns. It never waits for a write;
        on SQLite all its queries see the same state.
        """

    async def execute(self, sql: str, *values: Any) -> int:
        """Run one statement that writes; return how many rows it changed."""
        return await self.write(lambda db: db.execute(sql, *values))

    async def fetch(self, sql: str, *values: Any) -> list[SqlRow]:
        """Return the rows a query gives."""
        return await self.read(lambda db: db.fetch(sql, *values))

    async def fetch_one(self, sql: str, *values: Any) -> SqlRow | None:
        """Return the first row a query gives; None if it gives none."""
        return await self.read(lambda db: db.fetch_one(sql, *values))


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run work on a SQLite connection to its end, in this thread.

    Raises:
        RuntimeError: It waits for something else than the database.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("work on the database may wait for nothing else")


def statements(script: str) -> list[str]:
    """Return the statements of a script. Each ends with a `;` at the end of a line."""
    return [text.strip() for text in script.split(";\n") if text.strip()]


@lru_cache(1024)
def numbered(sql: str) -> str:
    """Return SQL with `?` as PostgreSQL writes it: `$1`, `$2`, ..."""
    first, *rest = sql.split("?")
    return first + "".join(f"${n}{text}" for n, text in enumerate(rest, 1))


def place_of(url: str) -> str:
    """Return the URL of a store as messages show it: without a password, without options."""
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        return url
    name, _, host = parts.netloc.rpartition("@")
    user = f"{name.partition(':')[0]}@" if name else ""
    sockets = dict(parse_qsl(parts.query)).get("host", "")
    return f"{parts.scheme}://{user}{host or sockets}{parts.path}"
