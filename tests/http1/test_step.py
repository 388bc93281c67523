"""A coroutine run at once, as far as it goes: it can't tell that it was no task from the beginning."""

import asyncio
import contextvars

import pytest

from accord.ops.call import in_task
from accord.wire.step import begin

where = contextvars.ContextVar("where", default="outside")


def started(work):
    return begin(work, asyncio.get_running_loop())


async def test_what_has_not_to_wait_is_done_at_once():
    """No task, and no turn of the loop."""
    done = []

    async def work():
        done.append(asyncio.current_task() is not None)

    # In a callback of the loop, where requests come in: there is no task around it.
    found = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: found.set_result(started(work())))
    assert await found is None
    assert done == [False]


async def test_what_waits_goes_on_in_a_task():
    future = asyncio.get_running_loop().create_future()

    async def work():
        assert await future == 1
        async with asyncio.timeout(20):
            await asyncio.sleep(0)

    task = started(work())
    future.set_result(1)
    await task


async def test_what_asks_for_a_task_gets_one():
    """Before code that is not ours."""
    tasks = []

    async def work():
        await in_task()
        tasks.append(asyncio.current_task())

    found = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: found.set_result(started(work())))
    task = await found
    await task
    assert tasks == [task]


async def test_two_may_wait_for_the_same():
    """A future that others wait for too, before and after."""
    future = asyncio.get_running_loop().create_future()
    got = []

    async def work():
        got.append(await future)

    tasks = [started(work()), asyncio.create_task(work()), started(work())]
    await asyncio.sleep(0)
    future.set_result(1)
    await asyncio.gather(*tasks)
    assert got == [1, 1, 1]


async def test_an_error_comes_where_it_is_waited_for():
    future = asyncio.get_running_loop().create_future()

    async def work():
        with pytest.raises(ValueError, match="no"):
            await future

    task = started(work())
    future.set_exception(ValueError("no"))
    await task


@pytest.mark.parametrize("turns", [0, 1, 5])
async def test_cancelled_it_cleans_up(turns):
    """At whatever time: what it holds is let go."""
    ended = []

    async def work():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    task = started(work())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    del task
    assert ended == [True]


async def test_one_that_does_not_mind_being_cancelled_goes_on():
    """As shielded work does."""
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))

    async def work():
        try:
            await first
        except asyncio.CancelledError:
            await second

    task = started(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    second.set_result(None)
    await task
    assert not task.cancelled()


async def test_each_has_a_context_of_its_own():
    """What one sets, nobody else sees; it sees it itself, in its task too."""
    future = asyncio.get_running_loop().create_future()
    seen = []

    async def work(name):
        where.set(name)
        await future
        seen.append(where.get())

    tasks = [started(work(name)) for name in ("one", "two")]
    assert where.get() == "outside"
    future.set_result(None)
    await asyncio.gather(*tasks)
    assert sorted(seen) == ["one", "two"]
