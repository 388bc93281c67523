"""Generations where several processes share a PostgreSQL: any of them answers for a task."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context, TaskGenerationMismatch, connect
from accord.client import Client
from accord.protocol import BindingName
from accord.store import open_store
from tests.drive import serving
from tests.postgres import schema_url
from tests.processes import fork, free_port, until_listening
from tests.reliability.harness import size

PATIENCE_S = 60
SERVE = Path(__file__).with_name("serve.py")
BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


def _agent() -> Agent:
    agent = Agent("Replicated")

    @agent.skill(durable=True)
    async def question(text: str, ctx: Context) -> str:
        """Asks, and keeps its function: the task stays with its owner."""
        return await ctx.ask(f"{text}?")

    return agent


@contextlib.asynccontextmanager
async def _replicas(binding: BindingName) -> AsyncIterator[tuple[Client, Client, list[Any]]]:
    """Clients of two servers on one database, and their stores."""
    async with asyncio.timeout(PATIENCE_S), contextlib.AsyncExitStack() as stack:
        url = stack.enter_context(schema_url(lease_s=10.0))
        clients: list[Client] = []
        stores: list[Any] = []
        for _ in range(2):
            stores.append(open_store(url))
            app = _agent().app(store=stores[-1], previews=["1.1"], grpc_port=0, push=False)
            place = await stack.enter_async_context(serving(app, app.close))
            await app.open()
            clients.append(
                await stack.enter_async_context(connect(place, binding=binding, previews=["1.1"]))
            )
        yield clients[0], clients[1], stores


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_long_poll_is_held_by_any_process(binding):
    """It is woken by the commit of the owner."""
    async with _replicas(binding) as (owner, other, _):
        task = (await owner.send("go")).task
        held = asyncio.ensure_future(other.get(task.id, current_generation=task.generation))
        done, _ = await asyncio.wait({held}, timeout=0.3)
        assert not done
        await owner.send("x", task_id=task.id)
        assert (await held).generation > task.generation


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_owner_compares_the_generation(binding):
    """A message that reaches another process travels to it with its condition; so does the error,
    with all it says.
    """
    async with _replicas(binding) as (owner, other, _):
        task = (await owner.send("go")).task
        with pytest.raises(TaskGenerationMismatch) as caught:
            await other.send("x", task_id=task.id, if_generation_match=task.generation - 1)
        assert caught.value.detail == {
            "taskId": task.id,
            "expectedGeneration": str(task.generation - 1),
            "currentGeneration": str(task.generation),
        }
        match = task.generation
        reply = await other.send("x", task_id=task.id, if_generation_match=match, key="k")
        assert reply.text == "x"
        for client in (other, owner):  # a repeat under its key is no mismatch
            again = await client.send("x", task_id=task.id, if_generation_match=match, key="k")
            assert again.task.generation == reply.task.generation


@pytest.mark.parametrize("binding", BINDINGS)
async def test_only_one_of_many_messages_for_a_generation_is_taken(binding):
    """Whichever process they reach. The others are told of the generation, also if the task has
    ended by then, or ends before its owner reads them.
    """
    async with _replicas(binding) as (owner, other, _):
        task = (await owner.send("go")).task
        sent = [
            client.send(f"{n}", task_id=task.id, if_generation_match=task.generation)
            for n in range(10)
            for client in (owner, other)
        ]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        [taken] = [one for one in outcomes if not isinstance(one, BaseException)]
        refused = [one for one in outcomes if one is not taken]
        assert [type(one) for one in refused] == [TaskGenerationMismatch] * 19


async def test_a_long_poll_costs_a_replica_a_watch_and_no_reading(monkeypatch):
    """However long it is held, the store is not asked again."""
    async with _replicas("JSONRPC") as (owner, other, stores):
        task = (await owner.send("go")).task
        calls = []
        for name in ("load", "read"):
            usual = getattr(stores[1], name)

            def counted(*args: Any, usual: Any = usual, name: str = name, **more: Any) -> Any:
                calls.append(name)
                return usual(*args, **more)

            monkeypatch.setattr(stores[1], name, counted)
        held = asyncio.ensure_future(other.get(task.id, current_generation=task.generation))
        await asyncio.wait({held}, timeout=0.5)
        before = list(calls)
        await asyncio.wait({held}, timeout=1.5)
        assert calls == before
        assert len(before) <= 3
        await owner.send("x", task_id=task.id)
        await held


@pytest.mark.parametrize("_", range(size(1, 20)))
async def test_a_long_poll_survives_the_death_of_the_owner(tmp_path, _):
    """It is answered by what the next owner does."""
    async with asyncio.timeout(PATIENCE_S), contextlib.AsyncExitStack() as stack:
        url = stack.enter_context(schema_url())
        ports = [free_port(), free_port()]
        processes = [
            stack.enter_context(fork(SERVE, str(port), url, log=tmp_path / f"{port}.log"))
            for port in ports
        ]
        for port in ports:
            await until_listening(port)
        owner, other = [
            await stack.enter_async_context(connect(f"http://127.0.0.1:{port}", previews=["1.1"]))
            for port in ports
        ]
        task = (await owner.send("forever", wait=False)).task
        while task.state.word != "working":
            task = await owner.get(task.id, current_generation=task.generation)
        held = asyncio.ensure_future(other.get(task.id, current_generation=task.generation))
        await asyncio.wait({held}, timeout=0.2)
        processes[0].kill()
        found = await held
        assert found.generation > task.generation
        assert found.state.word == "input-required"
