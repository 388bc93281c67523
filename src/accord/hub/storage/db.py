"""The hub's database: SQLite or PostgreSQL, behind execute, fetch and transaction.

SQL is written once, in what both understand: `?` for values, times as integers, JSON as text. A
number in `changes` grows with every change that other processes have to know of.
"""

import abc
import asyncio
import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ...extras import install_command
from ...model import Unavailable, whole_number
from ...private import private_file, private_folder
from .schema import MIGRATIONS

__all__ = ["Database", "Row", "Transaction", "open_database"]

T = TypeVar("T")
Row: TypeAlias = dict[str, Any]


class Transaction(abc.ABC):
    """Statements on one connection."""

    changed = 0  # the number that `change` gave

    @abc.abstractmethod
    async def execute(self, sql: str, *values: Any) -> int:
        """Run a statement; return how many rows it changed."""

    @abc.abstractmethod
    async def execute_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement once for each row of values, in one go."""

    @abc.abstractmethod
    async def fetch(self, sql: str, *values: Any) -> list[Row]:
        """Return the rows of a query."""

    async def fetch_one(self, sql: str, *values: Any) -> Row | None:
        rows = await self.fetch(sql, *values)
        return rows[0] if rows else None

    async def lock(self) -> None:
        """Wait until no other transaction that called this is open."""
        await self.execute("UPDATE changes SET n = n")

    async def change(self) -> None:
        """Begin a new change. Rows that carry its number, `changed`, are read again by every
        process of this hub.
        """
        await self.execute("UPDATE changes SET n = n + 1")
        row = await self.fetch_one("SELECT n FROM changes")
        assert row is not None  # the first migration made it
        self.changed = int(row["n"])


class Database(abc.ABC):
    """One database. Every method raises Unavailable if it can't be used."""

    place: str  # for messages, without a password
    path: Path | None = None  # of the file, if it is one
    is_shared = False  # by several processes

    @abc.abstractmethod
    async def open(self) -> None:
        """Connect, and bring the tables up to date."""

    @abc.abstractmethod
    async def close(self) -> None: ...

    @abc.abstractmethod
    def transaction(self) -> contextlib.AbstractAsyncContextManager[Transaction]:
        """Everything within is stored together, or nothing of it."""

    async def execute(self, sql: str, *values: Any) -> int:
        async with self.transaction() as db:
            return await db.execute(sql, *values)

    async def fetch(self, sql: str, *values: Any) -> list[Row]:
        async with self.transaction() as db:
            return await db.fetch(sql, *values)

    async def fetch_one(self, sql: str, *values: Any) -> Row | None:
        async with self.transaction() as db:
            return await db.fetch_one(sql, *values)

    async def _migrate(self, db: Transaction) -> None:
        await db.execute("CREATE TABLE IF NOT EXISTS migrations (n INTEGER PRIMARY KEY)")
        done = {row["n"] for row in await db.fetch("SELECT n FROM migrations")}
        newest = max(MIGRATIONS)
        if done and max(done) > newest:
            raise RuntimeError(
                f"{self.place} was written by a newer release of Accord (its tables have number "
                f"{max(done)}, this release knows {newest}); use that release"
            )
        for n in sorted(set(MIGRATIONS) - done):
            for statement in MIGRATIONS[n].split(";"):
                if statement.strip():
                    await db.execute(self._types(statement))
            await db.execute("INSERT INTO migrations (n) VALUES (?)", n)

    def _types(self, sql: str) -> str:
        """The statement with the names this database has for types."""
        return sql


def open_database(url: str) -> Database:
    """Return the database `url` names: `sqlite:///file` or `postgresql://host/database`.

    Raises:
        ValueError: It names neither.
        RuntimeError: What PostgreSQL needs is not installed.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and len(rest) > 1:
        return _Sqlite(Path(rest[1:]))
    if scheme in ("postgresql", "postgres") and rest:
        return _Postgres(url)
    raise ValueError(
        f"no hub can be kept in {url!r}; use sqlite:///.accord/hub.db or postgresql://host/database"
    )


class _Sqlite(Database):
    """One file, one connection, one thread that uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = str(path)
        self._thread: ThreadPoolExecutor | None = None
        self._db: sqlite3.Connection | None = None
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        self._thread = ThreadPoolExecutor(1, "accord-hub-db")
        try:
            await self.run(self._connect)
            async with self.transaction() as db:
                await self._migrate(db)
        except BaseException:
            await self.close()
            raise

    def _connect(self) -> None:
        assert self.path is not None  # it is a file
        private_folder(self.path.parent)
        private_file(self.path)
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA busy_timeout = 5000")

    async def close(self) -> None:
        if self._thread is None:
            return
        if self._db is not None:
            await self.run(self._db.close)
            self._db = None
        self._thread.shutdown()
        self._thread = None

    async def run(self, work: Callable[[], T]) -> T:
        """Do something in the thread of the connection."""
        if self._thread is None:
            raise Unavailable(f"{self.place} is closed")
        # Shielded: a caller who goes away must not leave a statement running unseen.
        doing = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait({doing})
            raise
        except sqlite3.Error as error:
            raise Unavailable(f"{self.place} can't be used: {error}") from error

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._lock:
            assert self._db is not None, "the database is not open"
            db = _SqliteTransaction(self, self._db)
            try:
                await db.execute("BEGIN IMMEDIATE")
                yield db
                await db.execute("COMMIT")
            except BaseException:
                await self.run(self._db.rollback)  # does nothing outside a transaction
                raise


