"""Why a task failed: in its log for operators, and nowhere a caller could read it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from accord import Agent, Context, connect
from accord.console import Console
from tests.cli.shell import accord
from tests.postgres import schema_url
from tests.push.webhook import webhook

SECRET = "postgres://admin:hunter2@db"


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even that")


def deep(n: int) -> None:
    if n:
        deep(n - 1)
    raise ConnectionError(f"{SECRET} is away")


ODD: dict[str, Callable[[], BaseException]] = {
    "long": lambda: ValueError("x" * 200_000),
    "unreadable": Unreadable,
    "half a pair": lambda: ValueError("\ud800"),
    "group": lambda: ExceptionGroup("many", [ValueError(f"{n}") for n in range(2_000)]),
}


def fragile() -> Agent:
    agent = Agent("Fragile")

    @agent.skill
    async def fail(text: str) -> None:
        deep(3)

    @agent.skill
    async def step(text: str, ctx: Context) -> None:
        await ctx.step(deep, 200)

    @agent.skill
    async def declared(text: str, ctx: Context) -> None:
        ctx.fail("no more tickets")

    @agent.skill
    async def odd(text: str) -> None:
        raise ODD[text]()

    @agent.skill
    async def echo(text: str) -> str:
        return text

    return agent


@contextmanager
def stored(kind: str, folder: Path) -> Any:
    if kind == "postgres":
        with schema_url() as url:
            yield url
    else:
        yield f"sqlite:///{folder}/t.db"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_the_operator_reads_it_beside_the_running_server(kind, tmp_path):
    """`accord db why`, with the reference that the caller was given."""
    with stored(kind, tmp_path) as store:
        async with fragile().app(store=store).serving() as url, connect(url) as client:
            failed = await client.send("x", skill="fail")
            done = await client.send("x", skill="echo")
            shown = accord("db", "why", failed.task_id, "--store", store, cwd=tmp_path)
            as_json = accord(
                "db", "why", failed.task_id, "--store", store, "-o", "json", cwd=tmp_path
            )
            other = accord("db", "why", done.task_id, "--store", store, cwd=tmp_path)
            nobody = accord("db", "why", "nobody", "--store", store, cwd=tmp_path)
    reference = failed.text.rpartition(" ")[2]
    assert f"reference {reference}  ConnectionError: {SECRET} is away" in shown.out
    assert "in deep" in shown.out
    [task] = json.loads(as_json.out)
    [failure] = task["failures"]
    assert (task["state"], failure["reference"]) == ("failed", reference)
    assert failure["type"] == "ConnectionError"
    assert "completed; its function raised nothing" in other.out
    assert nobody.code == 1
    assert "has no task nobody" in nobody.err


@asynccontextmanager
async def console(agent: Agent) -> AsyncIterator[tuple[str, Callable[[str], Any]]]:
    """An agent on a store in memory, and its log as the console of the operator shows it."""
    app = agent.app()
    page = Console(app)
    page.attach(app)
    jar = aiohttp.CookieJar(unsafe=True)
    async with app.serving() as url, aiohttp.ClientSession(base_url=url, cookie_jar=jar) as http:
        key = page.link(url).partition("?key=")[2]
        headers = {"X-Accord-Session": "none"}
        async with http.post("/console/api/login", json={"key": key}, headers=headers) as answer:
            http.headers["X-Accord-Session"] = (await answer.json())["secret"]

        async def raised(task_id: str) -> list[dict[str, Any]]:
            async with http.get(f"/console/api/tasks/{task_id}/events") as answer:
                found = await answer.json()
            return [one["data"] for one in found["events"] if one["kind"] == "Raised"]

        yield url, raised


async def test_the_console_shows_it_with_what_a_step_raised():
    """The traceback goes back to the cause; one that the function declared needs none."""
    async with console(fragile()) as (url, raised), connect(url) as client:
        [one] = await raised((await client.send("x", skill="step")).task_id)
        assert one["type"] == "accord.engine.durable.steps.StepFailed"
        assert "ConnectionError" in one["traceback"]
        assert await raised((await client.send("x", skill="declared")).task_id) == []


@pytest.mark.parametrize("name", ODD)
async def test_it_is_of_a_bounded_size_whatever_was_raised(name, caplog):
    """A log of megabytes of traceback would be kept for days."""
    caplog.set_level(logging.CRITICAL, logger="accord")  # no report of a test can hold such text
    async with console(fragile()) as (url, raised), connect(url) as client:
        reply = await client.send(name, skill="odd")
        assert reply.state.word == "failed"
        [one] = await raised(reply.task_id)
        assert len(json.dumps(one)) < 40_000
        assert one["reference"] in reply.text


WAYS = [
    ("1.0", "JSONRPC"),
    ("1.0", "HTTP+JSON"),
    ("1.0", "GRPC"),
    ("0.3", "JSONRPC"),
    ("0.3", "HTTP+JSON"),
    ("0.3", "GRPC"),
    ("0.2", "JSONRPC"),
    ("0.1", "JSONRPC"),
    ("1.1", "JSONRPC"),
    ("1.1", "HTTP+JSON"),
    ("1.1", "GRPC"),
]


@pytest.mark.parametrize(("version", "binding"), WAYS)
async def test_no_caller_sees_any_of_it(version, binding):
    """Not in the task, the list or a stream; nor does the caller of a relay."""
    previews: Any = ["1.1"] if version == "1.1" else []
    way = {"version": version, "binding": binding, "previews": previews}
    async with fragile().app(grpc_port=0, previews=previews).serving() as url:
        relay = await asyncio.to_thread(Agent.proxy, url)
        async with (
            connect(url, **way) as direct,
            relay.app(grpc_port=0, previews=previews).serving() as at,
            connect(at, **way) as relayed,
        ):
            for client in (direct, relayed):
                assert (client.version, client.binding) == (version, binding)
                reply = await client.send("x", skill="fail")
                assert reply.state.word == "failed"
                seen: list[Any] = [reply.task, await client.get(reply.task_id)]
                seen += [event async for event in client.stream("x", skill="fail")]
                if version not in ("0.1", "0.2"):
                    seen += [task async for task in client.list()]
                text = msgspec.json.encode(seen, enc_hook=str).decode()
                assert "Reference" in text
                assert "ConnectionError" not in text
                assert "hunter2" not in text


async def test_no_webhook_is_sent_any_of_it():
    """It gets what a stream shows."""
    async with (
        webhook() as hook,
        fragile().app(allow_hosts=["127.0.0.1"]).serving() as url,
        connect(url) as client,
    ):
        await client.send("x", skill="fail", push=hook.url)
        for call in await hook.ended():
            assert b"ConnectionError" not in call.body
            assert b"hunter2" not in call.body
