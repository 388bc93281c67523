"""MCP servers on the A2A network: one skill per tool."""

import asyncio
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from mcp.server.mcpserver import MCPServer

from accord import Agent, ContentTypeNotSupported, File, InvalidParams, connect
from accord.cli import main
from accord.integrations.mcp import agent_of_mcp
from tests.integrations.agents import PNG
from tests.integrations.mcp.test_tools import SERVER, booking
from tests.processes import start

PATIENCE_S = 120


async def test_each_tool_is_a_skill_with_its_parameters():
    agent = agent_of_mcp(booking())
    async with asyncio.timeout(PATIENCE_S), connect(agent) as client:
        assert client.card.name == "booking"
        skills = {skill.id: skill for skill in client.card.skills}
        assert skills["search"].description == "Search hotels."
        [schemas] = [e for e in client.card.capabilities.extensions if "schema" in e.uri]
        taken = schemas.params["skills"]["search"]["input"]
        assert taken["required"] == ["city"]
        assert taken["properties"]["nights"] == {"type": "integer", "default": 1}
        assert await client.call("search", city="Rome", nights=2) == ["Rome 0", "Rome 1"]
        [picture] = (await client.send({}, skill="picture")).files
        assert picture.data == PNG


async def test_questions_progress_and_failures_pass_through():
    agent = agent_of_mcp(booking(), name="Hotels")
    async with asyncio.timeout(PATIENCE_S), connect(agent) as client:
        assert client.card.name == "Hotels"
        reply = await client.send("Ada", skill="reserve")
        assert reply.question == "Which seat?"
        assert (await reply.answer({"row": 1, "window": True})).text == "Ada: row 1, window True"
        stream = client.stream({"steps": 2}, skill="slow")
        said = [
            event.status.message.text
            async for event in stream
            if getattr(event, "status", None) and event.status.message
        ]
        assert (said, stream.reply.text) == (["step 1", "step 2"], "done")
        reply = await client.send({}, skill="fail")
        assert reply.state.word == "failed"
        assert "sold out" in reply.task.status.message.text


async def test_plain_text_for_several_tools_is_refused_with_their_names():
    """There is no model that could choose."""
    async with asyncio.timeout(PATIENCE_S), connect(agent_of_mcp(booking())) as client:
        with pytest.raises(InvalidParams, match="one of search, slow, reserve"):
            await client.send("A hotel in Rome")


async def test_a_file_for_a_tool_is_refused():
    """Tools take arguments: the file was dropped, and the tool was called without it."""
    async with asyncio.timeout(PATIENCE_S), connect(agent_of_mcp(booking())) as client:
        with pytest.raises(ContentTypeNotSupported, match="image/png"):
            await client.send([{"city": "Rome"}, File(PNG, name="hotel.png")], skill="search")


async def test_a_server_object_is_wrapped_as_any_framework_is():
    agent = Agent.wrap(booking(), description="Hotels.", options={"mode": "legacy"})
    async with asyncio.timeout(PATIENCE_S), connect(agent) as client:
        assert (client.card.name, client.card.description) == ("booking", "Hotels.")
        assert await client.call("search", city="Rome") == ["Rome 0"]


def test_a_server_without_tools_is_refused():
    with pytest.raises(ValueError, match="no tools"):
        agent_of_mcp(MCPServer("empty"))


async def test_accord_serve_puts_a_command_on_the_network(tmp_path: Path):
    (tmp_path / "adder.py").write_text(SERVER)
    words = [sys.executable, "-m", "accord", "serve", "--mcp", f"{sys.executable} adder.py"]
    with start(*words, "--port", "0", "--no-console", cwd=tmp_path) as process:
        url = (await process.line()).split(" is served at ")[1].split()[0]
        async with asyncio.timeout(PATIENCE_S), connect(url) as client:
            assert client.card.name == "adder"
            assert await client.call("add", a=1, b=2) == 3
        assert await process.stop() == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say what to serve"),
        (["x.py", "--mcp", "y"], "say what to serve"),
        (["x.py", "--mcp-token", "y"], "--mcp-token goes with --mcp"),
        (["--mcp", "/no/such/program"], "/no/such/program: the MCP server gave no answer"),
    ],
)
def test_what_can_not_be_served_is_said(words, said):
    done = CliRunner().invoke(main, ["serve", *words])
    assert done.exit_code != 0
    assert said in done.output


def test_a_token_in_the_environment_is_for_whoever_needs_it():
    """It may be there for another command: only one that was typed is a mistake."""
    done = CliRunner().invoke(main, ["serve", "/no/such.py"], env={"ACCORD_MCP_TOKEN": "x"})
    assert "no file /no/such.py" in done.output
