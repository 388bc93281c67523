"""D1, D4: what was acknowledged survives `kill -9`, and nothing stays working for ever."""

import asyncio
import contextlib
import random
import sqlite3
import statistics
import time
from collections import Counter
from typing import Any

from tests.reliability.harness import (
    BROKEN,
    FINAL,
    Client,
    Refused,
    Server,
    message,
    report,
    seed,
    size,
    state_of,
    tally,
    text_of,
    told,
)

CLIENTS = 8
OPEN = "TASK_STATE_INPUT_REQUIRED"


class Ledger:
    """Everything a server has acknowledged, to be held against it after its death."""

    def __init__(self) -> None:
        self.messages: dict[str, set[str]] = {}  # by task
        self.ends: dict[str, str] = {}
        self.texts: dict[str, str] = {}  # the part of its artifact a stream has shown
        self.cancels: set[str] = set()
        self.idle: set[str] = set()  # open, with nobody saying anything to it
        self.recent: set[str] = set()
        self.interrupted: set[str] = set()
        self.told: Counter[str] = Counter()  # acknowledgements, by the way they came

    def saw(self, way: str, task: dict[str, Any], params: dict[str, Any] | None = None) -> None:
        """A task was shown, perhaps in answer to a message."""
        self.told[way] += 1
        task_id = task["id"]
        said = self.messages.setdefault(task_id, set())
        if params is not None:
            said.add(params["message"]["messageId"])
        self.recent.add(task_id)
        self.saw_state(task_id, state_of(task))

    def saw_state(self, task_id: str, state: str) -> None:
        if state in FINAL:
            assert self.ends.setdefault(task_id, state) == state, (
                f"{task_id} was {self.ends[task_id]}, now {state}"
            )
            self.idle.discard(task_id)
        if state == OPEN:
            self.idle.add(task_id)

    def check(self, task: dict[str, Any]) -> None:
        """Hold a task, as it is after a restart, against what was acknowledged of it."""
        task_id, state = task["id"], state_of(task)
        missing = self.messages[task_id] - {said["messageId"] for said in task["history"]}
        assert not missing, f"{task_id} lost messages {missing}"
        assert text_of(task).startswith(self.texts.get(task_id, "")), (
            f"{task_id} lost output a stream had shown"
        )
        assert task_id not in self.cancels or state == "TASK_STATE_CANCELED"
        assert task_id not in self.idle or state == OPEN, (
            f"{task_id} waited for input and became {state}"
        )
        assert state in FINAL or state == OPEN, f"{task_id} is {state}, and nobody works on it"
        if state == "TASK_STATE_FAILED":
            assert told(task).startswith("interrupted"), told(task)
            self.interrupted.add(task_id)
        self.saw_state(task_id, state)


async def live(client: Client, ledger: Ledger, chance: random.Random) -> None:
    """Use the server in every way there is until it breaks."""
    mine: list[str] = []  # open tasks only this client speaks to
    while True:
        kind = chance.choice(
            ["echo", "chunks", "stream", "talk", "turns", "answer", "answer", "cancel", "stop"]
        )
        if kind == "echo":
            params = message("hello", "echo")
            ledger.saw(client.way, await client.send(params), params)
        elif kind == "chunks":
            params = message(f"{chance.randrange(30)} 5", "chunks", returnImmediately=True)
            task = await client.send(params)
            ledger.saw(client.way, task, params)
            if chance.random() < 0.5:
                await cancel(client, task["id"], ledger)
        elif kind == "stream":
            await stream(client, ledger, message(f"{chance.randrange(30)} 5", "chunks"))
        elif kind in ("talk", "turns"):
            params = message("hello", kind)
            task = await client.send(params)
            ledger.saw(client.way, task, params)
            mine.append(task["id"])
        elif mine:
            task_id = chance.choice(mine)
            ledger.idle.discard(task_id)
            ledger.recent.add(task_id)
            if kind == "cancel":
                mine.remove(task_id)
                await cancel(client, task_id, ledger)
            else:
                params = message("stop" if kind == "stop" else "and then", task_id=task_id)
                if kind == "stop":
                    mine.remove(task_id)
                ledger.saw(client.way, await client.send(params), params)


async def cancel(client: Client, task_id: str, ledger: Ledger) -> None:
    with contextlib.suppress(Refused):  # it had ended before
        ledger.saw(client.way, await client.cancel(task_id))
        ledger.cancels.add(task_id)


async def stream(client: Client, ledger: Ledger, params: dict[str, Any]) -> None:
    """Every frame is an acknowledgement: of the task, of the message, of each chunk."""
    async with contextlib.aclosing(client.stream("SendStreamingMessage", params)) as frames:
        async for frame in frames:
            if "task" in frame.event:
                ledger.saw(client.way, frame.event["task"], params)
                continue
            ledger.told[client.way] += 1
            if "statusUpdate" in frame.event:
                ledger.saw_state(frame.task_id, frame.state)
            else:
                parts = frame.event["artifactUpdate"]["artifact"]["parts"]
                shown = ledger.texts.get(frame.task_id, "")
                ledger.texts[frame.task_id] = shown + "".join(part["text"] for part in parts)


async def until_broken(client: Client, ledger: Ledger, chance: random.Random) -> None:
    try:
        await live(client, ledger, chance)
    except BROKEN:
        return


async def test_what_was_acknowledged_survives_every_kill(server: Server) -> None:
    """D1, D4: eight clients mix all writes over every binding, in 1.0 and 0.3, on one database, and
    the server is killed at random.

    No acknowledged task, message, chunk or cancel is missing afterwards, whichever way one asks; no
    end changes, open tasks stay open, and what was being worked on has failed as interrupted.
    """
    cycles, chance, ledger = size(15, 200), random.Random(seed()), Ledger()
    ways = server.clients()
    waits_s: list[float] = []
    for cycle in range(cycles):
        ledger.recent.clear()
        clients = [
            (ways[(cycle + i) % len(ways)], random.Random(chance.random())) for i in range(CLIENTS)
        ]
        users = [
            asyncio.create_task(until_broken(client, ledger, own_chance))
            for client, own_chance in clients
        ]
        await asyncio.wait(
            users, timeout=chance.uniform(0.1, 0.8), return_when=asyncio.FIRST_EXCEPTION
        )
        await server.kill()
        killed_s = time.monotonic()
        await asyncio.gather(*users)
        await server.start()
        for state in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
            assert await server.client().total(state) == 0
        waits_s.append(time.monotonic() - killed_s)
        for n, task_id in enumerate(ledger.recent):
            ledger.check(await ways[n % len(ways)].get(task_id))
    found = {task["id"]: task async for task in server.client("grpc").every_task()}
    assert ledger.messages.keys() <= found.keys()
    for task_id in ledger.messages:
        ledger.check(found[task_id])
    await server.kill()
    assert check_file(server) == "ok"
    report(
        "D1",
        kills=cycles,
        acknowledged=tally(ledger.told),
        tasks=len(ledger.messages),
        messages=sum(len(said) for said in ledger.messages.values()),
        cancels=len(ledger.cancels),
        interrupted=len(ledger.interrupted),
        lost=0,
        changed=0,
    )
    report(
        "D4, seconds from a kill until nothing is stuck",
        median=f"{statistics.median(waits_s):.2f}",
        worst=f"{max(waits_s):.2f}",
    )


def check_file(server: Server) -> str:
    database = sqlite3.connect(server.database)
    try:
        return database.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        database.close()
