"""`accord.current()` in tools of frameworks: a tool can report and ask without knowing how the
framework does it.
"""

import importlib
from types import ModuleType
from typing import Any

import pytest

import accord
from accord import Agent, connect
from tests.integrations.frameworks.installed import INSTALLED

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ImportWarning"),
]


async def book(city: str) -> str:
    """Book a hotel."""
    accord.current().status(f"looking in {city}")
    is_sure = await accord.current().ask("Really?", bool)
    return f"booked {city}" if is_sure else "nothing booked"


def agents(name: str) -> ModuleType:
    return importlib.import_module(f"tests.integrations.frameworks.agents.with_{name}")


def pydantic_ai() -> Any:
    made = agents("pydantic_ai")
    return made.Agent(made.booker.model, tools=[book])


def langgraph() -> Any:
    made = agents("langgraph")
    return made.create_agent(made.BookModel(), [made.tool(book)])


def openai_agents() -> Any:
    made = agents("openai_agents")
    return made.Agent("Booker", model=made.BookModel(), tools=[made.function_tool(book)])


def adk() -> Any:
    made = agents("adk")
    return made.LlmAgent(name="Booker", model=made.BookModel(), tools=[book])


def agent_framework() -> Any:
    made = agents("agent_framework")
    return made.Agent(made.BookClient(), name="Booker", tools=[book])


def ag2() -> Any:
    made = agents("ag2")
    return made.Agent("Booker", config=made.BookModel(), tools=[made.tool(book)])


def strands() -> Any:
    made = agents("strands")
    return made.made("Booker", made.BookModel(), tools=[made.tool(book)])


def llama_index() -> Any:
    made = agents("llama_index")
    return made.made("Booker", made.BookModel(), tools=[book])


def crewai() -> Any:
    """Its tools are called in threads, each with an event loop of its own."""
    agents("crewai")
    from crewai.tools import tool

    from tests.integrations.frameworks.agents import crews

    def says(messages: list[str]) -> str:
        if any("booked Rome" in text for text in messages):
            return "Thought: It is done.\nFinal Answer: booked Rome"
        return 'Thought: I book.\nAction: book\nAction Input: {"city": "Rome"}'

    return crews.member(says, tools=[tool("book")(book)])


MAKERS = [
    pydantic_ai,
    langgraph,
    openai_agents,
    adk,
    agent_framework,
    ag2,
    strands,
    llama_index,
    crewai,
]


@pytest.mark.parametrize(
    "make", [make for make in MAKERS if make.__name__ in INSTALLED], ids=lambda make: make.__name__
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
