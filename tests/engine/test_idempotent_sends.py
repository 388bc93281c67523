"""Sends under a key: what is sent twice is one message, however much lies between, and whatever
fails meanwhile.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from accord import Agent, Ask, Context, Reply, Retention
from accord.engine.log import NOBODY, writer
from accord.engine.reading import view
from accord.model import Message, Part, Role, SendMessageRequest
from accord.store.contract import CommitFailed, Item, Namespace, Store
from accord.store.memory import MemoryStore
from tests.engine.processes import Disk, Memory, Process, message, state_of, text_of, told, until
from tests.reliability.ways import Refused


@contextlib.asynccontextmanager
async def serving(agent: Agent, store: str | Store, **options: Any) -> AsyncIterator[Process]:
    """The one process on a store."""
    app = agent.app(store=store, **options)
    await app.open()
    try:
        yield Process(app)
    finally:
        await app.close()


def key(name: str) -> dict[str, str]:
    return {"idempotency-key": name}


async def test_two_keys_that_come_before_a_commit_are_both_kept(store: str) -> None:
    """A commit of a task has room for one key: the second waits for the next, and displaces
    none.
    """
    agent = Agent("Chat")

    @agent.skill
    async def chat(text: str) -> Ask:
        return Ask("More?", takes_waiting=True)

    async with serving(agent, store) as process:
        task = await process.send(message("go"))
        both = [
            message(text, task_id=task["id"], returnImmediately=True) for text in ("one", "two")
        ]
        await asyncio.gather(*(process.send(params, key(f"k{i}")) for i, params in enumerate(both)))
        tasks = process.app._engine.tasks
        await tasks.flush()
        for i, params in enumerate(both):
            assert await tasks.store.idempotency(Namespace("Chat"), f"k{i}") is not None
            task = await process.send(params, key(f"k{i}"))
        assert [
            said["parts"][0]["text"] for said in task["history"] if said["role"] == "ROLE_USER"
        ] == ["go", "one", "two"]


async def test_a_repeated_send_is_answered_however_much_was_recorded_silently(
    place: Disk | Memory,
) -> None:
    """The answer is further down the log than one read gives, and nothing before it can be seen."""
    agent, params = Agent("Steps"), message("go")

    async def nothing() -> None:
        pass

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> None:
        for _ in range(300):
            await ctx.step(nothing)
        await ctx.ask("Well?")

    async with place.process(agent) as process:
        task = await process.send(params, key("k"))
        assert (await process.send(params, key("k")))["id"] == task["id"]
    async with place.process(agent) as process, asyncio.timeout(10):
        again = await process.send(params, key("k"))
        assert (again["id"], told(again)) == (task["id"], "Well?")
        frames = await process.stream("SendStreamingMessage", params, key("k"))
    assert frames[-1].state == "TASK_STATE_INPUT_REQUIRED"


async def test_a_key_can_be_used_again_when_its_task_is_gone(store: str) -> None:
    """Keys may be kept for longer than tasks: one that stands for nothing would refuse its message
    for good.
    """
    agent, calls, params = Agent("Short"), [], message("go")

    @agent.skill
    async def work(text: str) -> str:
        calls.append(text)
        return "done"

    async with serving(
        agent, store, retention=Retention(tasks_s=0, events_s=0, keys_s=3600)
    ) as process:
        first = await process.send(params, key("k"))
        engine = process.app._engine
        async with asyncio.timeout(10):
            while await engine.tasks.store.load(Namespace("Short"), first["id"]) is not None:
                await engine._upkeep.purge()
        second = await process.send(params, key("k"))
        third = await process.send(params, key("k"))
    assert state_of(second) == "TASK_STATE_COMPLETED"
    assert first["id"] != second["id"] == third["id"]
    assert calls == ["go", "go"]


class Full(MemoryStore):
    """Nothing more fits, for a while."""

    is_full = True

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        if self.is_full:
            raise CommitFailed("the disk is full")
        return await super().commit(items)


async def test_an_answer_is_found_by_its_key_also_when_the_log_is_purged(store: str) -> None:
    """The function that asked was in memory, so that its answer was a post: only the log says what
    became of it, and that is kept for a shorter time than the key.
    """
    agent = Agent("Chat")

    @agent.skill
    async def ask(text: str, ctx: Context) -> str:
        return await ctx.ask("Which?")

    keep = Retention(events_s=0, keys_s=math.inf, tasks_s=math.inf)
    async with serving(agent, store, retention=keep) as process:
        task = await process.send(message("go"))
        answer = message("blue", task_id=task["id"])
        first = await process.send(answer, key("k"))
        assert text_of(first) == "blue"
        tasks = process.app._engine.tasks
        record = await tasks.store.load(Namespace("Chat"), task["id"])
        async with asyncio.timeout(10):
            while await tasks.store.read({record.key: 0}):
                await process.app._engine._upkeep.purge()
        assert await process.send(answer, key("k")) == first


@pytest.mark.parametrize("way", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("which", ["first", "answer"])
async def test_a_key_whose_turn_was_purged_gives_the_task_as_it_was_begun_anew(
    store: str, which: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says any more how the turn ended: who waited for that would wait for ever."""
    monkeypatch.setattr(view, "OUTCOME_S", 0.1)
    agent = Agent("Chat")

    @agent.skill
    async def ask(text: str, ctx: Context) -> str:
        return await ctx.ask(f"Which {text}?")

    keep = Retention(events_s=0, keys_s=math.inf, tasks_s=math.inf)
    async with serving(agent, store, retention=keep) as process, asyncio.timeout(20):
        sent = {"first": message("one")}
        task = await process.send(sent["first"], key("first"))
        sent["answer"] = message("blue", task_id=task["id"])
        await process.send(sent["answer"], key("answer"))
        engine = process.app._engine
        record = await engine.tasks.store.load(Namespace("Chat"), task["id"])
        while await engine.tasks.store.read({record.key: 0}):
            await engine._upkeep.purge()
        request = SendMessageRequest(
            message=Message(
                message_id="m", role=Role.USER, parts=[Part(text="two")], task_id=task["id"]
            )
        )
        receipt = await engine.resume(request, Namespace("Chat"), NOBODY, reopen=True)
        await receipt.answer()
        receipt.close()
        if way == "SendMessage":
            found = await process.send(sent[which], key(which))
        else:
            (frame,) = await process.stream(way, sent[which], key(which))
            found = frame.event["task"]
    assert told(found) == "Which two?"


