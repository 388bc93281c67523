"""A stream may take as long as its task: no time-out of the client ends it while it lives."""

import asyncio

import pytest

from accord import Agent, connect
from accord.client import NO_RETRY, Budget


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_stream_outlasts_the_times_for_calls(binding):
    """Calls may take a fraction of what this stream takes, and nothing is tried again."""
    agent = Agent("Slow")
    begun, seen = asyncio.Event(), asyncio.Event()

    @agent.skill
    async def work(what: str):
        yield "first "
        begun.set()
        await seen.wait()
        await asyncio.sleep(1.5)  # the very thing tested: longer than any call may take
        yield "last"

    budget = Budget(call_s=1.0, work_s=1.0, idle_s=60.0)
    app = agent.app(grpc_port=0)
    async with (
        app.serving() as url,
        connect(url, binding=binding, budget=budget, retry=NO_RETRY) as client,
    ):
        texts = client.stream("go").text()
        assert await anext(texts) == "first "
        await begun.wait()
        seen.set()
        assert [text async for text in texts] == ["last"]
