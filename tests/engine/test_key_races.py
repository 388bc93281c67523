"""A key that another process uses in the moment of our commit: the sender gets the other's answer,
and what the task was doing goes on.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Ask, Context
from accord.model import Message, Part, Role
from accord.protocol.v1 import codec as v1
from accord.store.contract import Append, Create, Idempotency, Item, Post
from accord.store.memory import MemoryStore
from accord.store.postgres import PostgresStore
from accord.store.sqlite.store import SqliteStore
from tests.engine.processes import Process, ended, message, text_of, until
from tests.postgres import schema_url
from tests.reliability.ways import Refused

SECONDS = 20
THEIRS = v1.encode(Message(message_id="theirs", role=Role.AGENT, parts=[Part(text="theirs")]))


class Raced:
    """Another process is faster with every key that begins with `raced`."""

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        theirs = [_answered(item) for item in items if _is_raced(item)]
        if theirs:
            await super().commit(theirs)  # type: ignore[misc]  # of the store it is mixed into
        stored: list[bool] = await super().commit(items)  # type: ignore[misc]
        return stored


def _is_raced(item: Item) -> bool:
    return (
        isinstance(item, Create | Append | Post)
        and item.idempotency is not None
        and item.idempotency.key.startswith("raced")
    )


def _answered(item: Item) -> Idempotency:
    assert isinstance(item, Create | Append | Post)
    assert item.idempotency is not None
    key = item.idempotency
    return Idempotency(key.namespace, key.key, key.digest, key.at_ms, reply=THEIRS)


class RacedMemory(Raced, MemoryStore):
    pass


class RacedSqlite(Raced, SqliteStore):
    pass


class RacedPostgres(Raced, PostgresStore):
    pass


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def raced(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield RacedMemory()
    elif request.param == "sqlite":
        yield RacedSqlite(tmp_path / "tasks.db")
    else:
        with schema_url(lease_s=15, beat_s=1) as url:
            yield RacedPostgres(url)


@contextlib.asynccontextmanager
async def serving(agent: Agent, store: Any, **options: Any) -> AsyncIterator[Process]:
    app = agent.app(store=store, **options)
    async with asyncio.timeout(SECONDS):
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close()


class Works:
    """A plain skill that works until it is let go on, and says whether it was cancelled."""

    def __init__(self) -> None:
        self.agent = Agent("Works")
        self.go_on, self.begun, self.ends = asyncio.Event(), 0, list[str]()
        self.agent.skill(self.work)

    async def work(self, text: str, ctx: Context) -> str:
        self.begun += 1
        try:
            await self.go_on.wait()
            self.ends.append("returned")
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        return f"done: {text}"


def key(name: str) -> dict[str, str]:
    return {"idempotency-key": name}


def said_by_user(task: dict[str, Any]) -> list[str]:
    return [one["parts"][0]["text"] for one in task["history"] if one["role"] == "ROLE_USER"]


async def answer_of(process: Process, params: dict[str, Any], name: str) -> str:
    """What a sender under a key gets, if that is a message."""
    found = await process.call("SendMessage", params, key(name))
    return str(found["message"]["parts"][0]["text"])


async def test_a_new_task_is_not_begun(raced: Any) -> None:
    works = Works()
    async with serving(works.agent, raced) as process:
        assert await answer_of(process, message("go"), "raced") == "theirs"
        assert works.begun == 0
        assert process.app.engine.runs.running() == []


@pytest.mark.parametrize("ends", ["at once", "later"])
async def test_a_running_plain_task_goes_on(raced: Any, ends: str) -> None:
    """It can't be called again: to lose it would be to fail it. What was recorded in the same
    commit is kept.
    """
    works = Works()
    async with serving(works.agent, raced) as process:
        task = await process.send(message("go", returnImmediately=True))
        more = message("more", task_id=task["id"])
        sending = asyncio.create_task(answer_of(process, more, "raced"))
        if ends == "at once":  # with the message in one commit
            (log,) = process.app.engine.tasks.directory.live()
            await until(lambda: log.inbox or sending.done())
            works.go_on.set()
        assert await sending == "theirs"
        works.go_on.set()
        task = await ended(process)
        assert works.ends == ["returned"]
        assert text_of(task) == "done: go"
        assert said_by_user(task) == ["go"]
        assert await answer_of(process, more, "raced") == "theirs"


async def test_a_waiting_task_waits_on(raced: Any) -> None:
    agent = Agent("Talks")

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        return f"{text} {await ctx.ask('More?')}"

    async with serving(agent, raced) as process:
        task = await process.send(message("one"))
        lost = message("two", task_id=task["id"])
        assert await answer_of(process, lost, "raced") == "theirs"
        answered = await process.send(message("two", task_id=task["id"]), key("free"))
        assert text_of(answered) == "one two"
        assert said_by_user(answered) == ["one", "two"]


async def test_a_branch_goes_on_beside_an_open_question(raced: Any) -> None:
    """One branch asks, another works: the run is not waiting, though a message answers it."""
    agent, go_on, ends = Agent("Both"), asyncio.Event(), list[str]()

    @agent.skill
    async def both(text: str, ctx: Context) -> str:
        async def work() -> str:
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise
            return "worked"

        async def ask() -> str:
            return await ctx.ask("More?")

        return " ".join(await ctx.gather(work(), ask()))

    async with serving(agent, raced) as process:
        task = await process.send(message("one"))
        lost = message("lost", task_id=task["id"])
        assert await answer_of(process, lost, "raced") == "theirs"
        sending = asyncio.create_task(process.send(message("two", task_id=task["id"]), key("free")))
        (log,) = process.app.engine.tasks.directory.live()
        await until(lambda: log.state.word == "working")
        go_on.set()
        assert text_of(await sending) == "worked two"
        assert ends == []


async def test_under_a_free_key_messages_get_their_turns_in_order(raced: Any) -> None:
    agent, go_on = Agent("Turns"), asyncio.Event()

    @agent.skill
    async def turn(text: str, ctx: Context) -> Any:
        await go_on.wait()
        return Ask(f"after {text}?", takes_waiting=True)

    async with serving(agent, raced) as process:
        task = await process.send(message("1", returnImmediately=True))
        sending = list[asyncio.Task[Any]]()
        (log,) = process.app.engine.tasks.directory.live()
        for i, name in enumerate(("free-2", "", "raced-4", "free-5", ""), 2):
            params = message(str(i), task_id=task["id"])
            if name.startswith("raced"):
                assert await answer_of(process, params, name) == "theirs"
            else:
                sending.append(asyncio.create_task(process.send(params, key(name))))
                await until(lambda: len(log.inbox) == len(sending))
        go_on.set()
        answered = [await one for one in sending]
        answers = [one["status"]["message"]["parts"][0]["text"] for one in answered]
        assert answers == ["after 2?", "after 3?", "after 5?", "after 6?"]
        assert said_by_user(await process.get(task["id"])) == ["1", "2", "3", "5", "6"]


def meanwhile(store: Any, happens: Callable[[], Awaitable[object]]) -> None:
    """Have something happen between the next look for a key in this store and its answer."""
    look = store.idempotency

    async def late(*what: Any) -> Idempotency | None:
        store.idempotency = look
        found: Idempotency | None = await look(*what)
        await happens()
        return found

    store.idempotency = late


@pytest.fixture(params=["memory", "postgres"])
def stores(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """Stores of two processes on the same tasks."""
    if request.param == "memory":
        one = MemoryStore().another()
        yield one, one.another()
    else:
        with schema_url(lease_s=15, beat_s=1) as url:
            yield PostgresStore(url), PostgresStore(url)


V11 = {"a2a-version": "1.1"}


@pytest.mark.parametrize("refusal", ["it has ended", "it is at another generation"])
async def test_a_message_that_was_taken_meanwhile_is_not_refused_when_sent_again(
    stores: tuple[Any, Any], refusal: str
) -> None:
    """The first send is stored after the second has found its key unused, and the task takes no
    such message any more: the second gets the answer of the first.
    """
    agent = Agent("Talks")

    @agent.skill
    async def talk(text: str, ctx: Context) -> Any:
        if refusal == "it has ended":
            return f"heard {await ctx.ask('More?')}"
        return Ask(f"heard {text}", takes_waiting=True)

    one, other = stores
    async with (
        serving(agent, one, previews=["1.1"]) as first,
        serving(agent, other, previews=["1.1"]) as second,
    ):
        task = await first.send(message("one"), V11)
        more = message("two", task_id=task["id"])
        if refusal != "it has ended":
            more["configuration"] = {"ifGenerationMatch": task["generation"]}
        headers = V11 | key("k")
        answers = list[Any]()

        async def send_first() -> None:
            answers.append(await first.send(more, headers))

        meanwhile(other, send_first)
        again = await second.send(more, headers)
        assert "heard two" in str(again)
        assert [again] == answers
        assert said_by_user(await second.get(task["id"])) == ["one", "two"]


async def test_what_was_refused_is_refused_again(stores: tuple[Any, Any]) -> None:
    """Nobody has used the key: the error is that of the task."""
    agent = Agent("Ends")

    @agent.skill
    async def end(text: str, ctx: Context) -> str:
        return f"done: {text}"

    one, other = stores
    async with serving(agent, one) as first, serving(agent, other) as second:
        task = await first.send(message("one"))
        more = message("two", task_id=task["id"])
        for process in (first, second, first):
            with pytest.raises(Refused, match="takes no more messages"):
                await process.send(more, key("k"))
        assert said_by_user(await second.get(task["id"])) == ["one"]
