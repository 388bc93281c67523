"""A remote agent as a tool of three frameworks: what it asks is asked of the outer agent's user."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from accord import Agent, connect
from accord.tools import from_agent
from tests.integrations.agents import served, trip_planner, workshop
from tests.integrations.frameworks.installed import is_installed

QUESTION = "How many days do you have?"
PLAN = "Day 1. Day 2. That is Rome."


def with_pydantic_ai(tool: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ToolReturnPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    async def model(messages: Any, info: Any) -> Any:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            yield f"Done: {last.content}"
        else:
            yield {0: DeltaToolCall(tool.__name__, json.dumps(arguments), tool_call_id="1")}

    return Agent(FunctionModel(stream_function=model), name="Outer", tools=[tool])


def with_langgraph(tool: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "fake"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            if isinstance(messages[-1], ToolMessage):
                said = AIMessage(f"Done: {messages[-1].content}")
            else:
                call = {"name": tool.__name__, "args": arguments, "id": "1"}
                said = AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=said)])

    return create_agent(Model(), tools=[tool], name="Outer")


def with_openai_agents(tool: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    from agents import Agent, function_tool, set_tracing_disabled
    from agents.testing import ScriptedModel, assistant_message, function_call

    set_tracing_disabled(True)

    class Model(ScriptedModel):
        async def stream_response(
            self, instructions: Any, input: Any, *args: Any, **kwargs: Any
        ) -> Any:
            last = {} if isinstance(input, str) else input[-1]
            if last.get("type") == "function_call_output":
                self.enqueue([assistant_message(f"Done: {last['output']}")])
            else:
                self.enqueue([function_call(tool.__name__, arguments, call_id="1")])
            async for event in super().stream_response(instructions, input, *args, **kwargs):
                yield event

    return Agent("Outer", model=Model(), tools=[function_tool(tool)])


FRAMEWORKS = {
    "langchain": with_langgraph,
    "agents": with_openai_agents,
    "pydantic_ai": with_pydantic_ai,
}


@pytest.fixture(params=[package for package in FRAMEWORKS if is_installed(package)])
def framework(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return FRAMEWORKS[request.param]


async def test_the_user_of_the_outer_agent_answers_what_the_remote_agent_asks(
    framework: Callable[..., Any],
) -> None:
    """The model of the outer agent sees the result only."""
    async with served(trip_planner()) as url:
        remote = await asyncio.to_thread(from_agent, url)  # this loop serves it
        outer = Agent.wrap(framework(remote, {"message": "Rome", "task_id": ""}))
        async with connect(outer) as user:
            reply = await user.send("A weekend in Rome")
            assert reply.question == QUESTION
            stream = user.stream("2", task_id=reply.task_id)
            said = [
                event.status.message.text
                async for event in stream
                if getattr(event, "status", None) and event.status.message
            ]
            assert "Trip planner: looking for 2 days" in said
            assert stream.reply.text.strip() == f"Done: {PLAN}"


async def test_a_typed_skill_is_a_typed_tool(framework: Callable[..., Any]) -> None:
    agent, _ = workshop()
    arguments = {"thing": "chair", "count": 4, "colour": "blue", "task_id": "", "answer": ""}
    async with connect(agent) as remote:
        outer = Agent.wrap(framework(from_agent(remote, skill="order"), arguments))
        async with connect(outer) as user:
            reply = await user.send("Four chairs")
    assert reply.text.strip() == 'Done: {"thing": "chair", "count": 4, "colour": "blue"}'
