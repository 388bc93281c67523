"""Steps in a task: done once, whatever they give or raise."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from accord import Agent, Context, Limits, Reply
from accord.engine.durable.steps import StepFailed
from accord.engine.skills.context import Fail, Reject
from tests.drive import Refused, state_of
from tests.engine.processes import Disk, Memory, Process, Twice, message, told
from tests.engine.processes import text_of as text_in


class Receipt:
    """What no JSON can be made of."""


async def answer(skill: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """The task a skill makes of a message."""
    agent = Agent("Steps")
    agent.skill(skill)
    app = agent.app(**options)
    await app.open()
    try:
        return await Process(app).send(message("go"))
    finally:
        await app.close()


# What a step gives


async def test_a_result_that_would_not_come_back_is_said_so_in_the_first_attempt() -> None:
    """Not after a crash, when nobody looks; and it is not called again for that."""
    done: list[str] = []

    def charge():  # type: ignore[no-untyped-def]  # that is the point
        done.append("charged")
        return Receipt()

    async def shop(text: str, ctx: Context) -> str:
        try:
            await ctx.step(charge, retries=3)
        except TypeError as error:
            return str(error)
        return ""

    assert text_in(await answer(shop)) == (
        "step 'charge' gave a Receipt, which can't be read back from JSON without its type; write "
        "def charge(...) -> Receipt, or ctx.step(charge, ..., returns=Receipt)"
    )
    assert done == ["charged"]


async def test_an_annotation_that_can_not_be_read_back_is_refused_before_the_call() -> None:
    done: list[str] = []

    def charge() -> Receipt:
        done.append("charged")
        return Receipt()

    async def shop(text: str, ctx: Context) -> str:
        try:
            await ctx.step(charge)
        except TypeError as error:
            return str(error)
        return ""

    assert "the result of step 'charge' can't be read back as its type Receipt" in text_in(
        await answer(shop)
    )
    assert done == []


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_results_count_for_the_size_of_a_task_in_every_process(
    disk: Disk, is_stopped: bool
) -> None:
    """What a task may hold does not depend on whether its process has died meanwhile."""

    async def fetch(n: int) -> str:
        return "x" * 10_000

    async def collect(text: str, ctx: Context) -> str:
        for n in range(2):
            await ctx.step(fetch, n)
        await ctx.ask("Go on?")
        try:
            return str(await ctx.step(fetch, 3))
        except StepFailed as error:
            return str(error)

    agent = Agent("Collector")
    agent.skill(collect)
    limits = Limits(task_size=30_000)
    async with disk.process(agent, limits=limits) as process:
        task = await process.send(message("go"))
        if not is_stopped:
            task = await process.send(message("yes", task_id=task["id"]))
    if is_stopped:
        async with disk.process(agent, limits=limits) as process:
            task = await process.send(message("yes", task_id=task["id"]))
    assert "step 'fetch' failed: ResultTooLarge: its result has 10,002 bytes" in text_in(task)
    assert text_in(task).endswith("(Limits.task_size): store it elsewhere and return where it is")


# What a step raises


class Declined(ValueError):
    """Of the user's, with more in it than its text."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


def raises(error: Exception) -> Any:
    async def step() -> None:
        raise error

    return step


