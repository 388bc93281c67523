"""Long work is done beside the loop, which goes on meanwhile."""

import asyncio
import threading

import pytest

from accord.engine import offload as module
from accord.engine.offload import LARGE, aside, give_way


async def test_the_loop_turns_while_something_large_is_read():
    """The work ends only after the loop has turned: on the loop it never would."""
    turned = threading.Event()
    working = asyncio.create_task(aside(LARGE, turned.wait, 10.0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not working.done()
    turned.set()
    assert await working


async def test_what_goes_wrong_is_raised_as_it_is():
    def fail(what: str) -> None:
        raise LookupError(what)

    with pytest.raises(LookupError, match="there"):
        await aside(LARGE, fail, "there")


async def test_work_whose_caller_has_left_is_not_begun():
    """It waits behind other work, and is forgotten: neither it nor what it was to read is kept."""
    gate, begun = threading.Event(), list[str]()
    first = asyncio.create_task(aside(LARGE, gate.wait, 10.0))
    left = asyncio.create_task(aside(LARGE, begun.append, "left"))
    last = asyncio.create_task(aside(LARGE, begun.append, "last"))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    gate.set()
    await asyncio.gather(first, last)
    assert begun == ["last"]


async def test_more_than_may_wait_is_done_at_once():
    """No more is taken in while it is: what waits is bounded, whatever is sent."""
    gate = threading.Event()
    first = asyncio.create_task(aside(module.MOST, gate.wait, 10.0))
    await asyncio.sleep(0)
    assert await aside(1, threading.get_ident) == threading.get_ident()
    gate.set()
    await first
    assert await aside(1, threading.get_ident) != threading.get_ident()


async def test_others_have_their_turn_between_two_pieces():
    turns = list[int]()
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await give_way(0.0)
    assert turns == [1]
