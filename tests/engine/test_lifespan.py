"""`@agent.lifespan`: what an agent needs around it is open while its skills run, and only then."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from accord import Agent, Context, Reply, connect, current
from accord.model import Message
from tests.postgres import schema_url
from tests.processes import start, until


class Database:
    """A connection that knows whether it is open."""

    def __init__(self) -> None:
        self.is_open = True
        self.rows = {1: "one"}


class Mailer:
    pass


@dataclass
class Pools:
    db: Database
    mail: Mailer
    region: str = "eu"


def agent_with_life(name: str = "Clerk", events: list[str] | None = None) -> Agent:
    agent = Agent(name)
    seen = events if events is not None else []

    @agent.lifespan
    async def life() -> AsyncIterator[Pools]:
        pools = Pools(Database(), Mailer())
        seen.append(f"{name} opened")
        yield pools
        pools.db.is_open = False
        seen.append(f"{name} closed")

    @agent.skill
    async def read(number: int, db: Database) -> str:
        assert db.is_open
        return db.rows[number]

    @agent.skill
    def plain(text: str, pools: Pools) -> str:
        return f"{text} in {pools.region}"

    @agent.skill
    async def reply(text: str, mail: Mailer, ctx: Context) -> Reply:
        assert mail is ctx.resources.mail
        return Reply(f"{ctx.resources.region}: {text}")

    @agent.skill
    async def deep(text: str) -> str:
        resources: Pools = current().resources
        return resources.region

    return agent


async def test_skills_of_every_kind_get_what_the_lifespan_yields():
    """By the type of a field, by the class itself, as ctx.resources; also without a task."""
    async with connect(agent_with_life()) as client:
        assert (await client.send("1", skill="read")).text == "one"
        assert (await client.send("hi", skill="plain")).text == "hi in eu"
        assert (await client.send("hi", skill="reply")).text == "eu: hi"
        assert (await client.send("hi", skill="deep")).text == "eu"


async def test_what_the_lifespan_fills_is_no_part_of_the_input():
    """A caller who could send it could choose the database."""
    async with connect(agent_with_life()) as client:
        card = client.card
        [params] = [e.params for e in card.capabilities.extensions if "skills" in (e.params or {})]
        schemas = params["skills"]
        assert schemas["read"]["input"]["type"] == "integer"
        assert schemas["plain"]["input"] == {"type": "string"}
        sent = await client.send({"number": 1, "db": {"rows": {"1": "mine"}}}, skill="read")
        assert sent.text == "one"


@pytest.mark.parametrize("kind", ["serving", "connect", "starlette", "first request"])
async def test_it_is_opened_once_per_engine_and_closed_after_the_last_run(kind):
    """However the agent is served; a run that is cut off by the stop still has its resources."""
    events: list[str] = []
    agent = agent_with_life("Clerk", events)
    working = asyncio.Event()

    @agent.skill
    async def slow(db: Database, text: str = "") -> str:
        working.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("run over, open" if db.is_open else "run over, closed")
        return ""

    async with serve(kind, agent) as client:
        for _ in range(3):
            assert (await client.send("1", skill="read")).text == "one"
        sending = asyncio.create_task(client.send("x", skill="slow"))
        await working.wait()
        assert events == ["Clerk opened"]
    sending.cancel()
    await asyncio.wait({sending})
    assert events == ["Clerk opened", "run over, open", "Clerk closed"]


@contextlib.asynccontextmanager
async def serve(kind: str, agent: Agent) -> AsyncIterator[Any]:
    app = agent.app()
    if kind == "connect":
        async with connect(agent) as client:
            yield client
    elif kind == "serving":
        async with app.serving() as url, connect(url) as client:
            yield client
    elif kind == "starlette":  # the host opens and closes it
        host = Starlette(routes=[Mount("/", app=app)], lifespan=app.lifespan)
        async with host.router.lifespan_context(host), connect(host) as client:
            yield client
    else:  # a host that does not: the first request opens it
        async with connect(Starlette(routes=[Mount("/", app=app)])) as client:
            try:
                yield client
            finally:
                await app.close()


async def test_each_agent_of_an_app_has_its_own():
    """Those beside it, and one that is added while the app is open."""
    events: list[str] = []
    app = agent_with_life("One", events).app(beside=[agent_with_life("Two", events)])
    async with app.serving() as url:
        await app.add(agent_with_life("Three", events))
        assert events == ["One opened", "Two opened", "Three opened"]
        for path in ("one", "two", "three"):
            async with connect(f"{url}/{path}") as client:
                assert (await client.send("1", skill="read")).text == "one"
    assert events[3:] == ["Three closed", "Two closed", "One closed"]


async def test_two_engines_of_one_agent_have_resources_of_their_own():
    """What one closes is still open for the other."""
    agent = agent_with_life()
    async with connect(agent) as longer:
        async with connect(agent) as shorter:
            assert (await longer.send("1", skill="read")).text == "one"
            assert (await shorter.send("1", skill="read")).text == "one"
        assert (await longer.send("1", skill="read")).text == "one"


async def test_a_durable_run_that_goes_on_has_them(lasting):
    """It is opened before what an earlier process left is taken up."""
    agent = agent_with_life()

    @agent.skill(durable=True)
    async def pay(text: str, ctx: Context, db: Database) -> str:
        answer = await ctx.ask("Pay?")
        assert db.is_open
        return f"{answer} {db.rows[1]}"

    async with agent.app(store=lasting).serving() as url, connect(url) as client:
        asked = await client.send("x", skill="pay")
    async with agent.app(store=lasting).serving() as url, connect(url) as client:
        assert (await client.send("yes", task_id=asked.task_id)).text == "yes one"


async def test_task_groups_may_live_in_it():
    """It is entered and left in one task: anyio's cancel scopes allow nothing else."""
    agent = Agent("Grouped")
    is_over = False

    @agent.lifespan
    @contextlib.asynccontextmanager
    async def life() -> AsyncGenerator[Mailer]:
        nonlocal is_over
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield Mailer()
            group.cancel_scope.cancel()
        is_over = True

    @agent.skill
    async def send(text: str, mail: Mailer) -> str:
        return type(mail).__name__

    async with agent.app().serving() as url, connect(url) as client:
        assert (await client.send("x")).text == "Mailer"
    assert is_over


