"""Probes of a hub: faults become states with a sentence, rounds keep health true by themselves."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accord.check import Category, InterfaceProbe, ProbeReport
from accord.engine.skills import definition_of
from accord.hub import Health
from accord.hub.probe import after_message, after_reach
from accord.hub.probe.busy import BUSY_MS, LoopWatch
from accord.hub.probe.rounds import JITTER
from tests.check.faulty import FAULTS, Fault, faulty, says
from tests.drive import serving
from tests.hub.hubs import agent_named, hub_at, serving_card

PATIENCE_S = 45.0
DAY_MS = 24 * 3600 * 1000
AWAY = ("DNS", "REFUSED", "TLS", "TIMEOUT")


def report(*categories: str) -> ProbeReport:
    found = [
        InterfaceProbe(interface=f"i{i}", category=Category(c), sentence="" if c == "OK" else "fix")
        for i, c in enumerate(categories)
    ]
    worst = next((one for one in found if not one.is_ok), found[0])
    return ProbeReport(category=worst.category, sentence=worst.sentence, interfaces=found)


def message(category: str) -> InterfaceProbe:
    return InterfaceProbe(interface="i", category=Category(category), said="said", sentence="fix")


async def until(is_so: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await is_so()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


def told(*steps: ProbeReport | InterfaceProbe) -> list[str]:
    """The states an agent goes through."""
    health = Health()
    states: list[str] = []
    for n, step in enumerate(steps):
        after = (
            after_reach(health, step, n)
            if isinstance(step, ProbeReport)
            else after_message(health, step, n)
        )
        states.append(after.state)
        health = after
    return states


def test_states():
    """The table of `hub/probe/health.py`, step by step."""
    ok, refused = report("OK", "OK"), report("REFUSED", "REFUSED")
    assert told(ok) == ["up"]
    assert told(refused, refused, refused, refused, ok) == [
        "degraded", "degraded", "down", "down", "up",
    ]  # fmt: skip
    assert told(ok, report("OK", "NOT_FOUND"), ok) == ["up", "degraded", "up"]
    assert told(report("BAD_JSON"), report("LOCKED"), ok) == ["broken", "locked", "up"]
    assert told(ok, message("OK"), message("AGENT_FAILED"), ok, message("ITS_BACKEND"), ok) == [
        "up", "up", "degraded", "degraded", "broken", "broken",
    ]  # fmt: skip
    assert told(ok, message("AGENT_FAILED"), message("OK")) == ["up", "degraded", "up"]
    assert told(refused, refused, refused, message("REFUSED")) == [
        "degraded", "degraded", "down", "down",
    ]  # fmt: skip
    assert told(ok, message("LOCKED")) == ["up", "locked"]


def test_gone_after_a_week():
    """What is down for seven days is gone; one answer brings it back."""
    down = Health(state="down", since_ms=DAY_MS, detail={"misses": 3})
    refused = report("REFUSED")
    assert after_reach(down, refused, 7 * DAY_MS).state == "down"
    gone = after_reach(down, refused, 8 * DAY_MS)
    assert (gone.state, after_reach(gone, report("OK"), 9 * DAY_MS).state) == ("gone", "up")


def test_much_slower_than_usual_is_degraded():
    """Three times the median of a week, and slow at all: 4 ms instead of 1 trouble nobody."""
    from accord.hub.probe.health import Speed

    slow = after_reach(Health(), report("OK"), 1, Speed(200.0, 800.0, 100.0, 1.0))
    assert (slow.state, slow.category) == ("degraded", "TOO_SLOW")
    assert "usually 100 ms" in slow.sentence
    for p95, usual in ((250.0, 100.0), (400.0, 100.0), (12.0, 1.0), (1400.0, 500.0)):
        fine = after_reach(Health(), report("OK"), 1, Speed(usual, p95, usual, 1.0))
        assert fine.state == "up", (p95, usual)


async def test_a_probe_that_the_hub_was_too_busy_for_says_nothing_of_the_agent():
    """Its own loop stood still: the time is not the agent's."""
    watch = LoopWatch()
    assert not watch.was_busy
    async with watch:
        await asyncio.sleep(0)
        time.sleep(2 * BUSY_MS / 1000)  # noqa: ASYNC251
    assert watch.was_busy


async def test_times_of_a_busy_hub_are_not_counted(tmp_path):
    async with hub_at(tmp_path) as desk:
        results, now = desk.hub.prober.results, 10 * DAY_MS
        for n in range(30):
            ms = 10 if n % 3 else None
            await results.add("a", now - n, is_ok=True, category="OK", ms=ms)
        speed = await results.speed("a", now)
        assert (speed.p50_ms, speed.p95_ms, speed.uptime_30d) == (10.0, 10.0, 1.0)


