"""An outage of the database while a GetTask is held: it is answered by what comes after the outage,
or refused, as a stream is. It is never answered with less than the caller knows.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord import Agent, Context, connect
from accord.client import Client, Retry
from accord.model import Unavailable
from accord.operations import tasks
from accord.store import open_store
from tests.drive import serving
from tests.postgres import schema_url
from tests.proxy import Proxy, proxied

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


class Desk:
    """An agent behind a connection to the database that can break; with another replica that keeps
    its own.
    """

    def __init__(self, proxy: Proxy, held: Client, other: Client) -> None:
        self.proxy = proxy
        self.held = held
        self.other = other


def _agent() -> Agent:
    agent = Agent("Replicated")

    @agent.skill(durable=True)
    async def question(text: str, ctx: Context) -> str:
        return await ctx.ask(f"{text}?")

    return agent


@contextlib.asynccontextmanager
async def desk(binding: Any) -> AsyncIterator[Desk]:
    async with asyncio.timeout(60), contextlib.AsyncExitStack() as stack:
        url = stack.enter_context(schema_url())
        proxy = await stack.enter_async_context(proxied(url))
        clients = []
        for place in (proxy.url, url):
            app = _agent().app(store=open_store(place), previews=["1.1"], grpc_port=0, push=False)
            address = await stack.enter_async_context(serving(app, app.close))
            await app.open()
            clients.append(
                await stack.enter_async_context(
                    connect(address, binding=binding, previews=["1.1"], retry=Retry(attempts=1))
                )
            )
        yield Desk(proxy, *clients)


async def held(client: Client, task_id: str, generation: int) -> "asyncio.Task[Any]":
    """A GetTask that is held."""
    holding = asyncio.ensure_future(client.get(task_id, current_generation=generation))
    done, _ = await asyncio.wait({holding}, timeout=0.3)
    assert not done
    return holding


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("owner", ["held", "other"])
@pytest.mark.parametrize("how", ["cut", "stall"])
async def test_a_short_outage_is_not_noticed(binding, owner, how):
    """Whichever replica has the task: the next change answers."""
    async with desk(binding) as at:
        task = (await getattr(at, owner).send("go")).task
        holding = await held(at.held, task.id, task.generation)
        if how == "cut":
            at.proxy.cut_all()
        else:
            at.proxy.stall()
            await asyncio.wait({holding}, timeout=0.3)
            at.proxy.resume()
        done, _ = await asyncio.wait({holding}, timeout=0.3)
        assert not done
        await at.other.send("x", task_id=task.id)
        assert (await holding).generation > task.generation


@pytest.mark.parametrize(
    ("binding", "owner"), [("JSONRPC", "held"), *((binding, "other") for binding in BINDINGS)]
)
async def test_one_that_ends_in_an_outage_is_refused(binding, owner, monkeypatch):
    """Its time is over, and nobody knows how the task is now. When the outage is over the task is
    there as before.
    """
    monkeypatch.setattr(tasks, "LONG_POLL_S", 1.0)
    async with desk(binding) as at:
        task = (await getattr(at, owner).send("go")).task
        holding = await held(at.held, task.id, task.generation)
        at.proxy.stall()
        with pytest.raises(Unavailable):
            await holding
        at.proxy.resume()
        await until_there(at.held, task.id, task.generation)
        await at.other.send("x", task_id=task.id)
        await until_there(at.held, task.id, task.generation + 1)


async def until_there(client: Client, task_id: str, generation: int) -> None:
    """Wait until a replica says that a task is at least there."""
    while True:
        with contextlib.suppress(Unavailable):
            task = await client.get(task_id)
            if task.generation >= generation:
                return
        await asyncio.sleep(0.05)
