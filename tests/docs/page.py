"""A page of the documentation, read as a person would follow it: write the files, type the
commands, compare what is shown.
"""

import asyncio
import importlib
import inspect
import re
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from accord import connect
from accord.cli import main
from accord.cli.load import load_agent
from tests.drive import serving
from tests.processes import run

__all__ = ["ROOT", "Reader", "blocks", "commands"]

ROOT = Path(__file__).parents[2]
JS = ROOT / "tests/legacy/js"

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"(?:#|//) (\w+\.(?:py|mjs))\n")
_SAID = re.compile(r"(?:print|console\.log)\(.*\);?\s+(?:#|//) (.*)")
_PRINTED_URL = re.compile(r"http://(localhost|127\.0\.0\.1):8000")
_TASK = re.compile(r"task (\S+) is ")
_SHORT_ID = "01a1..."  # how a page writes a task's id


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of every fenced block."""
    for match in _FENCED.finditer(page.read_text()):
        yield match[1], match[2]


def commands(block: str) -> list[tuple[list[str], list[str]]]:
    """Return the commands of a block and what each is shown to print. Without a `$` every line is a
    command.
    """
    found: list[tuple[list[str], list[str]]] = []
    has_prompts = block.startswith("$ ")
    for line in block.splitlines():
        if has_prompts and not line.startswith("$ "):
            found[-1][1].append(line)
        elif words := shlex.split(line.removeprefix("$ "), comments=True):
            found.append((words, []))
    return found


class Reader:
    """Follows a page in an empty folder. Agents are really served, on a free port in the test's own
    loop.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: list[str] = []
        self._served = AsyncExitStack()
        self._url = ""
        self._task_id = ""

    async def follow(self, page: Path) -> None:
        async with self._served:
            for language, text in blocks(page):
                if language in ("python", "js"):
                    await self.write(text)
                else:
                    for words, shown in commands(text):
                        await self._type(words, shown)

    async def write(self, text: str) -> None:
        name = _NAMED.match(text)
        assert name, f"no file is named in the first line of:\n{text}"
        path = self.folder / name[1]
        text = text.replace("@a2a-js/sdk", "a2a-0.3")  # its name in the tests' node_modules
        path.write_text(_PRINTED_URL.sub(self._url, text))
        if path.name.startswith("test_"):
            for test in vars(self._imported(path)).values():
                if inspect.iscoroutinefunction(test):
                    await test()
        elif "asyncio.run(" in text or path.suffix == ".mjs":
            await self._run(path, text)
        elif "app = " in text:
            await self._mounted(self._imported(path).app)
        self.done.append(path.name)

    async def _type(self, words: list[str], shown: list[str]) -> None:
        if words[:2] == ["accord", "serve"]:
            await self._serve(words[2], shown)
        elif words[0] == "accord":
            await self._call(words, shown)
        elif words[0] == "curl":
            done = await run(*[_PRINTED_URL.sub(self._url, word) for word in words])
            assert done.code == 0, done.err
            self._compare(shown, done.out)
        self.done.append(" ".join(words[:2]))

    async def _serve(self, file: str, shown: list[str]) -> None:
        agent = load_agent(str(self.folder / file))
        assert shown in (
            [],
            [f"{agent.name} is served at http://127.0.0.1:8000   (Ctrl-C stops it)"],
        )
        await self._served.aclose()  # as a person does before serving the next
        app = agent.app()
        self._url = await self._served.enter_async_context(serving(app, app.close))

    async def _call(self, words: list[str], shown: list[str]) -> None:
        typed = [
            _PRINTED_URL.sub(self._url, word).replace(_SHORT_ID, self._task_id)
            for word in words[1:]
        ]
        result = await asyncio.to_thread(CliRunner().invoke, main, typed)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        is_refused = bool(shown) and shown[0].startswith("Error")
        assert (result.exit_code != 0) == is_refused, result.output
        if task := _TASK.search(result.output):
            self._task_id = task[1]
        self._compare(shown, result.output)

    def _compare(self, shown: list[str], output: str) -> None:
        """The lines are there, in this order; `...` stands for anything."""
        printed = iter(output.splitlines())
        for line in shown:
            wanted = ".*".join(map(re.escape, _PRINTED_URL.sub(self._url, line).split("...")))
            assert any(re.fullmatch(wanted, other) for other in printed), (
                f"{line!r} is not shown in:\n{output}"
            )

    async def _run(self, path: Path, text: str) -> None:
        """Run a client script as Python runs it, against the agent served last."""
        if path.suffix == ".mjs":
            if not (JS / "node_modules").exists():
                return  # no Node.js here
            (self.folder / "node_modules").symlink_to(JS / "node_modules")
            done = await run("node", path)
        elif path.stem == "sdk03":  # the same package as the newer one: an environment of its own
            done = await run(ROOT / ".venv-03/bin/python", path)
        else:
            done = await run(sys.executable, "-W", "error", path)
        assert done.code == 0, done.err
        for said in _SAID.findall(text):
            assert said in done.out or said.startswith("as it happens"), done.out

    async def _mounted(self, app: Any) -> None:
        async with (
            _started(app),
            serving(app, _nothing) as url,
            connect(f"{url}/agents/hello") as client,
        ):
            assert (await client.send("Ada")).text == "Hello, Ada!"

    def _imported(self, path: Path) -> Any:
        return importlib.import_module(path.stem)


@asynccontextmanager
async def _started(app: Any) -> AsyncIterator[None]:
    async with app.router.lifespan_context(app):
        yield


async def _nothing() -> None:
    """A mounted agent is closed by its host's lifespan."""
