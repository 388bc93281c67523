"""Other MCP clients, as they are installed, drive an agent with a question.

Each runs in an environment of its own, which `make test-integrations` sets up.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.integrations.agents import served, trip_planner
from tests.processes import run, start

ROOT = Path(__file__).parents[3]
CLIENTS = {"sdk1": "mcp1", "langchain": "mcp1", "fastmcp_client": "fastmcp"}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_drives_an_agent_with_a_question(client, transport):
    python = ROOT / f".venv-{CLIENTS[client]}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no {python.parent.parent.name} here: make test-integrations")
    script = Path(__file__).parent / "clients" / f"{client}.py"
    async with served(trip_planner()) as url:
        words = [sys.executable, "-m", "accord", "mcp", url]
        if transport == "stdio":
            done = await run(python, script, json.dumps(words), seconds=120)
        else:
            with start(*words, "--http", "0") as server:
                place = (await server.line()).rpartition(" ")[2]
                done = await run(python, script, json.dumps(place), seconds=120)
                assert await server.stop() == 0
    assert done.code == 0, done.err
    result = json.loads(done.out.splitlines()[-1])
    assert result["tools"] == ["trip_planner"]
    assert result["text"] == "Day 1. Day 2. That is Rome."
    [(question, schema)] = result["asked"]
    assert question == "How many days do you have?"
    assert schema["properties"] == {"answer": {"type": "integer"}}
    assert "looking for 2 days" in result["said"]
