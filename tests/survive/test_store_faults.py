"""V4: a disk that is full, locked, read-only, slow or broken gives clear refusals, no false acknowledgement, no lasting harm."""

import asyncio
import contextlib
import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from accord import Agent, Context
from accord.store.sqlite import SqliteStore
from tests.drive import Refused, refusal_of, say, state_of, text_of
from tests.reliability.harness import JSON, message, report, size
from tests.survive.host import hosting
from tests.survive.skills import talkative


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on a commit after half a second instead of ten: what is shown is the same, sooner."""
    monkeypatch.setattr("accord.engine.log.log.GIVE_UP_S", 0.5)


def an_agent() -> Agent:
    agent = Agent("Faults")

    talkative(agent)

    @agent.skill
    async def chat(text: str, ctx: Context) -> None:
        while await ctx.ask("and then?"):
            pass

    return agent


@contextlib.contextmanager
def full(store: SqliteStore) -> Iterator[None]:
    """Not one page more fits."""
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        store._db.execute("PRAGMA max_page_count = 1000000")


@contextlib.contextmanager
def read_only(store: SqliteStore) -> Iterator[None]:
    store._db.execute("PRAGMA query_only = ON")
    try:
        yield
    finally:
        store._db.execute("PRAGMA query_only = OFF")


@contextlib.contextmanager
def locked(store: SqliteStore) -> Iterator[None]:
    """Someone else, a backup for example, holds the database."""
    store._db.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


FAULTS = [full, read_only, locked]
BIG = "x" * 20_000  # more than a page


def is_unavailable(refused: Refused) -> bool:
    """503 over HTTP, UNAVAILABLE on gRPC."""
    return refused.reason == "UNAVAILABLE" and refused.status in (503, grpc.StatusCode.UNAVAILABLE.value[0])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("impatient")
async def test_what_can_not_be_stored_is_refused_and_nothing_of_it_is_kept(
    connect: Any, tmp_path: Path, fault: Callable[[SqliteStore], Any]
) -> None:
    """V4: 503 with Retry-After (UNAVAILABLE on gRPC) for new work and for answers; reads go on; the task is as last told; when
    the fault goes away everything works again."""
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect(an_agent(), store=store) as client:
        asked = (await client.send(say("hi", metadata={"skill": "talk"})))["task"]
        done = (await client.send("before"))["task"]
        with fault(store):
            for request in (say(BIG), say(BIG, taskId=asked["id"])):
                refused = await refusal_of(client.send(request))
                assert is_unavailable(refused)
            assert await client.get(done["id"]) == done
            assert (await client.list())["totalSize"] == 2
        assert state_of(await client.get(asked["id"])) == "input-required"
        assert (await client.list())["totalSize"] == 2
        after = (await client.send(say(BIG)))["task"]
        assert text_of(after) == BIG
        assert state_of((await client.send(say("bye", taskId=asked["id"])))["task"]) == "completed"


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_that_passes_is_waited_out(connect_rpc: Any, tmp_path: Path, fault: Callable[[SqliteStore], Any]) -> None:
    """V4: a sender is not answered while its message can't be stored, and answered when it can; nobody has to repeat anything."""
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect_rpc(an_agent(), store=store) as client:
        await client.send("before")
        with fault(store):
            sending = asyncio.create_task(client.send(BIG))
            for _ in range(3):
                assert (await client.list())["totalSize"] == 1
                await asyncio.wait({sending}, timeout=0.1)
            assert not sending.done(), "acknowledged, and not stored"
        assert text_of((await sending)["task"]) == BIG
        assert (await client.list())["totalSize"] == 2