@pytest.mark.parametrize(
    ("error", "type_", "text"),
    [
        (Declined(402), "Declined", "refused with 402"),
        (
            OSError(2, "no such file", "x.txt"),
            "FileNotFoundError",
            "[Errno 2] no such file: 'x.txt'",
        ),
        (KeyError("colour"), "KeyError", "'colour'"),
        (TimeoutError(), "TimeoutError", ""),
        (StopAsyncIteration("end"), "StopAsyncIteration", "end"),
        (
            UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
            "UnicodeDecodeError",
            "'utf-8' codec can't decode byte 0x78",
        ),
        (ValueError("\ud800"), "ValueError", "?"),
        (
            ExceptionGroup("two", [ValueError(), OSError()]),
            "ExceptionGroup",
            "two (2 sub-exceptions)",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_whatever_a_step_raises_is_a_step_failed(
    error: Exception, type_: str, text: str
) -> None:
    """The same class in every attempt: `except Declined` would hold in the first one only."""

    async def shop(text: str, ctx: Context) -> list[str]:
        try:
            await ctx.step(raises(error), name="pay")
        except StepFailed as failed:
            return [failed.step, failed.type, failed.message]
        return []

    task = await answer(shop)
    step, found, said = task["artifacts"][0]["parts"][0]["data"]
    assert (step, found) == ("pay", type_)
    assert said.startswith(text)


@pytest.mark.parametrize(
    ("error", "state"), [(Fail("no money"), "FAILED"), (Reject("not here"), "REJECTED")]
)
async def test_a_step_may_end_its_task(error: Exception, state: str) -> None:
    """`ctx.fail` and `ctx.reject` say what the client is told, from wherever they are called."""

    async def shop(text: str, ctx: Context) -> None:
        await ctx.step(raises(error), name="pay")

    task = await answer(shop)
    assert (task["status"]["state"], told(task)) == (f"TASK_STATE_{state}", str(error))


async def test_a_step_that_timed_out_has_done_so_in_every_attempt(twice: Twice) -> None:
    """`timeout=` is recorded as what the step ended with: nobody waits for it again."""

    @twice.agent.skill(durable=True)
    async def careful(text: str, ctx: Context) -> str:
        async def slow() -> None:
            twice.done.append("slow")
            await asyncio.Event().wait()

        try:
            await ctx.step(slow, timeout=0.01)
            found = ""
        except StepFailed as error:
            found = f"{error.type}: {error.message}"
        await twice.die()
        return found

    _, after = await twice.run()
    assert text_in(after) == "TimeoutError: not done within 0.01 s", told(after)
    assert twice.done == ["slow"]


async def test_a_step_the_function_stopped_waiting_for_is_left_again(twice: Twice) -> None:
    """Its own time limit passes again in the next attempt; the step is not done for that."""

    @twice.agent.skill(durable=True)
    async def careful(text: str, ctx: Context) -> str:
        async def slow() -> str:
            twice.done.append("slow")
            await asyncio.Event().wait()
            return "slow"

        async def other() -> str:
            twice.done.append("other")
            return "other"

        try:
            async with asyncio.timeout(0.05):
                found = await ctx.step(slow)
        except TimeoutError:
            found = await ctx.step(other)
        await twice.die()
        return str(found)

    _, after = await twice.run()
    assert text_in(after) == "other", told(after)
    assert twice.done == ["slow", "other"]


# Where a step may be


async def test_a_step_within_a_step_is_a_part_of_it(twice: Twice) -> None:
    @twice.agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def pay(what: str) -> str:
            twice.done.append(what)
            return what

        async def both() -> str:
            return f"{await ctx.step(pay, 'hotel')} {await ctx.step(pay, 'flight')}"

        first = await ctx.step(both)
        last = await ctx.step(pay, "car")
        await twice.die()
        return f"{first} {last}"

    _, after = await twice.run()
    assert text_in(after) == "hotel flight car"
    assert twice.done == ["hotel", "flight", "car"]


@pytest.mark.parametrize("verb", ["ask", "require_auth", "delegate"])
async def test_what_waits_for_others_is_refused_within_a_step(verb: str) -> None:
    """Its answer would be taken for another's when the step is not done again."""

    async def colour(text: str, ctx: Context) -> str:
        verbs: dict[str, Callable[[], Awaitable[Any]]] = {
            "ask": lambda: ctx.ask("Colour?"),
            "require_auth": lambda: ctx.require_auth("Colours"),
            "delegate": lambda: ctx.delegate("http://127.0.0.1:9", "colour"),
        }

        async def choose() -> str:
            return str(await verbs[verb]())

        try:
            return str(await ctx.step(choose))
        except StepFailed as error:
            return str(error)

    expected = (
        f"TypeError: ctx.{verb} was called within step 'choose'; call it beside the step, and "
        "hand the result to it"
    )
    assert expected in text_in(await answer(colour))


@pytest.mark.parametrize("how", ["create_task", "task group", "gather of asyncio"])
async def test_a_step_in_a_task_of_the_users_says_what_to_write(how: str) -> None:
    """In the first attempt, not as a mix-up in the second."""

    async def search() -> str:
        return "found"

    async def skill(text: str, ctx: Context) -> str:
        try:
            if how == "create_task":
                await asyncio.create_task(ctx.step(search))
            elif how == "task group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(ctx.step(search))
            else:
                await asyncio.gather(ctx.step(search), ctx.step(search))
        except TypeError as error:
            return str(error)
        except ExceptionGroup as errors:
            return str(errors.exceptions[0])
        return ""

    assert text_in(await answer(skill)) == (
        "ctx.step was called in a task of your own, where it can't be found again "
        "after a restart; use ctx.gather for work "
        "side by side and timeout= for time limits, or give it a name of its own: "
        "ctx.step(..., name=...)"
    )


def function(text: str, ctx: Context) -> str:
    return text


def generator(text: str, ctx: Context) -> Iterator[str]:
    yield text


@pytest.mark.parametrize("skill", [function, generator])
def test_a_plain_durable_skill_is_refused_at_the_start(skill: Any) -> None:
    """It could have no steps: nothing of it would be durable."""
    agent = Agent("Plain")
    agent.skill(skill, durable=True)
    with pytest.raises(TypeError, match="a durable skill has to be async def"):
        agent.app()


async def test_a_durable_stream_is_a_durable_skill(place: Disk | Memory) -> None:
    agent = Agent("Streams")

    @agent.skill(durable=True)
    async def tell(text: str) -> AsyncIterator[str]:
        yield "a"
        yield "b"

    async with place.process(agent) as process:
        assert text_in(await process.send(message("go"))) == "ab"


# A forgotten await


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


@pytest.mark.parametrize(
    "skill", [returns, yields, plain, holds, replies], ids=lambda skill: skill.__name__
)
async def test_a_forgotten_await_is_said_so_in_the_log(
    connect_rpc: Any, caplog: Any, skill: Any
) -> None:
    """It is the mistake everyone makes once; "a coroutine can't be sent" alone does not say what to
    write.
    """
    async with connect_rpc(skill) as client:
        with contextlib.suppress(Refused):  # as a skill is that has no task to fail
            assert state_of((await client.send("x"))["task"]) == "failed"
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"skill {skill.__name__} failed" in record.getMessage()
    assert "a coroutine can't be sent: write `await` before the call" in str(record.exc_info[1])


# What steps cost


def written() -> int:
    """Bytes this process has given to write calls."""
    return int(
        next(
            line
            for line in Path("/proc/self/io").read_text().splitlines()
            if line.startswith("wchar")
        ).split()[1]
    )


@pytest.mark.skipif(
    not Path("/proc/self/io").exists(), reason="nothing tells here how much a process writes"
)
async def test_steps_of_a_quiet_run_cost_the_disk_what_they_give(tmp_path: Path) -> None:
    """A step adds its entry, however many came before it and though nothing is said in between."""
    agent = Agent("Quiet")

    async def give(n: int) -> str:
        return "x" * 20_000

    @agent.skill(durable=True)
    async def work(count: str, ctx: Context) -> str:
        return str(sum([len(await ctx.step(give, n)) for n in range(int(count))]))

    costs = []
    for count in (50, 100, 200):
        before = written()
        async with Disk(tmp_path / f"{count}.db").process(agent) as process:
            assert text_in(await process.send(message(str(count)))) == str(count * 20_000)
        costs.append(written() - before)
    assert [more / less <= 2.2 for less, more in itertools.pairwise(costs)] == [True, True], costs
