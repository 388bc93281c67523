"""Senders of version 0.1 name the tasks that they begin: several may give one new id at once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context
from accord.model import FORK
from tests.legacy.wire import Old, say_0_1, say_1_0, talking_to
from tests.postgres import schema_url

SENDERS = 10


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "postgres":
        with schema_url() as url:
            yield url
    else:
        yield "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/tasks.db"


def asking(calls: list[str]) -> Agent:
    agent = Agent("Asks")

    @agent.skill(durable=True)
    async def ask(text: str, ctx: Context) -> str:
        calls.append(text)
        answer = await ctx.ask("Well?")
        calls.append(answer)
        return answer

    return agent


async def together(client: Old, request: Any) -> list[str]:
    """What senders get who send the same at once: a state, or the reason why not."""
    headers = {"x-a2a-extensions": FORK}
    sends = (client.rpc("tasks/send", request, headers=headers) for _ in range(SENDERS))
    answers = await asyncio.gather(*sends)
    return [
        one["result"]["status"]["state"] if "result" in one else one["error"]["message"]
        for one in answers
    ]


async def test_one_begins_the_task_and_the_others_are_messages_to_it(store: str) -> None:
    calls: list[str] = []
    async with talking_to(asking(calls), store=store) as client:
        answers = await together(client, say_0_1("t-1", "go"))
        assert "input-required" in answers
        assert not any("another process" in one for one in answers), answers


async def test_one_fork_has_the_id_and_the_others_are_refused(store: str) -> None:
    calls: list[str] = []
    async with talking_to(asking(calls), store=store) as client:
        asked = (await client.result("SendMessage", say_1_0("go")))["task"]
        request = say_0_1("t-1", "fine")
        request["message"]["metadata"] = {FORK: {"taskId": asked["id"], "at": 3}}
        first, *others = sorted(await together(client, request), key=len)
        assert first == "completed"
        assert {"already" in one for one in others} == {True}, others
    assert calls.count("fine") == 1
