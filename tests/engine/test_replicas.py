"""Two processes on one PostgreSQL are one agent: a client may ask either for anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Agent, Context
from accord.store.postgres import PostgresStore
from accord.store.postgres.heartbeat import declare_dead
from tests.engine.processes import Process, message, reaches, state_of, text_of, until
from tests.postgres import execute, schema_url
from tests.proxy import proxied

SECONDS = 20


class Talk:
    """An agent in two processes, and what its functions were told."""

    def __init__(self) -> None:
        self.agent = Agent("Talk")
        self.heard: list[str] = []
        self.go_on = asyncio.Event()

        @self.agent.skill
        async def chat(text: str, ctx: Context) -> str:
            self.heard.append(text)
            answer = await ctx.ask(f"{text}?")
            self.heard.append(answer)
            return f"{text} {answer}"

        @self.agent.skill(durable=True)
        async def work(text: str, ctx: Context) -> str:
            first = await ctx.step(self.begin, text)
            await self.go_on.wait()
            ctx.status("nearly")
            return f"{first} done"

        @self.agent.skill
        async def count(text: str, ctx: Context) -> AsyncIterator[str]:
            await self.go_on.wait()
            for n in range(20):
                yield f"{n} "
                await asyncio.sleep(0)

    async def begin(self, text: str) -> str:
        self.heard.append(text)
        return text

    @asynccontextmanager
    async def process(self, url: str) -> AsyncIterator[Process]:
        app = self.agent.app(store=PostgresStore(url))
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close(0)

    @asynccontextmanager
    async def two(self, url: str) -> AsyncIterator[tuple[Process, Process]]:
        async with asyncio.timeout(2 * SECONDS), self.process(url) as one, self.process(url) as two:
            yield one, two


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture(params=["on", "off"], ids=["notify", "poll"])
def url(request: pytest.FixtureRequest) -> Any:
    """With wake-ups and without: the same results."""
    with schema_url(notify=request.param) as url:
        yield url


@pytest.fixture
def one_url() -> Any:
    with schema_url() as url:
        yield url


def store_of(process: Process) -> PostgresStore:
    store = process.app._engine.tasks.store
    assert isinstance(store, PostgresStore)
    return store


def to(skill: str, text: str, **more: Any) -> dict[str, Any]:
    params = message(text, **more)
    params["message"]["metadata"] = {"skill": skill}
    return params


async def kill(process: Process) -> None:
    """Declare a process dead, as others do after its heartbeat stood still."""
    store = store_of(process)
    async with store.reading() as db:
        await declare_dead(db, store.options, store.replica)


async def test_a_stream_on_the_other_process_shows_everything_once(talk: Talk, url: str) -> None:
    async with talk.two(url) as (owner, other):
        task = await owner.send(to("count", "go", returnImmediately=True))
        reading = await other.subscribed(task["id"])
        talk.go_on.set()
        frames = await reading
        assert frames[-1].is_final
        numbers = [frame.id for frame in frames]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert text_of(await other.get(task["id"])) == text_of(await owner.get(task["id"]))


async def test_an_answer_on_the_other_process_reaches_who_asked(talk: Talk, url: str) -> None:
    """The function is in memory there, and goes on: nothing is called again."""
    async with talk.two(url) as (owner, other):
        task = await owner.send(to("chat", "one"))
        assert state_of(task) == "TASK_STATE_INPUT_REQUIRED"
        answered = await other.send(message("two", task_id=task["id"]))
        assert text_of(answered) == "one two"
        assert talk.heard == ["one", "two"]
        listed = (await other.call("ListTasks", {}))["tasks"]
        assert [state_of(one) for one in listed] == ["TASK_STATE_COMPLETED"]


async def test_a_cancel_on_the_other_process_ends_the_task(talk: Talk, url: str) -> None:
    async with talk.two(url) as (owner, other):
        task = await owner.send(to("work", "one", returnImmediately=True))
        await until(lambda: talk.heard)
        assert state_of(await other.cancel(task["id"])) == "TASK_STATE_CANCELED"
        assert state_of(await owner.get(task["id"])) == "TASK_STATE_CANCELED"


async def test_one_key_on_both_processes_is_one_task(talk: Talk, url: str) -> None:
    async with talk.two(url) as processes:
        for n in range(5):
            answers = await asyncio.gather(
                *(
                    process.send(to("chat", f"hi{n}"), {"idempotency-key": f"k{n}"})
                    for process in processes
                )
            )
            assert len({task["id"] for task in answers}) == 1
        assert sorted(talk.heard) == [f"hi{n}" for n in range(5)]


async def test_a_process_that_stops_hands_over_at_once(talk: Talk, url: str) -> None:
    """What waits for its client can be answered elsewhere; durable work goes on there."""
    async with asyncio.timeout(2 * SECONDS), talk.process(url) as other:
        async with talk.process(url) as leaving:
            asked = await leaving.send(to("chat", "one"))
            works = await leaving.send(to("work", "w", returnImmediately=True))
            await until(lambda: "w" in talk.heard)
            reading = await other.subscribed(works["id"])
        talk.go_on.set()
        assert text_of(await reaches(other, works["id"], "TASK_STATE_COMPLETED")) == "w done"
        assert (await reading)[-1].is_final
        answered = await other.send(message("two", task_id=asked["id"]))
        assert text_of(answered) == "one two"
        assert talk.heard.count("w") == 1, "a step that was done is not done again"


async def test_what_a_dead_process_left_is_taken_up_by_the_other(talk: Talk, one_url: str) -> None:
    """Found by its heartbeat, which stands still; who reads along on the other process reads on."""
    async with talk.two(one_url) as (dying, other):
        works = await dying.send(to("work", "w", returnImmediately=True))
        fails = await dying.send(to("count", "c", returnImmediately=True))
        await until(lambda: talk.heard)
        reading = await other.subscribed(works["id"])
        dying.app._engine._upkeep.cancel()  # which shows life too
        await asyncio.to_thread(store_of(dying)._heartbeat.stop)
        failed = await reaches(other, fails["id"], "TASK_STATE_FAILED", seconds=SECONDS)
        assert "interrupted" in failed["status"]["message"]["parts"][0]["text"]
        talk.go_on.set()
        frames = await reading
        numbers = [frame.id for frame in frames]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert text_of(await other.get(works["id"])) == "w done"
        assert talk.heard == ["w"]


async def test_a_process_that_was_taken_for_dead_goes_on_under_a_new_number(
    talk: Talk, one_url: str
) -> None:
    """Its tasks go on elsewhere, and who reads them here reads on; it takes new work, and says that
    it is ready.
    """
    async with talk.two(one_url) as (fenced, other):
        number = store_of(fenced).replica
        works = await fenced.send(to("work", "w", returnImmediately=True))
        await until(lambda: talk.heard)
        reading = await fenced.subscribed(works["id"])
        await kill(fenced)
        await until(lambda: store_of(fenced).replica != number, seconds=SECONDS)
        await until(lambda: not fenced.app._engine.tasks.trouble, seconds=SECONDS)
        talk.go_on.set()
        frames = await reading
        assert frames[-1].is_final
        numbers = [frame.id for frame in frames]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert text_of(await fenced.get(works["id"])) == "w done"
        again = await fenced.send(to("chat", "again"))
        assert text_of(await other.send(message("yes", task_id=again["id"]))) == "again yes"


async def test_an_outage_is_held_and_gone_on_from(
    talk: Talk, one_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits is told after a while, the process is not ready, no step begins; when the database
    is back, everything goes on under the same number.
    """
    monkeypatch.setattr("accord.engine.log.writer.OUTAGE_S", 0.3)
    async with proxied(one_url) as proxy, talk.process(proxy.url) as process:
        number = store_of(process).replica
        task = await process.send(to("work", "w", returnImmediately=True))
        await until(lambda: talk.heard)
        proxy.stall()
        proxy.cut_all()
        talk.go_on.set()
        await until(lambda: process.app._engine.tasks.trouble, seconds=SECONDS)
        await until(lambda: not store_of(process).is_sure, seconds=SECONDS)
        with pytest.raises(Exception, match="store"):
            await process.send(to("chat", "new"))
        proxy.resume()
        proxy.cut_all()
        done = await reaches(process, task["id"], "TASK_STATE_COMPLETED", seconds=SECONDS)
        assert text_of(done) == "w done"
        await until(lambda: not process.app._engine.tasks.trouble, seconds=SECONDS)
        assert store_of(process).replica == number


async def test_several_agents_share_a_database_and_leave_each_other_alone(one_url: str) -> None:
    """None takes up, lists or finds another's tasks."""
    one, other, calls = Agent("One"), Agent("Other"), list[str]()

    @one.skill(durable=True)
    @other.skill(durable=True)
    async def work(text: str) -> str:
        calls.append(text)
        await asyncio.Event().wait()
        return text

    apps = [agent.app(store=PostgresStore(one_url)) for agent in (one, other)]
    for app in apps:
        await app.open()
    mine, theirs = (Process(app) for app in apps)
    task = await mine.send(message("mine", returnImmediately=True))
    await until(lambda: calls)
    assert (await theirs.call("ListTasks", {}))["tasks"] == []
    await apps[0].close(0)
    probe = await theirs.send(message("theirs", returnImmediately=True))
    await until(lambda: len(calls) == 2)
    for _ in range(3):  # looks for orphans
        await apps[1]._engine._recovery.check()
    assert calls == ["mine", "theirs"]
    assert probe["id"] != task["id"]
    await apps[1].close(0)
    schema = store_of(theirs).options.schema
    states = execute(f"SELECT id, state FROM {schema}.tasks ORDER BY key")
    assert {row["state"] for row in states} <= {1, 2}
