"""What docs/tools.md and docs/mcp.md show in Python runs."""

import asyncio

from accord import connect
from accord.tools import from_agent
from tests.docs.page import ROOT, blocks
from tests.integrations.agents import served, trip_planner
from tests.integrations.mcp.test_tools import booking

URL = "http://localhost:8000"


def code(page: str) -> list[str]:
    return [text for language, text in blocks(ROOT / "docs" / page) if language == "python"]


async def test_agents_as_tools():
    first, second = code("tools.md")
    async with served(trip_planner()) as url:
        names: dict = {}
        await asyncio.to_thread(exec, first.replace(URL, url), names)
        assert "How many days" in await names["plan_trip"](message="Rome")
    wrapped = "".join(f"    {line}\n" for line in second.splitlines())
    names = {"connect": connect, "from_agent": from_agent, "agent": trip_planner()}
    exec(f"async def main():\n{wrapped}        return await plan_trip(message='Rome')", names)
    assert "How many days" in await names["main"]()


async def test_tools_in_a_skill():
    [text] = code("mcp.md")
    names: dict = {"server": booking()}
    exec(text.replace('"http://localhost:9000/mcp"', "server").replace("query", "city"), names)
    async with connect(names["agent"]) as client:
        reply = await client.send("Rome")
    assert reply.data == ["Rome 0"]
