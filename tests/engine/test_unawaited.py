"""A plain `def` that would have to await is refused when it is declared."""

import re
from typing import Any

import pytest

from accord import Agent, Context, connect


def ask(request: str, ctx: Context) -> Any:
    return ctx.ask("Which day?")


def ask_by_another_name(request: str, context: "Context") -> list[Any]:
    return [context.ask("Again?"), *(request for _ in range(3))]


def step(request: str, ctx: Context) -> Any:
    yield ctx.step(print, "hello")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (ask, "ask calls ctx.ask"),
        (ask_by_another_name, "ask_by_another_name calls context.ask"),
        (step, "step calls ctx.step"),
    ],
)
def test_what_must_be_awaited_is_refused_in_a_plain_function(function, says):
    """Else the question is never asked, and the caller gets an answer made of nothing."""
    with pytest.raises(TypeError, match=re.escape(says)) as error:
        Agent("Clerk").skill(function)
    assert "async def" in str(error.value)


async def test_what_is_not_awaited_is_allowed_there():
    """A plain function runs in a thread, and may report and write from there."""
    agent = Agent("Clerk")

    @agent.skill
    def work(request: str, ctx: Context) -> str:
        ctx.status("working")
        return request.upper()

    async with connect(agent) as client:
        assert (await client.send("go")).text == "GO"


async def test_a_wrapped_async_function_may_ask():
    """Only what the function itself does is looked at."""
    agent = Agent("Clerk")

    @agent.skill
    async def work(request: str, ctx: Context) -> str:
        return await ctx.ask("Which day?")

    async with connect(agent) as client:
        assert (await client.send("go")).question == "Which day?"
