"""What a run leaves in memory: nothing that only the garbage collector would find."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from accord import Agent, Context, Reply
from accord.engine.runs.run import Run
from tests.drive import say
from tests.engine.processes import Disk, message, until

TASKS = 20
OF_A_RUN = ("Run", "Log", "Task", "Context", "Steps", "Branch", "Questions")


async def lower(text: str) -> str:
    return text.lower()


async def steps(text: str, ctx: Context) -> str:
    return str(await ctx.step(lower, await ctx.step(lower, text)))


async def steps_at_once(text: str, ctx: Context) -> str:
    return "".join(await ctx.gather(*(ctx.step(lower, letter) for letter in text)))


async def plain(text: str) -> str:
    return text


async def with_context(text: str, ctx: Context) -> str:
    ctx.status("looking")
    return ctx.task_id


def in_thread(text: str, ctx: Context) -> str:
    ctx.write("begun")
    return text


async def stream(text: str, ctx: Context) -> AsyncIterator[str]:
    yield text
    yield text


def stream_in_thread(text: str) -> Iterator[str]:
    yield text
    yield text


async def asks(text: str, ctx: Context) -> str:
    return f"{text}, {await ctx.ask('and who are you?')}"


async def asks_in_time(text: str, ctx: Context) -> str:
    return f"{text}, {await ctx.ask('and who are you?', within=3600)}"


async def rejects(text: str, ctx: Context) -> str:
    ctx.reject("not today")


async def fails(text: str, ctx: Context) -> str:
    raise ValueError(text)


SKILLS = [plain, with_context, steps, steps_at_once, stream, asks, asks_in_time, rejects, fails]


@pytest.mark.parametrize(
    ("skill", "is_durable"),
    [
        *((skill, is_durable) for skill in SKILLS for is_durable in (False, True)),
        (in_thread, False),
        (stream_in_thread, False),
    ],
)
async def test_a_run_that_is_over_is_gone(
    connect_rpc: Any, lasting: str, skill: Any, is_durable: bool
) -> None:
    """Else the collector has to find it: for a durable skill of two steps that was a tenth of all
    its time.
    """
    agent = Agent("Clean")
    agent.skill(durable=is_durable)(skill)
    async with connect_rpc(agent, store=lasting) as client:

        async def talk() -> None:
            task = (await client.send("hello"))["task"]
            if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
                await client.send(say("a friend", taskId=task["id"]))

        await talk()  # what is made once, is
        found = await _garbage_of(lambda: asyncio.gather(*(talk() for _ in range(TASKS))))
    assert not any(found[type_] for type_ in OF_A_RUN), found


@pytest.mark.parametrize("skill", [asks, asks_in_time])
async def test_a_function_that_is_given_up_is_gone(
    disk: Disk, skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each question that is open costs memory, and not just a row."""
    monkeypatch.setattr("accord.engine.tasks.tasks.MAX_WAITING", 0)
    monkeypatch.setattr("accord.engine.runs.retention.CHECK_S", 0.02)
    agent = Agent("Clean")
    agent.skill(durable=True)(skill)
    async with disk.process(agent) as process:

        async def ask() -> None:
            await asyncio.gather(*(process.send(message("hello")) for _ in range(TASKS)))
            await until(lambda: not process.app._engine.runs.running())

        await ask()
        found = await _garbage_of(ask)
    assert not any(found[type_] for type_ in OF_A_RUN), found


async def test_a_reply_leaves_nothing(connect_rpc: Any) -> None:
    async def reply(text: str, ctx: Context) -> Reply:
        return Reply(text)

    async with connect_rpc(reply) as client:
        await client.send("hello")
        found = await _garbage_of(
            lambda: asyncio.gather(*(client.send("hello") for _ in range(TASKS)))
        )
    assert not found[Run.__qualname__] + found["Context"], found


async def _garbage_of(work: Any) -> Counter[str]:
    """What only the collector finds after something was done, by the names of the classes."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await work()
        await asyncio.sleep(0)
        gc.collect()
        return Counter(type(thing).__qualname__ for thing in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
