"""Processes one after the other on the same tasks, all within this one: an app each, opened on what
the last one left.

A process that dies is closed afterwards, so that nothing of it outlives the test; but what was
stored at its death is what the next one finds, and whatever the dead one still does counts for
nothing.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from accord import Agent
from accord.engine.log.entries import Entry, Ids, entries_of
from accord.store.contract import Namespace, Store
from accord.store.memory import MemoryStore
from accord.store.postgres import PostgresStore
from accord.store.sqlite.store import SqliteStore
from tests.postgres import execute
from tests.processes import until
from tests.reliability.clients import Frame
from tests.reliability.harness import message, state_of, text_of, told
from tests.reliability.inside import Inside

__all__ = [
    "Database",
    "Disk",
    "Memory",
    "Process",
    "Twice",
    "ended",
    "log_of",
    "message",
    "reaches",
    "state_of",
    "text_of",
    "told",
    "until",
]

WORKING = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")


class Process(Inside):
    """An app that is served."""

    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self.app = app

    async def subscribed(self, task_id: str) -> "asyncio.Task[list[Frame]]":
        """A stream of a task that has begun; it gives all frames at its end."""
        has_begun = asyncio.Event()

        async def read() -> list[Frame]:
            _, body = await self._request(
                "SubscribeToTask", {"id": task_id}, None, lambda data: has_begun.set()
            )
            return [
                self._frame(block)
                for block in body.split(b"\n\n")
                if block and not block.startswith(b":")
            ]

        reading = asyncio.create_task(read())
        await until(lambda: has_begun.is_set() or reading.done())
        return reading


class Disk:
    """Tasks in a SQLite file. A process that dies leaves the file as it was at that moment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.asynccontextmanager
    async def process(
        self, agent: Agent, *, grace_s: float = 0.0, **options: Any
    ) -> AsyncIterator[Process]:
        """One that stops in good order at the end of the block."""
        app = agent.app(store=SqliteStore(self.path), **options)
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close(grace_s)

    @contextlib.asynccontextmanager
    async def dying(self, agent: Agent, **options: Any) -> AsyncIterator[Process]:
        """One that dies at the end of the block."""
        left = self.path.with_name("left.db")
        async with self.process(agent, **options) as process:
            yield process
            with (
                contextlib.closing(sqlite3.connect(self.path)) as now,
                contextlib.closing(sqlite3.connect(left)) as then,
            ):
                now.backup(then)
        for more in ("-wal", "-shm"):
            self.path.with_name(self.path.name + more).unlink(missing_ok=True)
        left.replace(self.path)


class Memory:
    """Tasks in memory that several handles share: one that dies is fenced, as a process is that
    others take for dead.
    """

    def __init__(self) -> None:
        self._store = MemoryStore()

    @contextlib.asynccontextmanager
    async def process(
        self, agent: Agent, *, grace_s: float = 0.0, **options: Any
    ) -> AsyncIterator[Process]:
        app = agent.app(store=self._store.another(), **options)
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close(grace_s)

    @contextlib.asynccontextmanager
    async def dying(self, agent: Agent, **options: Any) -> AsyncIterator[Process]:
        store = self._store.another()
        app = agent.app(store=store, **options)
        await app.open()
        try:
            yield Process(app)
        finally:
            store.kill()
            await app.close()


class Database:
    """Tasks in PostgreSQL: a process that dies is declared dead, as others do when its heartbeat
    stands still.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    @contextlib.asynccontextmanager
    async def process(
        self, agent: Agent, *, grace_s: float = 0.0, **options: Any
    ) -> AsyncIterator[Process]:
        app = agent.app(store=PostgresStore(self.url), **options)
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close(grace_s)

    @contextlib.asynccontextmanager
    async def dying(self, agent: Agent, **options: Any) -> AsyncIterator[Process]:
        store = PostgresStore(self.url)
        app = agent.app(store=store, **options)
        await app.open()
        try:
            yield Process(app)
        finally:
            app._engine._upkeep.cancel()  # else it would come back under a new number
            died = f"UPDATE {store.options.schema}.replicas SET died = clock_timestamp()"
            await asyncio.to_thread(execute, f"{died} WHERE id = $1", store.replica)
            await app.close()


class Twice:
    """One skill in two processes: the first dies where the function says so, the second goes on to
    the end.
    """

    def __init__(self, place: Disk | Memory) -> None:
        self.agent = Agent("Twice")
        self.place = place
        self.number = 0
        self.done: list[str] = []
        self._there = asyncio.Event()

    @property
    def is_first(self) -> bool:
        return self.number == 1

    async def die(self) -> None:
        """The first process dies here."""
        if self.is_first:
            self._there.set()
            await asyncio.Event().wait()

    async def run(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The task as it stood when the process died, and at its end."""
        self.number = 1
        async with self.place.dying(self.agent) as process:
            task = await process.send(message("go", returnImmediately=True))
            await until(self._there.is_set)
            before = await process.get(task["id"])
            self.number = 2
        async with self.place.process(self.agent) as process:
            return before, await ended(process)


async def reaches(
    process: Inside, task_id: str, *states: str, seconds: float = 10
) -> dict[str, Any]:
    """The task in one of these states, as a client without a stream waits for it."""
    task: dict[str, Any] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while state_of(task := await process.get(task_id)) not in states:  # noqa: ASYNC110  as a client without a stream
                await asyncio.sleep(0.005)
            return task
    raise AssertionError(f"task {task_id} is {state_of(task)}: {told(task)}")


async def ended(process: Inside) -> dict[str, Any]:
    """The one task there is, when nobody works on it any more."""
    (task,) = (await process.call("ListTasks", {}))["tasks"]
    others = ("COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED")
    return await reaches(process, task["id"], *(f"TASK_STATE_{state}" for state in others))


async def log_of(store: Store, namespace: Namespace, task_id: str) -> list[Entry]:
    """All entries of a task, as stored."""
    record = await store.load(namespace, task_id)
    assert record is not None
    found: list[Entry] = []
    pos = 0
    while rows := await store.read({record.key: pos}):
        for numbered in entries_of(rows, Ids(record.id, record.context_id)):
            if numbered.pos > pos:
                found.append(numbered.entry)
                pos = numbered.pos
    return found
