"""Steps when the run is stopped, and what they cost."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord.engine.durable.history import Mismatch
from accord.engine.durable.steps import StepFailed
from accord.engine.log.entries import ArtifactChanged, Entry
from accord.model import Unavailable
from tests.engine.durable.fake import Context, Run, log_of
from tests.engine.durable.table import ended, search


def new_run() -> Run:
    return Run(log_of(()), [])


async def begin(run: Run, function: Any) -> "asyncio.Task[Any]":
    task = asyncio.create_task(run.drive(function))
    for _ in range(10):
        await asyncio.sleep(0)
    return task


async def test_a_step_of_a_stopped_run_is_not_recorded_as_left() -> None:
    run, cleaned = new_run(), []

    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append(1)

    async def function(ctx: Context) -> None:
        stop.set()
        await ctx.gather(ctx.step(waits), ctx.step(waits))

    stop = asyncio.Event()
    task = await begin(run, function)
    await stop.wait()
    run.is_stopping = True
    for other in asyncio.all_tasks() - {task, asyncio.current_task()}:
        if "_call" in repr(other.get_coro()):
            other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.recorded == []
    assert cleaned == [1, 1]


async def test_no_step_begins_in_a_stopped_run() -> None:
    run, seen = new_run(), []

    async def function(ctx: Context) -> None:
        run.is_stopping = True
        for verb in (
            ctx.step(search, "a"),
            ctx.delegate("agent", "go"),
            ctx.gather(ctx.step(search, "b")),
        ):
            try:
                await verb
            except asyncio.CancelledError:
                seen.append(1)

    await run.drive(function)
    assert seen == [1, 1, 1]
    assert run.recorded == []


async def test_a_step_that_does_not_heed_its_cancellation_is_not_recorded() -> None:
    run = new_run()

    async def stubborn() -> str:
        run.is_stopping = True
        return "done"

    assert await run.drive(lambda ctx: ctx.step(stubborn)) == "done"
    assert run.recorded == []


@pytest.mark.parametrize("is_stopping", [True, False])
async def test_a_result_that_cant_be_stored(is_stopping: bool) -> None:
    run = new_run()

    def record(entry: Entry) -> "asyncio.Future[None]":
        run.is_stopping = is_stopping
        stored = run.loop.create_future()
        stored.set_exception(Unavailable("the store is gone"))
        return stored

    run.record = record  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError if is_stopping else Unavailable):
        await run.drive(lambda ctx: ctx.step(search, "a"))


async def test_cancelled_while_its_end_is_stored_a_step_is_left() -> None:
    run = new_run()

    def record(entry: Entry) -> "asyncio.Future[None]":
        run.note(entry)
        return run.loop.create_future()

    run.record = record  # type: ignore[method-assign]

    async def function(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.01):
                return str(await ctx.step(search, "a"))
        except TimeoutError:
            return "late"

    assert await run.drive(function) == "late"
    assert [type(entry).__name__ for entry in run.recorded] == ["StepEnded", "StepLeft"]
    assert await Run(run.log, []).drive(function) == "late"


async def test_a_thread_is_left_behind_at_a_timeout() -> None:
    goes_on = threading.Event()

    def blocks() -> None:
        goes_on.wait()

    async def function(ctx: Context) -> str:
        with pytest.raises(StepFailed) as error:
            await ctx.step(blocks, timeout=0.02)
        return error.value.type

    try:
        assert await new_run().drive(function) == "TimeoutError"
    finally:
        goes_on.set()


async def test_the_text_of_a_failure_is_what_the_log_can_hold() -> None:
    async def long() -> None:
        raise ValueError("\ud800" + "x" * 100_000)

    async def function(ctx: Context) -> str:
        with pytest.raises(StepFailed) as error:
            await ctx.step(long)
        return error.value.message

    message = await new_run().drive(function)
    assert message.startswith("?xxx")
    assert len(message) == 10_000


async def test_output_from_a_thread_belongs_to_its_step() -> None:
    run = new_run()

    async def function(ctx: Context) -> None:
        def writes() -> None:
            ctx.write("x")

        await ctx.gather(ctx.step(writes))

    await run.drive(function)
    assert [(e.branch, e.step) for e in run.log if isinstance(e, ArtifactChanged)] == [
        ("0.0", "writes#1")
    ]


async def test_a_generator_is_closed_when_its_step_is_left() -> None:
    closed = []

    async def chunks() -> AsyncIterator[str]:
        try:
            while True:
                yield "x"
        finally:
            closed.append(1)

    async def function(ctx: Context) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ctx.step(chunks)

    await new_run().drive(function)
    assert closed == [1]


async def test_members_cancelled_before_they_begin_leave_nothing_behind() -> None:
    async def function(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0):
                await ctx.gather(ctx.step(search, "a"), ctx.step(search, "b"))
        except TimeoutError:
            return "late"
        return "?"

    assert await new_run().drive(function) == "late"


async def test_a_mismatch_in_a_branch_stops_the_others() -> None:
    run = Run(log_of([ended("other", 1, branch="0.0")]), [])

    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Mismatch):
        await run.drive(lambda ctx: ctx.gather(ctx.step(search, "a"), forever()))


async def test_a_step_is_cheap() -> None:
    """A thousand small steps, with the fake's record: a tenth of a millisecond each would be far
    too much.
    """
    run = new_run()

    async def small() -> str:
        return "x"

    async def function(ctx: Context) -> float:
        begun = time.thread_time()
        for _ in range(1000):
            await ctx.step(small)
        return time.thread_time() - begun

    best = min([await Run(log_of(()), []).drive(function) for _ in range(3)])
    print(f"{best * 1000:.1f} µs per step")
    assert best < 0.1
    assert run.recorded == []
