"""A task that sleeps, as a client of any version sees it: a message waits, a cancel ends it."""

import datetime
from typing import Any

import pytest

from accord import Agent, Context
from accord.client import Client
from accord.model import TaskState


def sleeper(calls: list[str]) -> Agent:
    agent = Agent("Test agent")

    @agent.skill(durable=True)
    async def nap(text: str, ctx: Context) -> str:
        calls.append(text)
        await ctx.sleep(datetime.timedelta(days=2))
        return "awake"

    return agent


async def begun(client: Client, text: str, task_id: str = "") -> Any:
    """Send a message, and wait for nothing but the first event."""
    stream = client.stream(text, task_id=task_id)
    try:
        return await anext(stream)
    finally:
        await stream.close()


@pytest.mark.parametrize("is_told", [False, True], ids=["alone", "with a message"])
async def test_a_cancel_ends_a_task_that_sleeps(reach, is_told):
    """Its function is not called for the message, nor for the cancel."""
    calls: list[str] = []
    async with reach(sleeper(calls)) as client:
        task_id = (await begun(client, "go")).id  # 0.1 has no other way not to wait
        if is_told:
            await begun(client, "wake up", task_id=task_id)
            task = await client.get(task_id)
            assert task.history[-1].text == "wake up"
        assert (await client.get(task_id)).status.state is TaskState.WORKING
        canceled = await client.cancel(task_id)
        assert canceled.status.state is TaskState.CANCELED
        assert (await client.get(task_id)).status.state is TaskState.CANCELED
        assert calls == ["go"]
