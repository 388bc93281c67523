"""Other MCP clients, as they are installed, drive an agent with a question.

Each runs in an environment of its own, which `make test-integrations` sets up. The MCP SDK 2.x, in
both generations of the protocol, does the same in test_command.py.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.integrations.agents import served, trip_planner
from tests.processes import run, start

ROOT = Path(__file__).parents[3]
CLIENTS = {"sdk1": "mcp1", "langchain": "mcp1", "fastmcp_client": "fastmcp"}


def _python(name: str) -> Path:
    return ROOT / f".venv-{name}" / "bin" / "python"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_drives_an_agent_with_a_question(client, transport):
    python = _python(CLIENTS[client])
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
    if client == "sdk1":
        assert result["version"] == "2025-11-25"  # with a handshake, asked in the middle of a call
    assert result["tools"] == ["trip_planner"]
    assert result["text"] == "Day 1. Day 2. That is Rome."
    [(question, schema)] = result["asked"]
    assert question == "How many days do you have?"
    assert schema["properties"] == {"answer": {"type": "integer"}}
    assert "looking for 2 days" in result["said"]


async def test_a_server_object_of_fastmcp_is_an_agent():
    script = Path(__file__).parent / "clients" / "fastmcp_server.py"
    env = {"PYTHONPATH": str(ROOT / "src")}
    done = await run(_python("fastmcp"), script, env=env, seconds=120)
    assert done.code == 0, done.err
    assert json.loads(done.out.splitlines()[-1]) == {
        "skills": ["plan", "book"],
        "question": "How many days?",
        "said": ["looking for 2 days"],
        "text": "2 days in Rome",
        "data": {"booked": "Rome"},
        "failed": ["failed", "Error calling tool 'book': it is gone"],
    }
