"""The file of the SQLite store: over restarts, in use by another, full, gone."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.model import Unavailable
from accord.store.contract import Append, CommitFailed, Leaves, Namespace, Query
from accord.store.open import open_store
from accord.store.sqlite.store import SqliteStore
from tests.processes import run

from .conftest import COMPLETED, INPUT_REQUIRED, ME, Box, key


def in_file(path: Path, sql: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


async def test_everything_is_there_after_a_restart(file_box: Box) -> None:
    first = file_box.create(state=INPUT_REQUIRED, leaves=Leaves.IDLE)
    await file_box.commit(first, key("k", reply=b"r"))
    before = file_box.store.replica
    await file_box.restart()
    record = await file_box.store.load(ME, "t1")
    assert (record.state, [row.data for row in record.rows]) == (INPUT_REQUIRED, [b"c{}"])
    assert (await file_box.store.idempotency(ME, "k")).reply == b"r"
    assert file_box.store.replica > before


async def test_numbers_of_processes_are_not_used_again(file_box: Box) -> None:
    """Keys are made of them; and dead ones that left nothing are forgotten."""
    seen = [file_box.store.replica]
    for _ in range(5):
        await file_box.restart()
        seen.append(file_box.store.replica)
    assert seen == sorted(set(seen))
    assert in_file(file_box.path, "SELECT count(*) FROM replicas") == [(1,)]


async def test_a_second_process_is_refused_by_name(file_box: Box) -> None:
    """One writer per file: the second is told who has it and what to do."""
    code = (
        "import asyncio; from accord.store import open_store\n"
        f"store = open_store('sqlite:///{file_box.path}')\n"
        "try: asyncio.run(store.open(print))\n"
        "except RuntimeError as error: print(error)"
    )
    done = await run(sys.executable, "-c", code)
    assert f"is in use by process {os.getpid()}" in done.out
    assert "--store" in done.out


def test_a_database_of_a_newer_accord_is_refused(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "tasks.db", isolation_level=None)) as db:
        db.execute("CREATE TABLE migrations (part, version, needs)")
        db.execute("INSERT INTO migrations VALUES ('tasks', 9999, 9999)")
    with pytest.raises(RuntimeError, match="newer release of Accord"):
        asyncio.run(open_store(f"sqlite:///{tmp_path}/tasks.db").open(lambda tasks: None))


async def test_a_dead_process_is_refused_again_and_again(file_box: Box) -> None:
    """Twenty processes after each other, each taken for dead and coming back."""
    for n in range(20):
        await file_box.commit(file_box.create(f"mine-{n}"))
        dead = await file_box.crash()
        with pytest.raises(CommitFailed):
            await dead.commit([file_box.create(f"late-{n}")])
        assert await file_box.store.load(ME, f"late-{n}") is None


# Faults


async def test_a_failed_commit_stores_nothing(file_box: Box) -> None:
    """All of the batch may be given again; counters don't move meanwhile, and the next commit is
    fine.
    """
    store = file_box.store
    items: list[Any] = [file_box.create("t1"), file_box.create("t2"), key("k")]
    store._db.execute("PRAGMA query_only = ON")
    with pytest.raises(CommitFailed, match="readonly"):
        await store.commit(items)
    store._db.execute("PRAGMA query_only = OFF")
    assert (await store.page(Query(namespace=ME, limit=9))).total == 0
    assert await store.commit(items) == [True] * 3


async def test_an_item_that_can_not_be_written_is_refused_alone(file_box: Box) -> None:
    """Text no database takes: tried again for ever, it would keep everything else from being
    stored.
    """
    assert await file_box.commit(file_box.create("fine"), file_box.create("\ud800")) == [
        True,
        False,
    ]
    assert await file_box.ids() == ["fine"]


async def test_a_database_somebody_else_holds_is_said_so(file_box: Box) -> None:
    file_box.store._db.execute("PRAGMA busy_timeout = 20")
    with contextlib.closing(sqlite3.connect(file_box.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CommitFailed, match="another program has locked"):
            await file_box.commit(file_box.create())
        other.execute("ROLLBACK")
    assert await file_box.commit(file_box.create()) == [True]


async def test_a_read_that_fails_says_to_try_again(file_box: Box) -> None:
    """No SQL reaches a client."""
    store = file_box.store
    await file_box.commit(file_box.create())
    readers = store._reads.db, store._lister
    store._reads.db = store._lister = sqlite3.connect(
        ":memory:", check_same_thread=False, isolation_level=None
    )
    for read in (
        store.load(ME, "t1"),
        store.page(Query(namespace=ME, limit=9)),
        store.read({1: 0}),
        store.idempotency(ME, "k"),
    ):
        with pytest.raises(Unavailable, match="try again later"):
            await read
    store._reads.db.close()
    store._reads.db, store._lister = readers
    assert await store.load(ME, "t1") is not None


@pytest.mark.parametrize("suffix", ["", "-wal"])
async def test_a_file_that_is_taken_away_is_noticed(file_box: Box, suffix: str) -> None:
    """SQLite would go on writing to a file without a name: nothing is acknowledged until it is
    back.
    """
    path = file_box.path.with_name(file_box.path.name + suffix)
    first = file_box.create()
    await file_box.commit(first)
    os.rename(path, path.with_name("away"))
    for write in (
        file_box.store.beat(),
        file_box.commit(file_box.append(first)),
        file_box.commit(file_box.create("t2")),
    ):
        with pytest.raises(
            CommitFailed, match=f"{path} was deleted while it was in use; put it back or restart"
        ):
            await write
    os.rename(path.with_name("away"), path)
    await file_box.store.beat()
    assert await file_box.commit(file_box.append(first)) == [True]
    assert await file_box.ids() == ["t1"]


async def test_a_file_that_is_replaced_is_noticed(file_box: Box) -> None:
    """A backup that was put in its place is another file."""
    path = file_box.path
    os.rename(path, path.with_name("away"))
    shutil.copy(path.with_name("away"), path)
    with pytest.raises(CommitFailed, match="was replaced while it was in use"):
        await file_box.commit(file_box.create())
    os.rename(path.with_name("away"), path)
    assert await file_box.commit(file_box.create()) == [True]


@pytest.mark.parametrize("share", [0, 0.5])
async def test_a_file_that_is_truncated_is_noticed(tmp_path: Path, share: float) -> None:
    """Within a heartbeat: its beginning says how long it must be."""
    box = Box(tmp_path / "tasks.db")
    await box.open()
    await box.commit(*(box.create(f"t{n}", data=b"x" * 1000) for n in range(100)))
    await box.restart()  # so that all of it is in the file
    whole = box.path.read_bytes()
    os.truncate(box.path, int(len(whole) * share))
    with pytest.raises(CommitFailed, match="was truncated while it was in use"):
        await box.store.beat()
    with box.path.open("r+b") as file:
        file.write(whole)
    await box.store.beat()
    await box.close()


async def test_a_beat_needs_no_file_that_is_closed(file_box: Box) -> None:
    """To open and close the file beside SQLite would give up its locks: another program could then
    delete the log.
    """
    await file_box.commit(file_box.create())
    await file_box.store.beat()
    code = (
        f"import sqlite3; db = sqlite3.connect({str(file_box.path)!r}); db.execute('SELECT "
        "count(*) FROM tasks'); db.close()"
    )
    assert await run(sys.executable, "-c", code) == (0, "", "")
    assert file_box.path.with_name("tasks.db-wal").exists()
    assert await file_box.commit(file_box.create("t2")) == [True]


async def test_what_another_process_died_with_is_heard_of(file_box: Box) -> None:
    """Its last commit counts as much as its last heartbeat."""
    first = file_box.create()
    await file_box.commit(first)
    await file_box.commit(file_box.append(first))
    last = (await file_box.store.load(ME, "t1")).committed_ms
    await file_box.crash()
    record = await file_box.store.claim(ME, "t1")
    assert record.died_ms >= last


async def test_counts_are_right_after_everything(file_box: Box) -> None:
    """Totals are kept beside tasks: they must never drift."""
    items = [file_box.create(f"t{n}", state=n % 3 + 1) for n in range(30)]
    await file_box.commit(*items, items[0])
    await file_box.commit(
        *(
            file_box.append(i, state=COMPLETED, leaves=Leaves.END)
            for i in items
            if i.state != COMPLETED
        )
    )
    assert isinstance(file_box.append(items[0]), Append)
    counted = "SELECT namespace, state, count(*) FROM tasks GROUP BY 1, 2"
    assert in_file(file_box.path, "SELECT * FROM counts WHERE n<>0") == in_file(
        file_box.path, counted
    )


async def test_vacuum_makes_room_and_the_store_goes_on(file_box: Box) -> None:
    assert isinstance(file_box.store, SqliteStore)
    await file_box.commit(file_box.create())
    await file_box.store.vacuum()
    await file_box.store.beat()
    assert await file_box.commit(file_box.create("t2")) == [True]


async def test_a_batch_with_something_unwritable_is_stored_or_not_as_a_whole(
    file_box: Box,
) -> None:
    """The disk is full when the last item comes: then nothing was stored, as the error says, and
    the same batch may be given again.
    """
    store = file_box.store
    assert isinstance(store, SqliteStore)
    small, large = file_box.create("small"), file_box.create("large", data=b"c" * (1 << 20))
    broken = file_box.create("lone surrogate \ud800", namespace=Namespace("agent", "", "new"))
    later = file_box.create("later", namespace=Namespace("agent", "", "newer"))
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages + 20}")
    with pytest.raises(CommitFailed, match="full"):
        await file_box.commit(small, broken, later, large)
    assert await store.load(ME, "small") is None
    store._db.execute("PRAGMA max_page_count = 1000000")
    assert await file_box.commit(small, broken, later, large) == [True, False, True, True]
    for made in (small, later, large):
        assert await store.load(made.namespace, made.id) is not None


@pytest.mark.parametrize("part", ["tasks", "keys", "logins"])
async def test_a_first_read_of_an_emptied_file_does_not_delete_the_log_beside_it(
    tmp_path: Path, part: str
) -> None:
    """SQLite takes the log of an empty file for one that is left over. What is in it would be gone
    when the file is put back.
    """
    path = tmp_path / "tasks.db"
    store = SqliteStore(path)
    await store.open(lambda tasks: None)
    try:
        content = path.read_bytes()
        os.truncate(path, 0)
        with contextlib.suppress(Unavailable, RuntimeError):
            await (store.owned() if part == "tasks" else getattr(store, part).list())
        assert path.with_name("tasks.db-wal").exists()
        path.write_bytes(content)
    finally:
        await store.close()
