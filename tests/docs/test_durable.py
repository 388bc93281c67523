"""The page on durable work: every file in it runs, and every text in it is what a user is told."""

import asyncio
import contextlib
import importlib.util
import logging
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from accord.engine.log import too_late
from accord.engine.runs import engine, recovery
from accord.engine.skills import definition_of
from tests.docs.page import ROOT, blocks
from tests.engine.processes import Disk, message, state_of, text_of, told, until

PAGE = ROOT / "docs" / "durable.md"


def files() -> dict[str, tuple[str, list[str]]]:
    """The files of the page by name, each with the texts that follow it."""
    found: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for language, text in blocks(PAGE):
        if language == "python":
            named = re.match(r"# (\w+)\.py\n", text)
            assert named, f"no file is named in the first line of:\n{text}"
            name = named[1]
            assert name not in found
            found[name] = (text, [])
        elif language == "text":
            found[name][1].append(" ".join(text.split()))
    return found


FILES = files()
RUNS = ["trip", "patched", "keys", "model", "stops"]  # nothing is wrong with these
RAISES = [
    "unnamed",
    "called",
    "tasks",
    "results",
    "inside",
    "outside",
    "alarm",
]  # the skill fails, and the log says why


class Reader:
    """Writes the files of the page, and runs them as versions of one agent on one database."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        self._folder = folder
        self._caplog = caplog
        self.disk = Disk(folder / "tasks.db")

    def module(self, name: str) -> ModuleType:
        path = self._folder / f"{name}.py"
        path.write_text(FILES[name][0])
        spec = importlib.util.spec_from_file_location(f"page_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def agent(self, name: str) -> Any:
        return self.module(name).agent

    def log(self) -> str:
        """What the log says, exceptions as Python shows them."""
        said = []
        for record in self._caplog.records:
            said.append(record.getMessage())
            if record.exc_info and record.exc_info[1] is not None:
                error: BaseException | None = record.exc_info[1]
                while error is not None:
                    said.append(f"{type(error).__name__}: {error}")
                    error = error.__cause__
        return "\n".join(said)


@pytest.fixture
def reader(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Reader:
    caplog.set_level(logging.WARNING)
    return Reader(tmp_path, caplog)


def assert_told(shown: str, told_: str) -> None:
    """What the page shows is what was told; `...` stands for anything."""
    pattern = ".*?".join(map(re.escape, shown.split("...")))
    assert re.search(pattern, " ".join(told_.split())), f"{shown}\n\nis not in\n\n{told_}"


@pytest.mark.parametrize("name", RUNS)
async def test_the_examples_work(reader: Reader, name: str) -> None:
    """To their end, over a question if they ask one."""
    async with reader.disk.process(reader.agent(name)) as process:
        task = await process.send(message("Rome"))
        if state_of(task) == "TASK_STATE_INPUT_REQUIRED":
            task = await process.send(message("window", task_id=task["id"]))
    assert state_of(task) == "TASK_STATE_COMPLETED", reader.log()
    assert "Rome" in text_of(task) or text_of(task) == "window"


@pytest.mark.parametrize("name", RAISES)
async def test_a_rule_that_is_broken_is_said_so_in_the_first_run(reader: Reader, name: str) -> None:
    async with reader.disk.process(reader.agent(name)) as process:
        task = await process.send(message("Rome"))
    assert state_of(task) == "TASK_STATE_FAILED"
    (shown,) = FILES[name][1]
    assert_told(shown, reader.log())


async def test_what_a_step_raises(reader: Reader) -> None:
    async with reader.disk.process(reader.agent("failing")) as process:
        task = await process.send(message("Rome"))
    (shown,) = FILES["failing"][1]
    assert text_of(task) == shown


async def test_a_deadline_that_passes(reader: Reader) -> None:
    """The default is taken, then `Expired` fails the task; what is sent meanwhile is refused."""
    failed, refused = FILES["deadline"][1]
    agent = reader.agent("deadline")
    async with reader.disk.dying(agent) as process:
        task = await process.send(message("Invoice 17"))
    async with reader.disk.process(agent) as process:
        task = await ended(process, task["id"])
        assert_told(failed, told(task))
        assert told(task["history"][-1:] and {"status": {"message": task["history"][-1]}}) == (
            "Nobody said yes. Why?"
        )
    assert_told(refused, str(too_late("17", 1)))


async def test_a_time_limit_that_a_restart_makes_begin_anew(reader: Reader) -> None:
    async with reader.disk.process(reader.agent("timeout")) as process:
        task = await process.send(message("Invoice 17"))
        assert text_of(await ended(process, task["id"])) == "Invoice 17: nobody was there"
    assert_told(FILES["timeout"][1][0], reader.log())


async def test_a_function_that_changed(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log names both; a version that keeps the old way repairs it, and without one the client
    is told in the end.
    """
    in_log, at_the_end = FILES["after"][1]
    async with reader.disk.process(reader.agent("before")) as process:
        tasks = [await process.send(message("Rome")) for _ in range(2)]
    async with reader.disk.process(reader.agent("after")) as process:
        for task in tasks:
            await process.send(message("yes", task_id=task["id"], returnImmediately=True))
        await until(lambda: reader.log().count("can't go on") == 2)
    assert_told(in_log, reader.log())
    monkeypatch.setattr(recovery, "MISMATCH_MS", 0)
    async with reader.disk.process(reader.agent("after")) as process:
        assert_told(at_the_end, told(await ended(process, tasks[0]["id"])))


