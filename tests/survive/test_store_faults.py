"""V4: a disk that is full, locked, read-only, slow or broken gives clear refusals, no false
acknowledgement, no lasting harm.
"""

import asyncio
import contextlib
import resource
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from accord import Agent, Context
from accord.engine.skills import definition_of
from accord.store.sqlite.store import SqliteStore
from tests.drive import Refused, refusal_of, say, state_of, text_of
from tests.reliability.harness import JSON, RESUME, message, report, size
from tests.survive.host import hosting
from tests.survive.skills import talkative


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell senders after a third of a second instead of ten, and readers after two thirds: what is
    shown is the same, sooner.
    """
    monkeypatch.setattr("accord.engine.log.writer.OUTAGE_S", 0.3)
    monkeypatch.setattr("accord.engine.reading.view.STREAM_OUTAGE_S", 0.6)


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


async def works_again(client: Any) -> None:
    """Return when the server says that its store works."""
    async with asyncio.timeout(20):
        while not await is_ready(client.http, client.url):
            pass


def is_unavailable(refused: Refused) -> bool:
    """503 over HTTP, UNAVAILABLE on gRPC."""
    return refused.reason == "UNAVAILABLE" and refused.status in (
        503,
        grpc.StatusCode.UNAVAILABLE.value[0],
    )


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("impatient")
async def test_what_can_not_be_stored_is_not_told_and_is_stored_when_it_can_be(
    connect: Any, tmp_path: Path, fault: Callable[[SqliteStore], Any]
) -> None:
    """V4: 503 with Retry-After (UNAVAILABLE on gRPC): after a while for the sender who was held, at
    once for whoever comes later. Reads go on and show what is stored. When the fault goes away,
    what was held is done, what was refused at once never was, and everything works again.
    """
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect(an_agent(), store=store) as client:
        asked = (await client.send(say("hi", metadata={"skill": "talk"})))["task"]
        done = (await client.send("before"))["task"]
        with fault(store):
            held = await refusal_of(client.send(say(BIG), headers={"idempotency-key": "held"}))
            assert is_unavailable(held)
            assert "not known yet" in held.message
            for request in (say(BIG), say(BIG, taskId=asked["id"])):
                assert is_unavailable(await refusal_of(client.send(request)))
            assert await client.get(done["id"]) == done
            assert (await client.list())["totalSize"] == 2
        await works_again(client)
        assert (await client.list())["totalSize"] == 3, "it is stored without anybody's doing"
        # Under a key the work begins when the message is stored.
        newest = (await client.list(includeArtifacts=True))["tasks"][0]
        async with asyncio.timeout(20):
            while state_of(newest) != "completed":
                newest = await client.get(newest["id"])
        assert text_of(newest) == BIG
        assert await client.get(asked["id"]) == asked
        assert state_of((await client.send(say("bye", taskId=asked["id"])))["task"]) == "completed"
        assert (await client.list())["totalSize"] == 3


@pytest.mark.usefixtures("impatient")
async def test_a_key_that_was_held_up_stands_for_the_task_that_was_stored_in_the_end(
    connect: Any, tmp_path: Path
) -> None:
    """V4, I1: who was told that nothing is known sends again under the same key, and gets the one
    task.
    """
    store, request, key = SqliteStore(tmp_path / "tasks.db"), say(BIG), {"idempotency-key": "k"}
    async with connect(an_agent(), store=store) as client:
        await client.list()  # it is open
        with full(store):
            assert is_unavailable(await refusal_of(client.send(request, headers=key)))
            assert is_unavailable(await refusal_of(client.send(request, headers=key)))
        await works_again(client)
        task = (await client.send(request, headers=key))["task"]
        assert text_of(task) == BIG
        assert [found["id"] for found in (await client.list())["tasks"]] == [task["id"]]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_that_passes_is_waited_out(
    connect_rpc: Any, tmp_path: Path, fault: Callable[[SqliteStore], Any]
) -> None:
    """V4: a sender is not answered while its message can't be stored, and answered when it can;
    nobody has to repeat anything.
    """
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
async def test_work_is_held_while_it_can_not_be_stored_and_then_goes_on(
    connect_rpc: Any, tmp_path: Path
) -> None:
    """V4, D4: no run is given up because of the disk, plain or durable, at its end or between two
    steps: whoever waits for it is told that nothing is known yet, and when the disk is well again
    it is done, every step once.
    """
    store, agent, gate, steps = (
        SqliteStore(tmp_path / "tasks.db"),
        Agent("Faults"),
        asyncio.Event(),
        list[str](),
    )

    @agent.skill
    async def plain(text: str) -> str:
        await gate.wait()
        return BIG

    @agent.skill(durable=True)
    async def durable(text: str, ctx: Context) -> str:
        async def step(name: str) -> str:
            steps.append(name)
            return BIG

        await gate.wait()
        await ctx.step(step, "first")
        return await ctx.step(step, "second")

    async with connect_rpc(agent, store=store) as client:
        sent = [say("go", metadata={"skill": skill}) for skill in definition_of(agent).skills]
        waiting = [asyncio.create_task(client.send(request)) for request in sent]
        while (await client.list(status="TASK_STATE_WORKING"))["totalSize"] < 2:
            pass
        with full(store):
            gate.set()
            for refused in [await refusal_of(sending) for sending in waiting]:
                assert is_unavailable(refused)
            assert steps == ["first"], "a step is done when the one before it is stored"
            assert (await client.list(status="TASK_STATE_WORKING"))["totalSize"] == 2
        async with asyncio.timeout(20):
            while (await client.list(status="TASK_STATE_WORKING"))["totalSize"]:
                pass
        tasks = (await client.list(includeArtifacts=True))["tasks"]
        assert [(state_of(task), text_of(task)) for task in tasks] == [("completed", BIG)] * 2
        assert steps == ["first", "second"]


@pytest.mark.usefixtures("impatient")
async def test_a_stream_is_told_when_an_outage_lasts_and_can_be_resumed_after_it(
    connect: Any, tmp_path: Path
) -> None:
    """V4, S5: a reader is not left in silence for ever: its stream ends with an error, and resumed
    it has all there is, once.
    """
    store, agent = SqliteStore(tmp_path / "tasks.db"), an_agent()
    async with connect(agent, store=store) as client:
        asked = (await client.send(say("hi", metadata={"skill": "chat"})))["task"]
        stream = await client.subscribe(asked["id"])
        await stream.next()
        with full(store):
            assert is_unavailable(await refusal_of(client.send(say(BIG, taskId=asked["id"]))))
            async with asyncio.timeout(20):
                assert (await refusal_of(stream.rest())).reason == "UNAVAILABLE"
        await works_again(client)
        async with asyncio.timeout(20):
            while (len((task := await client.get(asked["id"]))["history"]), state_of(task)) != (
                3,
                "input-required",
            ):
                pass
        await client.cancel(asked["id"])
        resumed = await (
            await client.subscribe(asked["id"], headers=RESUME | {"last-event-id": "3"})
        ).rest()
        states = [state_of(frame["statusUpdate"]) for frame in resumed]
        assert states == ["working", "input-required", "canceled"]


class Counted(SqliteStore):
    """A store that counts its heartbeats."""

    beats = 0

    async def beat(self) -> None:
        await super().beat()
        self.beats += 1


async def test_that_the_store_works_again_is_said_after_a_commit_that_succeeded(
    connect_rpc: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """V4: on a full disk there is often room for something as small as a heartbeat, which is no
    sign that work can be stored. The log has one line for an outage and one for its end, however
    often it was tried, and the end is true.
    """
    monkeypatch.setattr("accord.engine.runs.retention.CHECK_S", 0.01)
    monkeypatch.setattr("accord.engine.runs.retention.BEAT_S", 0.01)
    store = Counted(tmp_path / "tasks.db")
    async with connect_rpc(an_agent(), store=store) as client:
        for outage in (1, 2):
            await client.send("before")
            with full(store):
                sending = asyncio.create_task(client.send(BIG))
                async with asyncio.timeout(20):
                    while len(lines := told(caplog)) < 2 * outage - 1:
                        await client.list()
                    enough = store.beats + 20
                    while store.beats < enough:
                        await client.list()
                assert told(caplog) == lines, "heartbeats were taken for a store that works"
                assert is_unavailable(await refusal_of(client.send("later")))
            task = (await sending)["task"]
            assert in_file(store, task["id"])
            assert len(told(caplog)) == 2 * outage
    begins = "the store can't be written; trying again: "
    assert [line.startswith(begins) for line in told(caplog)] == [True, False] * 2
    assert all("the store works again; it had failed for" in line for line in told(caplog)[1::2])


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.message.startswith("the store")]


async def test_a_database_that_can_not_be_read_is_said_to_be_unavailable(
    connect: Any, tmp_path: Path
) -> None:
    """V4: no SQL and no stack trace reach the client, only that it may try again."""
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect(an_agent(), store=store) as client:
        task = (await client.send("hello"))["task"]
        was = store._reads.db, store._lister
        empty = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )  # as a file whose tables are gone
        store._reads.db = store._lister = empty
        for call in (client.get(task["id"]), client.list()):
            refused = await refusal_of(call)
            assert is_unavailable(refused)
            assert "no such table" not in refused.message
        store._reads.db, store._lister = was
        empty.close()
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


async def test_a_slow_disk_holds_up_answers_and_nobody_who_reads(
    connect: Any, tmp_path: Path
) -> None:
    """V4: what is answered is stored, however long that takes; what was stored before can be read
    meanwhile.
    """
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
    "end of the snapshot": "UPDATE tasks SET head = substr(head, 1, length(head) - 9) WHERE id = ?",
    "artifacts": "UPDATE tasks SET artifacts = x'' WHERE id = ?",
    "log": "UPDATE events SET data = x'63ff' WHERE task = (SELECT key FROM tasks WHERE id = ?)",
}


@pytest.mark.parametrize("what", BROKEN_ROWS)
async def test_one_broken_row_harms_no_other(connect: Any, tmp_path: Path, what: str) -> None:
    """V4: the broken task is refused when asked for, left out of lists, and everything else works,
    also over a restart.
    """
    database = tmp_path / "tasks.db"
    async with connect(an_agent(), store=f"sqlite:///{database}") as client:
        bad = (await client.send(say("bad", metadata={"skill": "chat"} if what == "log" else {})))[
            "task"
        ]
        if what == "log":  # goes on after its snapshot
            await client.send(say("more", taskId=bad["id"]))
        good = [(await client.send(f"good {n}"))["task"]["id"] for n in range(3)]
    damage(database, BROKEN_ROWS[what], bad["id"])
    async with connect(an_agent(), store=f"sqlite:///{database}") as client:
        assert [task["id"] for task in (await client.list(includeArtifacts=True))["tasks"]] == good[
            ::-1
        ]
        # a list without artifacts reads none
        seen = [*good[::-1], bad["id"]] if what == "artifacts" else good[::-1]
        assert [task["id"] for task in (await client.list())["tasks"]] == seen
        with pytest.raises(Refused):
            await client.get(bad["id"])
        assert state_of((await client.send("still here"))["task"]) == "completed"


BROKEN_BEGINNINGS = {
    "snapshot": BROKEN_ROWS["snapshot"],
    "log": BROKEN_ROWS["log"],
    "about": "UPDATE tasks SET about = x'00' WHERE id = ?",
}


@pytest.mark.parametrize("what", BROKEN_BEGINNINGS)
async def test_a_broken_row_left_working_does_not_keep_the_server_from_starting(
    tmp_path: Path, what: str
) -> None:
    """V4, D4: recovery goes past a task it can't read."""
    async with hosting(tmp_path) as host:
        text = (
            "x" * (1 << 17) if what == "snapshot" else "x"
        )  # a large task has a snapshot before its end
        bad = (await host.client().send(message(text, "hold", returnImmediately=True)))["id"]
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


