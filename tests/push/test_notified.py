"""A client that is notified, and one that asks from time to time where it can't be."""

import asyncio
from typing import Any

import pytest

from accord import Agent, Context, connect
from accord.model import InvalidParams

from .webhook import Webhook


def helper(gate: asyncio.Event) -> Agent:
    agent = Agent("Helper")

    @agent.skill
    async def work(request: str, ctx: Context):
        if request == "ask":
            return await ctx.ask("What?")
        await gate.wait()
        return request

    return agent


async def words(client, task_id: str, seen: list[str]) -> None:
    async for notified in client.notified(task_id):
        seen.append(notified.state.word)


@pytest.mark.parametrize("how", ["notified", "agent refuses", "no push"])
async def test_a_task_is_followed_to_its_end(how: str, monkeypatch: pytest.MonkeyPatch):
    """As it stands, then what changes. An agent that does not notify is asked."""
    monkeypatch.setattr("accord.client.notified.POLL_S", 0.02)
    gate = asyncio.Event()
    options: dict[str, dict[str, Any]] = {
        "notified": {"allow_hosts": ["127.0.0.1"]},
        "agent refuses": {},
        "no push": {"push": False},
    }
    app = helper(gate).app(**options[how])
    async with app.serving() as url, connect(url) as client:
        task = (await client.send("go", wait=False)).task
        seen: list[str] = []
        following = asyncio.ensure_future(words(client, task.id, seen))
        async with asyncio.timeout(20):
            while not seen:  # noqa: ASYNC110  the iterator tells nobody
                await asyncio.sleep(0.01)
            if how == "notified":
                [config] = await client.list_push_configs(task.id)
                assert config.url.startswith("http://127.0.0.1:")
            gate.set()
            await following
        assert seen[-1] == "completed"
        if how != "no push":
            assert await client.list_push_configs(task.id) == []


async def test_a_url_is_a_config(hook: Webhook):
    """`push=` takes the address alone."""
    gate = asyncio.Event()
    gate.set()
    app = helper(gate).app(allow_hosts=["127.0.0.1"])
    async with app.serving() as url, connect(url) as client:
        await client.send("go", push=hook.url)
        assert [call.kind for call in hook.calls] == ["task", "working", "completed"]
        with pytest.raises(InvalidParams, match="url"):
            await client.send("go", push="nonsense")