async def test_the_sender_of_a_keyed_message_without_a_task_is_told_of_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its key can't be stored: it is told so in time, as others are whose task can't be."""
    monkeypatch.setattr(writer, "OUTAGE_S", 0.05)
    agent, store, params = Agent("Parrot"), Full(), message("hi")

    @agent.skill
    async def parrot(text: str) -> Reply:
        return Reply(text)

    async with serving(agent, store) as process, asyncio.timeout(10):
        with pytest.raises(Refused, match="can't store anything right now") as refused:
            await process.call("SendMessage", params, key("k"))
        assert refused.value.reason == "UNAVAILABLE"
        store.is_full = False
        await until(lambda: not process.app._engine.tasks.trouble)
        said = (await process.call("SendMessage", params, key("k")))["message"]
        assert (await process.call("SendMessage", params, key("k")))["message"] == said


async def test_a_sender_that_is_cancelled_takes_nobody_with_it(store: str) -> None:
    """Who sent the same under the same key takes its place, one of them, and all others wait for
    that.
    """
    agent, calls, go_on = Agent("Wait"), [], asyncio.Event()

    @agent.skill
    async def work(text: str) -> Reply:
        return Reply(text)

    async with serving(agent, store) as process, asyncio.timeout(10):
        sends = process.app._service.sends
        request = SendMessageRequest(
            message=Message(message_id="m", role=Role.USER, parts=[Part(text="x")])
        )

        async def accept(record: Any) -> Message:
            calls.append(record.key)
            await go_on.wait()
            return request.message

        senders = [
            asyncio.create_task(sends.once(Namespace("Wait"), "k", request, accept))
            for _ in range(4)
        ]
        await until(lambda: calls)
        senders[0].cancel()
        senders[3].cancel()
        await until(lambda: len(calls) == 2)
        go_on.set()
        answers = await asyncio.gather(*senders, return_exceptions=True)
    assert [type(answer) for answer in answers] == [
        asyncio.CancelledError,
        Message,
        Message,
        asyncio.CancelledError,
    ]
    assert calls == ["k", "k"]
