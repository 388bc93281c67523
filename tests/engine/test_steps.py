"""Steps in a task: done once, whatever they give."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from accord import Agent, Context, Limits, Reply
from accord.engine.durable.step import StepFailed
from accord.engine.skills.context import Fail
from tests.drive import Refused, say, state_of, text_of


class Receipt:
    """What no JSON can be made of."""


async def test_a_step_whose_result_can_not_be_kept_is_not_done_again(connect_rpc: Any, lasting: str, caplog: Any) -> None:
    """Calling it again would charge again, and could not end better; the next life does not call it either."""
    done: list[str] = []

    def charge() -> Any:
        done.append("charged")
        return Receipt()

    async def shop(text: str, ctx: Context) -> Any:
        try:
            await ctx.step(charge, retries=3)
        except StepFailed as error:
            return await ctx.ask(str(error))

    async with connect_rpc(shop, store=lasting) as client:
        task = (await client.send("buy"))["task"]
        assert "step 'charge' was done, but gave a Receipt, which can't be written" in text_of(task["status"]["message"])
    async with connect_rpc(shop, store=lasting) as client:
        assert state_of((await client.send(say("well", taskId=task["id"])))["task"]) == "completed"
    assert done == ["charged"]


class Declined(ValueError):
    """Of the user's, with more in it than its text."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_step_that_failed_is_caught_in_the_same_way_in_every_life(connect_rpc: Any, lasting: str, is_async: bool) -> None:
    """What was raised can't be kept, but its class and text can: `except Declined` holds in the first life and in every other."""
    caught: list[tuple[str, str, Any, Any]] = []
    calls: list[str] = []

    def pay(what: str) -> None:
        calls.append(what)
        raise Declined(402)

    async def pay_async(what: str) -> None:
        pay(what)

    async def shop(text: str, ctx: Context) -> Any:
        try:
            await ctx.step(pay_async if is_async else pay, "bread", retries=1)
        except Declined as error:
            caught.append((type(error).__name__, str(error), error.__cause__, getattr(error, "code", None)))
        return await ctx.ask("Another card?")

    async with connect_rpc(shop, store=lasting) as client:
        task = (await client.send("buy"))["task"]
    async with connect_rpc(shop, store=lasting) as client:
        assert state_of((await client.send(say("no", taskId=task["id"])))["task"]) == "completed"
    assert caught == [("Declined", "refused with 402", None, None)] * 2
    assert calls == ["bread"] * 2


class Strict(Exception):
    """Of the user's, and not to be made anew."""

    def __new__(cls, *, code: int) -> "Strict":
        return super().__new__(cls)

    def __init__(self, *, code: int) -> None:
        super().__init__(f"strictly {code}")


def raises(error: Exception) -> Any:
    async def step() -> None:
        raise error

    return step


Gone = type("Gone", (Exception,), {"__module__": "nowhere"})  # its name leads nowhere, as that of a class within a function


