"""D3: the process dies at every point around every write, and what was acknowledged is there
  afterwards.

Random kills find the rare moments by luck; these are enumerated, and every one of them is died at.
"""

import ast
import asyncio
import contextlib
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import accord
from accord.store.failpoints import POINTS, PUSH_POINTS
from tests.processes import run_sync
from tests.reliability.harness import (
    BROKEN,
    FINAL,
    Client,
    Died,
    Refused,
    message,
    report,
    seed,
    size,
    state_of,
    tally,
    text_of,
    told,
)
from tests.survive.host import Host

SOURCE = Path(accord.__file__).parent
AT_START = ("open.", "take-over.")
AT_STOP = ("close.",)
KILLED = -9
CHECK_S = 0.1  # upkeep: between two looks
SETTLED = FINAL | {"TASK_STATE_INPUT_REQUIRED"}


class Ledger:
    """What was acknowledged before a death."""

    def __init__(self) -> None:
        self.sent = 0
        self.keys: dict[str, str] = {}  # idempotency key -> task id, of the last life
        self.ends: dict[str, str] = {}
        self.open: set[str] = set()
        self.told: Counter[str] = Counter()  # acknowledgements, by the way they came

    async def live(self, clients: list[Client], chance: random.Random) -> None:
        """Send one thing after another, each over any binding and version, until nobody is
        there.
        """
        with contextlib.suppress(Refused, *BROKEN):
            while True:
                await self._send(chance.choice(clients), chance.choice(["echo", "order", "talk"]))
                if self.open and chance.random() < 0.5:
                    client, task_id = chance.choice(clients), self.open.pop()
                    task = await client.send(message("bye", task_id=task_id))
                    self.told[client.way] += 1
                    self.ends[task_id] = state_of(task)

    async def _send(self, client: Client, skill: str) -> None:
        self.sent += 1
        key = f"{skill}{self.sent}"
        params = message(key, skill)
        self.keys[key] = ""  # sent; whether it arrived is not known
        task = await client.send(params, {"idempotency-key": key})
        self.told[client.way] += 1
        self.keys[key] = task["id"]
        if skill == "talk":
            self.open.add(task["id"])
        else:
            self.ends[task["id"]] = state_of(task)
            assert state_of(task) == "TASK_STATE_COMPLETED", told(task)

    async def check(self, clients: list[Client]) -> None:
        """Hold a server against it. Nothing is left that nobody works on."""
        for n, (key, task_id) in enumerate(self.keys.items()):
            if task_id:
                task = await clients[n % len(clients)].get(task_id)
                assert task["history"][0]["parts"][0]["text"] == key
                assert state_of(task) == self.ends.get(task_id, state_of(task))
                assert task_id not in self.open or state_of(task) == "TASK_STATE_INPUT_REQUIRED"
        self.keys.clear()
        seen: Counter[str] = Counter()
        async for task in clients[0].every_task():
            assert state_of(task) in SETTLED
            text = task["history"][0]["parts"][0]["text"]
            seen[text] += 1
            assert state_of(task) == self.ends.get(task["id"], state_of(task))
            if text.startswith("order"):
                assert text_of(task) == f"{text}-1 done;{text}-2 done;{text}-3 done;", told(task)
            elif state_of(task) == "TASK_STATE_FAILED":
                assert told(task).startswith("interrupted")
        assert max(seen.values(), default=1) == 1, seen


async def nothing_is_stuck(client: Client) -> None:
    """Return when every task has ended or waits."""
    async with asyncio.timeout(20):
        for state in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
            while await client.total(state):
                pass


async def settled(client: Client, task_id: str) -> dict:
    """The task, when it has ended or waits."""
    async with asyncio.timeout(20):
        while True:  # another process: asking is the only way to know
            task = await client.get(task_id)
            if state_of(task) in SETTLED:
                return task
            await asyncio.sleep(0.01)


async def die(host: Host, point: str, n: int, ledger: Ledger, chance: random.Random) -> None:
    """Have a life that ends at `point`."""
    host.die_at(point, n)
    if point.startswith(AT_START):
        with contextlib.suppress(Died):  # before it answers
            await host.start()
    else:
        with contextlib.suppress(Died):  # a commit may be made already while it starts
            await host.start()
            living = asyncio.create_task(ledger.live(host.clients(), chance))
            if point.startswith(AT_STOP):
                await asyncio.wait({living}, timeout=0.1)
                await host.stop()
            await living
    assert await host.ended() == KILLED, f"nobody came past {point}"
    host.live_on()


