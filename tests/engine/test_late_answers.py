"""A message answers a question only if it was accepted after the question was stored.

Else a "yes" that comes too late for one question pays for the next.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from accord import Agent, Ask, Context
from accord.engine.runs import retention as upkeep
from accord.store.memory import MemoryStore
from tests.engine.processes import (
    Database,
    Disk,
    Memory,
    Process,
    message,
    reaches,
    text_of,
    told,
    until,
)
from tests.proxy import proxied
from tests.reliability.ways import Refused

Place = Disk | Memory | Database

ASKED_SINCE = "asked a question after it had accepted your message"


class Shop:
    """Skills that ask, each in one of the ways there are, while a message for them waits."""

    def __init__(self) -> None:
        self.agent = Agent("Shop")
        self.go_on = asyncio.Event()
        self.calls: list[str] = []
        for skill in (self.ask, self.twice, self.end_turn, self.authorize, self.branches):
            self.agent.skill(skill, durable=True)

    async def busy(self, text: str) -> None:
        self.calls.append(text)
        await self.go_on.wait()

    async def ask(self, text: str, ctx: Context) -> str:
        await self.busy(text)
        return f"paid: {await ctx.ask('Pay 4,000?', bool)}"

    async def twice(self, text: str, ctx: Context) -> str:
        """The first question is left, as by a timeout."""
        try:
            async with asyncio.timeout(0):
                await ctx.ask("Pay 10?", bool)
        except TimeoutError:
            await self.busy(text)
        return f"paid: {await ctx.ask('Pay 4,000?', bool)}"

    async def end_turn(self, text: str) -> str | Ask:
        if text != "go":
            return f"paid: {text == 'yes'}"
        await self.busy(text)
        return Ask("Pay 4,000?", bool)

    async def authorize(self, text: str, ctx: Context) -> str:
        await self.busy(text)
        await ctx.require_auth("Pay 4,000?")
        return "paid: True"

    async def branches(self, text: str, ctx: Context) -> str:
        await self.busy(text)
        (found,) = await ctx.gather(ctx.ask("Pay 4,000?", bool))
        return f"paid: {found}"


SKILLS = ("ask", "twice", "end_turn", "authorize", "branches")
ASKING = ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED")


def inbox(process: Process) -> int:
    return sum(len(log.inbox) for log in process.app._engine.tasks.directory.live())


async def asks_on(process: Process, task_id: str) -> None:
    """The question is open, its text is there, and a new answer is taken."""
    task = await reaches(process, task_id, *ASKING)
    assert told(task) == "Pay 4,000?"
    task = await process.send(message("no", task_id=task_id))
    assert text_of(task).startswith("paid: ")


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("how", ["send", "stream", "key", "not waited for"])
async def test_a_message_that_waited_does_not_answer_the_next_question(
    any_place: Place, skill: str, how: str
) -> None:
    """Its sender is told so, and that the task has asked; the question stays open."""
    shop = Shop()
    async with any_place.process(shop.agent) as process, asyncio.timeout(30):
        task = await process.send(message("go", skill, returnImmediately=True))
        await until(lambda: shop.calls)
        late = message("yes", task_id=task["id"], returnImmediately=how == "not waited for")
        sending: Any = (
            process.stream("SendStreamingMessage", late)
            if how == "stream"
            else process.send(late, {"idempotency-key": "k"} if how == "key" else None)
        )
        waiting = asyncio.create_task(sending)
        await until(lambda: inbox(process) == 1)
        shop.go_on.set()
        if how == "not waited for":
            await waiting
        else:
            with pytest.raises(Refused, match=ASKED_SINCE) as refused:
                await waiting
            assert refused.value.reason == "UNSUPPORTED_OPERATION"
        await asks_on(process, task["id"])


@pytest.mark.parametrize("skill", SKILLS)
async def test_not_in_the_next_process_either(any_place: Place, skill: str) -> None:
    shop = Shop()
    async with any_place.dying(shop.agent) as process:
        task = await process.send(message("go", skill, returnImmediately=True))
        await until(lambda: shop.calls)
        await process.send(message("yes", task_id=task["id"], returnImmediately=True))
    shop.go_on.set()
    async with any_place.process(shop.agent) as process, asyncio.timeout(30):
        await asks_on(process, task["id"])


@pytest.mark.parametrize("skill", SKILLS)
async def test_not_through_another_replica(shared_place: Memory | Database, skill: str) -> None:
    shop = Shop()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(30))
        owner, other = [
            await stack.enter_async_context(shared_place.process(shop.agent)) for _ in range(2)
        ]
        task = await owner.send(message("go", skill, returnImmediately=True))
        await until(lambda: shop.calls)
        waiting = asyncio.create_task(other.send(message("yes", task_id=task["id"])))
        await until(lambda: inbox(owner) == 1)
        shop.go_on.set()
        with pytest.raises(Refused, match=ASKED_SINCE):
            await waiting
        await asks_on(other, task["id"])


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
async def test_not_as_a_post_that_is_read_after_the_question(
    skill: str, dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was accepted by another replica before: what counts is when, not when it is read; nor by
    whom, if the owner dies before it has read it.
    """
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    shop, place = Shop(), Memory()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(30))
        other = await stack.enter_async_context(place.process(shop.agent))
        async with place.dying(shop.agent) if dies else place.process(shop.agent) as owner:
            task = await owner.send(message("go", skill, returnImmediately=True))
            await until(lambda: shop.calls)
            tasks = owner.app._engine.tasks
            read, tasks.on_posts = tasks.on_posts, lambda tasks: None  # posts lie there unread
            waiting = asyncio.create_task(other.send(message("yes", task_id=task["id"])))
            await until(lambda: _posts(tasks.store) == 1)
            shop.go_on.set()
            await reaches(owner, task["id"], *ASKING)
            if not dies:
                tasks.on_posts = read
                read(None)
                with pytest.raises(Refused, match=ASKED_SINCE):
                    await waiting
                await asks_on(other, task["id"])
                return
        with pytest.raises(Refused, match=ASKED_SINCE):
            await waiting
        await asks_on(other, task["id"])


