"""The schema of a database: made whole or not at all, and refused if no release made it."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord.store import open_store
from accord.store.migrations import runner
from accord.store.parts import HUB, TASKS
from accord.store.sqlite.schema import migrate_file, versions

# What files of earlier schemas had, as far as it tells them apart from others' files.
EARLIER = {
    "the first": "CREATE TABLE tasks (key); CREATE TABLE events (id); CREATE TABLE keys (key); "
    "CREATE TABLE counts (n); CREATE TABLE scopes (scope); PRAGMA user_version = 1;",
    "the last": "CREATE TABLE tasks (key); CREATE TABLE events (id); CREATE TABLE keys (key); "
    "CREATE TABLE counts (n); CREATE TABLE namespaces (n); PRAGMA user_version = 12;",
    "a hub's": "CREATE TABLE migrations (n INTEGER PRIMARY KEY); CREATE TABLE agents (id); "
    "CREATE TABLE cards (agent); CREATE TABLE alerts (id); CREATE TABLE audit (n);",
    "one by number": "CREATE TABLE migrations (part, version, needs); "
    "INSERT INTO migrations VALUES ('tasks', 19, 1);",
}


@contextlib.contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


@pytest.mark.parametrize("made", EARLIER.values(), ids=EARLIER)
async def test_a_file_from_before_the_first_release_is_refused_and_left_alone(
    tmp_path: Path, made: str
) -> None:
    path = tmp_path / "t.db"
    with database(path) as db:
        db.executescript(made)
    before = path.read_bytes()
    wanted = r"t\.db was made by a version before the first release; move it away"
    for use in (open_store(f"sqlite:///{path}").keys.prepare(), _open(path)):
        with pytest.raises(RuntimeError, match=wanted):
            await use
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["t.db"]


async def _open(path: Path) -> None:
    await open_store(f"sqlite:///{path}").open(lambda tasks: None)


def test_a_step_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(tmp_path / "t.db") as db:
        migrate_file(db, tmp_path / "t.db", TASKS)
        have = runner.newest()
        later = runner.Step(have + 1, "CREATE TABLE more (n);\nINSERT INTO nothing VALUES (1);\n")
        steps = [*runner.steps(TASKS, "sqlite"), later]
        monkeypatch.setattr(runner, "steps", lambda part, dialect: steps)
        with pytest.raises(sqlite3.OperationalError, match="nothing"):
            migrate_file(db, tmp_path / "t.db", TASKS)
        assert versions(db, tmp_path / "t.db")[TASKS].have == have
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name='more'").fetchall()


def test_a_file_gets_what_is_missing_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(tmp_path / "t.db") as db:
        migrate_file(db, tmp_path / "t.db", TASKS)
        db.execute("INSERT INTO namespaces VALUES (1, 'a', 't', 'c')")
        later = runner.Step(runner.newest() + 1, "CREATE TABLE more (n);\n")
        steps = [*runner.steps(TASKS, "sqlite"), later]
        monkeypatch.setattr(runner, "steps", lambda part, dialect: steps)
        for _ in range(2):
            migrate_file(db, tmp_path / "t.db", TASKS)
        assert versions(db, tmp_path / "t.db")[TASKS].have == later.number
        assert db.execute("SELECT agent FROM namespaces").fetchall() == [("a",)]
        assert db.execute("SELECT n FROM more").fetchall() == []


@pytest.mark.parametrize("part", [TASKS, HUB])
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_each_step_has_a_number_of_its_own_the_same_on_both_databases(
    part: str, dialect: str
) -> None:
    """Two of one number: a file that has had the one would never get the other."""
    numbers = [step.number for step in runner.steps(part, dialect)]
    assert numbers == list(range(20, 20 + len(numbers)))
    assert numbers[-1] == runner.newest(part)
