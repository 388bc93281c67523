"""`accord.testing.fork`: a recorded task as a regression test."""

from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Caller, Context, connect
from accord.auth import ApiKeys
from accord.testing import fork
from tests.drive import serving
from tests.postgres import schema_url

KEY = "k" * 32


class Till:
    """An agent whose function can be changed."""

    def __init__(self, **options: Any) -> None:
        self.agent = Agent("Till", **options)
        self.done: list[str] = []
        self.first = "price"
        self.agent.skill(self.buy, durable=True)

    async def act(self, what: str) -> str:
        self.done.append(what)
        return what

    async def buy(self, text: str, ctx: Context, caller: Caller) -> str:
        await ctx.step(self.act, "price", name=self.first)
        if await ctx.ask("Pay?") != "yes":
            return f"{caller.name} left {text}"
        await ctx.step(self.act, "pay", name="pay")
        return f"{caller.name} bought {text}"


async def recorded(url: str) -> str:
    """A task of production: asked, answered with yes, and ended."""
    till = Till(auth=ApiKeys(keys={KEY: "mia"}))
    app = till.agent.app(store=url, push=False)
    async with serving(app, app.close) as address:
        await app.open()
        async with connect(address, auth=KEY) as client:
            asked = await client.send("tea")
            assert (await asked.answer("yes")).text == "mia bought tea"
            assert asked.task is not None
            return asked.task.id


async def check(url: str) -> None:
    task = await recorded(url)
    till = Till(auth=ApiKeys(keys={KEY: "mia"}))
    async with fork(till.agent, url, task, at=3, answer="no") as reply:
        assert reply.text == "mia left tea"
    assert till.done == []
    async with fork(till.agent, url, task, at=3) as reply:
        assert reply.question == "Pay?"
        assert (await reply.answer("yes")).text == "mia bought tea"
    assert till.done == ["pay"]


async def test_the_function_goes_on_from_what_was_recorded(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/tasks.db"
    await check(url)
    with pytest.raises(LookupError, match="has no task 0190"):
        async with fork(Till().agent, url, "0190", at=3):
            pass


async def test_from_postgresql():
    with schema_url() as url:
        await check(url)


async def test_a_function_that_does_something_else_is_told_where(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/tasks.db"
    task = await recorded(url)
    till = Till()
    till.first = "cost"
    with pytest.raises(AssertionError, match=r"now calls step 'cost'.* where step 'price'"):
        async with fork(till.agent, url, task, at=3, answer="no"):
            pass
    with pytest.raises(LookupError, match="there is no database"):
        async with fork(till.agent, f"sqlite:///{tmp_path}/none.db", task, at=3):
            pass
