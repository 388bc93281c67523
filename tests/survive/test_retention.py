"""Old things go: finished tasks, their logs and idempotency keys, in small batches, and `accord db`
looks after the file.
"""

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from accord import Agent
from accord.engine.runs.engine import Engine
from accord.engine.runs.retention import Retention, Upkeep
from accord.engine.skills import definition_of
from accord.model import Limits
from accord.store import SystemClock, open_store
from tests.cli.shell import accord
from tests.drive import refusal_of, say, state_of, text_of
from tests.reliability.harness import RESUME
from tests.survive.skills import talkative


def an_agent() -> Agent:
    agent = Agent("Keeper")

    talkative(agent)

    return agent


class Kept:
    """An app whose upkeep is done when the test says so."""

    def __init__(self, app: Any) -> None:
        self._engine: Engine = app._engine

    async def tidy(self, **keep: float) -> None:
        await Upkeep(self._engine.runs, Retention(**keep)).purge()


@pytest.fixture
def apps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every app the test makes, so that its upkeep can be called."""
    made: list[Any] = []
    make = Agent.app

    def app(self: Agent, **options: Any) -> Any:
        made.append(make(self, **options))
        return made[-1]

    monkeypatch.setattr(Agent, "app", app)
    return made


async def test_logs_go_before_tasks_and_a_resumed_stream_says_so(
    connect_rpc: Any, store: str, apps: list[Any]
) -> None:
    """After its log is folded into the snapshot a task reads as before; a cursor into what is gone
    gets the Task (design, rule 2).
    """
    async with connect_rpc(an_agent(), store=store) as client:
        task = (await client.send("hello"))["task"]
        await asyncio.sleep(0.002)  # a task is old when it is older than now
        await Kept(apps[0]).tidy(events_s=0)
        assert await client.get(task["id"]) == task
        frames = await (
            await client.subscribe(task["id"], headers=RESUME | {"last-event-id": "1"})
        ).rest()
        assert [next(iter(frame)) for frame in frames] == ["task"]
        await Kept(apps[0]).tidy(events_s=0, tasks_s=0)
        assert (await refusal_of(client.get(task["id"]))).reason == "TASK_NOT_FOUND"
        assert (await client.list())["totalSize"] == 0


async def test_open_tasks_stay_until_nobody_answers_for_too_long(
    connect_rpc: Any, store: str, apps: list[Any]
) -> None:
    """Retention of finished tasks never touches an open one; a question nobody answers fails in the
    end (design, rule 14).
    """
    async with connect_rpc(an_agent(), store=store) as client:
        task = (await client.send(say("hi", metadata={"skill": "talk"})))["task"]
        await asyncio.sleep(0.002)
        await Kept(apps[0]).tidy(tasks_s=0, events_s=0, keys_s=0)
        assert state_of(await client.get(task["id"])) == "input-required"
        await Kept(apps[0]).tidy(unanswered_s=0)
        task = await client.get(task["id"])
        assert (state_of(task), text_of(task["status"]["message"])[:9]) == ("failed", "no answer")


async def test_a_key_that_is_gone_stands_for_nothing(
    connect_rpc: Any, store: str, apps: list[Any]
) -> None:
    """After its time the same key makes a new task."""
    key = {"idempotency-key": "k"}
    async with connect_rpc(an_agent(), store=store) as client:
        request = say("hello")
        first = (await client.send(request, headers=key))["task"]["id"]
        assert (await client.send(request, headers=key))["task"]["id"] == first
        await asyncio.sleep(0.002)
        await Kept(apps[0]).tidy(keys_s=0)
        assert (await client.send(request, headers=key))["task"]["id"] != first


async def test_a_broken_upkeep_goes_on(
    connect_rpc: Any, lasting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failure of upkeep is not the end of heartbeats: the next look-around comes."""
    store, beats = open_store(lasting), asyncio.Event()
    calls = 0

    async def beat() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ZeroDivisionError
        beats.set()

    monkeypatch.setattr("accord.engine.runs.retention.BEAT_S", 0)
    monkeypatch.setattr(store, "beat", beat)
    engine = Engine([definition_of(an_agent())], store, Limits())
    await engine.open()
    try:
        await asyncio.wait_for(beats.wait(), timeout=10)
    finally:
        await engine.close()


