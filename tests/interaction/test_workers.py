"""Several processes of one server, where the store is for one: said at the start."""

import sys
from pathlib import Path

import pytest

from tests.processes import free_port, start, until

PROGRAM = """
from accord import Agent
agent = Agent("Workers")

@agent.skill
async def echo(text: str) -> str:
    return text

app = agent.app(store={store!r})
"""


@pytest.mark.parametrize("store", ["memory://", "sqlite:///tasks.db"])
async def test_workers_of_one_parent_need_a_store_they_can_share(
    tmp_path: Path, store: str
) -> None:
    """One of them would not find the other's tasks, or would be told to use another file."""
    (tmp_path / "program.py").write_text(PROGRAM.format(store=store))
    command = ["-m", "uvicorn", "program:app", "--workers", "2", "--port", str(free_port())]
    with start(
        sys.executable, *command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}
    ) as process:
        await until(lambda: "several processes need a store they can share" in process.err.text)
        assert "a worker of the same parent (process " + str(process.pid) in process.err.text
        await process.stop()


async def test_a_lone_worker_is_told_nothing(tmp_path: Path) -> None:
    """A server that reloads has a parent too."""
    (tmp_path / "program.py").write_text(PROGRAM.format(store="memory://"))
    command = ["-m", "uvicorn", "program:app", "--workers", "1", "--port", str(free_port())]
    with start(
        sys.executable, *command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}
    ) as process:
        await until(lambda: "startup complete" in process.err.text)
        assert "several processes" not in process.err.text
        await process.stop()
