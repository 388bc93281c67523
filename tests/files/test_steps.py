"""Files that steps of a durable skill make: stored once, and handed back in every attempt."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context, File, connect
from accord.model import Limits, TaskState
from tests.files.test_files import MB, pattern, served, write
from tests.postgres import schema_url


def scanner(made: list[int]) -> Agent:
    agent = Agent("Scanner", description="Scans.")

    async def scan(size: int) -> File:
        made.append(size)
        return File(pattern(size), name="scan.bin", media_type="image/png")

    @agent.skill(durable=True)
    async def keep(size: int, ctx: Context) -> File:
        """Scan in a step, ask, and give what was scanned."""
        file = await ctx.step(scan, size)
        assert await file.read() == pattern(size)
        await ctx.ask("Is it well?")
        return file

    return agent


@pytest.mark.parametrize("size", [1000, 3 * MB], ids=["in the log", "in the file store"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_file_of_a_step_is_there_after_a_restart(
    kind: str, size: int, tmp_path: Path
) -> None:
    """The step is not done again, and its file is stored once."""
    made: list[int] = []

    async def there_and_back(store: str) -> None:
        async with served(scanner(made), store=store) as (_, url), connect(url) as client:
            asked = await client.send(str(size))
            assert asked.state is TaskState.INPUT_REQUIRED
        async with served(scanner(made), store=store) as (app, url), connect(url) as client:
            reply = await client.send("yes", task_id=asked.task_id)
            [file] = reply.files
            assert (file.name, file.media_type) == ("scan.bin", "image/png")
            assert await file.read() == pattern(size)
            files = app.engine.tasks.files
            files.unused_s = -1.0
            await files.collect()
            assert (await files.index.sums()) == ((1, size) if size > MB else (0, 0))
        assert made == [size]

    if kind == "sqlite":
        await there_and_back(f"sqlite:///{tmp_path}/tasks.db")
    else:
        with schema_url() as store:
            await there_and_back(store)


async def test_a_fork_has_the_files_of_steps_too(tmp_path: Path) -> None:
    """It refers to them itself: they are there when the task it comes from is gone."""
    made: list[int] = []
    async with (
        served(scanner(made), store=f"sqlite:///{tmp_path}/tasks.db") as (_, url),
        connect(url) as client,
    ):
        asked = await client.send(str(3 * MB))
        forked = await client.fork(asked.task_id, 3, answer="yes")
        assert await forked.files[0].read() == pattern(3 * MB)
        [(uses,)] = _rows(tmp_path / "tasks.db", "SELECT count(*) FROM file_uses")
        assert uses == 2
        assert made == [3 * MB]


def _rows(path: Path, sql: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


async def test_a_file_on_the_disk_is_a_result_too(tmp_path: Path) -> None:
    """It is copied: the step may delete it."""
    agent = Agent("Scanner", description="Scans.")

    @agent.skill(durable=True)
    async def keep(size: int, ctx: Context) -> str:
        def scan() -> File:
            write(tmp_path / "scan.bin", pattern(size))
            return File.path(tmp_path / "scan.bin")

        file = await ctx.step(scan)
        (tmp_path / "scan.bin").unlink()
        return f"{file.name} {await file.read() == pattern(size)}"

    async with served(agent) as (_, url), connect(url) as client:
        for size in (1000, 3 * MB):
            assert (await client.send(str(size))).text == "scan.bin True"


async def test_a_file_of_a_step_that_is_too_large_fails_the_task() -> None:
    limits = Limits(file_size=MB)
    async with served(scanner([]), limits=limits) as (_, url), connect(url) as client:
        failed = await client.send(str(2 * MB))
        assert (failed.state, "limit file_size" in failed.text) == (TaskState.FAILED, True)


async def test_what_is_no_file_is_no_result_of_a_step_that_gives_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent("Scanner", description="Scans.")

    @agent.skill(durable=True)
    async def keep(text: str, ctx: Context) -> str:
        async def scan() -> File:
            return text  # type: ignore[return-value]

        await ctx.step(scan)
        return "done"

    async with served(agent) as (_, url), connect(url) as client:
        assert (await client.send("x")).state is TaskState.FAILED
    assert "step 'scan' returned a str, but its return type is File" in caplog.text
