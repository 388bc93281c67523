"""accord serve --workers: several processes on one port."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord import connect_sync
from tests.cli.shell import accord, found
from tests.postgres import execute, schema_url
from tests.processes import Process, start, until_sync

AGENT = '''
import asyncio, os
from accord import Agent

agent = Agent("Many")

@agent.skill
async def who(text: str) -> str:
    """Says which process answers."""
    return str(os.getpid())

@agent.skill
async def slow(text: str) -> str:
    """Takes a while."""
    await asyncio.sleep(1)
    return "done"
'''


@contextlib.contextmanager
def workers(folder: Path, count: int, *words: str) -> Iterator[tuple[Process, str]]:
    (folder / "many.py").write_text(AGENT)
    with schema_url() as store:
        command = ["serve", "many.py", "--workers", str(count), "--store", store, "--port", "0"]
        with start(sys.executable, "-m", "accord", *command, *words, cwd=folder) as process:
            yield process, found(r"http\S+", process.line_sync())


def children(pid: int) -> list[int]:
    """The processes a process has started that still run."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def pids(url: str, count: int) -> set[int]:
    """Who answers, asked over as many connections."""
    answered = set()
    for _ in range(count):
        with connect_sync(url) as client:
            answered.add(int(client.send("?", skill="who").text))
    return answered


pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc here")


def test_all_workers_answer_and_stop(tmp_path: Path) -> None:
    """SIGTERM drains all of them: what is being worked on is finished, and the code is 0."""
    with workers(tmp_path, 3) as (process, url):
        born = children(process.pid)
        assert len(born) == 3
        answered: set[int] = set()

        def all_have_answered() -> bool:
            answered.update(pids(url, 5))
            return answered == set(born)

        until_sync(all_have_answered)
        with connect_sync(url) as client:
            client.send("work", skill="slow", wait=False)
            assert process.stop_sync() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in born)
        schema = found(r"schema=(\w+)", " ".join(process.command))
        completed = execute(f"SELECT state FROM {schema}.tasks WHERE skill = 'slow'")
        assert [tuple(row) for row in completed] == [(3,)]


def test_a_worker_that_dies_is_started_again(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as (process, url):
        first, second = children(process.pid)
        os.kill(first, signal.SIGKILL)
        until_sync(lambda: first not in children(process.pid))
        assert pids(url, 3) == {second}  # the port is answered meanwhile
        until_sync(lambda: len(children(process.pid)) == 2)
        until_sync(lambda: len(pids(url, 4)) == 2)
        assert process.stop_sync() == 0
        assert "was killed by signal 9, and is started again in 1 s" in process.err.text


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as (process, _):
        born = children(process.pid)
        process.kill()
        until_sync(lambda: not any(Path(f"/proc/{pid}").exists() for pid in born))


@pytest.mark.parametrize(("store", "what"), [
    ("memory://", "tasks in memory are for one process"),
    ("sqlite:///x.db", "a SQLite file is for one process"),
    ("postgresql://nobody@127.0.0.1:1/none", "127.0.0.1:1"),
])  # fmt: skip
def test_what_can_not_be_shared_is_said(tmp_path: Path, store: str, what: str) -> None:
    (tmp_path / "many.py").write_text(AGENT)
    done = accord("serve", "many.py", "--workers", "2", "--store", store, "--port", "0",
                  cwd=tmp_path)  # fmt: skip
    assert done.code == 1
    assert what in done.err
