"""Webhooks that were registered in A2A 1.1: their events have generations."""

import asyncio

import aiohttp
import pytest

from accord import Agent
from tests.drive import PATIENCE_S, say, serving
from tests.preview.doors import DOORS
from tests.push.webhook import webhook


def _agent() -> Agent:
    agent = Agent("Test agent")

    @agent.skill
    async def echo(request: str) -> str:
        return request

    return agent


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_events_are_pushed_as_their_version_has_them(lasting, version):
    """1.1 with generations, 1.0 without; each says which it is."""
    async with webhook() as hook, asyncio.timeout(PATIENCE_S):
        app = _agent().app(store=lasting, previews=["1.1"], allow_hosts=["127.0.0.1"])
        async with serving(app, app.close) as url, aiohttp.ClientSession(trust_env=False) as http:
            client = DOORS["jsonrpc"](http, url)
            config = {"taskPushNotificationConfig": {"url": hook.url}}
            await client.send(say("go", configuration=config), headers={"A2A-Version": version})
            calls = await hook.ended()
        assert {call.headers["a2a-version"] for call in calls} == {version}
        numbers = [next(iter(call.json.values())).get("generation") for call in calls]
        assert numbers == ([str(call.number) for call in calls] if version == "1.1" else [None] * 3)


async def test_without_the_preview_they_are_pushed_as_10(lasting):
    """A webhook outlives the preview: its events are then those of the newest version."""
    async with webhook() as hook, asyncio.timeout(PATIENCE_S):
        hook.answers.extend([500] * 3)
        app = _agent().app(store=lasting, previews=["1.1"], allow_hosts=["127.0.0.1"])
        async with serving(app, app.close) as url, aiohttp.ClientSession(trust_env=False) as http:
            config = {"taskPushNotificationConfig": {"url": hook.url}, "returnImmediately": True}
            await DOORS["jsonrpc"](http, url).send(say("go", configuration=config))
            await hook.until(lambda calls: bool(calls))
        app = _agent().app(store=lasting, allow_hosts=["127.0.0.1"])
        async with serving(app, app.close):
            await app.open()
            before = len(hook.calls)
            calls = await hook.until(lambda calls: len(calls) > before)
        assert calls[-1].headers["a2a-version"] == "1.0"
        assert b"generation" not in calls[-1].body
