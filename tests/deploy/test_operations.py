"""The commands of the page for operators, run as they are written there."""

import os
import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from accord import TaskNotFound, connect
from tests.postgres import programs, schema_url
from tests.processes import Process, free_port, run, start, until

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
ACCORD = Path(sys.executable).with_name("accord")

AGENT = """
import asyncio
from pathlib import Path

from accord import Agent, Context

agent = Agent("Porter")


@agent.skill
async def echo(text: str) -> str:
    return text


def fetch(what: str) -> str:
    return f"fetched {what}"


@agent.skill(durable=True)
async def carry(what: str, ctx: Context) -> str:
    fetched = await ctx.step(fetch, what)
    Path("fetched").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return f"{fetched}, carried"
"""


def commands(word: str) -> list[str]:
    """The commands of the page that have this word in them."""
    found = re.findall(r"^\$ (.*)$", PAGE.read_text(), re.MULTILINE)
    return [one for one in found if word in one]


async def do(command: str, folder: Path, here: dict[str, str]) -> str:
    """Run a command of the page, with what it names as an example replaced."""
    for there, ours in here.items():
        command = command.replace(there, shlex.quote(ours))
    path = os.pathsep.join([str(ACCORD.parent), str(programs()), os.environ["PATH"]])
    done = await run("sh", "-c", command, cwd=folder, env={"PATH": path})
    assert done.code == 0, (command, done)
    return done.out


def serve(folder: Path, store: str, port: int) -> Process:
    words = ("serve", "agent.py", "--store", store, "--port", str(port), "--no-console")
    return start(ACCORD, *words, cwd=folder)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_backup_of_a_running_server_is_restored(tmp_path, kind):
    """Tasks are as they were: what is newer is gone, and durable work goes on."""
    (tmp_path / "agent.py").write_text(AGENT)
    (backup,) = [one for one in commands("db backup") if kind in one]
    (restore,) = [one for one in commands("db restore") if kind in one]
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with schema_url() if kind == "postgresql" else nullcontext("") as database:
        if kind == "sqlite":
            store, here = "sqlite:///tasks.db", {}
        else:
            example = "postgresql://accord@db.example.com/accord"
            store, here = database, {f"--store {example}": f"--store={database}"}
        with serve(tmp_path, store, port) as process:
            await process.line()
            async with connect(url) as client:
                old = (await client.send("old", skill="echo")).task
                task = (await client.send("a chest", skill="carry", wait=False)).task
                await until((tmp_path / "fetched").exists)
                assert "bytes" in await do(backup, tmp_path, here)
                new = (await client.send("new", skill="echo")).task
            with pytest.raises(AssertionError, match="in use by"):
                await do(restore, tmp_path, here)
            assert await process.stop() == 0
        assert "from monday" in await do(restore, tmp_path, here)
        (tmp_path / "go").touch()
        with serve(tmp_path, store, port) as process:
            await process.line()
            async with connect(url) as client:
                assert (await client.get(old.id)).status.state.word == "completed"
                with pytest.raises(TaskNotFound):
                    await client.get(new.id)
                assert (await client.wait(task.id)).text == "fetched a chest, carried"
            assert await process.stop() == 0
        assert "2 tasks" in await do("accord db stats --store STORE", tmp_path, {"STORE": store})
