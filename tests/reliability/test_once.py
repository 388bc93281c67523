"""I1, I2: one key is one task, and a message is answered by its own turn."""

import asyncio
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.agents.busy import agent
from tests.reliability.harness import BROKEN, Refused, Server, message, report, size, told
from tests.reliability.inside import Inside, pass_turns

COPIES = 5
IDEMPOTENT = {"a2a-extensions": "urn:accord:idempotent:1"}


def keyed(n: int, params: dict[str, Any]) -> dict[str, str]:
    """Ask for idempotency in one of its two ways: with a key, or by the message's own id."""
    return IDEMPOTENT if n % 4 == 0 else {"idempotency-key": f"key-{n}"}


class Sender:
    """Sends copies of keyed messages until each is answered, whatever happens to the server."""

    def __init__(self, server: Server) -> None:
        self.tasks: defaultdict[int, set[str]] = defaultdict(set)
        self.answered = 0
        self.repeated = 0
        self._server = server
        self._slots = asyncio.Semaphore(64)

    async def send(self, n: int, copy: int, params: dict[str, Any]) -> None:
        async with self._slots:
            while True:
                await self._server.up.wait()
                client = self._server.clients()[copy % 2]
                try:
                    task = await client.send(params, keyed(n, params))
                except BROKEN:
                    self.repeated += 1
                    continue
                self.tasks[n].add(task["id"])
                self.answered += 1
                return


async def test_a_key_is_one_task_however_often_it_is_sent(server: Server) -> None:
    """I1: every message is sent in five copies at once over both bindings, through kills; each makes exactly one task."""
    keys, batches, seed = size(1_000, 10_000), 5, random.randrange(1 << 32)
    print(f"seed {seed}")
    chance, sender = random.Random(seed), Sender(server)
    for batch in range(batches):
        numbers = range(batch * keys // batches, (batch + 1) * keys // batches)
        skills = {n: message("2 1", "chunks") if chance.random() < 0.3 else message("hello", "echo") for n in numbers}
        copies = [asyncio.create_task(sender.send(n, copy, skills[n])) for n in numbers for copy in range(COPIES)]
        if batch < batches - 1:
            await asyncio.wait(copies[: chance.randrange(len(copies) // 4, len(copies) // 2)])
            await server.kill()
            await server.start()
        await asyncio.wait_for(asyncio.gather(*copies), timeout=300)
    assert [n for n, ids in sender.tasks.items() if len(ids) != 1] == []
    assert await server.client().total() == keys
    report("I1", keys=keys, copies=sender.answered, sent_again=sender.repeated, kills=batches - 1, tasks=keys)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_a_copy_that_comes_a_moment_later_finds_the_same_task(tmp_path: Path, method: str) -> None:
    """I1: while the first copy is accepted, worked on, stored or answered, its key is taken all the same."""
    app, keys = agent.app(store=f"sqlite:///{tmp_path / 'accord.db'}"), size(100, 1_000)
    inside = Inside(app)

    async def send(n: int, copy: int, params: dict[str, Any]) -> str:
        await pass_turns(copy * 3)
        if method == "SendMessage":
            return (await inside.send(params, keyed(n, params)))["id"]
        return (await inside.stream(method, params, keyed(n, params)))[0].task_id

    async with app.lifespan():
        for n in range(keys):
            params = message("hello", ["echo", "turns", "talk"][n % 3])
            ids = await asyncio.wait_for(asyncio.gather(*(send(n, copy, params) for copy in range(20))), timeout=10)
            assert len(set(ids)) == 1
        assert (await inside.call("ListTasks", {}))["totalSize"] == keys


@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
async def test_another_message_under_a_used_key_is_refused(server: Server, binding: str) -> None:
    """I1: a key stands for one message, also after a crash; nothing is done for another."""
    client, key = server.client(binding), {"idempotency-key": "mine"}
    params = message("hello", "echo")
    task = await client.send(params, key)
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            await client.send(message("something else", "echo"), key)
        assert refused.value.reason == "IDEMPOTENCY_KEY_REUSED"
        assert (await client.send(params, key))["id"] == task["id"]
        await server.kill()
        await server.start()
    assert await client.total() == 1


@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
async def test_without_a_key_every_send_is_new(server: Server, binding: str) -> None:
    """I1: clients and test kits reuse message ids; who does not ask for idempotency gets a task for every send."""
    client, params = server.client(binding), message("hello", "echo")
    tasks = [await client.send(params) for _ in range(5)]
    assert len({task["id"] for task in tasks}) == await client.total() == 5


async def test_an_interrupted_task_is_the_answer_to_its_key(server: Server) -> None:
    """I1: work that may have had effects is not done twice because of a crash; a new key tries anew."""
    client, params, key = server.client(), message("hello", "wait", returnImmediately=True), {"idempotency-key": "mine"}
    task = await client.send(params, key)
    await server.kill()
    await server.start()
    again = await client.send(params, key)
    assert (again["id"], told(again)[:11]) == (task["id"], "interrupted")
    assert (await client.send(params, {"idempotency-key": "another"}))["id"] != task["id"]


async def test_every_message_is_answered_by_its_own_turn_and_kept(server: Server) -> None:
    """I2: twenty sends at once to one open task; each is answered with what was said to it, and none is lost by a kill
    right after the last reply."""
    rounds, sends = size(50, 500), 20
    clients = server.clients()
    for _ in range(rounds):
        task = await clients[0].send(message("hello", "talk"))
        said = [message(f"word {n}", task_id=task["id"]) for n in range(sends)]
        answers = await asyncio.gather(*(clients[n % 2].send(params) for n, params in enumerate(said)))
        await server.kill()
        assert [told(answer) for answer in answers] == [f"heard word {n}" for n in range(sends)]
        await server.start()
        history = {past["messageId"] for past in (await clients[0].get(task["id"]))["history"]}
        assert {params["message"]["messageId"] for params in said} <= history
    report("I2", rounds=rounds, messages=rounds * sends, kills=rounds, lost=0)
