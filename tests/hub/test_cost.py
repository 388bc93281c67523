"""What a call through the hub costs the hub, beside what it costs the agent."""

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from accord import connect
from accord.app import App
from bench.hub import HUB_ROWS
from bench.results import Results
from bench.rows import Effort
from bench.run import measure_all
from tests.hub.hubs import agent_named, hub_at

SENDS = 20


@pytest.mark.alone
async def test_what_the_hub_adds(capsys):
    """Printed, not held to a limit: that would be a matter of the machine's load. `make bench`
    measures the same for longer.
    """
    effort = Effort(rounds=1, seconds=0.2, warm_s=0.1, is_quick=True)
    results = Results()
    await measure_all(HUB_ROWS, effort, lambda text: None, results.rows.__setitem__)
    with capsys.disabled():
        for row in results.rows.values():
            assert not row.error, row.error
            print(f"\n{row.title}: {row.rounds['hub'][0]:.1f} {row.unit}", end="")


async def test_a_send_through_the_hub_costs_it_at_most_two_commits_more(tmp_path):
    """Counted where the send was quickest: under load the same may be stored in more steps."""
    app = agent_named().app(store=f"sqlite:///{tmp_path}/agent.db", metrics=0)
    async with app.serving() as url, hub_at(tmp_path, metrics="0") as desk:
        await desk.add(url)
        async with connect(url) as direct, connect(f"{desk.url}/agents/echo") as through:
            own, passed = [], []
            for client, of, counts in (
                (direct, app, own),
                (through, desk.hub.app, passed),
            ):
                await client.send("hi")  # what happens once is not counted
                for _ in range(SENDS):
                    before = await commits(of)
                    await client.send("hi")
                    counts.append(await commits(of) - before)
    print(f"\ncommits per send: {sorted(own)} of the agent, {sorted(passed)} of the hub")
    assert 0 < min(passed) <= min(own) + 2


async def commits(app: App) -> int:
    """How often an app has stored something, by its own metrics."""
    assert app.metrics is not None
    async with aiohttp.ClientSession() as http, http.get(app.metrics.url) as answer:
        families = text_string_to_metric_families(await answer.text())
    (count,) = [
        int(sample.value)
        for family in families
        for sample in family.samples
        if sample.name == "accord_commit_seconds_count"
    ]
    return count
