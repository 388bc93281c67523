"""Every store, opened, and a way to have its process die."""

import itertools
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord.store.contract import (
    Append,
    Create,
    Idempotency,
    Leaves,
    Namespace,
    Post,
    PostKind,
    Query,
)
from accord.store.memory import MemoryStore
from accord.store.postgres.heart import bury
from accord.store.postgres.store import PostgresStore
from accord.store.sqlite.store import SqliteStore
from tests.postgres import schema_url

SUBMITTED, WORKING, COMPLETED, FAILED, CANCELED, INPUT_REQUIRED, REJECTED, AUTH_REQUIRED = range(
    1, 9
)
ME, OTHER = Namespace("agent", "", "me"), Namespace("agent", "", "other")

AnyStore = MemoryStore | SqliteStore | PostgresStore


class Box:
    """A store; after a crash, the same tasks as the next process finds them."""

    def __init__(self, place: Path | str | None) -> None:
        self.path = place if isinstance(place, Path) else None
        self.url = place if isinstance(place, str) else ""
        self.store: AnyStore = MemoryStore()
        if self.path is not None:
            self.store = SqliteStore(self.path)
        elif self.url:
            self.store = PostgresStore(self.url)
        self.woken: list[Collection[int] | None] = []
        self._dead: list[SqliteStore] = []
        self._others: list[AnyStore] = []
        self._numbers = itertools.count(1)

    async def open(self) -> None:
        await self.store.open(self._wake)

    def _wake(self, tasks: Collection[int] | None) -> None:
        if tasks is not None:  # for all: any time, for any reason
            self.woken.append(tasks)

    @property
    def is_shared(self) -> bool:
        """Several processes may use it, so that a test can have a second."""
        return self.path is None

    async def another(self, wake: Any = lambda tasks: None) -> AnyStore:
        """Another process on the same tasks."""
        other = self._next()
        await other.open(wake)
        self._others.append(other)
        return other

    def _next(self) -> AnyStore:
        if isinstance(self.store, MemoryStore):
            return self.store.another()
        return PostgresStore(self.url) if self.url else SqliteStore(self.store.path)

    def key(self) -> int:
        """A new key, made as the engine makes them."""
        return self.store.replica << 32 | next(self._numbers)

    async def crash(self) -> AnyStore:
        """Have the process die where it stands, and the next one start. Returns the dead one's
        store.
        """
        dead, self.store = self.store, self._next()
        if isinstance(dead, MemoryStore):
            dead.kill()
        elif isinstance(dead, PostgresStore):
            await kill(dead)
            self._others.append(dead)
        else:
            dead._lock.close()  # as the system does when a process is killed
            self._dead.append(dead)
        await self.open()
        return dead

    async def restart(self) -> None:
        """Stop in good order, and start again."""
        await self.store.close()
        self.store = self._next()
        await self.open()

    async def close(self) -> None:
        await self.store.close()
        for other in self._others:
            await other.close()
        for dead in self._dead:
            await let_go(dead)

    # Items, with what a test does not care about filled in

    def create(self, id: str = "t1", **more: Any) -> Create:
        state = more.pop("state", WORKING)
        is_ended = state in (COMPLETED, FAILED, CANCELED, REJECTED)
        usual = {
            "key": self.key(),
            "namespace": ME,
            "id": id,
            "context_id": more.pop("context", "c1"),
            "skill": "echo",
            "about": b"{}",
            "state": state,
            "at_ms": more.pop("at", 1_000),
            "pos": 1,
            "seq": 1,
            "format": 1,
            "data": b"c{}",
            "leaves": Leaves.END if is_ended else Leaves.STAY,
            "head": b"{}" if is_ended else None,
            "artifacts": b"[]" if is_ended else b"",
        }
        return Create(**(usual | more))

    def append(self, after: Create | Append, **more: Any) -> Append:
        state = more.pop("state", after.state)
        usual = {
            "key": after.key,
            "namespace": after.namespace,
            "before": after.pos,
            "pos": after.pos + 1,
            "seq": after.seq + 1,
            "was": after.state,
            "state": state,
            "at_ms": more.pop("at", after.at_ms),
            "format": 1,
            "data": b"w%d" % (after.pos + 1),
        }
        return Append(**(usual | more))

    def post(self, task: int, **more: Any) -> Post:
        usual: dict[str, Any] = {"task": task, "id": self.key(), "kind": PostKind.MESSAGE}
        usual["body"] = b"hello"
        return Post(**(usual | more))

    async def commit(self, *items: Any) -> list[bool]:
        return await self.store.commit(items)

    async def ids(self, **more: Any) -> list[str]:
        """The ids of a whole list, page by page."""
        found, before = list[str](), None
        while True:
            usual: dict[str, Any] = {"namespace": ME, "limit": 50, "before": before}
            page = await self.store.page(Query(**(usual | more)))
            found += [record.id for record in page.tasks]
            before = page.next
            if before is None:
                return found


def key(name: str, **more: Any) -> Idempotency:
    usual: dict[str, Any] = {"namespace": ME, "key": name, "digest": b"d", "at_ms": 5_000}
    return Idempotency(**(usual | more))


async def kill(store: PostgresStore) -> None:
    """Declare a replica dead, as others would after its heartbeat stood still."""
    async with store._reading() as db:
        assert await bury(db, store.options, store.replica)


async def let_go(store: SqliteStore) -> None:
    """Close what a store holds whose process is pretended dead, without what it would say."""
    assert store._worker is not None
    await store._worker.stop()
    await store._lists.stop()
    store._lister.close()
    store._reader.close()
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
