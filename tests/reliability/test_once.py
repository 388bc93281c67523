"""I1, I2: one key is one task, and a message is answered by its own turn."""

import asyncio
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.agents.busy import agent
from tests.reliability.harness import (
    BROKEN,
    WAYS,
    Refused,
    Server,
    message,
    report,
    seed,
    size,
    tally,
    told,
)
from tests.reliability.inside import Inside, pass_turns

IDEMPOTENT = {"a2a-extensions": "urn:accord:idempotent:1"}


def keyed(n: int) -> dict[str, str]:
    """Ask for idempotency in one of its two ways: with a key, or by the message's own id."""
    return IDEMPOTENT if n % 4 == 0 else {"idempotency-key": f"key-{n}"}


class Sender:
    """Sends copies of keyed messages until each is answered, whatever happens to the server."""

    def __init__(self, server: Server) -> None:
        self.tasks: defaultdict[int, set[str]] = defaultdict(set)
        self.answered: Counter[str] = Counter()
        self.repeated = 0
        self._server = server
        self._slots = asyncio.Semaphore(64)

    async def send(self, n: int, way: str, params: dict[str, Any]) -> None:
        client = self._server.client(way)
        async with self._slots:
            while True:
                await self._server.up.wait()
                try:
                    task = await client.send(params, keyed(n))
                except BROKEN:
                    self.repeated += 1
                    continue
                self.tasks[n].add(task["id"])
                self.answered[way] += 1
                return


async def test_a_key_is_one_task_however_often_it_is_sent(server: Server) -> None:
    """I1: every message is sent over every binding at once, in 1.0 and 0.3, through kills; its
    copies make exactly one task.
    """
    keys, batches = size(400, 10_000), 5
    chance, sender = random.Random(seed()), Sender(server)
    for batch in range(batches):
        numbers = range(batch * keys // batches, (batch + 1) * keys // batches)
        skills = {
            n: message("2 1", "chunks") if chance.random() < 0.3 else message("hello", "echo")
            for n in numbers
        }
        copies = [
            asyncio.create_task(sender.send(n, way, skills[n])) for n in numbers for way in WAYS
        ]
        if batch < batches - 1:
            await asyncio.wait(copies[: chance.randrange(len(copies) // 4, len(copies) // 2)])
            await server.kill()
            await server.start()
        await asyncio.wait_for(asyncio.gather(*copies), timeout=300)
    assert [n for n, ids in sender.tasks.items() if len(ids) != 1] == []
    assert await server.client().total() == keys
    report(
        "I1",
        keys=keys,
        copies=tally(sender.answered),
        sent_again=sender.repeated,
        kills=batches - 1,
        tasks=keys,
    )


async def test_a_key_means_the_same_over_every_way(server: Server) -> None:
    """I1: a client that tries another binding or version, because the first did not answer, repeats
    the same message.
    """
    params, key = message("hello", "echo"), {"idempotency-key": "mine"}
    params["message"]["metadata"] |= {"b": 1, "a": {"d": 2, "c": 3}}  # protobuf keeps no order
    assert len({(await client.send(params, key))["id"] for client in server.clients()}) == 1


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_a_copy_that_comes_a_moment_later_finds_the_same_task(
    tmp_path: Path, method: str
) -> None:
    """I1: while the first copy is accepted, worked on, stored or answered, its key is taken all the
    same.
    """
    app, keys = agent.app(store=f"sqlite:///{tmp_path / 'accord.db'}"), size(50, 1_000)
    inside = Inside(app)

    async def send(n: int, copy: int, params: dict[str, Any]) -> str:
        await pass_turns(copy * 3)
        if method == "SendMessage":
            return (await inside.send(params, keyed(n)))["id"]
        return (await inside.stream(method, params, keyed(n)))[0].task_id

    async with app.lifespan():
        for n in range(keys):
            params = message("hello", ["echo", "turns", "talk"][n % 3])
            ids = await asyncio.wait_for(
                asyncio.gather(*(send(n, copy, params) for copy in range(20))), timeout=60
            )
            assert len(set(ids)) == 1
        assert (await inside.call("ListTasks", {}))["totalSize"] == keys


async def test_another_message_under_a_used_key_is_refused(server: Server) -> None:
    """I1: a key stands for one message, also after a crash, whichever way it comes; nothing is done
    for another.
    """
    clients, params = server.clients(), message("hello", "echo")
    keys = [{"idempotency-key": client.way} for client in clients]
    tasks = [await client.send(params, key) for client, key in zip(clients, keys, strict=True)]
    for _ in range(2):
        for client, key, task in zip(clients, keys, tasks, strict=True):
            with pytest.raises(Refused, match="was used for another message"):
                await client.send(message("something else", "echo"), key)
            assert (await client.send(params, key))["id"] == task["id"]
        await server.kill()
        await server.start()
    assert await server.client().total() == len(clients)


async def test_without_a_key_every_send_is_new(server: Server) -> None:
    """I1: clients and test kits reuse message ids; who does not ask for idempotency gets a task for
    every send.
    """
    params = message("hello", "echo")
    tasks = [await client.send(params) for client in server.clients() for _ in range(2)]
    assert len({task["id"] for task in tasks}) == await server.client().total() == 2 * len(WAYS)


async def test_an_interrupted_task_is_the_answer_to_its_key(server: Server) -> None:
    """I1: work that may have had effects is not done twice because of a crash; a new key tries
    anew.
    """
    client, params, key = (
        server.client(),
        message("hello", "wait", returnImmediately=True),
        {"idempotency-key": "mine"},
    )
    task = await client.send(params, key)
    await server.kill()
    await server.start()
    again = await client.send(params, key)
    assert (again["id"], told(again)[:11]) == (task["id"], "interrupted")
    assert (await client.send(params, {"idempotency-key": "another"}))["id"] != task["id"]


async def test_every_message_is_answered_by_its_own_turn_and_kept(server: Server) -> None:
    """I2: twenty sends at once to one open task, over every binding, in 1.0 and 0.3; each is
    answered with what was said to it, and none is lost by a kill right after the last reply.
    """
    rounds, sends = size(20, 500), 20
    clients, answered = server.clients(), Counter[str]()
    for round_ in range(rounds):
        task = await clients[round_ % len(clients)].send(message("hello", "turns"))
        said = [message(f"word {n}", task_id=task["id"]) for n in range(sends)]
        speakers = [clients[n % len(clients)] for n in range(sends)]
        answers = await asyncio.gather(
            *(client.send(params) for client, params in zip(speakers, said, strict=True))
        )
        await server.kill()
        assert [told(answer) for answer in answers] == [f"heard word {n}" for n in range(sends)]
        answered.update(client.way for client in speakers)
        await server.start()
        kept = await clients[(round_ + 1) % len(clients)].get(task["id"])
        assert {params["message"]["messageId"] for params in said} <= {
            past["messageId"] for past in kept["history"]
        }
    report("I2", rounds=rounds, messages=tally(answered), kills=rounds, lost=0)
