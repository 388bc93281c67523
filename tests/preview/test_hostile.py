"""A2A 1.1 as a stranger's client would use it: wrongly, and in crowds."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from accord import Agent, Context, Limits
from tests.drive import PATIENCE_S, Refused, refusal_of, say, serving
from tests.preview.conftest import preview
from tests.preview.doors import DOORS, NAMED


async def question(request: str, ctx: Context) -> str:
    return await ctx.ask(f"{request}?")


@pytest.mark.parametrize(
    "value",
    ["true", "[]", "{}", '""', '" 1"', '"1e3"', "1e400", "-0.5", '"0x1"', '"\\u0661"', '"+1"'],
)
@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
async def test_values_that_are_no_numbers(binding, value):
    """The server answers each with InvalidParams that names the member; null is as good as
    absent.
    """
    async with preview(binding)(question) as client:
        task = (await client.send("go"))["task"]
        sent = say("x", taskId=task["id"])
        text = json.dumps(sent)[:-1] + ',"configuration":{"ifGenerationMatch":%s}}' % value
        path, body = "/message:send", text
        if binding == "jsonrpc":
            path = "/"
            body = '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%s}' % text
        _, answer = await client.post(path, body.encode(), **{"A2A-Version": "1.1"})
        assert "ifGenerationMatch" in str(answer["error"]) or "1e400" in value
        assert (await client.get(task["id"]))["generation"] == task["generation"]


@pytest.mark.parametrize("binding", DOORS)
async def test_a_client_that_is_ahead_is_answered_in_time(binding, monkeypatch):
    """A generation that the task is not at yet: the request is held, and answered by the task as
    it is.
    """
    monkeypatch.setattr("accord.operations.tasks.LONG_POLL_S", 0.2)
    async with preview(binding)(question) as client:
        task = (await client.send("go"))["task"]
        for ahead in (int(task["generation"]), 10**6, 2**63 - 1):
            found = await client.get(task["id"], currentGeneration=ahead)
            assert found["generation"] == task["generation"]


async def test_an_unknown_task_is_not_held():
    async with preview("jsonrpc")(question) as client:
        refused = await refusal_of(client.get("nothing", currentGeneration="1"))
        assert refused.reason == "TASK_NOT_FOUND"


async def test_a_thousand_long_polls():
    """All are answered by one change; while they are held, others are served."""
    agent = Agent("Test agent")
    agent.skill(question)
    limits = Limits(streams=5_000, streams_per_task=5_000, streams_per_caller=5_000)
    app = agent.app(previews=["1.1"], limits=limits)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(app, app.close) as url,
        aiohttp.ClientSession(trust_env=False, connector=connector) as http,
    ):
        client = DOORS["rest"](http, url)
        task = (await client.send("go"))["task"]
        known = task["generation"]
        held = [
            asyncio.ensure_future(client.get(task["id"], currentGeneration=known))
            for _ in range(1000)
        ]
        async with http.get(f"{url}/tasks/{task['id']}", headers=NAMED) as answer:
            assert (await answer.json())["generation"] == known
        await asyncio.wait(held, timeout=1)  # most of them are there by then
        await client.send(say("x", taskId=task["id"]))
        found = await asyncio.gather(*held)
        assert all(int(one["generation"]) > int(known) for one in found)
        await client.get(task["id"])


@pytest.mark.parametrize("binding", DOORS)
async def test_who_hangs_up_frees_the_place(binding):
    """A held request counts until its caller is gone, and no longer."""
    limits = Limits(streams_per_task=1)
    async with asyncio.timeout(PATIENCE_S), preview(binding)(question, limits=limits) as client:
        task = (await client.send("go"))["task"]
        held = asyncio.ensure_future(client.get(task["id"], currentGeneration=task["generation"]))
        await asyncio.wait({held}, timeout=0.2)
        assert await _is_full(client, task["id"])
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        is_full = True
        while is_full:
            await asyncio.sleep(0.02)
            is_full = await _is_full(client, task["id"])


async def _is_full(client: Any, task_id: str) -> bool:
    """Whether a task has as many streams as it may have."""
    try:
        stream = await client.subscribe(task_id)
        await stream.next()
    except Refused as refused:
        return bool(refused.detail["limit"] == "streams_per_task")
    stream.close()
    return False


@pytest.mark.parametrize("reads", ["a long poll", "a stream"])
async def test_a_task_of_nobody_has_its_limit_too(reads, lasting):
    """Who reads a task counts for it, also after a restart, when no process works on it."""
    agent = Agent("Test agent")
    agent.skill(question)
    async with (
        asyncio.timeout(PATIENCE_S),
        aiohttp.ClientSession(trust_env=False) as http,
    ):
        app = agent.app(previews=["1.1"], store=lasting)
        async with serving(app, app.close) as url:
            task = (await DOORS["rest"](http, url).send("go"))["task"]
        app = agent.app(previews=["1.1"], store=lasting, limits=Limits(streams_per_task=1))
        async with serving(app, app.close) as url:
            client = DOORS["rest"](http, url)
            stream = await client.subscribe(task["id"])
            await stream.next()
            again = (
                client.get(task["id"], currentGeneration=task["generation"])
                if reads == "a long poll"
                else client.subscribe(task["id"])
            )
            refused = await refusal_of(again)
            assert refused.detail["limit"] == "streams_per_task"
            stream.close()


@pytest.mark.parametrize("binding", DOORS)
async def test_a_server_that_stops_ends_long_polls(binding, lasting):
    """As it ends streams: at once, with an error that says to come again."""
    agent = Agent("Test agent")
    agent.skill(question)
    app = agent.app(previews=["1.1"], grpc_port=0, store=lasting)
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(app, app.close) as url,
        aiohttp.ClientSession(trust_env=False) as http,
    ):
        await app.open()
        more = (f"127.0.0.1:{app.grpc_port}",) if binding == "grpc" else ()
        client = DOORS[binding](http, url, *more)
        task = (await client.send("go"))["task"]
        held = asyncio.ensure_future(
            refusal_of(client.get(task["id"], currentGeneration=task["generation"]))
        )
        await asyncio.wait({held}, timeout=0.2)
        await app.close()
        assert (await held).reason == "UNAVAILABLE"
        client.hang_up()