@pytest.mark.parametrize(
    ("error", "caught"),
    [
        (Strict(code=1), "StepFailed: Strict: strictly 1"),
        (Gone("away"), "StepFailed: Gone: away"),
        (OSError(2, "no such file", "x.txt"), "FileNotFoundError: [Errno 2] no such file: 'x.txt'"),
        (KeyError("colour"), "KeyError: 'colour'"),
        (TimeoutError(), "TimeoutError: "),
        (StopAsyncIteration("end"), "StepFailed: StopAsyncIteration: end"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "UnicodeDecodeError: "),
        (Fail("no money"), "Fail: no money"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_whatever_a_step_raises_something_can_be_caught(connect_rpc: Any, error: Exception, caught: str) -> None:
    async def shop(text: str, ctx: Context) -> Any:
        try:
            await ctx.step(raises(error))
        except StepFailed as failed:
            return f"{type(failed).__name__}: {failed}"

    async with connect_rpc(shop) as client:
        assert text_of((await client.send("buy"))["task"]).startswith(caught)


async def test_a_step_may_fail_its_task(connect_rpc: Any) -> None:
    """`Fail` says what the client is told, from wherever it is raised."""

    async def shop(text: str, ctx: Context) -> Any:
        await ctx.step(raises(Fail("no money")))

    async with connect_rpc(shop) as client:
        status = (await client.send("buy"))["task"]["status"]
        assert (status["state"], text_of(status["message"])) == ("TASK_STATE_FAILED", "no money")


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_results_count_for_the_size_of_a_task_in_every_life(connect_rpc: Any, lasting: str, is_stopped: bool) -> None:
    """What a task may hold does not depend on whether its process has died meanwhile."""

    async def fetch(n: int) -> str:
        return "x" * 10_000

    async def gather(text: str, ctx: Context) -> str:
        for n in range(2):
            await ctx.step(fetch, n)
        await ctx.ask("Go on?")
        try:
            return str(await ctx.step(fetch, 3))
        except StepFailed as error:
            return str(error)

    agent = Agent("Gatherer")
    agent.skill(gather)
    limits = Limits(task_size=30_000)
    async with connect_rpc(agent, store=lasting, limits=limits) as client:
        task = (await client.send("go"))["task"]
        if not is_stopped:
            task = (await client.send(say("yes", taskId=task["id"])))["task"]
    if is_stopped:
        async with connect_rpc(agent, store=lasting, limits=limits) as client:
            task = (await client.send(say("yes", taskId=task["id"])))["task"]
    assert text_of(task["artifacts"][0]).endswith("its task would hold more than the 30000 it may (Limits.task_size)")


async def returns(text: str, ctx: Context) -> Any:
    return ctx.step(len, text)


async def yields(text: str, ctx: Context) -> Any:
    yield ctx.ask("Sure?")


def plain(text: str) -> Any:
    return returns(text, cast(Context, None))


async def holds(text: str, ctx: Context) -> Any:
    return {"all": [ctx.step(len, text)]}


async def replies(text: str) -> Reply:
    return cast(Reply, returns(text, cast(Context, None)))


@pytest.mark.parametrize("skill", [returns, yields, plain, holds, replies], ids=lambda skill: skill.__name__)
async def test_a_forgotten_await_is_said_so_in_the_log(connect_rpc: Any, caplog: Any, skill: Any) -> None:
    """It is the mistake everyone makes once; "a coroutine can't be sent" alone does not say what to write."""
    async with connect_rpc(skill) as client:
        with contextlib.suppress(Refused):  # as a skill is that has no task to fail
            assert state_of((await client.send("x"))["task"]) == "failed"
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"skill {skill.__name__} failed" in record.getMessage()
    assert "a coroutine can't be sent: write `await` before the call" in str(record.exc_info[1])


@pytest.mark.parametrize("kind", ["function", "generator"])
async def test_a_plain_durable_function_is_called_again_from_the_top(connect_rpc: Any, lasting: str, kind: str) -> None:
    """It can have no steps; what it has said is not said again."""
    gate, calls = threading.Event(), []
    agent = Agent("Writer")

    def work(ctx: Context) -> None:
        ctx.write("a")
        calls.append(kind)
        if len(calls) == 1:
            gate.wait(10)

    def function(text: str, ctx: Context) -> str:
        work(ctx)
        return "b"

    def generator(text: str, ctx: Context) -> Iterator[str]:
        work(ctx)
        yield "b"

    agent.skill(durable=True, id="write")({"function": function, "generator": generator}[kind])
    async with connect_rpc(agent, store=lasting) as client:
        task = (await client.send(say("go", configuration={"returnImmediately": True})))["task"]
        async with asyncio.timeout(10):
            while not calls:  # noqa: ASYNC110  set in a thread
                await asyncio.sleep(0.01)
    gate.set()
    async with connect_rpc(agent, store=lasting) as client:
        async with asyncio.timeout(10):
            while state_of(task := await client.get(task["id"])) == "working":  # noqa: ASYNC110  as a client without a stream
                await asyncio.sleep(0.01)
    assert (state_of(task), text_of(task["artifacts"][0]), len(calls)) == ("completed", "ab", 2)
