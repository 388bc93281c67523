"""Large work is done in a thread while the loop goes on; small work at once."""

import asyncio
import threading

import pytest

from accord.engine import offloading as module
from accord.engine.offloading import LARGE, offload


async def test_small_work_is_done_at_once():
    """Without a turn of the loop: the first step of the coroutine is its last."""
    with pytest.raises(StopIteration) as stopped:
        offload(LARGE, threading.get_ident).send(None)
    assert stopped.value.value == threading.get_ident()


async def test_the_loop_goes_on_while_something_large_is_read():
    """The work ends only after the loop has turned: on the loop it never would."""
    turned = threading.Event()
    working = asyncio.create_task(offload(LARGE + 1, turned.wait, 10.0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not working.done()
    turned.set()
    assert await working


@pytest.mark.parametrize("size", [0, LARGE + 1])
async def test_what_goes_wrong_is_raised_as_it_is(size):
    def fail(what: str) -> None:
        raise LookupError(what)

    with pytest.raises(LookupError, match="there"):
        await offload(size, fail, "there")


async def test_work_whose_caller_was_cancelled_is_not_begun():
    """It waited behind other work; neither it nor its bytes are kept."""
    gate, begun = threading.Event(), list[str]()
    first = asyncio.create_task(offload(LARGE + 1, gate.wait, 10.0))
    left = asyncio.create_task(offload(LARGE + 1, begun.append, "left"))
    last = asyncio.create_task(offload(LARGE + 1, begun.append, "last"))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    gate.set()
    await asyncio.gather(first, last)
    assert begun == ["last"]


async def test_more_than_may_wait_is_done_on_the_loop():
    """No more requests are read meanwhile, so what waits is bounded whatever is sent."""
    gate = threading.Event()
    first = asyncio.create_task(offload(module.WAITING_BYTES, gate.wait, 10.0))
    await asyncio.sleep(0)
    assert await offload(LARGE + 1, threading.get_ident) == threading.get_ident()
    gate.set()
    await first
    assert await offload(LARGE + 1, threading.get_ident) != threading.get_ident()
