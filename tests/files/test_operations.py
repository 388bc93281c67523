"""What an operator sees of files: stats, doctor, vacuum, backup and restore, on both stores."""

import asyncio
import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, File, connect
from tests.cli.shell import accord, found
from tests.files.test_files import fetch
from tests.postgres import execute, programs, schema_url

SIZE = 300_000


@pytest.fixture(params=["sqlite", "postgres"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/tasks.db"
        return
    monkeypatch.setenv("PATH", f"{programs()}{os.pathsep}{os.environ['PATH']}")
    with schema_url() as url:
        yield url


def use(store: str, *, files: str = "", task_id: str = "", uploads: int = 1) -> tuple[str, bytes]:
    """Make a file, or read that of a task; upload some that nobody sends. Return task and file."""
    agent = Agent("Scan")

    @agent.skill
    async def scan(text: str) -> File:
        return File(b"z" * SIZE, name="scan.bin", media_type="application/octet-stream")

    async def run() -> tuple[str, bytes]:
        app = agent.app(store=store, files=files)
        async with app.serving() as here, connect(here) as client:
            id_ = task_id or (await client.send("now")).task.id
            [part] = (await client.get(id_)).artifacts[0].parts
            for _ in range(uploads):
                assert (await fetch(f"{here}/files", None, "POST", b"u" * 1000))[0] == 201
            with await client.open_file(str(part.url)) as file:
                return id_, file.read()

    return asyncio.run(run())


def said(*words: str) -> str:
    done = accord(*words)
    assert done.code == 0, done.err
    return done.out


def stats(url: str) -> dict[str, Any]:
    files: dict[str, Any] = json.loads(said("db", "stats", "--output", "json", "--store", url))[
        "files"
    ]
    return files


def test_stats_and_doctor_count_files(url: str) -> None:
    use(url)
    assert stats(url) == {
        "count": 2,
        "size": SIZE + 1000,
        "unreferenced": 1,
        "unreferenced_size": 1000,
        "elsewhere": 0,
        "elsewhere_size": 0,
    }
    words = "2 files with 301,000 bytes, 1 of them with 1,000 bytes unreferenced"
    assert words in said("db", "stats", "--store", url)
    assert f"names {words}" in said("doctor", "--store", url)


def test_files_that_are_elsewhere_are_named_as_not_copied(url: str, tmp_path: Path) -> None:
    """Their bytes are left alone, also by vacuum, which does not know where they are."""
    elsewhere = f"file://{tmp_path}/elsewhere"
    use(url, files=elsewhere)
    words = "2 files with 301,000 bytes not here, but where accord serve --files keeps them"
    assert words in said("db", "stats", "--store", url)
    assert f"note  {words}" in said("doctor", "--store", url)
    copy = tmp_path / "copy"
    backup = said("db", "backup", str(copy), "--store", url)
    assert f"{words}; they are not copied" in backup
    restored = said("db", "restore", str(copy), "--replace", "--store", url)
    assert f"{words}; bring them back too" in restored
    assert "deleted" not in said("db", "vacuum", "--store", url)
    assert stats(url)["count"] == 2


def let_a_day_pass(url: str) -> None:
    """Have all files as they would be a day later."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url[10:])) as db, db:
            db.execute("UPDATE files SET used_ms=used_ms-86400000")
    else:
        schema = found(r"schema=(\w+)", url)
        execute(f"UPDATE {schema}.files SET used_ms=used_ms-86400000")


def test_vacuum_deletes_what_nothing_refers_to(url: str) -> None:
    """After a day; what a task refers to stays."""
    task_id, data = use(url)
    assert "deleted" not in said("db", "vacuum", "--store", url)
    let_a_day_pass(url)
    assert "deleted 1 file that no task referred to" in said("db", "vacuum", "--store", url)
    assert (stats(url)["count"], stats(url)["unreferenced"]) == (1, 0)
    assert use(url, task_id=task_id, uploads=0) == (task_id, data)


def test_a_backup_has_the_files_and_a_restore_has_no_others(url: str, tmp_path: Path) -> None:
    """Of PostgreSQL they are in the archive, of SQLite in a folder. What came since is gone."""
    task_id, data = use(url)
    said("db", "backup", str(tmp_path / "copy"), "--store", url)
    use(url, uploads=2)
    assert stats(url)["count"] == 5
    said("db", "restore", str(tmp_path / "copy"), "--replace", "--store", url)
    assert (stats(url)["count"], stats(url)["elsewhere"]) == (2, 0)
    assert use(url, task_id=task_id, uploads=0) == (task_id, data)
    if url.startswith("sqlite"):
        there = sorted(file.stat().st_size for file in tmp_path.glob("tasks.db-files/*/*"))
        assert there == [1000, SIZE]


def test_a_restore_that_can_not_delete_other_files_says_that_it_restored(tmp_path: Path) -> None:
    """The database is replaced by then: to say that it is as it was would be wrong."""
    store = f"sqlite:///{tmp_path}/tasks.db"
    id_, _ = use(store)
    said("db", "backup", str(tmp_path / "monday.db"), "--store", store)
    use(store)
    (tmp_path / "tasks.db-files" / "zz" / "a folder").mkdir(parents=True)
    done = accord("db", "restore", str(tmp_path / "monday.db"), "--replace", "--store", store)
    assert done.code == 1
    assert "tasks.db is restored, but files that it does not name are still in" in done.err
    assert json.loads(said("db", "stats", "-o", "json", "--store", store))["tasks"] == {
        "completed": 1
    }
    assert use(store, task_id=id_, uploads=0)[1] == b"z" * SIZE