class _SqliteTransaction(Transaction):
    def __init__(self, owner: _Sqlite, db: sqlite3.Connection) -> None:
        self._owner = owner
        self._db = db

    async def execute(self, sql: str, *values: Any) -> int:
        return await self._owner.run(lambda: self._db.execute(sql, values).rowcount)

    async def execute_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        await self._owner.run(lambda: self._db.executemany(sql, rows))

    async def fetch(self, sql: str, *values: Any) -> list[Row]:
        return await self._owner.run(
            lambda: [dict(row) for row in self._db.execute(sql, values).fetchall()]
        )


class _Postgres(Database):
    """A schema beside that of the tasks, for several hubs at once."""

    is_shared = True

    def __init__(self, url: str) -> None:
        try:
            from ...store.postgres import parse  # asyncpg comes with an extra
        except ImportError as error:
            raise RuntimeError(
                "PostgreSQL needs asyncpg, which is not installed: " + install_command("postgres")
            ) from error
        self._options = parse(url)
        self.place = self._options.place
        self._schema = f"{self._options.schema}_hub"
        self._pool: Any = None

    async def open(self) -> None:
        import asyncpg

        from ...store.postgres import ROLE_SETTINGS, is_pooled, transaction

        self._begin = transaction
        try:
            pooled = await is_pooled(self._options)
            self._pool = await asyncpg.create_pool(
                self._options.dsn,
                min_size=1,
                max_size=5,
                timeout=5,
                command_timeout=10,
                statement_cache_size=0 if pooled else 100,
                server_settings=None if pooled else ROLE_SETTINGS,
                reset=_keep,
            )
        except (OSError, asyncpg.PostgresError, TimeoutError) as error:
            raise RuntimeError(f"{self.place} can't be used: {error}") from error
        try:
            # One hub at a time makes the tables: others wait as long as it takes.
            async with self._session() as raw, self._begin(raw, lock_timeout="0"):
                await raw.execute("SELECT pg_advisory_xact_lock(hashtext($1))", self._schema)
                await raw.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
                await raw.execute(f"SET LOCAL search_path TO {self._schema}")
                await self._migrate(_PostgresTransaction(raw))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    def _types(self, sql: str) -> str:
        return re.sub(r"\bINTEGER\b", "BIGINT", re.sub(r"\bBLOB\b", "BYTEA", sql))

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        import asyncpg

        if self._pool is None:
            raise Unavailable(f"{self.place} is closed")
        try:
            async with self._pool.acquire(timeout=5) as db:
                yield db
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise Unavailable(f"{self.place} can't be used: {error}") from error

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._session() as raw, self._begin(raw, search_path=self._schema):
            yield _PostgresTransaction(raw)


async def _keep(db: Any) -> None:
    """Between two uses nothing is reset: nothing was set but for one transaction."""


class _PostgresTransaction(Transaction):
    def __init__(self, db: Any) -> None:
        self._db = db

    async def execute(self, sql: str, *values: Any) -> int:
        status = await self._db.execute(_numbered(sql), *values)
        return whole_number(status.rpartition(" ")[2]) or 0

    async def execute_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        await self._db.executemany(_numbered(sql), rows)

    async def fetch(self, sql: str, *values: Any) -> list[Row]:
        return [dict(row) for row in await self._db.fetch(_numbered(sql), *values)]


@lru_cache(1024)
def _numbered(sql: str) -> str:
    """`?` as PostgreSQL writes it: `$1`, `$2`, ..."""
    first, *rest = sql.split("?")
    return first + "".join(f"${n}{text}" for n, text in enumerate(rest, 1))
