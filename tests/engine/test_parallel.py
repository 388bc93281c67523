"""Durable work that does several things at once, and dies between any two commits."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context
from accord.store import Keep, Note, Write
from accord.store.sqlite import SqliteStore
from tests.reliability.harness import message, state_of, text_of, told
from tests.reliability.inside import Inside


class Watched(SqliteStore):
    """Keeps a copy of its file after every commit: what a process that dies there leaves behind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "tasks.db")
        self.copies: list[Path] = []

    async def commit(self, writes: Sequence[Write], keeps: Sequence[Keep], notes: Sequence[Note] = ()) -> None:
        await super().commit(writes, keeps, notes)
        copy = self.path.with_name(f"after-{len(self.copies)}.db")
        with contextlib.closing(sqlite3.connect(self.path)) as now, contextlib.closing(sqlite3.connect(copy)) as then:
            now.backup(then)
        self.copies.append(copy)


@contextlib.asynccontextmanager
async def living(agent: Agent, store: SqliteStore) -> AsyncIterator[Inside]:
    app = agent.app(store=store)
    await app.open()
    try:
        yield Inside(app)
    finally:
        await app.close()


async def ended(inside: Inside) -> dict[str, Any]:
    """The one task there is, when its run is over."""
    (task,) = (await inside.call("ListTasks", {}))["tasks"]
    async with asyncio.timeout(10):
        while state_of(task := await inside.get(task["id"])) in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):  # noqa: ASYNC110  as a client without a stream
            await asyncio.sleep(0.01)
    return task


def traveller(done: list[str], *, is_slow_at: str = "") -> Agent:
    """Three journeys at once, one of them started by hand; a life in which one step is slow gets to the others first."""
    agent = Agent("Traveller")

    async def do(what: str) -> str:
        for _ in range(40 if what == is_slow_at else 1):
            await asyncio.sleep(0.001)
        done.append(what)
        return what

    @agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def journey(*places: str) -> str:
            return " ".join([await ctx.step(do, place, name=place) for place in places])

        car = asyncio.create_task(journey("car"))
        first = await ctx.step(do, "map", name="map")
        first += " " + await ctx.step(do, "bag", name="bag")
        both = await asyncio.gather(journey("flight", "seat"), journey("hotel", "room", "breakfast"))
        return ", ".join([first, await car, *both])

    return agent


PLACES = {"car", "map", "bag", "flight", "seat", "hotel", "room", "breakfast"}


@pytest.mark.parametrize("slow", ["", *sorted(PLACES)])
async def test_work_done_at_once_goes_on_after_a_death_between_any_two_commits(tmp_path: Path, slow: str) -> None:
    """Whatever comes up first in the next life, nothing recorded is done again and nothing is taken for a changed function."""
    first: list[str] = []
    store = Watched(tmp_path)
    async with living(traveller(first, is_slow_at=slow), store) as inside:
        await inside.send(message("go"))
    for copy in store.copies:
        with contextlib.closing(sqlite3.connect(copy)) as db:
            log = b"\n".join(data for (data,) in db.execute("SELECT data FROM events UNION ALL SELECT data FROM notes")).decode()
        recorded = {place for place in PLACES if f'"value":"{place}"' in log}
        again: list[str] = []
        async with living(traveller(again), SqliteStore(copy)) as inside:
            task = await ended(inside)
        assert (state_of(task), text_of(task)) == (
            "TASK_STATE_COMPLETED",
            "map bag, car, flight seat, hotel room breakfast",
        ), told(task)
        assert sorted(again) == sorted(PLACES - recorded)
    assert sorted(first) == sorted(PLACES)


async def test_a_step_that_comes_up_earlier_than_in_the_last_life_waits_for_what_was_done(tmp_path: Path) -> None:
    """What is between two steps may be faster the next time: that is not another function."""
    agent, lives = Agent("Traveller"), 0
    at_gate = asyncio.Event()

    async def name(what: str) -> str:
        return what

    @agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def flight() -> str:
            if lives == 1:
                await at_gate.wait()
                await asyncio.Event().wait()  # not a step: the log knows nothing of it
            return await ctx.step(name, "flight", name="flight")

        async def hotel() -> str:
            await asyncio.sleep(0.03)
            found = await ctx.step(name, "hotel", name="hotel")
            await asyncio.sleep(0.03)
            found += await ctx.step(name, "room", name="room")
            at_gate.set()
            return found

        return " ".join(await asyncio.gather(flight(), hotel()))

    lives = 1
    async with living(agent, SqliteStore(tmp_path / "tasks.db")) as inside:
        await inside.send(message("go", returnImmediately=True))
        await at_gate.wait()
    lives = 2
    async with living(agent, SqliteStore(tmp_path / "tasks.db")) as inside:
        task = await ended(inside)
    assert text_of(task) == "flight hotelroom", told(task)


async def test_a_step_that_was_cut_short_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    """A step given up by its own function is no longer under way: the run can be let go at once."""
    agent, working = Agent("Hasty"), asyncio.Event()

    @agent.skill(durable=True)
    async def hurry(text: str, ctx: Context) -> str:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ctx.step(asyncio.Event().wait, name="slow"), 0.01)
        working.set()
        await asyncio.Event().wait()
        return ""

    app = agent.app(store=SqliteStore(tmp_path / "tasks.db"))
    await app.open()
    await Inside(app).send(message("go", returnImmediately=True))
    await working.wait()
    async with asyncio.timeout(10):  # not the minute it was given
        await app.close(60)


async def test_a_step_that_was_under_way_is_not_new_though_others_come_later(tmp_path: Path) -> None:
    """What was begun beside other work is in the log, and need not wait for that work, however long it takes."""
    agent, lives = Agent("Traveller"), 0
    booked, flying, landed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fly() -> str:
        flying.set()
        if lives == 1:
            await asyncio.Event().wait()
        landed.set()
        return "flight"

    async def book() -> str:
        return "hotel"

    @agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def flight() -> str:
            if lives == 1:
                await booked.wait()
            return await ctx.step(fly)

        async def hotel() -> str:
            if lives == 2:
                await landed.wait()
            name = await ctx.step(book)
            booked.set()
            return name

        return " ".join(await asyncio.gather(flight(), hotel()))

    lives = 1
    async with living(agent, SqliteStore(tmp_path / "tasks.db")) as inside:
        await inside.send(message("go", returnImmediately=True))
        await flying.wait()
    lives = 2
    async with living(agent, SqliteStore(tmp_path / "tasks.db")) as inside:
        task = await ended(inside)
    assert text_of(task) == "flight hotel", told(task)