@pytest.mark.usefixtures("impatient")
async def test_work_whose_end_could_not_be_stored_is_not_left_working(connect_rpc: Any, tmp_path: Path) -> None:
    """V4, D4: a run given up because of the disk is stored as working, with nobody at it: when the disk is well again it is failed,
    or if it is durable done."""
    store, agent, gate = SqliteStore(tmp_path / "tasks.db"), Agent("Faults"), asyncio.Event()

    @agent.skill
    async def plain(text: str) -> str:
        await gate.wait()
        return BIG

    @agent.skill(durable=True)
    async def durable(text: str) -> str:
        await gate.wait()
        return BIG

    async with connect_rpc(agent, store=store) as client:
        sent = [say("go", metadata={"skill": skill}) for skill in agent.skills]
        waiting = [asyncio.create_task(client.send(request)) for request in sent]
        while (await client.list(status="TASK_STATE_WORKING"))["totalSize"] < 2:
            pass
        with full(store):
            gate.set()
            for refused in [await refusal_of(sending) for sending in waiting]:
                assert is_unavailable(refused)
        async with asyncio.timeout(20):
            while (await client.list(status="TASK_STATE_WORKING"))["totalSize"]:
                pass
        ends = {state_of(task): task for task in (await client.list(includeArtifacts=True))["tasks"]}
        assert text_of(ends["completed"]) == BIG
        assert text_of(ends["failed"]["status"]["message"]).startswith("interrupted: what the agent did could not be stored")


async def test_a_database_that_can_not_be_read_is_said_to_be_unavailable(connect: Any, tmp_path: Path) -> None:
    """V4: no SQL and no stack trace reach the client, only that it may try again."""
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect(an_agent(), store=store) as client:
        task = (await client.send("hello"))["task"]
        reader, store._reader = store._reader, sqlite3.connect(":memory:")  # a file whose tables are gone
        for call in (client.get(task["id"]), client.list()):
            refused = await refusal_of(call)
            assert is_unavailable(refused)
            assert "no such table" not in refused.message
        store._reader.close()
        store._reader = reader
        assert await client.get(task["id"]) == task


@contextlib.contextmanager
def slow(store: SqliteStore) -> Iterator[threading.Event]:
    """A commit takes until the event is set."""
    go_on = threading.Event()
    store._db.set_trace_callback(lambda sql: sql == "COMMIT" and go_on.wait(30))
    try:
        yield go_on
    finally:
        go_on.set()
        store._db.set_trace_callback(None)


async def test_a_slow_disk_holds_up_answers_and_nobody_who_reads(connect: Any, tmp_path: Path) -> None:
    """V4: what is answered is stored, however long that takes; what was stored before can be read meanwhile."""
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect(an_agent(), store=store) as client:
        done = (await client.send("before"))["task"]
        with slow(store) as go_on:
            sending = [asyncio.create_task(client.send(f"{n}")) for n in range(20)]
            for _ in range(20):
                assert await client.get(done["id"]) == done
                assert (await client.list())["totalSize"] == 1
            assert not any(task.done() for task in sending), "acknowledged, and not stored"
            go_on.set()
            for task in asyncio.as_completed(sending):
                assert in_file(store, (await task)["task"]["id"]), "acknowledged, and not stored"
        assert (await client.list())["totalSize"] == 21


def in_file(store: SqliteStore, task_id: str) -> bool:
    with contextlib.closing(sqlite3.connect(store.path)) as db:
        return db.execute("SELECT 1 FROM tasks WHERE id = ?", (task_id,)).fetchone() is not None


BROKEN_ROWS = {
    "snapshot": "UPDATE tasks SET head = x'00ff00' WHERE id = ?",
    "artifacts": "UPDATE tasks SET artifacts = x'' WHERE id = ?",
    "log": "UPDATE events SET data = x'76ff' WHERE id >> 24 = (SELECT key FROM tasks WHERE id = ?)",
}


