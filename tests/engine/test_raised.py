"""Whatever a function raises ends its task, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from accord import Agent, Context
from tests.engine.processes import Process, message, state_of, told, until


class Odd(BaseException):
    """Of the user's."""


RAISED = [
    BaseException,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
    Odd,
    RecursionError,
]


def skills(raised: type[BaseException]) -> dict[str, Callable[..., Any]]:
    """Where it is raised."""

    async def coroutine(text: str) -> None:
        raise raised("no")

    def plain(text: str) -> None:
        raise raised("no")

    async def stream(text: str) -> AsyncIterator[str]:
        yield "a"
        raise raised("no")

    def plain_stream(text: str) -> Iterator[str]:
        yield "a"
        raise raised("no")

    async def in_step(text: str, ctx: Context) -> None:
        await ctx.step(coroutine, text)

    async def in_plain_step(text: str, ctx: Context) -> None:
        await ctx.step(plain, text)

    async def in_stream_step(text: str, ctx: Context) -> None:
        await ctx.step(stream, text)

    async def in_member(text: str, ctx: Context) -> None:
        await ctx.gather(coroutine(text), ctx.step(asyncio.sleep, 0, name="beside"))

    async def in_step_of_member(text: str, ctx: Context) -> None:
        await ctx.gather(ctx.step(coroutine, text), ctx.step(asyncio.sleep, 0, name="beside"))

    async def in_member_in_step(text: str, ctx: Context) -> None:
        async def both() -> None:
            await ctx.gather(coroutine(text), asyncio.sleep(0))

        await ctx.step(both)

    async def after_the_stop(text: str, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise raised("no")

    made = (
        coroutine,
        plain,
        stream,
        plain_stream,
        in_step,
        in_plain_step,
        in_stream_step,
        in_member,
        in_step_of_member,
    )
    return {skill.__name__: skill for skill in (*made, in_member_in_step, after_the_stop)}


async def serve(skill: Callable[..., Any], store: str) -> Process:
    agent = Agent("Raises")
    agent.skill(skill, id="raises")

    @agent.skill
    async def echo(text: str) -> str:
        return text

    app = agent.app(store=store)
    await app.open()
    return Process(app)


@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: raised.__name__)
@pytest.mark.parametrize("where", [name for name in skills(Exception) if name != "after_the_stop"])
async def test_whatever_is_raised_fails_the_task_and_nothing_else(
    store: str, where: str, raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The server, its loop and all other tasks go on; the client gets a number to quote, the log
    the rest.
    """
    process = await serve(skills(raised)[where], store)
    async with asyncio.timeout(10):
        task = await process.send(message("x", "raises"))
        other = await process.send(message("hello", "echo"))
    await process.app.close()
    assert state_of(task) == "TASK_STATE_FAILED"
    assert told(task).startswith("The agent failed. Reference: ")
    assert state_of(other) == "TASK_STATE_COMPLETED"
    assert f"reference {told(task).rpartition(' ')[2]}" in caplog.text


@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: raised.__name__)
@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_whatever_is_raised_in_cleaning_up_disturbs_nobody(
    store: str, how: str, raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the stop of the server, nor the cancel of a client: what it cancelled is canceled."""
    process = await serve(skills(raised)["after_the_stop"], store)
    async with asyncio.timeout(10):
        task = await process.send(message("x", "raises", returnImmediately=True))
        await until(lambda: process.app._engine.runs.running())
        if how == "cancelled":
            task = await process.cancel(task["id"])
            assert state_of(task) == "TASK_STATE_CANCELED"
            assert told(task) == ""
            assert raised is asyncio.CancelledError or "reference" in caplog.text
        await process.app.close()
