"""`accord.current()` in tools of frameworks: a tool can report and ask without knowing how the
framework does it.
"""

import importlib
from types import ModuleType
from typing import Any

import pytest

import accord
from accord import Agent, connect

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


async def book(city: str) -> str:
    """Book a hotel."""
    accord.current().status(f"looking in {city}")
    is_sure = await accord.current().ask("Really?", bool)
    return f"booked {city}" if is_sure else "nothing booked"


def agents(name: str, package: str) -> ModuleType:
    pytest.importorskip(package, reason=f"{package} is not installed here")
    return importlib.import_module(f"tests.integrations.frameworks.agents.with_{name}")


def pydantic_ai() -> Any:
    made = agents("pydantic_ai", "pydantic_ai")
    return made.Agent(made.booker.model, tools=[book])


def langgraph() -> Any:
    made = agents("langgraph", "langchain")
    return made.create_agent(made.BookModel(), [made.tool(book)])


def openai_agents() -> Any:
    made = agents("openai_agents", "agents")
    return made.Agent("Booker", model=made.BookModel(), tools=[made.function_tool(book)])


def adk() -> Any:
    made = agents("adk", "google.adk")
    return made.LlmAgent(name="Booker", model=made.BookModel(), tools=[book])


def agent_framework() -> Any:
    made = agents("agent_framework", "agent_framework")
    return made.Agent(made.BookClient(), name="Booker", tools=[book])


@pytest.mark.parametrize(
    "make", [pydantic_ai, langgraph, openai_agents, adk, agent_framework], ids=lambda f: f.__name__
)
async def test_a_tool_reports_and_asks(make: Any) -> None:
    async with connect(Agent.wrap(make(), name="Booker")) as client:
        stream = client.stream("book it")
        told = [
            event.status.message.text
            async for event in stream
            if getattr(event, "status", None) and event.status.message
        ]
        assert "looking in Rome" in told
        assert stream.reply.question == "Really?"
        assert "booked Rome" in (await stream.reply.answer(True)).text
