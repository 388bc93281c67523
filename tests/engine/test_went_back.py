"""A failover to a standby that lagged loses what was stored last: who reads or waits is told, and
nobody waits for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Agent, Context
from accord.model import TaskState, Unavailable
from accord.store.postgres import PostgresStore, wake
from tests.engine.processes import Process, message, reaches, text_of, until
from tests.postgres import execute, schema_url
from tests.reliability.ways import Refused

SECONDS = 20


class Restarting(PostgresStore):
    """A database that is not there yet when lengths are first asked for."""

    has_failed = False

    async def positions(self, tasks: Collection[int]) -> dict[int, int]:
        if not self.has_failed:
            self.has_failed = True
            raise Unavailable("not yet")
        return await super().positions(tasks)


class World:
    """An agent in two processes on one database, which may lose what it stored last."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.store = PostgresStore
        self._schema = url.partition("schema=")[2].partition("&")[0]
        self.begin, self.go_on = asyncio.Event(), asyncio.Event()
        self.begin.set()
        self.agent = Agent("Works")

        @self.agent.skill(durable=True)
        async def work(text: str, ctx: Context) -> str:
            await self.begin.wait()
            for word in ("one", "two", "three"):
                await ctx.step(asyncio.sleep, 0, name=word)
                ctx.status(word)
            await self.go_on.wait()
            return f"{text} done"

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Process]:
        app = self.agent.app(store=self.store(self._url))
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close(0)

    @asynccontextmanager
    async def two(self) -> AsyncIterator[tuple[Process, Process]]:
        async with asyncio.timeout(SECONDS), self.process() as one, self.process() as two:
            yield one, two

    def rows(self, task_id: str) -> int:
        """How many rows the log of a task has."""
        s = self._schema
        counted = f"SELECT count(*) FROM {s}.events e JOIN {s}.tasks t ON t.key = e.task"
        found: int = execute(f"{counted} WHERE t.id = $1", task_id)[0][0]
        return found

    def lose(self, task_id: str, *, rows: int) -> None:
        """Go back to when the log of a task had so many rows, in one moment; 0: there is none."""
        s = self._schema
        (key,) = execute(f"SELECT key FROM {s}.tasks WHERE id = $1", task_id)[0]
        kept = execute(
            f"SELECT pos, seq FROM {s}.events WHERE task = $1 ORDER BY pos LIMIT {rows + 1}", key
        )
        cut = (
            f"UPDATE {s}.tasks SET pos = {kept[rows][0] - 1}, seq = {kept[rows - 1][1]} "
            f"WHERE key = {key}"
            if rows
            else f"DELETE FROM {s}.tasks WHERE key = {key}"
        )
        execute(
            f"WITH b AS (DELETE FROM {s}.batches WHERE n > 1), e AS (DELETE FROM {s}.events WHERE "
            f"task = {key} AND pos >= {kept[rows][0]}) {cut}"
        )


@pytest.fixture
def world() -> Any:
    with schema_url(lease_s=15, beat_s=0.3) as url:
        yield World(url)


async def works(world: World, process: Process) -> str:
    task = await process.send(message("x", returnImmediately=True))
    task_id: str = task["id"]

    async def said() -> Any:
        found = await process.get(task_id)
        return (found["status"].get("message") or {"parts": [{}]})["parts"][0].get("text")

    while await said() != "three":  # noqa: ASYNC110  a client that asks again
        await asyncio.sleep(0.01)
    return task_id


async def test_who_reads_or_waits_for_a_task_that_a_failover_lost_is_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """On the process that owned it, and on others, which have lost nothing of their own."""
    async with world.two() as (owner, other):
        sending = asyncio.create_task(owner.send(message("lost")))
        tasks = owner.app._engine.tasks
        await until(
            lambda: [log for log in tasks.directory.live() if log.is_stored and log.pos > 8]
        )
        (log,) = tasks.directory.live()
        reading = [await process.subscribed(log.ids.task_id) for process in (owner, other)]
        world.lose(log.ids.task_id, rows=0)
        world.go_on.set()
        for waiting in (sending, *reading):
            with pytest.raises(Refused, match="the store went back"):
                await waiting
        assert any("the store went back" in record.message for record in caplog.records)


async def test_who_reads_what_a_failover_lost_is_told_when_the_database_can_be_read_again(
    world: World,
) -> None:
    """It often can't be at first. That everything has to be looked at is not forgotten for that."""
    world.store = Restarting
    async with world.two() as (owner, other):
        task_id = await works(world, owner)
        reading = [await process.subscribed(task_id) for process in (owner, other)]
        stores = [process.app._engine.tasks.store for process in (owner, other)]
        await until(lambda: all(store._wakes.is_heard for store in stores))
        for store in stores:
            store.has_failed = False
        world.lose(task_id, rows=0)
        world.go_on.set()
        for waiting in reading:
            with pytest.raises(Refused, match="the store went back"):
                await waiting
        assert all(store.has_failed for store in stores)


async def test_who_reads_a_task_whose_last_commits_are_lost_gets_it_as_it_is_and_reads_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Both notice while the task is shorter than it was."""
    async with world.two() as (owner, other):
        task_id = await works(world, owner)
        reading = [await process.subscribed(task_id) for process in (owner, other)]
        world.begin.clear()
        world.lose(task_id, rows=2)
        with pytest.raises(Refused, match=r"away for too long|not known"):
            await owner.send(message("another", returnImmediately=True))  # it notices
        await until(lambda: not owner.app._engine.tasks.trouble)
        await until(lambda: caplog.text.count("entries, and had") == 2)
        world.begin.set()
        world.go_on.set()
        assert text_of(await reaches(other, task_id, "TASK_STATE_COMPLETED")) == "x done"
        for frames in await asyncio.gather(*reading):
            assert frames[-1].is_final
            later = ["task" in frame.event for frame in frames[1:]]
            assert any(later), "the task as it is stands for what was lost"


async def test_a_sender_does_not_get_the_answer_to_a_message_that_took_the_place_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is as long again before the sender's process looks at it."""
    monkeypatch.setattr(wake, "POLL_S", 30.0)
    world.agent = Agent("Works")
    is_heard = asyncio.Event()

    @world.agent.skill(durable=True)
    async def talk(text: str, ctx: Context) -> None:
        while True:
            if text == "lost":
                is_heard.set()
                await asyncio.Event().wait()
            text = await ctx.ask(f"heard {text}")

    async with world.two() as (owner, other):
        task_id: str = (await owner.send(message("one")))["id"]
        stores = [process.app._engine.tasks.store for process in (owner, other)]
        await until(lambda: all(store._wakes.is_heard for store in stores))
        rows = world.rows(task_id)
        lost = asyncio.create_task(other.send(message("lost", task_id=task_id)))
        await is_heard.wait()
        (slot,) = other.app._engine.tasks.directory.slots()
        await until(lambda: slot.tail.state == TaskState.WORKING)  # it knows its turn
        world.lose(task_id, rows=rows)
        while True:
            try:
                answer = await owner.send(message("other", task_id=task_id))
                break
            except Refused:  # it notices
                await asyncio.sleep(0.01)
        assert answer["status"]["message"]["parts"][0]["text"] == "heard other"
        with pytest.raises(Refused, match="the store went back"):
            await lost
