"""The tools of MCP servers in skills (accord.tools.from_mcp), in both generations of the
protocol.
"""

import asyncio
import inspect
import sys
import typing
from pathlib import Path
from typing import Annotated

import mcp_types
import pytest
from mcp.server.mcpserver import Context as ToolContext
from mcp.server.mcpserver import Elicit, ElicitationResult, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

from accord import Agent, File, connect
from accord.integrations.mcp import ToolFailed
from accord.tools import from_mcp
from tests.integrations.agents import PNG
from tests.processes import free_port, run_sync

PATIENCE_S = 120


@pytest.fixture(params=["2026-07-28", "legacy"])
def era(request):
    return request.param


class Seat(BaseModel):
    row: int
    window: bool


class Sure(BaseModel):
    sure: bool


def booking() -> MCPServer:
    server = MCPServer("booking")

    @server.tool()
    async def search(city: str, nights: int = 1) -> list[str]:
        """Search hotels."""
        return [f"{city} {i}" for i in range(nights)]

    @server.tool()
    async def slow(steps: int, ctx: ToolContext) -> str:
        """Report progress."""
        for i in range(steps):
            await ctx.report_progress(i + 1, steps, f"step {i + 1}")
        return "done"

    async def seat() -> Elicit[Seat]:
        return Elicit("Which seat?", Seat)

    @server.tool()
    async def reserve(name: str, answer: Annotated[ElicitationResult[Seat], Resolve(seat)]) -> str:
        """Ask for a seat."""
        if answer.action != "accept":
            return f"no seat: {answer.action}"
        return f"{name}: row {answer.data.row}, window {answer.data.window}"

    async def yes() -> Elicit[Sure]:
        return Elicit("Are you sure?", Sure)

    @server.tool()
    async def confirm(answer: Annotated[Sure, Resolve(yes)]) -> bool:
        """Ask for a yes."""
        return answer.sure

    @server.tool()
    async def fail() -> str:
        """Fail."""
        raise ToolError("sold out")

    @server.tool()
    async def picture() -> Image:
        """A picture."""
        return Image(data=PNG, format="png")

    return server


async def test_tools_are_typed_functions(era):
    async with asyncio.timeout(PATIENCE_S), from_mcp(booking(), mode=era) as tools:
        assert list(tools) == ["search", "slow", "reserve", "confirm", "fail", "picture"]
        search = tools["search"]
        assert inspect.iscoroutinefunction(search)
        assert (search.__name__, search.__doc__.splitlines()[0]) == ("search", "Search hotels.")
        hints = typing.get_type_hints(search)
        assert (hints["city"], hints["nights"]) == (str, int)
        assert await search("Rome", nights=2) == ["Rome 0", "Rome 1"]
        assert await search(city="Rome") == ["Rome 0"]
        picture = await tools["picture"]()
        assert isinstance(picture, File)
        assert (picture.data, picture.media_type) == (PNG, "image/png")
        with pytest.raises(KeyError, match="the server has search"):
            tools["sing"]


async def test_a_tool_that_fails_raises(era):
    async with asyncio.timeout(PATIENCE_S), from_mcp(booking(), mode=era) as tools:
        with pytest.raises(ToolFailed, match="sold out"):
            await tools["fail"]()


async def test_in_a_skill_progress_is_status_and_a_form_is_a_question(era):
    """Asked of our own client, with the form's schema, and again if the answer does not fit."""
    agent = Agent("Traveller")

    @agent.skill
    async def travel(name: str):
        async with from_mcp(booking(), mode=era) as tools:
            await tools["slow"](2)
            return await tools["reserve"](name=name)

    async with asyncio.timeout(PATIENCE_S), connect(agent) as client:
        stream = client.stream("Ada")
        shown = [
            event
            async for event in stream
            if getattr(event, "status", None) and event.status.message
        ]
        said = [event.status.message.text for event in shown]
        assert [event.progress for event in shown[:2]] == [(1, 2), (2, 2)]
        assert said == ["step 1", "step 2", "Which seat?"]
        schema = stream.task.status.message.parts[1].data
        assert set(schema["properties"]) == {"row", "window"}
        reply = await stream.reply.answer({"row": "far"})
        assert reply.question.endswith("Which seat?")
        assert reply.question != "Which seat?"
        reply = await reply.answer({"row": 7, "window": True})
        assert reply.text == "Ada: row 7, window True"


