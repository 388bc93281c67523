"""How long a function may work and be silent, over all its attempts."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from accord import Agent, Context
from accord.engine.runs import recovery
from accord.engine.runs import retention as upkeep
from tests.engine.processes import (
    Disk,
    Memory,
    ended,
    message,
    reaches,
    state_of,
    text_of,
    told,
    until,
)


def agent_of(skill: Callable[..., Coroutine[Any, Any, Any]], **options: Any) -> Agent:
    agent = Agent("Again")
    agent.skill(id="work", durable=True, **options)(skill)
    return agent


async def forever() -> None:
    await asyncio.Event().wait()


async def test_steps_are_a_sign_of_life(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CHECK_S", 0.02)

    async def wait(n: int) -> int:
        await asyncio.sleep(0.25)
        return n

    async def work(text: str, ctx: Context) -> str:
        return " ".join([str(await ctx.step(wait, n)) for n in range(8)])

    async with place.process(agent_of(work, idle_s=1.5)) as process:
        task = await process.send(message("go"))
    assert text_of(task) == "0 1 2 3 4 5 6 7", told(task)


async def test_what_waits_for_its_turn_is_not_idle(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three deaths it is called again later: its time counts from there."""
    monkeypatch.setattr(upkeep, "CHECK_S", 0.02)
    monkeypatch.setattr(recovery, "PAUSE_S", 1.5)
    number, reached = 0, asyncio.Event()

    async def work(text: str, ctx: Context) -> str:
        reached.set()
        if number < 4:
            await forever()
        return "done"

    agent = agent_of(work, idle_s=1.0)
    task: dict[str, Any] = {}
    for number in (1, 2, 3):  # noqa: B007  the function looks at it
        reached.clear()
        async with place.dying(agent) as process:
            task = task or await process.send(message("go", returnImmediately=True))
            await until(reached.is_set)
    number = 4
    async with place.process(agent) as process:
        task = await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    assert state_of(task) == "TASK_STATE_COMPLETED", told(task)


@pytest.mark.parametrize("how", ["killed", "stopped", "asked"])
async def test_the_work_of_all_attempts_counts(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(upkeep, "CHECK_S", 0.02)
    number, reached = 1, asyncio.Event()

    async def work(text: str, ctx: Context) -> str:
        if number == 1:
            await asyncio.sleep(0.8)
            reached.set()
            if how != "asked":
                await forever()
        if how == "asked":
            await ctx.ask("Go on?")
        await asyncio.sleep(1.6)
        return "done"

    agent = agent_of(work, run_s=2.0)
    async with place.process(agent) if how == "stopped" else place.dying(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(reached.is_set)
        if how == "asked":
            await reaches(process, task["id"], "TASK_STATE_INPUT_REQUIRED")
    number = 2
    async with place.process(agent) as process:
        if how == "asked":
            await process.send(message("yes", task_id=task["id"]))
        task = await ended(process)
    assert told(task) == "the agent did not finish within 2 s"
