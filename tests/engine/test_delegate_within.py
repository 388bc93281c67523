"""`ctx.delegate(..., within=)`: the deadline is in the log, and the other agent's task ends with
it.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from accord import Agent, Context, Expired, connect
from accord.client import Client
from accord.engine.log import Delegated, Entry, Slept
from accord.model import TaskState
from accord.store.contract import Namespace
from tests.engine.processes import (
    Database,
    Disk,
    Memory,
    Process,
    log_of,
    message,
    reaches,
    text_of,
    until,
)

Place = Disk | Memory | Database
COMPLETED = "TASK_STATE_COMPLETED"
WITHIN_S = 2.0  # long enough for the other agent to begin


class Slow:
    """An agent that is never done: it works, or it waits for an answer."""

    def __init__(self) -> None:
        self.agent = Agent("Slow")
        self.calls = 0
        self.agent.skill(self.work)

    async def work(self, text: str, ctx: Context) -> str:
        self.calls += 1
        if text == "asks":
            return await ctx.ask("Which room?")
        await asyncio.Event().wait()
        return text


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
async def desk(slow: Slow) -> AsyncIterator[Client]:
    """A client of the slow agent, which outlives the processes that delegate to it."""
    async with slow.agent.app().serving() as url, connect(url) as client:
        yield client


def shop(address: str, within: float) -> Agent:
    agent = Agent("Shop")

    @agent.skill(durable=True)
    async def buy(text: str, ctx: Context) -> str:
        try:
            return (await ctx.delegate(address, text, within=within)).text
        except Expired as error:
            return f"late: {error}"

    return agent


async def due_ms(process: Process, task_id: str) -> int:
    """The deadline of the delegation, when both it and the other agent's task are recorded."""
    store, found = process.app._engine.tasks.store, list[Entry]()
    async with asyncio.timeout(20):
        while not any(isinstance(entry, Delegated) for entry in found):
            found = await log_of(store, Namespace("Shop", "", ""), task_id)
            await asyncio.sleep(0.01)
    [due] = [entry.due_ms for entry in found if isinstance(entry, Slept)]
    return due


@pytest.mark.parametrize("what", ["works", "asks"])
@pytest.mark.parametrize("passes", ["while nobody is there", "in the next process"])
async def test_a_death_does_not_move_the_deadline(
    any_place: Place, slow: Slow, desk: Client, what: str, passes: str
) -> None:
    """When it passes, the other agent's task is cancelled, though whoever sees to that has to
    connect first. That task was begun once.
    """
    async with any_place.dying(shop(desk.url, WITHIN_S)) as process:
        task = await process.send(message(what, returnImmediately=True))
        due = await due_ms(process, task["id"])
        store = process.app._engine.tasks.store
    if passes == "while nobody is there":
        await until(lambda: store.now_ms() > due)
    async with any_place.process(shop(desk.url, 3600)) as process, asyncio.timeout(20):
        done = await reaches(process, task["id"], COMPLETED)
        assert text_of(done).startswith("late: the other agent was not done before 20")
        assert process.app._engine.tasks.store.now_ms() >= due
        assert await due_ms(process, task["id"]) == due
    [there] = [one async for one in desk.list()]
    assert there.state is TaskState.CANCELED
    assert slow.calls == 1


async def test_a_cancel_while_the_next_process_connects_reaches_the_other_agent(
    disk: Disk, slow: Slow, desk: Client
) -> None:
    """Whose task is known from the log."""
    async with disk.dying(shop(desk.url, 3600)) as process:
        task = await process.send(message("works", returnImmediately=True))
        await due_ms(process, task["id"])
    async with disk.process(shop(desk.url, 3600)) as process, asyncio.timeout(20):
        await until(lambda: process.app._engine.runs.running()[0].task is not None)
        await process.cancel(task["id"])
    [there] = [one async for one in desk.list()]
    assert there.state is TaskState.CANCELED
