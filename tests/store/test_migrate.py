"""Databases of earlier schemas: what they hold is all there, and goes on."""

import asyncio
import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from accord.codec import v1
from accord.engine.log.stored import task_of
from accord.model import Limits, Task
from accord.store import Record, Scope, open_store
from accord.store.sqlite import SqliteStore
from tests.drive import say, state_of, text_of
from tests.survive.history import make

HISTORY = Path(__file__).parent.parent / "fixtures" / "history-0002.db"
ROME = 1  # the key of the task that waits: words, chunks, steps, two questions and an answer are in its log
NOBODY = Scope("", "")


def lines_of(db: sqlite3.Connection, key: int) -> list[bytes]:
    rows = db.execute("SELECT data FROM events WHERE id >> 24 = ? ORDER BY id", (key,))
    return [line for (data,) in rows for line in data.split(b"\n")]


def folded(lines: list[bytes]) -> Task:
    """The task these lines of its log make, the first of which is the task itself."""
    head = lines[0].removeprefix(b'v{"task":')[:-1]
    return task_of(Record(ROME, NOBODY, "", "", 0, 0, 0, 0, 0, b"", head, b"[]", lines[1:]), Limits())


def snapshot_at(path: Path, count: int) -> Task:
    """Have the task's snapshot be as of its first `count` lines, private ones too: so schema 2 counted. Return all of it."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        lines = lines_of(db, ROME)
        task = folded(lines[:count])
        artifacts, task.artifacts = v1.encode(task.artifacts), []
        db.execute("UPDATE tasks SET snap_pos=?, head=?, artifacts=? WHERE key=?", (count, v1.encode(task), artifacts, ROME))
        return folded(lines)


@pytest.mark.parametrize("count", range(1, 18))
async def test_an_open_task_of_schema_2_reads_back_whenever_its_snapshot_was_made(tmp_path: Path, count: int) -> None:
    """D9: events, messages and private lines may follow a snapshot; the task is the fold of the first two, each once."""
    path = tmp_path / "tasks.db"
    shutil.copy(HISTORY, path)
    whole = snapshot_at(path, count)
    store = open_store(f"sqlite:///{path}")
    await store.open()
    assert isinstance(store, SqliteStore)
    (scope,) = store._scopes
    record = await store.load(scope, whole.id)
    await store.close()
    assert record is not None
    assert task_of(record, Limits()) == whole


async def test_an_open_task_of_schema_2_takes_its_answer_and_lives_on(connect_rpc, tmp_path):
    """Its next lines and snapshots are counted as this schema counts, on top of what was counted otherwise."""
    path = tmp_path / "tasks.db"
    shutil.copy(HISTORY, path)
    whole = snapshot_at(path, 11)
    gate, at_gate = asyncio.Event(), asyncio.Event()
    agent = make(lambda what: f"did {what}", gate, at_gate)
    async with connect_rpc(agent, store=f"sqlite:///{path}") as client:
        await client.send(say("5", taskId=whole.id, configuration={"returnImmediately": True}))
        await asyncio.wait_for(at_gate.wait(), timeout=10)
        before = await client.get(whole.id)
    assert [text_of(m) for m in before["history"]][-2:] == [whole.status.message.text, "5"]
    gate.set()
    async with connect_rpc(agent, store=f"sqlite:///{path}") as client:
        async with asyncio.timeout(10):
            while state_of(after := await client.get(whole.id)) == "working":  # noqa: ASYNC110  as a client without a stream
                await asyncio.sleep(0.01)
    async with connect_rpc(agent, store=f"sqlite:///{path}") as client:
        assert await client.get(whole.id) == after
    assert after["history"] == before["history"]
    assert [text_of(a) for a in after["artifacts"]] == [
        "did Rome 1\nValueError: no luck\ndid Rome 2, 5 days\ndid Rome 3\n",
        "a map",
    ]


async def test_a_task_of_schema_2_begun_anew_after_its_log_went_reads_back(tmp_path: Path) -> None:
    """Its log does not begin with the task: the snapshot is the end it had, and all of the log came after."""
    path = tmp_path / "tasks.db"
    shutil.copy(HISTORY, path)
    whole = snapshot_at(path, 3)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE tasks SET folded=1 WHERE key=?", (ROME,))
        db.execute("DELETE FROM events WHERE id=?", (ROME << 24 | 1,))  # the first three lines
    store = open_store(f"sqlite:///{path}")
    await store.open()
    assert isinstance(store, SqliteStore)
    (scope,) = store._scopes
    record = await store.load(scope, whole.id)
    waiting = [task.id for task in await store.waiting(1 << 60, 10)]
    await store.close()
    assert record is not None
    assert task_of(record, Limits()) == whole
    assert whole.id in waiting
