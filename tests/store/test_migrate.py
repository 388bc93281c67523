"""Databases of earlier schemas: what they hold is all there; what had not ended says that it must
be sent again.
"""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest

from accord.model import Message, Role, Task, TaskState
from accord.model.task import Artifact
from accord.store.contract import Namespace, Record
from accord.store.sqlite.migrations.failed import STEP, TEXT, add_functions
from accord.store.sqlite.migrations.runner import migrate, scripts
from accord.store.sqlite.store import SqliteStore

FIXTURES = Path(__file__).parent.parent / "fixtures"
HISTORY, FIRST = FIXTURES / "history-0002.db", FIXTURES / "schema-0001.db"
# the key of a task that waits: words, chunks, steps, two questions and an answer are in its log
ROME = 1
NOBODY = Namespace("agent", "", "")


def task_of(record: Record) -> Task:
    task = msgspec.json.decode(record.head, type=Task)
    task.artifacts = msgspec.json.decode(record.artifacts, type=list[Artifact])
    return task


async def opened(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    await store.open(lambda tasks: None)
    await store.adopt("agent")
    return store


def ids(path: Path) -> dict[int, str]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT key, id FROM tasks").fetchall())


def at_schema(path: Path, number: int) -> None:
    """Bring a file to an earlier schema than the newest."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        ((have,),) = db.execute("PRAGMA user_version")
        for n, script in scripts():
            if have < n <= number:
                db.executescript(f"BEGIN;\n{script}\nPRAGMA user_version = {n};\nCOMMIT;")


async def test_ended_tasks_read_as_before(tmp_path: Path) -> None:
    """Their snapshot says it all; the log they had is gone, as if it had been purged."""
    path = tmp_path / "tasks.db"
    shutil.copy(FIRST, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        key, id_, head, artifacts, seq = db.execute(
            "SELECT key, id, head, artifacts, seq FROM tasks WHERE state=3"
        ).fetchone()
    store = await opened(path)
    record = await store.load(NOBODY, id_)
    assert record is not None
    assert (record.key, record.head, record.artifacts, record.seq) == (key, head, artifacts, seq)
    assert (record.skill, record.about, record.owner, record.is_stale) == (
        "echo",
        b'{"origin":"1.0"}',
        0,
        False,
    )
    assert await store.read({key: 0}) == []
    await store.close()


async def test_idempotency_keys_are_kept(tmp_path: Path) -> None:
    """A request that is repeated over the update finds its task."""
    path = tmp_path / "tasks.db"
    shutil.copy(FIRST, path)
    store = await opened(path)
    kept = await store.idempotency(NOBODY, "fixture-key", 0)
    assert kept is not None
    assert (await store.load(NOBODY, kept.task_id)) is not None
    assert (kept.turn, kept.post) == (1, 0)
    await store.close()


@pytest.mark.parametrize("fixture", [HISTORY, FIRST])
async def test_what_had_not_ended_has_failed(tmp_path: Path, fixture: Path) -> None:
    """With a status that says why, and all that was said and made so far; nothing is left to be
    taken up.
    """
    path = tmp_path / "tasks.db"
    shutil.copy(fixture, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        was = dict(db.execute("SELECT id, seq FROM tasks WHERE state IN (1, 2, 6, 8)").fetchall())
    assert was
    store = await opened(path)
    for id_, seq in was.items():
        record = await store.load(NOBODY, id_)
        assert record is not None
        task = task_of(record)
        assert (record.state, task.state) == (4, TaskState.FAILED)
        assert task.status.message is not None
        assert (task.status.message.role, task.status.message.text) == (Role.AGENT, TEXT)
        assert task.status.timestamp.endswith("Z")
        assert task.history[0].role == Role.USER
        assert (record.seq, record.pos) == (seq + 1, record.snap)
    stats = await store.stats()
    assert stats.events == 0
    assert sum(stats.tasks.values()) == len(ids(path))
    await store.close()


@pytest.mark.parametrize("count", [1, 3, 8, 17])
async def test_a_snapshot_is_brought_up_to_date_whenever_it_was_made(
    tmp_path: Path, count: int
) -> None:
    """Events and messages after it are in the log alone: none is lost, none comes twice."""
    path = tmp_path / "tasks.db"
    shutil.copy(HISTORY, path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        rows = db.execute("SELECT data FROM events WHERE id >> 24 = ? ORDER BY id", (ROME,))
        lines = [line for (data,) in rows for line in data.split(b"\n")]
        task = folded(lines[:count])
        made, task.artifacts = task.artifacts, []
        snapshot = (count, msgspec.json.encode(task), msgspec.json.encode(made), ROME)
        db.execute("UPDATE tasks SET snap_pos=?, head=?, artifacts=? WHERE key=?", snapshot)
    whole = folded(lines)
    store = await opened(path)
    record = await store.load(NOBODY, whole.id)
    assert record is not None
    task = task_of(record)
    assert whole.status.message is not None
    assert task.history == [*whole.history, whole.status.message]
    assert task.artifacts == whole.artifacts
    await store.close()


def folded(lines: list[bytes]) -> Task:
    """The task these lines make, by the rules they were written under."""
    from accord.model import StreamResponse

    task = msgspec.json.decode(lines[0][1:], type=StreamResponse).task
    assert task is not None
    for line in lines[1:]:
        if line.startswith(b"v"):
            event = msgspec.json.decode(line[1:], type=StreamResponse).event
            assert not isinstance(event, Message)
            task.apply(event)
        elif line.startswith(b"m"):
            task.add(msgspec.json.decode(line[1:], type=Message))
    return task


async def test_a_task_that_was_only_begun_has_failed_too(tmp_path: Path) -> None:
    """In schema 6 it had no row but in `begun`; its lines are written short, and a file of it
    stands beside them.
    """
    path = tmp_path / "tasks.db"
    at_schema(path, 6)
    file = b"A" * 40_000
    made = b'{"task":{"id":"t","status":{"state":"TASK_STATE_SUBMITTED"},"contextId":"c","history":[%b]}}'  # noqa: E501
    said = b'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"\0001\0"}]}'
    chunk = b'a,"artifact":{"artifactId":"x","parts":[{"text":"made"}]}}}'
    lines = [made % said, b't["m",0]', b'w,"status":{"state":"TASK_STATE_WORKING"}}}', chunk]
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO scopes VALUES (1, '', 'me')")
        db.execute("INSERT INTO owners (owner, beat_ms) VALUES (41, 5)")
        db.execute("INSERT INTO begun VALUES (1, 't', 7, 41, 'c', 2, 1000, 3, 3, x'7b7d')")
        db.execute("INSERT INTO events VALUES (?,?)", (7 << 24 | 1, b"\n".join(lines)))
        db.execute("INSERT INTO pieces VALUES (?,?)", (7 << 24 | 1, file))
    store = await opened(path)
    record = await store.load(Namespace("agent", "", "me"), "t")
    assert record is not None
    task = task_of(record)
    assert (task.state, task.history[0].text, task.artifacts[0].text) == (
        TaskState.FAILED,
        file.decode(),
        "made",
    )
    assert store.replica > 41, "numbers of processes go on"
    assert (await store.stats()).tasks == {4: 1}
    await store.close()


async def test_a_task_that_can_not_be_read_keeps_no_other_from_being_read(tmp_path: Path) -> None:
    """It was broken before; the rest of the file is not."""
    path = tmp_path / "tasks.db"
    shutil.copy(FIRST, path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE tasks SET snap_pos=-1 WHERE key=2")
        db.execute("UPDATE events SET data=x'76ff', id=id WHERE id >> 24 = 2")
        db.execute("UPDATE tasks SET about=x'00' WHERE key=3")
    store = await opened(path)
    assert (await store.stats()).tasks == {3: 1, 4: 3}
    await store.close()


async def test_an_agent_adopts_what_has_no_agents_name(tmp_path: Path) -> None:
    """A file was one agent's until then: whoever opens it first has its tasks, a second one does
    not.
    """
    path = tmp_path / "tasks.db"
    shutil.copy(FIRST, path)
    id_ = ids(path)[1]
    store = await opened(path)
    await store.adopt("another")
    assert await store.load(NOBODY, id_) is not None
    assert await store.load(Namespace("another", "", ""), id_) is None
    await store.close()
    store = await opened(path)
    assert await store.load(NOBODY, id_) is not None
    await store.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction: the older release can still use the file."""
    path = tmp_path / "tasks.db"
    shutil.copy(FIRST, path)
    before = ids(path)
    monkeypatch.setattr("accord.store.sqlite.migrations.failed._fail", lambda task, at_ms: 1 // 0)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        with pytest.raises(ZeroDivisionError):
            migrate(db)
        assert db.execute("PRAGMA user_version").fetchone() == (STEP - 1,)
        assert db.execute("SELECT count(*) FROM scopes").fetchone() == (1,)
    assert ids(path) == before


def test_large_values_and_posts_are_kept(tmp_path: Path) -> None:
    """They move to tables of another kind, with their numbers."""
    path = tmp_path / "tasks.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        add_functions(db)
        for n, script in scripts():
            if n < 9:
                db.executescript(script)
        db.execute("PRAGMA user_version = 8")
        db.execute("INSERT INTO pieces VALUES (7, 1, x'00'), (7, 2, x'01')")
        db.execute("INSERT INTO posts VALUES (7, 1, 70, 2, x'02')")
        migrate(db)
        assert db.execute("SELECT * FROM pieces").fetchall() == [(7, 1, b"\0"), (7, 2, b"\1")]
        assert db.execute("SELECT * FROM posts").fetchall() == [(7, 1, 70, 2, b"\2")]


def test_each_step_has_a_number_of_its_own() -> None:
    """Two of one number: a file that has had the one would never get the other."""
    numbers = [number for number, _ in scripts()]
    assert numbers == list(range(1, len(numbers) + 1))