async def test_what_it_raises_keeps_the_server_from_starting():
    """A server without its database would fail each call; those opened before are closed."""
    events: list[str] = []
    broken = Agent("Broken")

    @broken.lifespan
    async def life() -> AsyncIterator[None]:
        raise ConnectionError("no database")
        yield

    @broken.skill
    async def echo(text: str) -> str:
        return text

    with pytest.raises(ConnectionError, match="no database"):
        async with agent_with_life("Whole", events).app(beside=[broken]).serving():
            pass
    assert events == ["Whole opened", "Whole closed"]


async def test_one_that_fails_at_the_end_is_logged_and_the_others_are_closed(caplog):
    """The tasks are stored by then; the stop goes on."""
    events: list[str] = []
    bad = Agent("Bad")

    @bad.lifespan
    async def life() -> AsyncIterator[None]:
        yield
        raise ValueError("not closed")

    @bad.skill
    async def echo(text: str) -> str:
        return text

    async with agent_with_life("Good", events).app(beside=[bad]).serving():
        pass
    assert events == ["Good opened", "Good closed"]
    assert "failed as it was closed" in caplog.text
    assert "not closed" in caplog.text


class Row(msgspec.Struct):
    first: Mailer
    second: Mailer


class Pair(NamedTuple):
    db: Database
    words: list[str]


def served_with(lifespan: Any, skill: Any) -> Agent:
    agent = Agent("Wrong")
    agent.lifespan(lifespan)
    agent.skill(skill)
    return agent


async def test_two_fields_of_one_type_are_an_error_at_the_start():
    """Which of them was meant can't be known."""

    async def life() -> AsyncIterator[Row]:
        yield Row(Mailer(), Mailer())

    async def send(text: str, mail: Mailer) -> str:
        return text

    with pytest.raises(TypeError, match=r"'mail' could be first or second.*ctx\.resources\.first"):
        served_with(life, send).app()


