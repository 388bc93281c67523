"""What `Agent.wrap` and `accord serve` do with objects that are no agent of a framework."""

from pathlib import Path
from typing import Any

import click
import pytest
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from mcp.server import MCPServer

from accord import Agent, connect
from accord.cli.load import load_agent


class Shouter(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None:
        await event_queue.enqueue_event(new_text_message(context.get_user_input().upper()))

    async def cancel(self, context: Any, event_queue: Any) -> None: ...


async def test_an_executor_of_a2a_sdk() -> None:
    async with connect(Agent.wrap(Shouter())) as client:
        assert client.card.name == "Shouter"
        assert (await client.send("hello")).text == "HELLO"


async def test_an_mcp_server() -> None:
    server = MCPServer("Sums")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with connect(Agent.wrap(server)) as client:
        assert client.card.name == "Sums"
        assert [skill.id for skill in client.card.skills] == ["add"]
        assert (await client.call("add", a=1, b=2)) == 3


def test_anything_else_is_refused_with_what_is_taken() -> None:
    with pytest.raises(
        TypeError, match=r"Agent.wrap takes an agent of LangGraph, .* not a builtins.dict"
    ):
        Agent.wrap({})


def test_a_class_of_the_same_name_elsewhere_is_not_taken() -> None:
    """Many packages have an `agents.Agent`."""
    other = type("Agent", (), {"__module__": "agents.shop"})
    with pytest.raises(TypeError, match=r"not a agents.shop.Agent"):
        Agent.wrap(other())


SERVED = """
from tests.integrations.test_wrap_others import Shouter
shouter = Shouter()
number = 3
"""


@pytest.mark.parametrize("where", ["served.py", "served.py:shouter"])
def test_accord_serve_wraps_what_is_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """By its name, or if it is the only one; it is called as its variable, if it has no name."""
    (tmp_path / "served.py").write_text(SERVED)
    monkeypatch.chdir(tmp_path)
    assert load_agent(where).name == "shouter"
    with pytest.raises(click.ClickException, match="has no agent 'number'; it has shouter"):
        load_agent("served.py:number")
