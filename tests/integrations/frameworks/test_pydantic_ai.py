"""What only pydantic-ai has."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed here")

import pydantic_ai
from pydantic_ai import CallDeferred, RunContext
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from accord import Agent, File, InvalidParams, Limits, connect
from accord.auth import ApiKeys


def calling(*names: str) -> FunctionModel:
    """A model that calls these tools, and then says what they gave."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        results = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if results:
            yield "; ".join(f"{part.tool_name}: {part.content}" for part in results)
        else:
            yield {
                i: DeltaToolCall(name, "{}", tool_call_id=f"call-{i}")
                for i, name in enumerate(names)
            }

    return FunctionModel(stream_function=stream)


async def test_deps_are_made_for_each_turn() -> None:
    agent = pydantic_ai.Agent(calling("who"), deps_type=str)

    @agent.tool
    def who(ctx: RunContext[str]) -> str:
        return f"you are {ctx.deps}"

    wrapped = Agent.wrap(agent, name="Who", options=lambda ctx: {"deps": ctx.message.text})
    async with connect(wrapped) as client:
        assert (await client.send("Ada")).text == "who: you are Ada"


async def test_approvals_at_the_same_time_are_one_question() -> None:
    agent = pydantic_ai.Agent(calling("one", "two"))

    @agent.tool_plain(requires_approval=True)
    def one() -> str:
        return "done"

    @agent.tool_plain(requires_approval=True)
    def two() -> str:
        return "done"

    async with connect(Agent.wrap(agent, name="Both")) as client:
        asked = await client.send("go")
        assert asked.question == "Allow one()?\nAllow two()?"
        assert (await asked.answer(True)).text == "one: done; two: done"


async def test_a_tool_that_is_done_elsewhere_asks_for_its_result() -> None:
    agent = pydantic_ai.Agent(calling("weigh"))

    @agent.tool_plain
    def weigh() -> str:
        raise CallDeferred

    async with connect(Agent.wrap(agent, name="Scales")) as client:
        asked = await client.send("go")
        assert asked.question == "What is the result of weigh()?"
        assert (await asked.answer("3 kg")).text == "weigh: 3 kg"


async def test_an_approval_and_a_result_are_asked_for_together() -> None:
    agent = pydantic_ai.Agent(calling("pay", "weigh"))

    @agent.tool_plain(requires_approval=True)
    def pay() -> str:
        return "paid"

    @agent.tool_plain
    def weigh() -> str:
        raise CallDeferred

    async with connect(Agent.wrap(agent, name="Both")) as client:
        asked = await client.send("go")
        fields = asked.task.status.message.parts[1].data["properties"]
        assert [field["title"] for field in fields.values()] == [
            "Allow pay()?",
            "What is the result of weigh()?",
        ]
        done = await asked.answer({"call-0": False, "call-1": "3 kg"})
        assert done.text == "pay: The user said no.; weigh: 3 kg"


async def test_two_callers_of_one_context_do_not_share_a_history() -> None:
    from tests.integrations.frameworks.agents import script, with_pydantic_ai

    keys = {"a-secret-of-ada-1234567890": "ada", "a-secret-of-bob-1234567890": "bob"}
    agent = Agent.wrap(with_pydantic_ai.talker, auth=ApiKeys(keys=keys))
    said = []
    async with agent.app().serving() as url:
        for key in keys:
            async with connect(url, auth=key) as client:
                said.append((await client.send("hello", context_id="c")).text)
    assert said == ["".join(script.answer(["hello"]))] * 2


async def test_a_history_that_grows_too_large_fails_with_the_limit() -> None:
    from tests.integrations.frameworks.agents import with_pydantic_ai

    agent = Agent.wrap(with_pydantic_ai.talker)
    async with agent.app(limits=Limits(state_size=2_000)).serving() as url, connect(url) as client:
        reply = await client.send("x" * 3_000, context_id="c")
        assert reply.state.word == "failed"
        said = reply.task.status.message.text
        assert "the state of a conversation may take 2000" in said
        assert (await client.send("hello", context_id="c")).state.word == "completed"


async def test_a_file_at_a_url_is_fetched_for_the_model() -> None:
    """Through the guard: the framework, or the model's maker, would fetch any address."""
    from aiohttp import web

    from tests.integrations.frameworks.agents import script, with_pydantic_ai

    async def photo(request: web.Request) -> web.Response:
        return web.Response(body=b"a photo", content_type="image/png")

    site = web.Application()
    site.router.add_get("/photo.png", photo)
    runner = web.AppRunner(site)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    there = File(url=f"http://127.0.0.1:{port}/photo.png", media_type="image/png")
    script.seen.clear()
    try:
        for hosts in ([], ["127.0.0.1"]):
            app = Agent.wrap(with_pydantic_ai.talker).app(allow_hosts=hosts)
            async with app.serving() as url, connect(url) as client:
                if hosts:
                    await client.send(["look", there])
                else:
                    with pytest.raises(InvalidParams, match="can't be had"):
                        await client.send(["look", there])
    finally:
        await runner.cleanup()
    assert script.seen == [b"a photo"]