async def test_nor_while_another_branch_has_spoken_since() -> None:
    """Then the task is working, and the question is open all the same."""
    agent, place = Agent("Shop"), Memory()
    called, go_on, speak = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @agent.skill(durable=True)
    async def buy(text: str, ctx: Context) -> str:
        async def talk() -> None:
            await speak.wait()
            ctx.status("half")

        called.set()
        await go_on.wait()
        found, _ = await ctx.gather(ctx.ask("Pay 4,000?", bool), talk())
        return f"paid: {found}"

    async with (
        asyncio.timeout(30),
        place.process(agent) as other,
        place.process(agent) as owner,
    ):
        task = await owner.send(message("go", returnImmediately=True))
        await called.wait()
        tasks = owner.app._engine.tasks
        read, tasks.on_posts = tasks.on_posts, lambda tasks: None  # posts lie there unread
        waiting = asyncio.create_task(other.send(message("yes", task_id=task["id"])))
        await until(lambda: _posts(tasks.store) == 1)
        go_on.set()
        await reaches(owner, task["id"], *ASKING)
        speak.set()
        await reaches(owner, task["id"], "TASK_STATE_WORKING")
        tasks.on_posts = read
        read(None)
        with pytest.raises(Refused, match=ASKED_SINCE):
            await waiting
        done = await other.send(message("no", task_id=task["id"]))
        assert text_of(done) == "paid: False"


def _posts(store: MemoryStore) -> int:
    return sum(
        known.record.posts
        for index in store._state.indexes.values()
        for known in index.tasks.values()
    )


async def test_a_message_that_comes_before_the_question_is_stored_is_no_answer(
    database: Database,
) -> None:
    """The function asks, and the database takes its time: nobody has seen the question."""
    shop = Shop()
    async with (
        asyncio.timeout(60),
        proxied(database.url) as proxy,
        Database(proxy.url).process(shop.agent) as process,
    ):
        task = await process.send(message("go", "ask", returnImmediately=True))
        await until(lambda: shop.calls)
        (log,) = process.app._engine.tasks.directory.live()
        proxy.stall()
        shop.go_on.set()
        await until(lambda: log.state.word == "input-required")
        sending = asyncio.create_task(process.send(message("yes", task_id=task["id"])))
        await until(lambda: log.slot.pins)
        proxy.resume()
        with pytest.raises(Refused, match=ASKED_SINCE):
            await sending
        await asks_on(process, task["id"])


async def test_an_answer_after_the_question_was_shown_is_taken_wherever_it_comes_in(
    shared_place: Memory | Database,
) -> None:
    """Under a key or without one, on the owner and on another replica."""
    shop = Shop()
    shop.go_on.set()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(60))
        owner, other = [
            await stack.enter_async_context(shared_place.process(shop.agent)) for _ in range(2)
        ]
        for skill in set(SKILLS) - {"twice"}:
            for process in (owner, other):
                for key in ("", f"{skill} {process is owner}"):
                    task = await owner.send(message("go", skill))
                    assert told(task) == "Pay 4,000?"
                    headers = {"idempotency-key": key} if key else None
                    done = await process.send(message("yes", task_id=task["id"]), headers)
                    assert text_of(done) == "paid: True"


async def test_in_a_chat_messages_that_waited_get_their_turns(any_place: Place) -> None:
    """Where the skill says that any message is as good as another."""
    agent, go_on, calls = Agent("Chat"), asyncio.Event(), list[str]()

    @agent.skill(durable=True)
    async def chat(text: str) -> Ask:
        calls.append(text)
        await go_on.wait()
        return Ask(f"You said {text}", takes_waiting=True)

    async with any_place.process(agent) as process, asyncio.timeout(30):
        task = await process.send(message("0", returnImmediately=True))
        await until(lambda: calls)
        sending = [
            asyncio.create_task(process.send(message(str(n), task_id=task["id"])))
            for n in range(1, 5)
        ]
        await until(lambda: inbox(process) == 4)
        go_on.set()
        answers = await asyncio.gather(*sending)
    assert sorted(told(answer) for answer in answers) == [f"You said {n}" for n in range(1, 5)]
