"""Deliveries survive whatever becomes of the server: killed at random, and at every write."""

import asyncio
import random
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accord.engine.log.entries import Ids, events_of
from accord.store.contract import Namespace
from accord.store.failpoints import PUSH_POINTS
from accord.store.sqlite import PushesBeside, SqliteStore
from tests.reliability.harness import BROKEN, Server, message, report, seed, size

from .webhook import Call, Webhook

TOKEN, CREDENTIALS = "marker-token-51c7", "marker-credentials-90ab"
SERVE = Path(__file__).parent / "serve.py"
PATIENCE_S = 120.0


def server_in(folder: Path) -> Server:
    server = Server(folder)
    server.command[1] = str(SERVE)
    server.ways = ["jsonrpc"]
    return server


def sent_with(hook: Webhook, text: str, skill: str = "work") -> dict[str, Any]:
    config = {
        "url": f"{hook.url}?key={TOKEN}",
        "token": TOKEN,
        "authentication": {"scheme": "Basic", "credentials": CREDENTIALS},
    }
    configuration: dict[str, Any] = {
        "taskPushNotificationConfig": config,
        "returnImmediately": True,
    }
    return message(text, skill, **configuration)


async def all_sent(server: Server) -> None:
    """Return when nothing is left to be delivered."""
    pushes = PushesBeside(server.database)
    async with asyncio.timeout(PATIENCE_S):
        while any(  # noqa: ASYNC110  another process: asking is the only way to know
            one.sent < one.upto for one in await pushes.listed(10_000)
        ):
            await asyncio.sleep(0.05)


async def expected(database: Path) -> dict[str, list[int]]:
    """The numbers each task's webhook has to have got, from the log itself."""
    store = SqliteStore(database)
    await store.open(lambda tasks: None)
    numbers: dict[str, list[int]] = {}
    try:
        for push in await store.pushes.listed(10_000):
            assert (push.sent, push.disabled) == (push.upto, "")
            rows, pos = [], 0
            while piece := await store.read({push.task: pos}):
                rows += piece
                pos = piece[-1].pos + piece[-1].data.count(b"\n")
            ids = Ids(push.task_id, push.context_id)
            events = [e.seq for e in events_of(rows, ids) if e.state is not None]
            numbers[push.task_id] = events
        assert await store.pushes.letters(10) == []
        assert await store.load(Namespace("Pushing", "", ""), "nobody") is None
    finally:
        await store.close()
    return numbers


def check(calls: list[Call], wanted: dict[str, list[int]], accepted: set[str]) -> tuple[int, int]:
    """Every event at least once, first deliveries in order. Return how many came, and how many of
    these again.
    """
    assert accepted <= wanted.keys()
    first = defaultdict[str, list[int]](list)
    again = 0
    for call in calls:
        if call.number in first[call.task_id]:
            again += 1
        else:
            first[call.task_id].append(call.number)
    missing = {task: numbers for task, numbers in wanted.items() if first[task] != numbers}
    assert missing == {}, "missing or out of order"
    return len(calls), again


def _has_more(than: int, calls: list[Call]) -> bool:
    return len(calls) > than


def no_secrets_in(server: Server) -> None:
    log = server.log.read_text()
    assert "marker" not in log
    for file in server.database.parent.iterdir():
        if file != server.log and not file.name.endswith(".keys"):
            assert b"marker" not in file.read_bytes(), file


async def test_nothing_is_lost_by_kills_and_failures(tmp_path: Path, hook: Webhook) -> None:
    """N1, N3, K1: a receiver that fails three times out of ten, a server that is killed again and
    again: every event at least once, in order, and no secret in a log or a file.
    """
    tasks, kills = size(80, 1000), size(3, 10)
    chance = random.Random(seed())
    taken: list[Call] = []

    def judge(call: Call) -> int:
        if chance.random() < 0.3:
            return chance.choice([500, 503, 429, 502])
        taken.append(call)
        return 200

    hook.judge = judge
    accepted: set[str] = set()
    server = server_in(tmp_path)
    try:
        await server.start()
        client = server.client()

        async def send(n: int) -> None:
            while True:
                await server.up.wait()
                try:
                    answer = await client.call("SendMessage", sent_with(hook, f"task {n}"))
                except BROKEN:
                    await asyncio.sleep(0.02)
                    continue
                accepted.add(answer["task"]["id"])
                return

        for start in range(0, tasks, tasks // (kills + 1) + 1):
            count = min(tasks // (kills + 1) + 1, tasks - start)
            sending = asyncio.gather(*(send(start + n) for n in range(count)))
            if server.starts <= kills:
                heard = len(hook.calls) + chance.randrange(60)
                await hook.until(partial(_has_more, heard))
                await server.kill()
                await server.start()
            await sending
        await all_sent(server)
        assert server.starts == kills + 1
        await server.stop()
        wanted = await expected(server.database)
        count, again = check(taken, wanted, accepted)
        no_secrets_in(server)
    finally:
        await server.close()
    report(
        "N1",
        tasks=len(accepted),
        kills=kills,
        events=sum(map(len, wanted.values())),
        attempts=len(hook.calls),
        delivered=count,
        again=again,
        missing=0,
        inversions=0,
    )


@pytest.mark.parametrize("point", PUSH_POINTS)
async def test_every_write_of_a_delivery_can_be_died_at(
    tmp_path: Path, hook: Webhook, point: str
) -> None:
    """D3 of the outbox: killed in the middle of a write, and nothing is lost."""
    accepted: set[str] = set()
    server = server_in(tmp_path)
    try:
        server.environment = {"FAIL_POINT": f"{point}:3"}
        await server.start()
        client = server.client()
        try:
            for n in range(50):
                asked = await client.call("SendMessage", sent_with(hook, f"{n}", "ask"))
                accepted.add(asked["task"]["id"])
                config = {"taskId": asked["task"]["id"], "id": "two", "url": hook.url + "/two"}
                await client.call("CreateTaskPushNotificationConfig", config)
        except BROKEN:
            pass
        assert await server.ended() == -9, f"nobody came past {point}"
        server.environment = {}
        await server.start()
        await all_sent(server)
        await server.stop()
        wanted = await expected(server.database)
    finally:
        await server.close()
    first = [call for call in hook.calls if not call.path.endswith("/two")]
    check(first, wanted, accepted)
