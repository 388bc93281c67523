"""`accord mcp` as MCP clients start it, over stdin and stdout, and over Streamable HTTP."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

import mcp_types
import pytest
from click.testing import CliRunner
from mcp import Client as McpClient
from mcp import StdioServerParameters

from accord.cli import main
from tests.integrations.agents import served, trip_planner, workshop
from tests.processes import free_port, run, start

PATIENCE_S = 120


@asynccontextmanager
async def mcp_server(transport, *urls):
    """Give what a client takes to reach `accord mcp URL...`."""
    words = [sys.executable, "-m", "accord", "mcp", *urls]
    if transport == "stdio":
        # The SDK hands on only a few variables by itself.
        yield StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
        return
    with start(*words, "--http", "0") as process:
        line = await process.line()
        yield line.rpartition(" ")[2]
        assert await process.stop() == 0


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
async def test_a_client_drives_an_agent_with_a_question(transport, era):
    """Two agents, one process: questions, progress and results of both generations."""
    said = []

    async def asked(_, params):
        return mcp_types.ElicitResult(action="accept", content={"answer": 2})

    async def on_progress(done, total, message):
        said.append(message)

    agent, _ = workshop()
    async with (
        asyncio.timeout(PATIENCE_S),
        served(trip_planner()) as trips,
        served(agent) as things,
        mcp_server(transport, trips, things) as place,
        McpClient(place, mode=era, elicitation_callback=asked) as client,
    ):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools[:2] == ["trip_planner", "workshop_order"]
        result = await client.call_tool(
            "trip_planner", {"message": "Rome"}, progress_callback=on_progress
        )
        assert result.content[0].text == "Day 1. Day 2. That is Rome."
        assert "looking for 2 days" in said
        made = await client.call_tool("workshop_order", {"thing": "chair"})
        assert made.structured_content["thing"] == "chair"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_call_that_is_cancelled_cancels_the_task(transport):
    agent, events = workshop()
    async with (
        asyncio.timeout(PATIENCE_S),
        served(agent) as url,
        mcp_server(transport, url) as place,
        McpClient(place) as client,
    ):
        call = asyncio.create_task(client.call_tool("workshop_build", {"message": "x"}))
        await events["begun"].wait()
        call.cancel()
        await events["canceled"].wait()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_an_agent_that_is_away_does_not_take_the_others_with_it():
    away = f"http://127.0.0.1:{free_port()}"
    async with asyncio.timeout(PATIENCE_S), served(trip_planner()) as url:
        words = [sys.executable, "-m", "accord", "mcp", url, away, "--retry-max-time", "0"]
        with start(*words, "--http", "0") as process:
            line = await process.line()
            assert line.startswith("Trip planner served to MCP at http://127.0.0.1:")
            async with McpClient(line.rpartition(" ")[2]) as client:
                assert len((await client.list_tools()).tools) == 1
            assert await process.stop() == 0
        alone = await run(*words[:4], away, "--retry-max-time", "0")
        assert (alone.code, alone.out) == (3, "")
        assert away.removeprefix("http://") in alone.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say which agents"),
        (["http://a.example", "--hub", "http://b.example"], "not both"),
        (["http://a.example", "http://b.example", "--bearer", "x"], "accord auth login URL"),
        (["http://a.example", "--key-file", __file__], "test_command.py"),
    ],
)
def test_what_can_not_work_is_said_at_once(words, said):
    done = CliRunner().invoke(main, ["mcp", *words])
    assert done.exit_code != 0
    assert said in done.output


def test_a_client_can_be_configured_with_what_the_page_shows():
    """The JSON in docs/mcp.md is the configuration most clients take."""
    from tests.docs.page import ROOT, blocks

    [text] = [text for language, text in blocks(ROOT / "docs" / "mcp.md") if language == "json"]
    [server] = json.loads(text)["mcpServers"].values()
    assert [server["command"], server["args"][0]] == ["accord", "mcp"]
