"""V1: who waits for work when the server stops is told where to find it, and nobody is waited for
who can't come any more.
"""

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context
from accord.store.sqlite.store import SqliteStore
from tests.drive import refusal_of, say, state_of, text_of
from tests.reliability.harness import Refused, message
from tests.survive.host import hosting
from tests.survive.test_fail_points import settled

PATIENCE_S = 60.0


class Served(Agent):
    """An agent that knows the app it is served by, so that a test can stop it."""

    def app(self, **options: Any) -> Any:
        self.served = super().app(**options)
        return self.served


def an_agent(gate: asyncio.Event) -> Served:
    agent = Served("Leaving")

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        await gate.wait()
        return text

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        await gate.wait()
        return await ctx.ask("and then?")

    return agent


async def begun(client: Any) -> dict[str, Any]:
    """The one task there is, when it is worked on."""
    async with asyncio.timeout(PATIENCE_S):
        while not (tasks := (await client.list(status="TASK_STATE_WORKING"))["tasks"]):
            pass
    return tasks[0]


async def ended(client: Any, task_id: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while state_of(task := await client.get(task_id)) in ("submitted", "working"):
            pass
    return task


async def test_a_sender_of_work_that_goes_on_is_told_which_task_it_is(
    connect: Any, lasting: str
) -> None:
    """V1: "try again" alone would have it done twice: the refusal names the task and its context,
    and says how to go on.
    """
    gate = asyncio.Event()
    agent = an_agent(gate)
    async with connect(agent, store=lasting) as client:
        sending = asyncio.create_task(refusal_of(client.send("go")))
        task = await begun(client)
        await agent.served.close(grace_s=PATIENCE_S)
        refused = await sending
    assert refused.reason == "UNAVAILABLE"
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.detail == {"taskId": task["id"], "contextId": task["contextId"]}
    assert "goes on" in refused.message
    assert "same idempotency key" in refused.message
    gate.set()
    async with connect(an_agent(gate), store=lasting) as client:
        assert text_of(await ended(client, refused.detail["taskId"])) == "go"
        assert (await client.list())["totalSize"] == 1


async def test_every_way_of_asking_hears_which_task_goes_on(tmp_path: Path) -> None:
    """V1: also where an error is only a text; and a key gives the same task in the next life."""
    async with hosting(tmp_path, grace_s=20, has_grpc=True) as host:
        clients = {client.way.replace(" ", "-"): client for client in host.clients()}

        def send(name: str) -> Any:
            return clients[name].send(message(name, "careful"), {"idempotency-key": name})

        sent = {name: asyncio.create_task(send(name)) for name in clients}
        async with asyncio.timeout(PATIENCE_S):
            while len(host.done) < len(clients):
                await host.client().total()
        ids = {
            task["history"][0]["parts"][0]["text"]: task["id"]
            async for task in host.client().every_task()
        }
        assert await host.stop() == 0
        for name, sending in sent.items():
            with pytest.raises(Refused, match=ids[name]) as refused:
                await sending
            assert refused.value.reason == "UNAVAILABLE"
        await host.start()
        host.let_go()
        for name in clients:
            assert (
                text_of(await settled(host.client(), ids[name])) == f"{name}-1 done;{name}-2 done;"
            )
            assert (await send(name))["id"] == ids[name]
        assert len(host.done) == len(set(host.done)) == 2 * len(clients)


async def test_the_task_a_refusal_names_is_stored_before_it_is_told(
    connect_rpc: Any, tmp_path: Path
) -> None:
    """V1, D1: a stop that comes between a message and its commit waits for the commit: what was
    named is there afterwards.
    """
    store, agent = SqliteStore(tmp_path / "tasks.db"), an_agent(asyncio.Event())
    async with connect_rpc(agent, store=store) as client:
        await client.list()  # it is open
        go_on = threading.Event()
        store._db.set_trace_callback(lambda sql: sql == "COMMIT" and go_on.wait(PATIENCE_S))
        sending = asyncio.create_task(refusal_of(client.send("go")))
        async with asyncio.timeout(PATIENCE_S):
            while not store._db.in_transaction:
                await client.list()
        closing = asyncio.create_task(agent.served.close(grace_s=PATIENCE_S))
        await asyncio.wait({sending, closing}, timeout=0.2)
        assert not sending.done(), "told of a task that is not stored"
        go_on.set()
        refused = await sending
        await closing
    with contextlib.closing(sqlite3.connect(store.path)) as db:
        assert [id_ for (id_,) in db.execute("SELECT id FROM tasks")] == [refused.detail["taskId"]]


async def test_a_run_that_comes_to_its_question_while_the_server_stops_is_let_go(
    connect_rpc: Any, lasting: str
) -> None:
    """V1: nobody can answer here any more: the stop does not wait for it, and the next process
    takes the answer.
    """
    gate = asyncio.Event()
    agent = an_agent(gate)
    async with connect_rpc(agent, store=lasting) as client:
        sending = asyncio.create_task(client.send(say("hi", metadata={"skill": "talk"})))
        await begun(client)
        closing = asyncio.create_task(agent.served.close(grace_s=3600))
        async with asyncio.timeout(PATIENCE_S):
            while (await client.http.get(client.url + "/readyz")).status == 200:
                pass
            assert not closing.done()
            gate.set()
            await closing
        task = (await sending)["task"]
    async with connect_rpc(an_agent(gate), store=lasting) as client:
        assert state_of(await client.get(task["id"])) == "input-required"
        assert text_of((await client.send(say("bye", taskId=task["id"])))["task"]) == "bye"