async def test_every_fail_point_can_be_died_at(tmp_path: Path) -> None:
    """D3: one death per point (twenty in a soak), each followed by a life in which everything
    acknowledged, over any binding, is found, every key has one task, every durable order is
    whole, and the file and its counters are sound.
    """
    kills, chance, ledger = size(1, 20), random.Random(seed()), Ledger()
    host = Host(tmp_path, has_grpc=True, look_s=CHECK_S, beat_s=0, purge_s=0)
    died: Counter[str] = Counter()
    waits_s: list[float] = []
    try:
        for point in POINTS:
            for _ in range(kills):
                n = (
                    1
                    if point.startswith((*AT_START, *AT_STOP, "beat", "purge"))
                    else chance.randint(1, 60)
                )
                await die(host, point, n, ledger, chance)
                died[point] += 1
                host.check_file()
                started_s = time.monotonic()
                await host.start()
                await nothing_is_stuck(host.client())
                waits_s.append(time.monotonic() - started_s)
                await ledger.check(host.clients())
                await host.kill()
        repeated = len(host.done) - len(set(host.done))
        assert repeated <= sum(died.values()), (
            "a death may only repeat the one step that was under way"
        )
    finally:
        await host.close()
    assert died.keys() == set(POINTS)
    covered = f"{len(died)} of {len(POINTS)}"
    report(
        "D3",
        points=covered,
        kills=sum(died.values()),
        sent=ledger.sent,
        acknowledged=tally(ledger.told),
        lost=0,
        steps=len(host.done),
        repeated=repeated,
    )
    waits = {"median": statistics.median(waits_s), "worst": max(waits_s)}
    report(
        "D4, seconds from a start until nothing is stuck",
        **{name: f"{wait_s:.2f}" for name, wait_s in waits.items()},
    )


@pytest.mark.parametrize("point", [p for p in POINTS if p.startswith("purge")])
async def test_a_death_during_a_purge_loses_nothing_else(tmp_path: Path, point: str) -> None:
    """D3: what is being thrown away is gone or there; an open task is there, and the counters count
    what is.
    """
    keep_nothing = {"tasks_s": 0, "events_s": 0, "keys_s": 0}
    host = Host(tmp_path, look_s=CHECK_S, purge_s=0, retention=keep_nothing)
    try:
        await host.start()
        asked = await host.client().send(message("hello", "talk"))
        await host.kill()
        host.die_at(point)
        with contextlib.suppress(*BROKEN):
            await host.start()
            while True:
                await host.client().send(message("hello", "echo"))
        assert await host.ended() == KILLED
        host.live_on()
        host.check_file()
        await host.start()
        assert state_of(await host.client().get(asked["id"])) == "TASK_STATE_INPUT_REQUIRED"
        async with asyncio.timeout(20):
            while await host.client().total() > 1:  # the next purge ends what this one began
                pass
        await host.kill()
        host.check_file()
    finally:
        await host.close()


def test_every_named_point_stands_in_the_code_once() -> None:
    """D3: a point that is nowhere, or a place whose point has no name here, would make the coverage
    a lie. A store of another kind has the same places.
    """
    found: Counter[str] = Counter()
    elsewhere: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "point"
            ):
                (name,) = node.args
                assert isinstance(name, ast.Constant)
                if "postgres" in path.parts:
                    elsewhere.add(str(name.value))
                else:
                    found[str(name.value)] += 1
    assert found == Counter([*POINTS, *PUSH_POINTS])
    assert elsewhere <= found.keys()


def test_only_the_command_line_of_a_test_arms_a_point():
    """Not the environment, which a server in production may share with whatever set it."""
    code = "from accord.store import point; point('commit.before'); print('lives')"
    environment = {"ACCORD_FAIL_POINT": "commit.before:1", "FAIL_POINT": "commit.before:1"}
    assert run_sync(sys.executable, "-c", code, env=environment)[:2] == (0, "lives\n")
    option = ("-X", "accord_fail_point=commit.before:1")
    assert run_sync(sys.executable, *option, "-c", code)[:2] == (KILLED, "")
