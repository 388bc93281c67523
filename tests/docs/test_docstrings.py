"""Examples in docstrings run: a name that is gone, or an option, is noticed here first."""

import ast
import asyncio
import functools
import importlib
import inspect
import json
import re
import textwrap
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from mcp.server import MCPServer

import accord
from accord import Agent, Context, connect
from accord.auth import Keyring
from accord.hub import Hub, HubSettings
from tests.drive import PATIENCE_S, serving_asgi

SOURCE = Path(accord.__file__).parent
MODULES = ["model", "net", "push", "hub", "client", "auth", "testing", "tools", ""]
# What only code begins with, or looks like: a paragraph that has it, and is no Python, is broken.
LOOKS = re.compile(
    r"@\w|await |async (with|for|def) |with .* as \w+:|def \w+\(|(from [\w.]+ )?import \w"
    r"|\w+ = \w+[(.\[]|\w+(\.\w+)*\(.*\)\s*(#.*)?$"
)
SAYS_SOMETHING = (
    *(ast.Call, ast.FunctionDef, ast.AsyncFunctionDef, ast.With, ast.AsyncWith, ast.Assign),
    *(ast.Import, ast.ImportFrom),
)


class Wishes(msgspec.Struct):
    city: str


class Trip(msgspec.Struct):
    days: int


def parsed(paragraph: str) -> ast.Module | None:
    try:
        tree = ast.parse(paragraph)
    except SyntaxError:
        return None
    is_code = any(isinstance(node, SAYS_SOMETHING) for node in ast.walk(tree))
    return tree if is_code else None


@functools.cache
def paragraphs() -> list[tuple[str, str]]:
    """The paragraphs of all docstrings, each with the file and the name it belongs to."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ):
                continue
            where = f"{path.relative_to(SOURCE)}:{getattr(node, 'name', '')}".rstrip(":")
            for one in re.split(r"\n\s*\n", inspect.cleandoc(ast.get_docstring(node) or "")):
                found.append((where, textwrap.dedent(one)))
    return found


@functools.cache
def examples() -> dict[str, str]:
    """The code of each docstring that has some."""
    found: dict[str, str] = {}
    for where, text in paragraphs():
        if parsed(text) is not None:
            found[where] = f"{found[where]}\n{text}" if where in found else text
    return found


def price() -> int:
    return 2


async def send_money() -> None: ...


def trip_agent() -> Agent:
    agent = Agent("Trips")

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        if text == "hi":
            return "Hello"
        return f"{text}: {await ctx.ask('How many days?')}" if "Rome" in text else "Done"

    @agent.skill
    async def add(a: int, b: int) -> int:
        return a + b

    @agent.skill
    async def plan(wishes: Wishes) -> Trip:
        return Trip(2)

    return agent


def names(where: str, folder: Path) -> dict[str, Any]:
    """What a reader of an example has: the public names, those of its own package last."""
    own = where.partition("/")[0] if "/" in where else where.partition(".")[0]
    found: dict[str, Any] = {"Wishes": Wishes, "Trip": Trip, "accord": accord}
    for module in [*MODULES, *([own] if own in MODULES else [])]:
        public = importlib.import_module(f"accord.{module}".rstrip("."))
        found |= {name: getattr(public, name) for name in dir(public) if name[0] != "_"}
    for name in ("asyncio", "time"):
        found[name] = importlib.import_module(name)
    ran: list[Any] = []
    hub = HubSettings(store=f"sqlite:///{folder}/hub.db", folder=str(folder))
    return found | {
        "agent": trip_agent(),
        "trip_agent": trip_agent(),
        "hub": Hub(hub),
        "secret": "s3cret",
        "new_price": price,
        "old_price": price,
        "send_money": send_money,
        "uvicorn": SimpleNamespace(run=ran.append),
        "pydantic_ai": SimpleNamespace(Agent=lambda model, tools: ran.extend(tools)),
    }


async def recorded(store: str) -> str:
    """Make a database with a task that asks; return the id of the task."""
    async with trip_agent().app(store=store).serving() as url, connect(url) as client:
        return (await client.send("Rome")).task_id


async def run(code: str, known: dict[str, Any]) -> None:
    """Run an example, and what it defines to be called by others."""
    before = set(known)
    compiled = compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if compiled.co_flags & inspect.CO_COROUTINE:
        await eval(compiled, known)
    elif "ctx" in known:
        eval(compiled, known)  # on the loop of the run
    else:
        await asyncio.to_thread(eval, compiled, known)  # where the client without await works
    for name in set(known) - before:
        if name.startswith("test_") and not hasattr(known[name], "pytestmark"):
            await known[name](known["client"])
        elif name == "search":
            await known[name]("hotels")


def test_what_looks_like_an_example_is_python():
    """A line that was broken in two, or a bracket that is missing."""
    broken = [
        f"{where}: {text}"
        for where, text in paragraphs()
        if parsed(text) is None and any(LOOKS.match(line.strip()) for line in text.splitlines())
    ]
    assert broken == []


@pytest.mark.parametrize("where", examples())
async def test_an_example_runs(where, tmp_path, monkeypatch):
    """With a real agent at the addresses it names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.json").write_text(json.dumps(Keyring.in_memory().jwks()))
    code, known = examples()[where], names(where, tmp_path)
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
        url = await stack.enter_async_context(trip_agent().app().serving())
        known["url"] = url
        known["client"] = await stack.enter_async_context(connect(url))
        if "sqlite:///trips.db" in code:
            known["task_id"] = await recorded("sqlite:///trips.db")
        if "from_mcp" in code:
            code = code.replace("http://localhost:9000", await stack.enter_async_context(tools()))
        code = re.sub(r"https?://(localhost:8000|old\.example\.com|trips\.example\.com)", url, code)
        code = code.replace("agent.run()", "agent.app()")  # which does not wait for Ctrl-C
        if not re.search(r"\bctx\b|current\(\)", code):
            return await run(code, known)
        agent, did = Agent("Runs it"), []

        @agent.skill
        async def skill(text: str, ctx: Context) -> str:
            await run(code, known | {"ctx": ctx})
            did.append(text)
            return text

        client = await stack.enter_async_context(connect(agent))
        reply = await client.send("go")
        assert did == ["go"], reply.text


@asynccontextmanager
async def tools() -> AsyncIterator[str]:
    """An MCP server with a tool, at an address of its own."""
    server = MCPServer("Search")

    @server.tool()
    async def search(query: str) -> str:
        """Search."""
        return query

    async def close() -> None: ...

    app = server.streamable_http_app()
    async with app.router.lifespan_context(app), serving_asgi(app, close) as url:
        yield url