async def test_a_form_is_asked_in_a_generator_too(era):
    agent = Agent("Traveller")

    @agent.skill
    async def travel(name: str):
        async with from_mcp(booking(), mode=era) as tools:
            yield "Your seat: "
            yield await tools["reserve"](name=name)

    async with asyncio.timeout(PATIENCE_S), connect(agent) as client:
        reply = await (await client.send("Ada")).answer('{"row": 7, "window": false}')
        assert reply.text == "Your seat: Ada: row 7, window False"


async def test_a_form_with_one_field_is_answered_without_the_object_around_it(era):
    agent = Agent("Traveller")

    @agent.skill
    async def travel(name: str):
        async with from_mcp(booking(), mode=era) as tools:
            return f"sure: {await tools['confirm']()}"

    async with asyncio.timeout(PATIENCE_S), connect(agent) as client:
        reply = await (await client.send("Ada")).answer("yes")
        assert reply.text == "sure: True"


async def test_outside_of_a_run_nobody_is_there_to_ask(era):
    async with asyncio.timeout(PATIENCE_S), from_mcp(booking(), mode=era) as tools:
        assert await tools["reserve"](name="Ada") == "no seat: decline"


async def test_a_tool_that_fails_fails_the_task(era):
    agent = Agent("Traveller")

    @agent.skill
    async def travel(name: str):
        async with from_mcp(booking(), mode=era) as tools:
            await tools["fail"]()

    async with asyncio.timeout(PATIENCE_S), connect(agent) as client:
        reply = await client.send("Ada")
    assert reply.state.word == "failed"
    assert "sold out" in reply.task.status.message.text


async def test_a_link_is_an_authorization():
    """A server that wants an address opened, in the middle of a call."""
    server = MCPServer("bank")

    @server.tool()
    async def pay(ctx: ToolContext) -> str:
        result = await ctx.elicit_url("Log in first.", "https://bank.example.com/7", "7")
        return result.action

    agent = Agent("Payer")

    @agent.skill
    async def spend(what: str):
        async with from_mcp(server, mode="legacy") as tools:
            return await tools["pay"]()

    async with asyncio.timeout(PATIENCE_S), connect(agent) as client:
        reply = await client.send("bread")
        assert reply.state.word == "auth-required"
        assert reply.question == "Log in first.\nhttps://bank.example.com/7"
        assert (await reply.answer("done")).text == "accept"


async def test_a_server_that_is_not_there_is_named():
    with pytest.raises(ToolFailed, match="the MCP server gave no answer"):
        async with asyncio.timeout(PATIENCE_S), from_mcp(f"http://127.0.0.1:{free_port()}/mcp"):
            pass
    with pytest.raises(ToolFailed, match="the MCP server gave no answer"):
        async with asyncio.timeout(PATIENCE_S), from_mcp(["/no/such/program"]):
            pass


SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("adder")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run()
"""


async def test_a_server_can_be_a_command(tmp_path: Path):
    file = tmp_path / "adder.py"
    file.write_text(SERVER)
    for command in ([sys.executable, str(file)], f"{sys.executable} {file}"):
        async with asyncio.timeout(PATIENCE_S), from_mcp(command) as tools:
            assert await tools["add"](a=1, b=2) == 3


def test_a_field_that_is_no_name_takes_the_arguments_as_one():
    """A schema may have fields that Python can't have as parameters."""
    from accord.integrations.mcp import McpTools

    schema = {"type": "object", "properties": {"user-id": {"type": "string"}}}
    tool = mcp_types.Tool(name="x", input_schema=schema)
    function = McpTools(None, [tool])["x"]
    assert list(inspect.signature(function).parameters) == ["arguments"]


IMPORTS = """
import asyncio, sys, threading
from accord.tools import from_mcp

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp":
            print("imported in", threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watch())

async def main():
    try:
        async with from_mcp(["/no/such/program"]):
            pass
    except Exception as error:
        print(type(error).__name__)

asyncio.run(main())
"""


def test_the_first_import_of_the_sdk_does_not_hold_up_the_event_loop():
    """It takes about a second, in a server that has others to answer."""
    done = run_sync(sys.executable, "-c", IMPORTS)
    assert done.out.split("\n")[:2] == ["imported in False", "ToolFailed"]
