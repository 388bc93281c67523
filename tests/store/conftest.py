"""Every store, opened, and a way to have its process die."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from accord.store.memory import MemoryStore
from accord.store.postgres.heartbeat import declare_dead
from accord.store.postgres.store import PostgresStore
from accord.store.sqlite.store import SqliteStore
from accord.testing import store_suite
from accord.testing.store_suite.box import (
    AUTH_REQUIRED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    ME,
    OTHER,
    WORKING,
    key,
)
from tests.postgres import execute, schema_url

__all__ = [
    "AUTH_REQUIRED",
    "COMPLETED",
    "FAILED",
    "INPUT_REQUIRED",
    "ME",
    "OTHER",
    "WORKING",
    "Box",
    "key",
    "kill",
    "opened",
]


class InMemory:
    """Handles on one state."""

    is_shared = True

    def __init__(self) -> None:
        self._first: MemoryStore | None = None

    def make(self) -> MemoryStore:
        if self._first is not None:
            return self._first.another()
        self._first = MemoryStore()
        return self._first

    async def kill(self, store: Any) -> None:
        store.kill()

    def outage(self, store: Any) -> None:
        return None

    async def close(self) -> None:
        pass


class InFile:
    """One file. A process that dies lets go of its lock, and says nothing."""

    is_shared = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._dead: list[SqliteStore] = []

    def make(self) -> SqliteStore:
        return SqliteStore(self.path)

    async def kill(self, store: Any) -> None:
        store._lock.close()
        self._dead.append(store)

    @asynccontextmanager
    async def outage(self, store: Any) -> AsyncIterator[None]:
        """Have its tables under other names for a while."""
        with closing(sqlite3.connect(self.path)) as db:
            db.execute("PRAGMA legacy_alter_table=ON")
            names = [
                name
                for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
                if not name.startswith("sqlite_")
            ]
            for name in names:
                db.execute(f'ALTER TABLE "{name}" RENAME TO "away_{name}"')
            try:
                yield
            finally:
                for name in names:
                    db.execute(f'ALTER TABLE "away_{name}" RENAME TO "{name}"')

    async def close(self) -> None:
        for dead in self._dead:
            await let_go(dead)


class InDatabase:
    """A schema of its own."""

    is_shared = True

    def __init__(self, url: str) -> None:
        self.url = url
        self._dead: list[PostgresStore] = []

    def make(self) -> PostgresStore:
        return PostgresStore(self.url)

    async def kill(self, store: Any) -> None:
        await kill(store)
        self._dead.append(store)

    @asynccontextmanager
    async def outage(self, store: Any) -> AsyncIterator[None]:
        """Have its schema under another name for a while."""
        schema = store.options.schema
        await asyncio.to_thread(execute, f"ALTER SCHEMA {schema} RENAME TO {schema}_away")
        try:
            yield
        finally:
            await asyncio.to_thread(execute, f"ALTER SCHEMA {schema}_away RENAME TO {schema}")

    async def close(self) -> None:
        for dead in self._dead:
            await dead.close()


class Box(store_suite.Box):
    """A store of ours."""

    def __init__(self, place: Path | str | None) -> None:
        self.path = place if isinstance(place, Path) else None
        self.url = place if isinstance(place, str) else ""
        processes: Any = InMemory()
        if self.path is not None:
            processes = InFile(self.path)
        elif self.url:
            processes = InDatabase(self.url)
        super().__init__(processes)


async def kill(store: PostgresStore) -> None:
    """Declare a replica dead, as others would after its heartbeat stood still."""
    async with store.reading() as db:
        assert await declare_dead(db, store.options, store.replica)


async def let_go(store: SqliteStore) -> None:
    """Close what a store holds whose process is pretended dead, without what it would say."""
    assert store._worker is not None
    await store._worker.stop()
    await store._lists.stop()
    store._lister.close()
    store._reads.db.close()
    store._db.close()
    store._watch.close()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """The URL of an empty store in a real PostgreSQL."""
    with schema_url() as url:
        yield url


def place_of(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str | None:
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return None if request.param == "memory" else tmp_path / "tasks.db"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Box]:
    async with opened(place_of(request, tmp_path)) as box:
        yield box


@pytest.fixture(params=["sqlite", "postgres"])
async def lasting_box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Box]:
    """What outlives its process."""
    async with opened(place_of(request, tmp_path)) as box:
        yield box


@pytest.fixture
async def postgres_box(postgres_url: str) -> AsyncIterator[Box]:
    """Only what PostgreSQL can do."""
    async with opened(postgres_url) as box:
        yield box


@pytest.fixture
async def file_box(tmp_path: Path) -> AsyncIterator[Box]:
    """Only what a file can do."""
    async with opened(tmp_path / "tasks.db") as box:
        yield box


@asynccontextmanager
async def opened(place: Path | str | None) -> AsyncIterator[Box]:
    box = Box(place)
    await box.open()
    try:
        yield box
    finally:
        await box.close()