class Jumping(SystemClock):
    """The time that passes, and what the clock on the wall says."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.wall_s = time.time()

    def now_ms(self) -> int:
        return int(self.wall_s * 1000)

    def elapsed_s(self) -> float:
        return self.passed_s

    def move(self, passed_s: float, wall_s: float) -> None:
        self.passed_s += passed_s
        self.wall_s += wall_s


@pytest.mark.parametrize(
    ("gained_s", "is_believed"),
    [(0, True), (3_599, True), (-86_400, True), (3_601, False), (40 * 86_400, False)],
)
async def test_a_clock_that_jumped_ahead_deletes_nothing_in_that_round(
    connect_rpc: Any,
    store: str,
    apps: list[Any],
    caplog: pytest.LogCaptureFixture,
    gained_s: float,
    is_believed: bool,
) -> None:
    """What seems a month old may have been made a minute ago: a round in which the clock gained an
    hour on the time that passed is left out, and told of. If the clock stays as it is, the next
    round believes it.
    """
    async with connect_rpc(an_agent(), store=store) as client:
        await client.send("hello")
        await asyncio.sleep(0.002)  # a task is old when it is older than now
        clocks, keep = Jumping(), Retention(tasks_s=0, events_s=0)
        upkeep = Upkeep(
            apps[0]._engine.runs,
            keep,
            clock=clocks,
        )
        clocks.move(60, 60 + gained_s)
        await upkeep.tend()
        assert (await client.list())["totalSize"] == (0 if is_believed else 1)
        told = [
            record.message for record in caplog.records if "the clock has moved" in record.message
        ]
        assert told == (
            []
            if is_believed
            else [f"the clock has moved {gained_s} s more than the time that passed; " + NOTHING]
        )
        clocks.move(60, 60)
        await upkeep.tend()
        assert (await client.list())["totalSize"] == 0


async def test_a_clock_that_jumped_ahead_fails_no_open_question(
    connect_rpc: Any, lasting: str, apps: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a question taken for one that nobody answers, before that round is over."""
    monkeypatch.setattr("accord.engine.runs.retention.CHECK_S", 3600)  # it is the test that looks
    asked_about: list[bool] = []
    async with connect_rpc(an_agent(), store=lasting) as client:
        task = (await client.send(say("hi", metadata={"skill": "talk"})))["task"]
    async with connect_rpc(an_agent(), store=lasting) as client:
        assert state_of(await client.get(task["id"])) == "input-required"
        engine = apps[1]._engine
        engine.retention = Retention(unanswered_s=0)  # from now on, every question is too old

        async def look(is_clock_sure: bool) -> None:
            asked_about.append(is_clock_sure)
            await engine._recovery.check(is_clock_sure)

        clocks = Jumping()
        upkeep = Upkeep(
            engine.runs,
            Retention(),
            check=look,
            clock=clocks,
        )
        clocks.move(1, 86_400)
        await upkeep.tend()
        assert state_of(await client.get(task["id"])) == "input-required"
        clocks.move(60, 60)
        await upkeep.tend()  # the round that is left out
        assert state_of(await client.get(task["id"])) == "input-required"
        clocks.move(1, 1)
        await upkeep.tend()
        assert state_of(await client.get(task["id"])) == "failed"
    assert asked_about == [False, False, True]


NOTHING = "nothing is deleted in this round"


async def test_db_commands_say_how_much_there_is_make_room_and_migrate(
    connect_rpc: Any, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/t.db"
    async with connect_rpc(an_agent(), store=url) as client:
        for _ in range(4):
            await client.send("hello")
    assert "4 tasks" in (await asyncio.to_thread(accord, "db", "stats", "--store", url)).out
    said = (await asyncio.to_thread(accord, "db", "migrate", "--store", url)).out
    assert "the schema is the newest" in said
    database = sqlite3.connect(tmp_path / "t.db")
    with database:
        database.execute("CREATE TABLE waste AS SELECT zeroblob(1000000) AS x")
        database.execute("DROP TABLE waste")
    database.close()
    size, left = (
        int(word.replace(",", ""))
        for word in (await asyncio.to_thread(accord, "db", "vacuum", "--store", url)).out.split()
        if word[0].isdigit()
    )
    assert left < size / 2
    gone = await asyncio.to_thread(
        accord, "db", "stats", "--store", f"sqlite:///{tmp_path}/none.db"
    )
    assert gone.code
    assert "there is no database" in gone.err