async def test_a_full_disk_under_a_real_server_acknowledges_nothing_it_can_not_keep(
    tmp_path: Path,
) -> None:
    """V4: the system refuses the server's process more room in any file, and gives it back, again
    and again: every send is stored or refused with 503, and nothing else happens. Sent again
    under its key, whatever was refused is one task too; the log has two lines for each time.
    """
    rounds, kept, refused = size(2, 20), dict[str, str](), list[str]()
    async with hosting(tmp_path, patience_s=0.5) as host, aiohttp.ClientSession() as session:
        for _ in range(rounds):
            limit = (tmp_path / "accord.db-wal").stat().st_size + 200_000
            resource.prlimit(host.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            stored, turned_away = await fill(session, host.url)
            assert turned_away, "the disk was never full"
            resource.prlimit(
                host.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
            async with asyncio.timeout(20):
                while not await is_ready(session, host.url):
                    pass
            kept |= stored | (await fill(session, host.url, 5))[0]
            refused += turned_away
        lines = [line for line in host.log.read_text().splitlines() if "the store" in line]
        assert ["can't be written; trying again: " in line for line in lines] == [
            True,
            False,
        ] * rounds
        assert ["works again" in line for line in lines] == [False, True] * rounds
        await host.kill()
        await host.start()
        for task_id in kept.values():
            assert (await host.client().get(task_id))["status"]["state"] == "TASK_STATE_COMPLETED"
        for key in refused:
            kept[key] = await send_under(session, host.url, key)
        assert await host.client().total() == len(kept) == len(set(kept.values()))
        await host.kill()
        host.check_file()
    report(
        "V4 disk full", rounds=rounds, kept=len(kept) - len(refused), refused=len(refused), false=0
    )


async def is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    async with session.get(url + "/readyz") as answer:
        return answer.status == 200


async def fill(
    session: aiohttp.ClientSession, url: str, most: int = 200
) -> tuple[dict[str, str], list[str]]:
    """Send until three are refused, or `most` are stored; return the keys with the ids of their
    tasks, and those refused.
    """
    stored, refused = dict[str, str](), list[str]()
    while len(refused) < 3 and len(stored) < most:
        key = uuid.uuid4().hex
        if task_id := await send_under(session, url, key):
            stored[key] = task_id
        else:
            refused.append(key)
    return stored, refused


async def send_under(session: aiohttp.ClientSession, url: str, key: str) -> str:
    """Send a large message under a key; return the id of its task, nothing if it is refused."""
    headers = JSON | {"idempotency-key": key}
    async with session.post(
        url + "/message:send", json=message(BIG, "echo"), headers=headers
    ) as answer:
        if answer.status == 200:
            return str((await answer.json())["task"]["id"])
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        return ""
