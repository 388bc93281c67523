"""D9 and the edges of replay: histories of earlier releases, and functions that are no longer what
they were.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context
from tests.drive import refusal_of, say, state_of, text_of
from tests.processes import run
from tests.survive.history import make

ROOT = Path(__file__).parent.parent.parent


async def test_a_recorded_history_is_replayed(connect_rpc: Any, tmp_path: Path) -> None:
    """D9: a run cut off in another process goes on, one that waited takes its answer, and nothing
    recorded is done again. The first release records a file to be kept for the next ones.
    """
    recorded = await run(
        sys.executable, "-m", "tests.survive.history", tmp_path / "tasks.db", cwd=ROOT
    )
    assert recorded.code == 0, recorded.err
    done: list[str] = []
    gate, at_gate = asyncio.Event(), asyncio.Event()

    def do(what: str) -> str:
        done.append(what)
        return f"did {what}"

    async with connect_rpc(
        make(do, gate, at_gate), store=f"sqlite:///{tmp_path}/tasks.db"
    ) as client:
        tasks = {
            text_of(t["history"][0]): t["id"]
            for t in (await client.list(historyLength=10))["tasks"]
        }
        stream = await client.subscribe(tasks["Oslo"])
        await asyncio.wait_for(at_gate.wait(), timeout=10)
        assert done == []
        gate.set()
        assert [next(iter(frame)) for frame in await stream.rest()] == [
            "task",
            "artifactUpdate",
            "statusUpdate",
        ]
        rome = (await client.send(say("5", taskId=tasks["Rome"])))["task"]
        oslo = await client.get(tasks["Oslo"])
    assert [text_of(a) for a in oslo["artifacts"]] == [journal("Oslo", 3), "a map"]
    assert [text_of(a) for a in rome["artifacts"]] == [journal("Rome", 5), "a map"]
    assert (state_of(oslo), state_of(rome)) == ("completed", "completed")
    assert done == ["Oslo 3", "Rome 2, 5 days", "Rome 3"]
    assert [text_of(m).split("\n")[-1] for m in oslo["history"]] == [
        *("Oslo", "looking around", "How many days?", "many", "How many days?", "3")
    ]


def journal(place: str, days: int) -> str:
    return (
        f"did {place} 1\nstep 'fail' failed: ValueError: no luck\ndid {place} 2, {days} "
        f"days\ndid {place} 3\n"
    )


def named(function: Any) -> Agent:
    agent = Agent("Changed")
    agent.skill(function, id="work", durable=True)
    return agent


async def step() -> str:
    return "x"


async def test_a_function_that_leaves_out_a_recorded_step_fails_and_says_which(
    connect_rpc: Any, lasting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done and is no longer asked for is a difference too, though only its end shows it.
    When no other version has come to repair it in time, whoever waits for the task is answered.
    """
    monkeypatch.setattr("accord.engine.runs.recovery.MISMATCH_MS", 0)  # the hour is over

    async def before(text: str, ctx: Context) -> str:
        await ctx.step(step, name="pay")
        return await ctx.ask("Sure?")

    async def after(text: str, ctx: Context) -> str:
        return await ctx.ask("Sure?")

    async with connect_rpc(named(before), store=lasting) as client:
        task = (await client.send("go"))["task"]
    async with connect_rpc(named(after), store=lasting) as client:
        task = (await client.send(say("yes", taskId=task["id"])))["task"]
    assert state_of(task) == "failed"
    assert "step 'pay' (call 1)" in text_of(task["status"]["message"])


async def test_an_answer_to_a_function_that_can_no_longer_be_called_is_refused_and_nothing_is_stuck(
    connect_rpc: Any, lasting: str
) -> None:
    """A signature that the first message no longer fits refuses the answer; the task stays open,
    for a repaired release.
    """

    async def before(text: str, ctx: Context) -> str:
        return await ctx.ask("Sure?")

    async def after(data: dict[str, int], ctx: Context) -> str:
        return await ctx.ask("Sure?")

    async with connect_rpc(named(before), store=lasting) as client:
        task = (await client.send("go"))["task"]
    async with connect_rpc(named(after), store=lasting) as client:
        await refusal_of(client.send(say("yes", taskId=task["id"])))
        assert await client.get(task["id"]) == task
    async with connect_rpc(named(before), store=lasting) as client:
        assert text_of((await client.send(say("yes", taskId=task["id"])))["task"]) == "yes"


async def test_durable_work_that_can_no_longer_be_called_has_failed_and_says_why(
    connect_rpc: Any, lasting: str
) -> None:
    """A changed signature does not keep the server from starting, and nothing stays working."""
    entered = asyncio.Event()

    async def before(text: str) -> None:
        entered.set()
        await asyncio.Event().wait()

    async def after(data: dict[str, int]) -> None: ...

    async with connect_rpc(named(before), store=lasting) as client:
        task = (await client.send(say("go", configuration={"returnImmediately": True})))["task"]
        await entered.wait()
    async with connect_rpc(named(after), store=lasting) as client:
        task = await client.get(task["id"])
    assert state_of(task) == "failed"
    assert "can't be resumed" in text_of(task["status"]["message"])


async def test_work_of_a_skill_that_is_gone_has_failed_and_says_so(
    connect_rpc: Any, lasting: str
) -> None:
    """Removed or renamed: to send the message again would be no help."""
    entered = asyncio.Event()

    def an_agent(name: str) -> Agent:
        agent = Agent("Changing")

        @agent.skill(id=name, durable=True)
        async def work(text: str) -> None:
            entered.set()
            await asyncio.Event().wait()

        return agent

    async with connect_rpc(an_agent("book"), store=lasting) as client:
        task = (await client.send(say("go", configuration={"returnImmediately": True})))["task"]
        await entered.wait()
    async with connect_rpc(an_agent("reserve"), store=lasting) as client:
        task = await client.get(task["id"])
    assert state_of(task) == "failed"
    assert text_of(task["status"]["message"]).endswith("the agent no longer has skill 'book'")