@pytest.mark.parametrize("what", BROKEN_ROWS)
async def test_one_broken_row_harms_no_other(connect: Any, tmp_path: Path, what: str) -> None:
    """V4: the broken task is refused when asked for, left out of lists, and everything else works, also over a restart."""
    database = tmp_path / "tasks.db"
    async with connect(an_agent(), store=f"sqlite:///{database}") as client:
        bad = (await client.send(say("bad", metadata={"skill": "chat"} if what == "log" else {})))["task"]
        if what == "log":  # goes on after its snapshot
            await client.send(say("more", taskId=bad["id"]))
        good = [(await client.send(f"good {n}"))["task"]["id"] for n in range(3)]
    damage(database, BROKEN_ROWS[what], bad["id"])
    async with connect(an_agent(), store=f"sqlite:///{database}") as client:
        assert [task["id"] for task in (await client.list(includeArtifacts=True))["tasks"]] == good[::-1]
        with pytest.raises(Refused):
            await client.get(bad["id"])
        assert state_of((await client.send("still here"))["task"]) == "completed"


BROKEN_BEGINNINGS = {
    "snapshot": BROKEN_ROWS["snapshot"],
    "log": "UPDATE events SET data = x'76ff' WHERE id >> 24 = (SELECT key FROM begun WHERE id = ?)",
    "about": "UPDATE begun SET about = x'00' WHERE id = ?",
}


@pytest.mark.parametrize("what", BROKEN_BEGINNINGS)
async def test_a_broken_row_left_working_does_not_keep_the_server_from_starting(tmp_path: Path, what: str) -> None:
    """V4, D4: recovery goes past a task it can't read."""
    async with hosting(tmp_path) as host:
        bad = (await host.client().send(message("x", "hold", returnImmediately=True)))["id"]
        if what == "snapshot":  # it has one when there is more of it
            more = message("more", "hold", returnImmediately=True)
            more["message"]["taskId"] = bad
            await host.client().send(more)
        other = (await host.client().send(message("y", "hold", returnImmediately=True)))["id"]
        await host.kill()
        damage(host.database, BROKEN_BEGINNINGS[what], bad)
        await host.start()
        assert (await host.client().get(other))["status"]["state"] == "TASK_STATE_FAILED"
        host.log.write_text("")  # the fault was ours, and is in the log


def damage(database: Path, sql: str, task_id: str) -> None:
    db = sqlite3.connect(database)
    with db:
        assert db.execute(sql, (task_id,)).rowcount
    db.close()


async def test_a_full_disk_under_a_real_server_acknowledges_nothing_it_can_not_keep(tmp_path: Path) -> None:
    """V4: the system refuses the server's process more room in any file, and gives it back, again and again: every send is stored
    or refused with 503, and nothing else happens."""
    rounds, kept, refused = size(2, 20), list[str](), 0
    async with hosting(tmp_path, give_up_s=0.5) as host, aiohttp.ClientSession() as session:
        for _ in range(rounds):
            limit = (tmp_path / "accord.db-wal").stat().st_size + 200_000
            resource.prlimit(host.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            stored, turned_away = await fill(session, host.url)
            assert turned_away, "the disk was never full"
            resource.prlimit(host.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            kept += stored + (await fill(session, host.url, 5))[0]
            refused += turned_away
        await host.kill()
        await host.start()
        for task_id in kept:
            assert (await host.client().get(task_id))["status"]["state"] == "TASK_STATE_COMPLETED"
        assert await host.client().total() == len(kept)
        await host.kill()
        host.check_file()
    report("V4 disk full", rounds=rounds, kept=len(kept), refused=refused, false=0)


async def fill(session: aiohttp.ClientSession, url: str, most: int = 200) -> tuple[list[str], int]:
    """Send until three are refused, or `most` are stored; return the ids, and how many were refused."""
    stored, refused = list[str](), 0
    while refused < 3 and len(stored) < most:
        async with session.post(url + "/message:send", json=message(BIG, "echo"), headers=JSON) as answer:
            if answer.status == 200:
                stored.append((await answer.json())["task"]["id"])
            else:
                assert answer.status == 503
                assert int(answer.headers["retry-after"]) >= 1
                refused += 1
    return stored, refused