async def test_a_function_that_changed_is_repaired_by_keeping_the_old_way(reader: Reader) -> None:
    async with reader.disk.process(reader.agent("before")) as process:
        task = await process.send(message("Rome"))
    async with reader.disk.process(reader.agent("after")) as process:
        await process.send(message("yes", task_id=task["id"], returnImmediately=True))
        await until(lambda: "can't go on" in reader.log())
    async with reader.disk.process(reader.agent("patched")) as process:
        assert text_of(await ended(process, task["id"])) == "Rome at 9:00"
        task = await process.send(message("Oslo"))
        assert told(task) == "Book Oslo at 5:00?"


async def test_a_function_that_does_not_end(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LEAVE_S", 0.05)
    async with reader.disk.process(reader.agent("deaf")) as process:
        await process.send(message("Rome", returnImmediately=True))
        await until(
            lambda: any(
                run.task is not None and run.task.get_coro().cr_await
                for run in process.app._engine.runs.running()
            )
        )
    assert_told(FILES["deaf"][1][0], reader.log())


async def test_a_run_that_kills_its_process(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "PAUSE_S", 0.001)
    agent = reader.agent("plain")
    for skill in definition_of(agent).skills.values():
        skill.is_durable = True
    async with reader.disk.dying(agent) as process:
        task = await process.send(message("Rome", returnImmediately=True))
    for _ in range(recovery.MAX_ATTEMPTS):
        async with reader.disk.dying(agent) as process:
            await until(
                lambda: any(run.task is not None for run in process.app._engine.runs.running())
            )
            await process.app._engine.tasks.flush()
    async with reader.disk.process(agent) as process:
        assert_told(FILES["deaf"][1][1], told(await process.get(task["id"])))


async def test_a_plain_skill_that_was_at_work(reader: Reader) -> None:
    async with reader.disk.dying(reader.agent("plain")) as process:
        task = await process.send(message("Rome", returnImmediately=True))
    async with reader.disk.process(reader.agent("plain")) as process:
        assert told(await process.get(task["id"])) == FILES["plain"][1][0]


async def test_a_plain_function_that_is_called_durable(reader: Reader) -> None:
    type_, _, text = FILES["sync"][1][0].partition(": ")
    assert type_ == "TypeError"
    with pytest.raises(TypeError, match=re.escape(text)):
        reader.agent("sync").app()


async def test_what_the_log_says_in_memory(reader: Reader) -> None:
    app = reader.agent("trip").app(store="memory://")
    await app.open()
    await app.close()
    assert_told(FILES["sync"][1][1], reader.log())


def test_every_file_of_the_page_is_run() -> None:
    others = {"deadline", "timeout", "before", "after", "failing", "deaf", "plain", "sync"}
    assert set(FILES) == {*RUNS, *RAISES, *others}


async def ended(process: Any, task_id: str) -> dict[str, Any]:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            while state_of(task := await process.get(task_id)) not in (  # noqa: ASYNC110
                "TASK_STATE_COMPLETED",
                "TASK_STATE_FAILED",
            ):
                await asyncio.sleep(0.01)
            return task
    raise AssertionError("it does not end")
