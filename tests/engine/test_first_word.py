"""First words, when processes stop and die before and after them."""

import asyncio

import pytest

from accord import Agent, Context, Reply
from tests.engine.processes import Disk, message, reaches, state_of, text_of
from tests.reliability.ways import Refused


def agent_of(function, **options) -> Agent:
    agent = Agent("First")
    agent.skill(function, id="first", first_word=True, **options)
    return agent


@pytest.mark.parametrize("durable", [True, False])
async def test_a_death_before_the_first_word_leaves_nothing(disk: Disk, durable: bool) -> None:
    """Nothing was acknowledged, so there is nothing to go on with: the caller sends again."""
    begun, calls = asyncio.Event(), 0

    async def speaks(text: str, ctx: Context) -> str:
        nonlocal calls
        calls += 1
        begun.set()
        if calls == 1:
            await asyncio.Event().wait()
        return text

    agent, key = agent_of(speaks, durable=durable), {"idempotency-key": "k"}
    request = message("hello", "first")
    async with disk.dying(agent) as process:
        sending = asyncio.create_task(process.send(request, key))
        await begun.wait()
    with pytest.raises(Refused):
        await sending
    async with disk.process(agent) as process:
        assert (await process.call("ListTasks", {})).get("tasks", []) == []
        task = await process.send(request, key)
        assert (state_of(task), text_of(task), calls) == ("TASK_STATE_COMPLETED", "hello", 2)


async def test_a_death_after_the_first_word_is_that_of_any_task(disk: Disk) -> None:
    """What a durable skill did before its first word is recorded with it."""
    done: list[str] = []
    waiting = asyncio.Event()

    async def work(what: str) -> str:
        done.append(what)
        return what

    async def speaks(text: str, ctx: Context) -> str:
        before = await ctx.step(work, "before")
        await ctx.status("begun")
        if len(done) == 1:
            await ctx.step(asyncio.sleep, 0, name="rest")
            waiting.set()
            await asyncio.Event().wait()
        return before + text

    agent = agent_of(speaks, durable=True)
    async with disk.dying(agent) as process:
        sending = asyncio.create_task(process.send(message("hello", "first")))
        await waiting.wait()
        done.append("died")
        task = (await process.call("ListTasks", {}))["tasks"][0]
    with pytest.raises(Refused):
        await sending

    async def speaks_again(text: str, ctx: Context) -> str:
        before = await ctx.step(work, "before")
        await ctx.status("begun")
        await ctx.step(asyncio.sleep, 0, name="rest")
        return before + text

    async with disk.process(agent_of(speaks_again, durable=True)) as process:
        found = await reaches(process, task["id"], "TASK_STATE_COMPLETED", seconds=30)
    assert (text_of(found), done) == ("beforehello", ["before", "died"])


@pytest.mark.parametrize("says", ["task", "message", "nothing"])
async def test_a_stop_lets_the_first_word_be_said(disk: Disk, says: str) -> None:
    """Within the grace period the caller gets its answer; after it, an error and no task."""
    begun, speak = asyncio.Event(), asyncio.Event()

    async def speaks(text: str) -> str | Reply:
        begun.set()
        await speak.wait()
        return Reply(text) if says == "message" else text

    agent = agent_of(speaks)
    async with disk.process(agent, grace_s=0 if says == "nothing" else 30) as process:
        sending = asyncio.create_task(process.call("SendMessage", message("hello", "first")))
        await begun.wait()
        if says != "nothing":
            asyncio.get_running_loop().call_soon(speak.set)
    if says == "nothing":
        with pytest.raises(Refused):
            await sending
    else:
        assert list(await sending) == [says]
    async with disk.process(agent) as process:
        tasks = (await process.call("ListTasks", {})).get("tasks", [])
        assert len(tasks) == (says == "task")


async def test_one_that_is_over_time_is_refused(disk: Disk) -> None:
    """`run_s` ends it as it ends any other; there is no task to be failed."""

    async def silent(text: str) -> str:
        await asyncio.Event().wait()
        return text

    async with disk.process(agent_of(silent, run_s=0.01)) as process:
        with pytest.raises(Refused, match=r"did not finish within 0\.01 s"):
            await process.send(message("hello", "first"))
        assert (await process.call("ListTasks", {})).get("tasks", []) == []
