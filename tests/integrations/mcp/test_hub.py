"""The agents of a hub as MCP tools: found by its search, asked through it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from click.testing import CliRunner
from mcp import Client as McpClient

from accord.cli import main
from accord.cli.mcp_hub import HubDirectory
from accord.integrations.mcp import make_server
from tests.hub.hubs import hub_at
from tests.integrations.agents import served, trip_planner
from tests.processes import free_port

PATIENCE_S = 120


def text_of(result):
    return "\n".join(block.text for block in result.content)


async def test_agents_are_found_and_asked_through_the_hub(tmp_path: Path):
    """Whom a caller may see and call is the hub's to decide, for MCP as for everything else."""
    async with (
        asyncio.timeout(PATIENCE_S),
        hub_at(tmp_path) as desk,
        served(trip_planner()) as url,
        AsyncExitStack() as opened,
    ):
        name = (await desk.add(url))["name"]
        directory = HubDirectory(desk.url, desk.keys["admin"], opened)
        async with McpClient(make_server(directory)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert tools == ["find_agents", "ask_agent"]
            found = await client.call_tool("find_agents", {"query": "plan a trip"})
            assert f"\n{name}: Plans short trips. Skills: plan\n" in text_of(found)
            ask = {"name": name, "message": "Rome"}
            asked = await client.call_tool("ask_agent", ask)
            assert "How many days do you have?" in text_of(asked)
            answer = {"message": "2", "task_id": asked.structured_content["task_id"]}
            done = await client.call_tool("ask_agent", ask | answer)
            assert text_of(done) == "Day 1. Day 2. That is Rome."
            missing = await client.call_tool("ask_agent", {"name": "nobody", "message": "x"})
            assert "there is no agent 'nobody'" in text_of(missing)


def test_a_hub_that_is_not_there_is_said_at_once():
    done = CliRunner().invoke(main, ["mcp", "--hub", f"http://127.0.0.1:{free_port()}"])
    assert done.exit_code == 1
    assert "the hub gave no answer" in done.output
