"""What a call through the hub costs the hub, beside what it costs the agent."""

import os
from pathlib import Path

from accord import connect
from accord.hub import RestClient
from tests.cli.shell import served
from tests.hub.test_cli import hub_served

SENDS, EVENTS = 200, 1_000
AGENT = f"""
from accord import Agent
agent = Agent("Echo", description="Says it again.")
@agent.skill
async def echo(text: str):
    for _ in range({EVENTS} if text == "many" else 1):
        yield text
"""


def cpu_s(pid: int) -> float:
    """The processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_what_the_hub_adds(tmp_path, capsys):
    """Printed, not held to a limit: that would be a matter of the machine's load."""
    (tmp_path / "echo.py").write_text(AGENT)
    with (
        served("echo.py", "--no-push", cwd=tmp_path) as (agent, url),
        hub_served(tmp_path) as (hub, address),
    ):
        key = (tmp_path / ".accord" / "hub.admin").read_text().strip()
        await RestClient(address, key).call("POST", "/agents", {"url": url})
        async with connect(url) as direct, connect(f"{address}/agents/echo") as through:
            for client in (direct, through):  # what happens once is not counted
                for _ in range(20):
                    assert (await client.send("hi")).text == "hi"
            before = cpu_s(agent.pid)
            for _ in range(SENDS):
                await direct.send("hi")
            own_s = cpu_s(agent.pid) - before
            before = cpu_s(hub.pid)
            for _ in range(SENDS):
                await through.send("hi")
            hub_s = cpu_s(hub.pid) - before
            before = cpu_s(agent.pid)
            assert len([event async for event in direct.stream("many")]) >= EVENTS
            own_events_s = cpu_s(agent.pid) - before
            before = cpu_s(hub.pid)
            assert len([event async for event in through.stream("many")]) >= EVENTS
            hub_events_s = cpu_s(hub.pid) - before
    assert own_s > 0
    assert hub_s > 0
    ratio = hub_events_s / own_events_s if own_events_s else float("nan")
    with capsys.disabled():
        print(
            f"\nhub: {hub_s / SENDS * 1000:.2f} ms of processor time per relayed send, agent "
            f"{own_s / SENDS * 1000:.2f} ms: {hub_s / own_s:.1f} times; per event "
            f"{hub_events_s / EVENTS * 1e6:.0f} µs, {ratio:.1f} times the agent's"
        )
