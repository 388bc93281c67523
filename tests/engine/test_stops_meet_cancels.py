"""A stop that comes at a bad moment: at a question, between steps, while the client cancels, while
a router thinks.
"""

import asyncio
import contextlib
import time
from typing import Any

import pytest

from accord import Agent, Context
from accord.engine.log.entries import Released, StepLeft
from accord.store.contract import Namespace
from tests.engine.processes import (
    Disk,
    Memory,
    Process,
    ended,
    log_of,
    message,
    state_of,
    text_of,
    told,
    until,
)
from tests.reliability.ways import Refused


async def entries(process: Process, task_id: str) -> list[Any]:
    engine = process.app._engine
    return await log_of(engine.tasks.store, Namespace(*engine.runs.agents), task_id)


@pytest.mark.parametrize("grace_s", [0.0, 5.0])
async def test_waiting_for_the_client_is_not_work_also_for_who_is_stopped_meanwhile(
    place: Disk | Memory, grace_s: float
) -> None:
    """What counts as work here is taken from the time the function has left in the next process."""
    agent = Agent("Patient")

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        return await ctx.ask("Name?")

    async with place.process(agent, grace_s=grace_s) as process:
        task = await process.send(message("go"))
        since = time.monotonic()
        await until(lambda: time.monotonic() > since + 0.5)
    async with place.process(agent) as process:
        assert text_of(await process.send(message("Ada", task_id=task["id"]))) == "Ada"
        (released,) = [
            entry for entry in await entries(process, task["id"]) if isinstance(entry, Released)
        ]
    assert released.worked_s < 0.4


async def test_who_is_released_at_a_question_leaves_it_to_whoever_gets_the_answer() -> None:
    """Also while the process that asked is still stopping."""
    place, agent = Memory(), Agent("Patient")

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        return await ctx.ask("Name?")

    async with place.process(agent) as stopping, place.process(agent) as other:
        task = await stopping.send(message("go"))
        await stopping.app._engine.drain(5)
        await stopping.app._engine.tasks.flush()
        record = await other.app._engine.tasks.store.load(Namespace("Patient"), task["id"])
        assert record.owner == 0
        async with asyncio.timeout(10):
            assert text_of(await other.send(message("Ada", task_id=task["id"]))) == "Ada"


@pytest.mark.parametrize("how", ["create_task", "TaskGroup"])
async def test_a_function_between_steps_waits_for_the_end_while_a_task_of_its_own_is_in_one(
    place: Disk | Memory, how: str
) -> None:
    """The next step does not begin, and is not refused either: an error there would cancel the
    other, and fail the task.
    """
    agent, world = Agent("Beside"), list[str]()
    go_on = {name: asyncio.Event() for name in ("beside", "first", "second")}

    async def work(name: str) -> str:
        world.append(name)
        await go_on[name].wait()
        return name

    @agent.skill(durable=True)
    async def both(text: str, ctx: Context) -> str:
        async with (
            asyncio.TaskGroup() if how == "TaskGroup" else contextlib.nullcontext(asyncio) as group
        ):
            beside = group.create_task(ctx.step(work, "beside", name="beside"))
            first = await ctx.step(work, "first")
            world.append("between")
            second = await ctx.step(work, "second")
            return f"{first} {second} {await beside}"

    async with contextlib.AsyncExitStack() as stack:
        process = await stack.enter_async_context(place.process(agent, grace_s=60))
        task = await process.send(message("go", returnImmediately=True))
        await until(lambda: sorted(world) == ["beside", "first"])
        stopping = asyncio.create_task(stack.aclose())
        await until(lambda: process.app._engine.tasks.is_draining)
        go_on["first"].set()
        await until(lambda: "between" in world)
        go_on["beside"].set()
        async with asyncio.timeout(10):
            await stopping
    assert "second" not in world
    go_on["second"].set()
    async with place.process(agent) as process:
        task = await ended(process)
        log = await entries(process, task["id"])
    assert text_of(task) == "first second beside", told(task)
    assert [world.count(name) for name in go_on] == [1, 1, 1]
    assert not [entry for entry in log if isinstance(entry, StepLeft)]


async def test_a_cancel_that_meets_a_stop_is_a_cancel(place: Disk | Memory) -> None:
    """The function has begun to undo its work: a next process that went on with it would build on
    what is gone.
    """
    agent, world, there = Agent("Seats"), list[str](), asyncio.Event()

    async def book() -> None:
        world.append("booked")

    @agent.skill(durable=True)
    async def seat(text: str, ctx: Context) -> str:
        await ctx.step(book)
        try:
            there.set()
            await asyncio.Event().wait()
        finally:
            world.append(f"undone, canceled by the client: {ctx.is_canceled}")
            await asyncio.Event().wait()
        return "seated"

    async with place.process(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(there.is_set)
        canceling = asyncio.create_task(process.cancel(task["id"]))
        await until(lambda: len(world) == 2)
    async with asyncio.timeout(10):
        assert state_of(await canceling) == "TASK_STATE_CANCELED"
    async with place.process(agent) as process:
        assert state_of(await process.get(task["id"])) == "TASK_STATE_CANCELED"
    assert world == ["booked", "undone, canceled by the client: True"]


async def test_a_cancel_before_the_function_has_come_to_what_is_recorded_is_a_cancel(
    place: Disk | Memory,
) -> None:
    """What it does to clean up is not what was recorded, and need not be."""
    agent, number, there = Agent("Seats"), 1, asyncio.Event()

    async def nothing() -> None:
        pass

    @agent.skill(durable=True)
    async def seat(text: str, ctx: Context) -> None:
        try:
            if number == 1:
                await ctx.step(nothing)
            there.set()
            await asyncio.Event().wait()
        finally:
            if ctx.is_canceled:
                await ctx.step(nothing, name="undo")

    async with place.dying(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(there.is_set)
        await process.app._engine.tasks.flush()
    number = 2
    there.clear()
    async with place.process(agent) as process:
        await until(there.is_set)
        async with asyncio.timeout(10):
            assert state_of(await process.cancel(task["id"])) == "TASK_STATE_CANCELED"
    async with place.process(agent) as process:
        assert state_of(await process.get(task["id"])) == "TASK_STATE_CANCELED"


async def test_a_router_that_has_decided_after_the_stop_starts_nothing(
    place: Disk | Memory,
) -> None:
    """Its function would run where nothing can be stored any more, for a sender who is told
    nothing.
    """
    agent, world, go_on = Agent("Routed"), list[str](), asyncio.Event()

    @agent.skill
    async def work(text: str) -> str:
        world.append("called")
        return "done"

    @agent.route
    async def choose(said: object) -> str:
        world.append("asked")
        await go_on.wait()
        return "work"

    async with place.process(agent) as process:
        sending = asyncio.create_task(process.send(message("go")))
        await until(lambda: world)
    go_on.set()
    async with asyncio.timeout(10):
        with pytest.raises(Refused, match="the server is stopping"):
            await sending
    assert world == ["asked"]