async def test_an_agent_that_comes_and_goes_is_one_line_of_the_inbox(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as baker:
        await desk.add(baker.url, name="baker")
        for state in ("up", "degraded", "up", "degraded"):
            await desk.hub.health.set_health("baker", Health(state=state))
        inbox = (await desk.call("GET", "/inbox")).body
        assert [one["said"] for one in inbox["alerts"] if one["kind"] == "health"] == [
            "baker is degraded, was up."
        ]
        assert inbox["total"] == len(inbox["alerts"])


# Whose card can't be read is not added at all; silence takes as long as the hub waits for it.
KNOWN = [f for f in FAULTS if f.category not in ("TOO_SLOW",) and not callable(f.card("http://x"))]


@pytest.mark.parametrize("fault", KNOWN, ids=lambda fault: fault.name)
async def test_faults_become_states(fault: Fault, tmp_path):
    """30 agents with one fault each: state, category and sentence as the table says; no task is
    made anywhere.
    """
    async with faulty(fault) as peer, hub_at(tmp_path) as desk:
        added = await desk.call("POST", "/agents", {"url": peer.url, "name": "strange"})
        if fault.category == "NO_INTERFACE":
            assert added.status in (201, 400)
            return
        assert added.status == 201, added.body
        expected = "up" if fault.category == "OK" else "broken"
        rounds = 1
        if fault.category in AWAY:
            expected, rounds = "down", 3
        elif fault.category == "LOCKED":
            expected = "locked"
        for _ in range(rounds):
            answer = await desk.call("POST", "/agents/strange:probe")
        health = answer.body["health"]
        methods = {says(request) for request in peer.requests}
        found = await desk.call("GET", "/agents/strange/health")
    assert (health["state"], health["category"]) == (
        expected,
        fault.category if fault.category != "OK" else "",
    )
    assert fault.sentence in health["sentence"]
    assert methods <= {"", "GetTask"}
    hour = found.body["hours"][-1]
    assert (hour["total"], hour["ok"]) == (rounds, rounds if fault.category == "OK" else 0)


async def test_rounds_keep_health_true(store, tmp_path):
    """By itself: a new agent is up, answered a message and has its score; one that goes away is
    down; back again it is up.
    """
    quick = {"tick_s": 0.05, "reach_s": 0.1, "card_s": 0.2, "message_s": 3600.0}
    app = agent_named("Echo").app()
    async with hub_at(tmp_path, **store, **quick) as desk:
        async with serving(app, app.close) as url:
            await desk.add(url, name="echo")

            async def proven() -> bool:
                one = (await desk.call("GET", "/agents/echo")).body
                assert "health" in one, one
                return (
                    one["health"]["state"] == "up"
                    and one.get("score") == 100
                    and one["health"]["detail"].get("message", {}).get("category") == "OK"
                )

            await until(proven)
            checks = await desk.call("GET", "/agents/echo/checks")
            assert (checks.body["score"], checks.body["counts"]["fail"]) == (100, 0)
            assert all(r["request"] for r in checks.body["results"] if r["status"] == "pass")
            port = int(url.rpartition(":")[2])

        async def is_down() -> Any:
            one = (await desk.call("GET", "/agents/echo")).body["health"]
            return one if one["state"] == "down" else None

        health = await until(is_down)
        assert (health["category"], "Start the agent" in health["sentence"]) == ("REFUSED", True)
        inbox = await desk.call("GET", "/inbox")
        assert any("echo is down" in str(one) for one in inbox.body["alerts"])
        again = agent_named("Echo").app()
        async with again.serving(port=port):

            async def is_up() -> bool:
                one = (await desk.call("GET", "/agents/echo")).body["health"]
                return bool(one["state"] == "up")

            await until(is_up)


async def test_a_round_is_made_once(tmp_path):
    """Who moves the time of a round on has it; at the same host one is made after the other."""
    async with hub_at(tmp_path) as desk:
        app = agent_named("Echo").app()
        async with serving(app, app.close) as url:
            await desk.add(url, name="echo")
            entry = desk.hub.registry.get("echo")
            assert entry is not None
            prober = desk.hub.prober
            await prober._schedule(1)
            rows = await desk.hub.db.fetch("SELECT agent, round, due_ms FROM rounds")
            claims = [await prober._claim(row, 2) for row in [*rows, *rows]]
    assert (len(rows), claims) == (4, [True] * 4 + [False] * 4)


async def test_an_agent_that_is_down_is_probed_after_growing_pauses(tmp_path):
    """As the documentation says: it is down after three rounds, one a minute."""
    async with hub_at(tmp_path) as desk:
        app = agent_named("Echo").app()
        async with serving(app, app.close) as url:
            await desk.add(url, name="echo")
        db, prober = desk.hub.db, desk.hub.prober
        await prober._schedule(1)
        await db.execute("DELETE FROM rounds WHERE round <> 'reach'")
        pauses = []

        async def is_idle() -> bool:
            return not prober.is_busy

        for _ in range(9):
            await db.execute("UPDATE rounds SET due_ms = 1")
            now = db.now_ms()
            await prober.tick()
            row = await db.fetch_one("SELECT due_ms FROM rounds")
            assert row is not None
            pauses.append((row["due_ms"] - now) / 60_000)
            await until(is_idle)
        minutes = [1, 1, 1, 2, 4, 8, 16, 30, 30]
        assert pauses == [pytest.approx(one, rel=JITTER + 0.05) for one in minutes]


async def test_messages_are_the_owners_choice(tmp_path):
    """With `probe` free no message is sent and no checks are made by themselves."""
    quick = {"tick_s": 0.05, "reach_s": 0.1}
    calls = itertools.count()
    agent = agent_named("Echo")

    @agent.skill
    async def other(text: str) -> str:
        """Do something else."""
        next(calls)
        return text

    app = agent.app()
    async with serving(app, app.close) as url, hub_at(tmp_path, **quick) as desk:
        await desk.add(url, name="echo", settings={"probe": "free"})

        async def probed() -> bool:
            hours = (await desk.call("GET", "/agents/echo/health")).body["hours"]
            return sum(hour["total"] for hour in hours) >= 3

        await until(probed)
        entry = (await desk.call("GET", "/agents/echo")).body
        none = await desk.call("GET", "/agents/echo/checks")
    assert ("message" in entry["health"]["detail"], entry.get("score"), none.status) == (
        False,
        None,
        404,
    )


async def test_a_probe_with_the_hubs_credential(tmp_path):
    """A locked agent says which scheme; with the credential it is up."""
    from accord.auth import ApiKeys

    agent = agent_named("Vault")
    definition_of(agent).auth = ApiKeys(keys={"secret-key-of-the-hub-1": "hub"})
    app = agent.app()
    async with serving(app, app.close) as url, hub_at(tmp_path) as desk:
        await desk.add(url, name="vault")
        before = (await desk.call("POST", "/agents/vault:probe")).body["health"]
        secret = {"kind": "api_key", "secret": "secret-key-of-the-hub-1"}
        stored = await desk.call("PUT", "/agents/vault/credentials/apiKey", secret)
        assert stored.status < 300, stored.body
        after = (await desk.call("POST", "/agents/vault:probe?message=1")).body["health"]
        checked = await desk.call("POST", "/agents/vault:check")
    assert (before["state"], "apiKey" in before["sentence"]) == ("locked", True)
    assert (after["state"], checked.body["score"]) == ("up", 100)
    assert "secret-key-of-the-hub-1" not in str(checked.body)


async def test_a_call_that_succeeded_saves_a_probe(tmp_path):
    """An agent that has just answered a caller through the hub is not asked again."""
    from accord import connect

    app = agent_named("Echo").app()
    async with serving(app, app.close) as url, hub_at(tmp_path) as desk:
        await desk.add(url, name="echo")
        entry = await desk.hub.prober.reach_now(desk.hub.registry.get("echo"))
        async with connect(f"{desk.url}/agents/echo") as client:
            assert (await client.send("hi")).text == "hi"
        before = (await desk.call("GET", "/agents/echo/health")).body["hours"][-1]["total"]
        await desk.hub.prober._reach(entry)
        after = (await desk.call("GET", "/agents/echo/health")).body["hours"][-1]["total"]
        await desk.hub.prober._reach(entry)
        later = (await desk.call("GET", "/agents/echo/health")).body["hours"][-1]["total"]
    assert (before, after, later) == (1, 1, 2)


async def test_what_a_probe_found_does_not_bring_back_who_left_meanwhile(tmp_path):
    """The agent says that it goes while the result of a probe waits to be stored."""
    async with serving_card() as server, hub_at(tmp_path) as desk:
        await desk.add(server.url)
        registry = desk.hub.registry
        left = Health(state="gone", category="LEFT")
        found = Health(state="degraded", category="REFUSED")
        await asyncio.gather(
            desk.hub.health.set_health("baker", left),
            desk.hub.health.set_health("baker", found, probed_ms=0),
        )
        assert registry.get("baker").health.state == "gone"
        await desk.hub.health.set_health("baker", found)  # by its own word
        assert registry.get("baker").health.state == "degraded"


@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if callable(f.card("http://x"))], ids=lambda fault: fault.name
)
async def test_an_agent_whose_card_cannot_be_had_is_not_added(fault: Fault, tmp_path):
    async with faulty(fault) as peer, hub_at(tmp_path) as desk:
        answer = await desk.call("POST", "/agents", {"url": peer.url, "name": "strange"})
    assert (answer.status, bool(answer.body["error"]["fix"])) == (422, True)


async def test_an_agent_that_never_answers_is_said_to(tmp_path, monkeypatch):
    """The hub's patience is short here."""
    monkeypatch.setattr("accord.hub.probe.rounds.TIMEOUT_S", 2.0)
    [fault] = [fault for fault in FAULTS if fault.category == "TOO_SLOW"]
    async with faulty(fault) as peer, hub_at(tmp_path) as desk:
        await desk.add(peer.url, name="strange")
        health = (await desk.call("POST", "/agents/strange:probe")).body["health"]
    assert (health["state"], health["category"]) == ("broken", "TOO_SLOW")
    assert fault.sentence in health["sentence"]


def test_all_faults_are_tried():
    tried = len(KNOWN) + sum(callable(f.card("http://x")) for f in FAULTS) + 1
    print(f"\n{tried} agents with one fault each")
    assert tried == len(FAULTS) >= 30
