"""A failover to a standby that lagged loses what was stored last: who reads or waits is told, and
nobody waits for ever.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Agent, Context
from accord.model import TaskState, Unavailable
from accord.store import LogEnd
from accord.store.postgres import PostgresStore, wake
from tests.engine.processes import Process, message, reaches, text_of, until
from tests.postgres import execute, schema_url
from tests.reliability.ways import Refused

SECONDS = 20
PREVIEW = {"a2a-version": "1.1"}


class Restarting(PostgresStore):
    """A database that is not there yet when lengths are first asked for."""

    has_failed = False

    async def ends(self, tasks: Collection[int]) -> dict[int, LogEnd]:
        if not self.has_failed:
            self.has_failed = True
            raise Unavailable("not yet")
        return await super().ends(tasks)


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
    async def process(self, **options: Any) -> AsyncIterator[Process]:
        app = self.agent.app(store=self.store(self._url), **options)
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close(0)

    @asynccontextmanager
    async def two(self, **options: Any) -> AsyncIterator[tuple[Process, Process]]:
        async with (
            asyncio.timeout(SECONDS),
            self.process(**options) as one,
            self.process(**options) as two,
        ):
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
            f"SELECT pos, seq, at_ms FROM {s}.events WHERE task = $1 ORDER BY pos LIMIT {rows + 1}",
            key,
        )
        cut = (
            f"UPDATE {s}.tasks SET pos = {kept[rows][0] - 1}, seq = {kept[rows - 1][1]}, "
            f"committed_ms = {kept[rows - 1][2]} WHERE key = {key}"
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
            lambda: [log for log in tasks.directory.live() if log.commits.is_stored and log.pos > 8]
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
        await until(lambda: all(store._wakes.is_notified for store in stores))
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
        await until(lambda: caplog.text.count("that were read") == 2)
        world.begin.set()
        world.go_on.set()
        assert text_of(await reaches(other, task_id, "TASK_STATE_COMPLETED")) == "x done"
        for frames in await asyncio.gather(*reading):
            assert frames[-1].is_final
            later = ["task" in frame.event for frame in frames[1:]]
            assert any(later), "the task as it is stands for what was lost"


# How a sender learns what becomes of its message, which is lost: what it calls, which answer it may
# get. All set `last` before the call that waits, in a process that only reads the task.
async def blocking(process: Process, task_id: str, last: asyncio.Event) -> Any:
    last.set()
    return await process.send(message("lost", task_id=task_id))


async def streaming(process: Process, task_id: str, last: asyncio.Event) -> Any:
    last.set()
    return await process.stream("SendStreamingMessage", message("lost", task_id=task_id))


async def subscribing(process: Process, task_id: str, last: asyncio.Event) -> Any:
    await process.send(message("lost", task_id=task_id, returnImmediately=True))
    last.set()
    return await process.stream("SubscribeToTask", {"id": task_id})


async def resuming(process: Process, task_id: str, last: asyncio.Event) -> Any:
    """A stream that goes on behind the last event its client has seen."""
    await process.send(message("lost", task_id=task_id, returnImmediately=True))
    task = await process.call("GetTask", {"id": task_id}, PREVIEW)
    headers = {"a2a-extensions": "urn:accord:resume:1", "last-event-id": str(task["generation"])}
    last.set()
    return await process.stream("SubscribeToTask", {"id": task_id}, headers)


async def polling(process: Process, task_id: str, last: asyncio.Event) -> Any:
    """A held GetTask of 1.1."""
    await process.send(message("lost", task_id=task_id, returnImmediately=True))
    task = await process.call("GetTask", {"id": task_id}, PREVIEW)
    known = {"id": task_id, "currentGeneration": task["generation"]}
    last.set()
    return await process.call("GetTask", known, PREVIEW)


def messages_of(task: dict[str, Any]) -> list[str]:
    return [one["parts"][0]["text"] for one in task["history"] if one["role"] == "ROLE_USER"]


WAITING = {
    "a blocking send": (blocking, "refused"),
    "a stream": (streaming, "refused"),
    "a subscription": (subscribing, "frames"),
    "a resumed subscription": (resuming, "frames"),
    "a held GetTask": (polling, "task"),
}


@pytest.mark.parametrize("poll_s", [0.3, 30.0], ids=["noticed by polling", "noticed by reading"])
@pytest.mark.parametrize("name", WAITING)
async def test_nobody_takes_what_became_of_another_message_for_the_answer_to_a_lost_one(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, poll_s: float
) -> None:
    """Another message stands in its place. If the process polls, it looks when the log is as long
    as it was; else when more is written.
    """
    monkeypatch.setattr(wake, "POLL_S", poll_s)
    world.agent = Agent("Works")
    heard, may_go_on = list[str](), asyncio.Event()
    if poll_s > 1:
        may_go_on.set()

    @world.agent.skill(durable=True)
    async def talk(text: str, ctx: Context) -> str:
        while text != "end":
            heard.append(text)
            if text == "lost":
                await asyncio.Event().wait()
            if text == "other":
                await may_go_on.wait()
            text = await ctx.ask(f"heard {text}")
        return "ended"

    wait, expected = WAITING[name]
    async with world.two(previews=["1.1"]) as (owner, other):
        task_id: str = (await owner.send(message("one")))["id"]
        stores = [process.app._engine.tasks.store for process in (owner, other)]
        await until(lambda: all(store._wakes.is_notified for store in stores))
        rows = world.rows(task_id)
        waiting = asyncio.create_task(wait(other, task_id, last := asyncio.Event()))
        await until(lambda: "lost" in heard)
        tasks = other.app._engine.tasks

        def is_waiting() -> bool:
            """It reads the task with the message."""
            tails = [slot.tail for slot in tasks.directory.slots() if slot.tail is not None]
            is_read = bool(tasks.views.open) or name == "a blocking send"
            return (
                last.is_set() and is_read and all(tail.state is TaskState.WORKING for tail in tails)
            )

        await until(is_waiting)
        world.lose(task_id, rows=rows)
        while "other" not in heard:
            await asyncio.sleep(0.01)
            with contextlib.suppress(Refused):  # it notices
                await owner.send(message("other", task_id=task_id, returnImmediately=True))
        if expected == "refused":
            with pytest.raises(Refused, match="the store went back"):
                await waiting
            return
        if expected == "task":
            assert "lost" not in messages_of(await waiting)
            return
        may_go_on.set()
        await reaches(owner, task_id, "TASK_STATE_INPUT_REQUIRED")
        await owner.send(message("end", task_id=task_id))
        frames = await waiting
        shown = [frame.event["task"] for frame in frames if "task" in frame.event]
        assert "lost" not in messages_of(shown[-1]), "the task as it is stands for what was lost"
        assert frames[-1].is_final
