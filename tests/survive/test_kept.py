"""How long things are kept is what the settings say, and nothing keeps the rest from going."""

import asyncio
import contextlib
import math
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Retention
from accord.engine.runs.retention import Upkeep
from accord.store.sqlite.store import SqliteStore
from accord.testing import Clock
from tests.drive import refusal_of, say, state_of, text_of
from tests.survive.skills import talkative
from tests.survive.test_store_faults import BROKEN_ROWS, damage

DAY_S = 24 * 3600


class Kept(Agent):
    """An agent whose upkeep is done when the test says so."""

    def app(self, **options: Any) -> Any:
        self.served = super().app(**options)
        return self.served

    async def tidy(self, **keep: float) -> None:
        await asyncio.sleep(0.002)  # a thing is old when it is older than now
        await Upkeep(self.served._engine.runs, Retention(**keep)).purge()


@pytest.fixture
def agent() -> Kept:
    agent = Kept("Keeper")

    talkative(agent)

    return agent


async def test_a_task_goes_when_its_time_is_over_though_logs_may_be_kept_longer(
    connect_rpc: Any, store: str, agent: Kept
) -> None:
    """A log is nothing without its task: `--keep-days 0.5` is half a day, whatever is said
    of logs.
    """
    async with connect_rpc(agent, store=store) as client:
        task = (await client.send("hello"))["task"]
        await agent.tidy(tasks_s=3600, events_s=DAY_S)
        assert await client.get(task["id"]) == task
        await agent.tidy(tasks_s=0, events_s=DAY_S)
        assert (await refusal_of(client.get(task["id"]))).reason == "TASK_NOT_FOUND"


async def test_a_key_is_kept_as_long_as_the_setting_says(
    connect_rpc: Any, tmp_path: Path, agent: Kept
) -> None:
    """Longer than a day, or shorter, and to the second: also before it has been purged."""
    database, key, request = tmp_path / "tasks.db", {"idempotency-key": "k"}, say("hello")
    store = f"sqlite:///{database}"

    async def send(**keep: float) -> str:
        async with connect_rpc(agent, store=store, retention=Retention(**keep)) as client:
            return str((await client.send(request, headers=key))["task"]["id"])

    first = await send()
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        assert db.execute("UPDATE keys SET at_ms = at_ms - ?", (2 * DAY_S * 1000,)).rowcount == 1
    db.close()
    assert await send(keys_s=7 * DAY_S) == first
    assert await send(keys_s=math.inf) == first
    second = await send()
    assert second != first
    assert await send(keys_s=3600) == second
    await asyncio.sleep(0.002)
    assert await send(keys_s=0) != second


async def test_the_card_says_how_long_a_key_is_kept(connect_rpc: Any, agent: Kept) -> None:
    async with connect_rpc(agent, retention=Retention(keys_s=7 * DAY_S)) as client:
        extensions = (await client.card())["capabilities"]["extensions"]
        [told] = [
            extension["description"]
            for extension in extensions
            if extension["uri"] == "urn:accord:idempotent:1"
        ]
        assert "168 hours" in told


@pytest.mark.parametrize("setting", ["tasks_s", "events_s", "keys_s", "unanswered_s"])
@pytest.mark.parametrize("value", [-1, -0.001, math.nan, -math.inf])
def test_a_time_that_is_none_is_refused_when_it_is_said(setting: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{setting} is .*; give seconds, 0 or more"):
        Retention(**{setting: value})


async def test_nothing_goes_that_is_to_be_kept_for_ever(
    connect_rpc: Any, store: str, agent: Kept
) -> None:
    async with connect_rpc(agent, store=store) as client:
        task = (await client.send("hello"))["task"]
        await agent.tidy(tasks_s=math.inf, events_s=0, keys_s=math.inf, unanswered_s=math.inf)
        assert await client.get(task["id"]) == task


async def test_one_broken_question_keeps_no_other_open(
    connect_rpc: Any,
    tmp_path: Path,
    agent: Kept,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A row nobody can read stays as it is, and is told of once; the others fail when their time is
    over, also those behind more broken ones than are looked at together.
    """
    monkeypatch.setattr("accord.engine.runs.recovery._AT_ONCE", 2)
    monkeypatch.setattr("accord.engine.runs.retention.CHECK_S", 3600)  # it is the test that looks
    database = tmp_path / "tasks.db"
    async with connect_rpc(agent, store=f"sqlite:///{database}") as client:
        asked = [
            (await client.send(say(str(n), metadata={"skill": "talk"})))["task"]["id"]
            for n in range(6)
        ]
    for task_id in asked[:3]:
        damage(database, BROKEN_ROWS["log"], task_id)
    async with connect_rpc(agent, store=f"sqlite:///{database}") as client:
        await client.list()  # it is open
        engine = agent.served._engine
        engine.retention = Retention(unanswered_s=0)
        for _ in asked:
            await engine._upkeep.tend()
        for task_id in asked[3:]:
            task = await client.get(task_id)
            assert (state_of(task), text_of(task["status"]["message"])[:9]) == (
                "failed",
                "no answer",
            )
    told = [record.message for record in caplog.records if "stays as it is" in record.message]
    assert sorted(told) == sorted(
        f"task {task_id} can't be read and stays as it is" for task_id in asked[:3]
    )


async def test_a_purge_is_many_small_commits_with_the_work_of_others_between(
    connect_rpc: Any, tmp_path: Path, agent: Kept
) -> None:
    """However much there is to delete, whoever sends something meanwhile waits for one batch of it
    at most.
    """
    clock = Clock()
    store = SqliteStore(tmp_path / "tasks.db", clock=clock)
    async with connect_rpc(agent, store=store) as client:
        await asyncio.gather(*(client.send(f"{n}") for n in range(1_200)))
        clock.advance(10)
        done, first, go_on = list[str](), threading.Event(), threading.Event()

        def watch(sql: str) -> None:  # in the thread that writes
            done.append(sql.partition(" (")[0].partition(" WHERE")[0])
            if sql.startswith("DELETE FROM tasks") and not first.is_set():
                first.set()
                go_on.wait(20)

        store._db.set_trace_callback(watch)
        purging = asyncio.create_task(agent.tidy(tasks_s=5, events_s=5))
        async with asyncio.timeout(20):
            await asyncio.to_thread(first.wait, 20)
            sending = asyncio.create_task(client.send("meanwhile"))
            while not store._worker.waiting:  # until its commit waits for the writer
                await client.list()
            go_on.set()
            task = (await sending)["task"]
            assert not purging.done(), "all of it was done before the work of another"
            await purging
        store._db.set_trace_callback(None)
        commits = "\n".join(done).split("COMMIT")
        deleted = [commit.count("DELETE FROM tasks") for commit in commits]
        assert (max(deleted), sum(deleted)) == (500, 1_200)
        assert sum("INTO tasks" in commit for commit in commits) == 1
        assert await client.get(task["id"]) == task
