"""What a stop of the server leaves behind."""

import asyncio

import aiohttp
import pytest

from accord import Agent, Context
from tests.drive import BINDINGS, kinds, say, serving, state_of, text_of


async def test_work_cut_off_by_a_stop_has_failed_and_says_so(connect, lasting):
    """Nothing stays working for ever, and the client knows to send again (design, rule 14)."""
    entered = asyncio.Event()

    async def slow(request: str):
        entered.set()
        await asyncio.Event().wait()

    async with connect(slow, store=lasting) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        await entered.wait()
    async with connect(slow, store=lasting) as client:
        task = await client.get(task["id"])
        assert (state_of(task), text_of(task["status"]["message"]).partition(":")[0]) == (
            "failed",
            "interrupted",
        )


@pytest.mark.parametrize("door", BINDINGS.values(), ids=BINDINGS)
async def test_an_open_stream_learns_that_the_server_stops(door):
    """It ends with the state its task is left in: never with silence (design, rule 14)."""
    agent = Agent("Slow")

    @agent.skill
    async def slow(request: str):
        await asyncio.Event().wait()

    app = agent.app()
    async with aiohttp.ClientSession() as http:
        async with serving(app, app.close) as url:
            stream = await door(http, url).stream("hi")
            assert kinds(await stream.take(2)) == ["task submitted", "working"]
        assert kinds(await stream.rest()) == ["failed"]


async def test_a_question_survives_a_stop(connect, lasting):
    """input-required stays what it is, and can still be read, listed and cancelled (design, rule
    14).
    """

    async def book(request: str, ctx: Context):
        return await ctx.ask("When?")

    async with connect(book, store=lasting) as client:
        asked = (await client.send("a table"))["task"]
    async with connect(book, store=lasting) as client:
        assert await client.get(asked["id"]) == asked
        assert (await client.list(status="TASK_STATE_INPUT_REQUIRED"))["totalSize"] == 1
        assert state_of(await client.cancel(asked["id"])) == "canceled"


async def test_lists_and_totals_survive_a_stop(connect, lasting):
    """Order, counts and tokens are the store's, not the process's (LST-2, LST-3, LST-8)."""

    async def echo(request: str):
        return request

    async with connect(echo, store=lasting) as client:
        for n in range(5):
            await client.send(f"{n}")
        before, first = await client.list(includeArtifacts=True), await client.list(pageSize=2)
    async with connect(echo, store=lasting) as client:
        assert await client.list(includeArtifacts=True) == before
        rest = await client.list(pageSize=3, pageToken=first["nextPageToken"])
        assert [task["id"] for task in first["tasks"] + rest["tasks"]] == [
            task["id"] for task in before["tasks"]
        ]


@pytest.mark.parametrize("n", [1, 300])
async def test_artifacts_are_whole_after_a_stop(connect, lasting, n):
    """Snapshot and tail fold to what the client saw."""

    async def write(request: str):
        for i in range(n):
            yield f"{i},"

    async with connect(write, store=lasting) as client:
        task = (await client.send("go"))["task"]
    async with connect(write, store=lasting) as client:
        assert await client.get(task["id"]) == task
