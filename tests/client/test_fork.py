"""`client.fork`: over every version and binding, by whom, and of whom not."""

from typing import Any

import aiohttp
import pytest

from accord import Agent, Context, File
from accord.auth import ApiKeys
from accord.client import connect
from accord.model import FORK, InvalidParams, TaskNotFound, UnsupportedOperation
from accord.store.contract import Ages
from tests.client.conftest import Reach
from tests.drive import serving
from tests.relay.relays import relayed


def shop(**options: Any) -> Agent:
    agent = Agent("Shop", **options)

    @agent.skill(durable=True)
    async def buy(text: str, ctx: Context) -> str:
        """Event 3 is the question."""
        answer = await ctx.ask("Pay?")
        return f"bought {text}" if answer == "yes" else f"left {text}"

    return agent


async def test_over_every_version_and_binding(reach_any: Reach):
    async with reach_any(shop()) as client:
        asked = await client.send("tea")
        assert asked.task is not None
        task_id = asked.task.id
        assert (await asked.answer("yes")).text == "bought tea"
        other = await client.fork(task_id, at=3, answer="no")
        assert other.text == "left tea"
        assert other.task is not None
        assert other.task.id != task_id
        waiting = await client.fork(task_id, at=3)
        assert waiting.question == "Pay?"
        assert (await waiting.answer("yes")).text == "bought tea"
        with pytest.raises(InvalidParams, match="has the events 1 to 6; 9 is none of them"):
            await client.fork(task_id, at=9)
        with pytest.raises(InvalidParams, match="asks nothing at event 2; questions are open at 3"):
            await client.fork(task_id, at=2, answer="no")
        with pytest.raises(TypeError, match="not both"):
            await client.fork(task_id, at=3, answer="no", message="no")


async def test_another_caller_does_not_find_the_task():
    """The answer is that for a task that never was, byte for byte."""
    agent = shop(auth=ApiKeys(keys={"k" * 32: "mia", "l" * 32: "leo"}))
    app = agent.app()
    async with serving(app, app.close) as url:
        await app.open()
        async with connect(url, auth="k" * 32) as mia:
            asked = await mia.send("tea")
            assert asked.task is not None
            assert (await mia.fork(asked.task.id, at=3, answer="no")).text == "left tea"
        async with connect(url, auth="l" * 32) as leo:
            with pytest.raises(TaskNotFound):
                await leo.fork(asked.task.id, at=3, answer="no")
        unknown = asked.task.id[:-4] + "0000"
        async with aiohttp.ClientSession() as http:
            answers = [await _forked(http, url, one) for one in (asked.task.id, unknown)]
        assert answers[0].replace(asked.task.id, unknown) == answers[1]


async def _forked(http: aiohttp.ClientSession, url: str, task_id: str) -> str:
    said = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "no"}],
        "metadata": {FORK: {"taskId": task_id, "at": 3}},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}
    headers = {"A2A-Version": "1.0", "A2A-Extensions": FORK, "X-API-Key": "l" * 32}
    async with http.post(url, json=body, headers=headers) as answer:
        return await answer.text()


async def test_a_relayed_task_is_forked_at_its_own_agent():
    """The relay's card does not offer it, and a message that asks for it is told why not."""
    async with relayed(shop()) as client:
        asked = await client.send("tea")
        assert asked.task is not None
        with pytest.raises(UnsupportedOperation, match="does not offer to fork tasks"):
            await client.fork(asked.task.id, at=3, answer="no")
        metadata = {FORK: {"taskId": asked.task.id, "at": 3}}
        with pytest.raises(UnsupportedOperation, match="another agent does the work; fork the ta"):
            await client.send("no", metadata=metadata, extensions=[FORK])


async def test_files_are_the_forks_too(tmp_path: Any):
    """Those of the message, of an artifact and of a question; also when the old task is gone."""
    agent, large = Agent("Files"), b"0123456789abcdef" * 8192

    @agent.skill(durable=True)
    async def copy(file: File, ctx: Context) -> str:
        await ctx.write(File(large[::-1], name="back.bin"))
        answer = await ctx.ask("Good?")
        return f"{len(await file.read())} {answer}"

    app = agent.app(store=f"sqlite:///{tmp_path}/tasks.db")
    async with serving(app, app.close) as url:
        await app.open()
        async with connect(url) as client:
            asked = await client.send(File(large, name="there.bin"))
            assert asked.task is not None
            await asked.answer("yes")
            old = asked.task
            waiting = await client.fork(old.id, at=4)  # 3 is the artifact
            assert waiting.question == "Good?"
            store = app.engine.tasks.store
            for _ in range(2):
                await store.purge(Ages(tasks_ms=-1, events_ms=-1), 100)
            with pytest.raises(TaskNotFound):
                await client.get(old.id)
            assert await store.files.unused(store.now_ms() + 10**9, 100) == []
            ended = await waiting.answer("no")
            assert f"{len(large)} no" in ended.text
            assert await ended.files[0].read() == large[::-1]
