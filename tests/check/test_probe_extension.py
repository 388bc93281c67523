"""urn:accord:probe:1: an agent of ours answers a probe by an echo, without calling a skill."""

import pytest

from accord import Agent
from accord.check import Category, probe_message, run_checks
from accord.client import connect
from accord.model import PROBE, TaskState
from tests.drive import serving


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def agent(calls: list[str]) -> Agent:
    """An agent whose only skill must not be called."""
    agent = Agent("Costly", description="Costs a dollar a word.")

    @agent.skill
    async def spend(request: str) -> str:
        """Spend a dollar."""
        calls.append(request)
        return "spent"

    return agent


async def test_probes_and_checks_call_no_skill(agent, calls):
    """The message goes through the real log: there is a task, with the text as its artifact."""
    app = agent.app(grpc_port=0)
    async with serving(app, app.close) as url:
        found = await probe_message(url, message="Are you there?")
        report = await run_checks(url)
        assert (found.category, report.score, calls) == (Category.OK, 100, [])
        async with connect(url) as client:
            texts = [a.text async for task in client.list(artifacts=True) for a in task.artifacts]
    assert "Are you there?" in texts


async def test_only_who_asks_for_the_echo_gets_it(agent):
    """Metadata alone is the user's own: it needs the extension too."""
    async with connect(agent, extensions=[PROBE]) as client:
        asked = await client.send("hi", metadata={"probe": True})
        plain = await client.send("hi")
    async with connect(agent) as client:
        other = await client.send("hi", metadata={"probe": True})
    assert (asked.text, plain.text, other.text) == ("hi", "spent", "spent")
    assert asked.state is TaskState.COMPLETED


async def test_a_check_can_call_a_skill(agent, calls):
    """With a skill named, the agent itself is tried."""
    report = await run_checks(agent, skill="spend", message="one word", binding="JSONRPC")
    assert report.score == 100
    assert set(calls) == {"one word"}
