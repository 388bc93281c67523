"""A server is stopped and started under its callers: each gets the answer of the work it asked for,
which is done once.
"""

import asyncio
import signal
from contextlib import AsyncExitStack

import pytest

from accord.client import connect
from tests.cli.bakery import Bakery
from tests.client.conftest import DOORS
from tests.processes import free_port

PATIENCE_S = 60


@pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "with our extensions"])
async def test_over_every_door_at_once(tmp_path, is_plain):
    """By the task's id where nothing else is offered, by sending again where that is safe; blocking
    or as a stream.
    """
    with Bakery(tmp_path, "--grpc-port", str(free_port())) as bakery:
        async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
            there = (await stack.enter_async_context(connect(bakery.url))).card
            if is_plain:
                there.capabilities.extensions = []
            clients = [
                await stack.enter_async_context(connect(there, binding=binding, version=version))
                for binding, version in DOORS.values()
            ]
            waiting = [
                asyncio.create_task(ask(client)) for ask in (_send, _read) for client in clients
            ]
            await asyncio.to_thread(bakery.until_begun, len(waiting))
            await asyncio.to_thread(bakery.stop, signal.SIGTERM)
            await asyncio.to_thread(bakery.start)
            bakery.rise()
            answers = await asyncio.gather(*waiting)
        assert (set(answers), bakery.tasks()) == ({"flour, bread"}, len(waiting))


async def _send(client) -> str:
    return (await client.send("a loaf")).text


async def _read(client) -> str:
    async with client.stream("a loaf") as stream:
        assert [event async for event in stream]
    return stream.reply.text
