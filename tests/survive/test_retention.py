"""Old things go: finished tasks, their logs and idempotency keys, in small batches, and `accord db` looks after the file."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Agent
from accord.engine.runs.engine import Engine
from accord.engine.runs.upkeep import Retention, Upkeep
from accord.model import Limits
from accord.store import open_store
from tests.drive import refusal_of, say, state_of, text_of
from tests.reliability.harness import RESUME
from tests.survive.skills import talkative

FIXTURES = Path(__file__).parent.parent / "fixtures"


def an_agent() -> Agent:
    agent = Agent("Keeper")

    talkative(agent)

    return agent


class Kept:
    """An app whose upkeep is done when the test says so."""

    def __init__(self, app: Any) -> None:
        self._engine: Engine = app._engine

    async def tidy(self, **keep: float) -> None:
        await Upkeep(self._engine.feed, Retention(**keep)).purge()


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


async def test_logs_go_before_tasks_and_a_resumed_stream_says_so(connect_rpc: Any, store: str, apps: list[Any]) -> None:
    """After its log is folded into the snapshot a task reads as before; a cursor into what is gone gets the Task (rule 2)."""
    async with connect_rpc(an_agent(), store=store) as client:
        task = (await client.send("hello"))["task"]
        await asyncio.sleep(0.002)  # a task is old when it is older than now
        await Kept(apps[0]).tidy(events_s=0)
        assert await client.get(task["id"]) == task
        frames = await (await client.subscribe(task["id"], headers=RESUME | {"last-event-id": "1"})).rest()
        assert [next(iter(frame)) for frame in frames] == ["task"]
        await Kept(apps[0]).tidy(events_s=0, tasks_s=0)
        assert (await refusal_of(client.get(task["id"]))).reason == "TASK_NOT_FOUND"
        assert (await client.list())["totalSize"] == 0


async def test_open_tasks_stay_until_nobody_answers_for_too_long(connect_rpc: Any, store: str, apps: list[Any]) -> None:
    """Retention of finished tasks never touches an open one; a question nobody answers fails in the end (rule 18)."""
    async with connect_rpc(an_agent(), store=store) as client:
        task = (await client.send(say("hi", metadata={"skill": "talk"})))["task"]
        await asyncio.sleep(0.002)
        await Kept(apps[0]).tidy(tasks_s=0, events_s=0, keys_s=0)
        assert state_of(await client.get(task["id"])) == "input-required"
        await Kept(apps[0]).tidy(unanswered_s=0)
        task = await client.get(task["id"])
        assert (state_of(task), text_of(task["status"]["message"])[:9]) == ("failed", "no answer")


async def test_a_key_that_is_gone_stands_for_nothing(connect_rpc: Any, store: str, apps: list[Any]) -> None:
    """After its time the same key makes a new task."""
    key = {"idempotency-key": "k"}
    async with connect_rpc(an_agent(), store=store) as client:
        request = say("hello")
        first = (await client.send(request, headers=key))["task"]["id"]
        assert (await client.send(request, headers=key))["task"]["id"] == first
        await asyncio.sleep(0.002)
        await Kept(apps[0]).tidy(keys_s=0)
        assert (await client.send(request, headers=key))["task"]["id"] != first


async def test_a_broken_upkeep_goes_on(connect_rpc: Any, lasting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One failure of upkeep is not the end of heartbeats: the next look-around comes."""
    store, beats = open_store(lasting), asyncio.Event()
    calls = 0

    async def beat() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ZeroDivisionError
        beats.set()

    monkeypatch.setattr("accord.engine.runs.upkeep.BEAT_S", 0)
    monkeypatch.setattr(store, "beat", beat)
    engine = Engine(an_agent(), store, Limits())
    await engine.open()
    try:
        await asyncio.wait_for(beats.wait(), timeout=10)
    finally:
        await engine.close()


def accord(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "accord", "db", *args], capture_output=True, text=True, timeout=60)


def test_db_commands_say_how_much_there_is_make_room_and_migrate(tmp_path: Path) -> None:
    """`accord db stats | vacuum | migrate` on a database of the first schema."""
    shutil.copy(FIXTURES / "schema-0001.db", tmp_path / "t.db")
    url = f"sqlite:///{tmp_path}/t.db"
    assert "newest" in accord("migrate", "--store", url).stdout
    said = accord("stats", "--store", url).stdout
    assert "4 tasks" in said
    assert "input-required" in said
    database = sqlite3.connect(tmp_path / "t.db")
    with database:
        database.execute("CREATE TABLE waste AS SELECT zeroblob(1000000) AS x")
        database.execute("DROP TABLE waste")
    database.close()
    before, after = (int(word.replace(",", "")) for word in accord("vacuum", "--store", url).stdout.split() if word[0].isdigit())
    assert after < before / 2
    gone = accord("stats", "--store", f"sqlite:///{tmp_path}/none.db")
    assert gone.returncode
    assert "there is no database" in gone.stderr
