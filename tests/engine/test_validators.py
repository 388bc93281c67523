"""A check that a user wrote may raise anything: it costs the message it looked at, and no other."""

import asyncio
import functools
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from accord import Agent, Ask, Context
from accord.model import TaskNotFound, Unavailable
from tests.engine.processes import (
    Database,
    Disk,
    Memory,
    Process,
    message,
    reaches,
    state_of,
    told,
    until,
)
from tests.reliability.ways import Refused

Place = Disk | Memory | Database


class Odd(BaseException):
    """No Exception: what catches those does not catch it."""


RAISES: dict[str, Callable[[str], BaseException]] = {
    "KeyError": KeyError,
    "RuntimeError": RuntimeError,
    "Odd": Odd,
    "CancelledError": asyncio.CancelledError,
    "Unavailable": Unavailable,
    "ValueError": ValueError,
}


def check(name: str) -> None:
    if name in RAISES:
        raise RAISES[name]("the price")


@dataclass
class Order:
    name: str

    def __post_init__(self) -> None:
        check(self.name)


class Model(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def is_good(cls, name: str) -> str:
        check(name)
        return name


class Shop:
    """A skill that is busy until it is told to go on, and then waits for its next order."""

    def __init__(self) -> None:
        self.agent = Agent("Shop")
        self.go_on = asyncio.Event()
        self.calls: list[str] = []

        @self.agent.skill(durable=True)
        async def dataclass(order: Order) -> Ask:
            return await self.take(order.name)

        @self.agent.skill(durable=True)
        async def pydantic(order: Model) -> Ask:
            return await self.take(order.name)

        @self.agent.skill(durable=True)
        async def asks(text: str, ctx: Context) -> str:
            order = await ctx.ask("What?", Order)
            return order.name

    async def take(self, name: str) -> Ask:
        self.calls.append(name)
        await self.go_on.wait()
        return Ask("More?", takes_waiting=True)


@pytest.fixture(params=["dataclass", "pydantic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def order(name: str, kind: str = "", **more: Any) -> dict[str, Any]:
    params = message("", kind, **more) if kind else message("", **more)
    params["message"]["parts"] = [{"data": {"name": name}}]
    return params


def inbox(process: Process) -> int:
    return sum(len(log.inbox) for log in process.app._engine.tasks.directory.live())


def has_waiting(process: Process, count: int) -> bool:
    return inbox(process) == count


async def test_a_first_message_is_refused_and_names_what_was_raised(
    any_place: Place, kind: str
) -> None:
    """The text of an exception may hold anything: it is for the log of the agent."""
    shop = Shop()
    shop.go_on.set()
    async with any_place.process(shop.agent) as process:
        for name in RAISES:
            with pytest.raises(Refused) as refused:
                await process.send(order(name, kind))
            assert refused.value.reason == "INVALID_PARAMS"
            assert name == "ValueError" or f"raised {name}" in str(refused.value)
            assert name == "ValueError" or "the price" not in str(refused.value)
        assert told(await process.send(order("good", kind))) == "More?"
    assert shop.calls == ["good"]


async def test_a_message_that_waited_is_refused_and_the_next_gets_its_turn(
    any_place: Place, kind: str
) -> None:
    """Under a key too: on a store that others use such a message is a post."""
    shop = Shop()
    async with any_place.process(shop.agent) as process, asyncio.timeout(30):
        task = await process.send(order("one", kind, returnImmediately=True))
        await until(lambda: shop.calls)
        wrong = []
        for number, name in enumerate(RAISES):
            headers = {"idempotency-key": name} if number % 2 else None
            send = process.send(order(name, task_id=task["id"]), headers)
            wrong.append(asyncio.create_task(send))
            await until(functools.partial(has_waiting, process, number + 1))
        right = asyncio.create_task(process.send(order("two", task_id=task["id"])))
        await until(lambda: inbox(process) == len(RAISES) + 1)
        shop.go_on.set()
        for sending in wrong:
            with pytest.raises(Refused) as refused:
                await sending
            assert refused.value.reason == "INVALID_PARAMS"
        done = await right
    assert (state_of(done), told(done)) == ("TASK_STATE_INPUT_REQUIRED", "More?")
    assert shop.calls == ["one", "two"]


async def test_a_message_to_a_task_that_waits_is_refused_and_the_task_waits_on(
    any_place: Place, kind: str
) -> None:
    shop = Shop()
    shop.go_on.set()
    async with any_place.process(shop.agent) as process, asyncio.timeout(30):
        task = await process.send(order("one", kind))
        for name in RAISES:
            for headers in (None, {"idempotency-key": name}):
                with pytest.raises(Refused) as refused:
                    await process.send(order(name, task_id=task["id"]), headers)
                assert refused.value.reason == "INVALID_PARAMS"
        done = await process.send(order("two", task_id=task["id"]))
    assert told(done) == "More?"
    assert shop.calls == ["one", "two"]


async def test_a_posted_message_is_refused_and_the_next_is_read(
    shared_place: Memory | Database, kind: str
) -> None:
    shop = Shop()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(30))
        owner, other = [
            await stack.enter_async_context(shared_place.process(shop.agent)) for _ in range(2)
        ]
        task = await owner.send(order("one", kind, returnImmediately=True))
        await until(lambda: shop.calls)
        wrong = []
        for number, name in enumerate(RAISES):
            wrong.append(asyncio.create_task(other.send(order(name, task_id=task["id"]))))
            await until(functools.partial(has_waiting, owner, number + 1))
        right = asyncio.create_task(other.send(order("two", task_id=task["id"])))
        await until(lambda: inbox(owner) == len(RAISES) + 1)
        shop.go_on.set()
        for sending in wrong:
            with pytest.raises(Refused) as refused:
                await sending
            assert refused.value.reason == "INVALID_PARAMS"
        done = await right
    assert told(done) == "More?"
    assert shop.calls == ["one", "two"]


async def test_messages_that_a_dead_process_accepted_are_refused_by_the_next(
    any_place: Place, kind: str
) -> None:
    shop = Shop()
    async with any_place.dying(shop.agent) as process:
        task = await process.send(order("one", kind, returnImmediately=True))
        await until(lambda: shop.calls)
        for name in [*RAISES, "two"]:
            await process.send(order(name, task_id=task["id"], returnImmediately=True))
    shop.calls.clear()
    shop.go_on.set()
    async with any_place.process(shop.agent) as process:
        await until(lambda: shop.calls == ["one", "two"])
        task = await reaches(process, task["id"], "TASK_STATE_INPUT_REQUIRED")
    assert told(task) == "More?"


async def test_a_task_whose_own_message_no_longer_passes_fails_and_others_go_on(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version of the agent may check what the old one accepted."""
    shop = Shop()
    async with any_place.dying(shop.agent) as process:
        tasks = [
            await process.send(order(name, "dataclass", returnImmediately=True))
            for name in ("now wrong", "good")
        ]
        await until(lambda: len(shop.calls) == 2)
    shop.go_on.set()
    monkeypatch.setitem(RAISES, "now wrong", Odd)
    async with any_place.process(shop.agent) as process:
        good = await reaches(process, tasks[1]["id"], "TASK_STATE_INPUT_REQUIRED")
        failed = await reaches(process, tasks[0]["id"], "TASK_STATE_FAILED")
    assert told(good) == "More?"
    assert "can't be resumed" in told(failed)


async def test_an_answer_whose_check_raises_is_asked_for_again(any_place: Place) -> None:
    shop = Shop()
    async with any_place.process(shop.agent) as process, asyncio.timeout(30):
        task = await process.send(message("go", "asks"))
        for name in RAISES:
            task = await process.send(order(name, task_id=task["id"]))
            assert state_of(task) == "TASK_STATE_INPUT_REQUIRED"
            assert "does not fit" in told(task)
        task = await process.send(order("good", task_id=task["id"]))
    assert state_of(task) == "TASK_STATE_COMPLETED"


async def test_an_error_of_the_protocol_that_a_check_raises_is_what_its_sender_gets(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RAISES, "none such", TaskNotFound)
    shop = Shop()
    async with any_place.process(shop.agent) as process:
        with pytest.raises(Refused, match="the price") as refused:
            await process.send(order("none such", "dataclass"))
    assert refused.value.reason == "TASK_NOT_FOUND"