async def test_a_parameter_of_what_is_yielded_without_the_annotation_is_an_error_at_the_start():
    """Else a caller could fill it: a dataclass is read from messages."""

    @dataclass
    class Rates:
        factor: int = 1

    async def life():  # type: ignore[no-untyped-def]
        yield Rates()

    async def convert(amount: Message, rates: Rates) -> str:
        return ""

    with pytest.raises(TypeError, match=r"'rates' would be read from the message.*AsyncIterator"):
        async with served_with(life, convert).app().serving():
            pass

    async def mailing(text: str, mail: Mailer) -> str:
        return text

    with pytest.raises(TypeError, match=r"'mail'.*@agent\.lifespan says it yields"):
        served_with(life, mailing).app()


async def test_without_the_annotation_resources_are_there_all_the_same():
    """Only parameters need it."""

    async def life():  # type: ignore[no-untyped-def]
        yield {"region": "eu"}

    async def where(text: str, ctx: Context) -> str:
        return str(ctx.resources["region"])

    async with connect(served_with(life, where)) as client:
        assert (await client.send("x")).text == "eu"


async def test_text_and_lists_come_from_the_message_whatever_is_yielded():
    """A setting among the resources does not take a skill's input away."""

    async def life() -> AsyncIterator[Pair]:
        yield Pair(Database(), ["resource"])

    async def join(words: list[str], pair: Pair) -> str:
        return " ".join([*words, *pair.words])

    async with connect(served_with(life, join)) as client:
        assert (await client.send(["message"])).text == "message resource"


async def test_an_agent_without_a_lifespan_says_so():
    """As the failure of the task that asked for it, in the log."""
    agent = Agent("Bare")

    @agent.skill
    async def ask(text: str, ctx: Context) -> str:
        with pytest.raises(RuntimeError, match=r"no resources.*@agent\.lifespan"):
            _ = ctx.resources
        return "said"

    async with connect(agent) as client:
        assert (await client.send("x")).text == "said"


@pytest.mark.parametrize("wrong", ["plain", "arguments", "annotation", "twice"])
def test_a_lifespan_that_can_not_be_one_is_an_error(wrong):
    """With the way out, before anything is served."""
    agent = agent_with_life() if wrong == "twice" else Agent("Wrong")

    async def echo(text: str) -> str:
        return text

    async def needs(app: Any) -> AsyncIterator[None]:
        yield

    async def odd() -> Mailer:  # type: ignore[misc]
        yield Mailer()

    given: dict[str, Any] = {"plain": echo, "arguments": needs, "annotation": odd, "twice": odd}
    words = {
        "plain": "yields once",
        "arguments": "drop 'app'",
        "annotation": r"AsyncIterator\[Pools\]",
        "twice": "already has a lifespan",
    }

    def declare() -> None:
        agent.lifespan(given[wrong])
        agent.skill(echo)
        agent.app()

    with pytest.raises((TypeError, ValueError), match=words[wrong]):
        declare()


WORKERS = """
import os
from collections.abc import AsyncIterator
from accord import Agent, Context

agent = Agent("Many")

@agent.lifespan
async def life() -> AsyncIterator[None]:
    with open("events", "a") as file:
        file.write(f"opened {os.getpid()}\\n")
    yield
    with open("events", "a") as file:
        file.write(f"closed {os.getpid()}\\n")

@agent.skill
async def echo(text: str) -> str:
    return text
"""


async def test_each_worker_opens_and_closes_it_once(tmp_path: Path) -> None:
    """A pool can't be shared by processes."""
    (tmp_path / "many.py").write_text(WORKERS)
    events = tmp_path / "events"
    with schema_url() as store:
        command = ["serve", "many.py", "--workers", "2", "--store", store, "--port", "0"]
        with start(sys.executable, "-m", "accord", *command, cwd=tmp_path) as process:
            await until(lambda: events.exists() and events.read_text().count("opened") == 2)
            await process.stop()
    lines = events.read_text().split()
    pids = lines[1::2]
    assert sorted(lines[0::2]) == ["closed"] * 2 + ["opened"] * 2
    assert len(set(pids)) == 2
    assert sorted(pids[:2]) == sorted(pids[2:])
