"""What deliveries cost, printed by `make soak`: figures of one run on one machine, none asserted
that a busy machine could spoil.
"""

import asyncio
import os
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accord.model import now_ms
from accord.store.contract import Create, Leaves, Namespace
from accord.store.push import Push
from accord.store.sqlite import PushesBeside, SqliteStore
from tests.reliability.harness import Server, message, report, size

from .test_kills import SERVE, all_sent
from .webhook import Call, Webhook, webhook

TICKS = os.sysconf("SC_CLK_TCK")


def server_in(folder: Path) -> Server:
    server = Server(folder)
    server.command[1] = str(SERVE)
    return server


def cpu_s(pid: int) -> float:
    """How long a process has worked."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def request(url: str = "", text: str = "hi", skill: str = "echo") -> dict[str, Any]:
    config: dict[str, Any] = {"returnImmediately": True}
    if url:
        config["taskPushNotificationConfig"] = {"url": url}
    return message(text, skill, **config)


@pytest.mark.parametrize("skill", ["echo", "stream"])
async def test_the_cpu_of_a_task_with_a_webhook(tmp_path: Path, hook: Webhook, skill: str):
    """One process, rounds with and without taken in turns, everything delivered in the end."""
    count, rounds = size(100, 600), size(1, 4)
    server = server_in(tmp_path)
    used: dict[bool, list[float]] = {False: [], True: []}
    try:
        await server.start()
        client = server.client()
        for n in range(2 * rounds + 2):
            has_push = bool(n % 2)
            before = cpu_s(server.pid)
            params = [request(hook.url if has_push else "", skill=skill) for _ in range(count)]
            for start in range(0, count, 20):
                some = params[start : start + 20]
                await asyncio.gather(*(client.call("SendMessage", one) for one in some))
            while await client.total("TASK_STATE_WORKING"):  # noqa: ASYNC110  another process
                await asyncio.sleep(0.05)
            await all_sent(server)
            if n > 1:
                used[has_push].append((cpu_s(server.pid) - before) / count * 1e6)
    finally:
        await server.close()
    plain, pushed = statistics.median(used[False]), statistics.median(used[True])
    report(
        f"server CPU of a task ({skill}), microseconds",
        without=round(plain),
        with_one_webhook=round(pushed),
        ratio=f"{pushed / max(plain, 1):.2f}",
        deliveries_per_task=f"{len(hook.calls) / count / (rounds + 1):.1f}",
    )


async def test_a_slow_webhook_does_not_slow_a_stream(tmp_path: Path):
    """N4: the same stream with and without a webhook that takes 3 s, in one run."""

    async def slow() -> int:
        await asyncio.sleep(size(1, 3))
        return 200

    server = server_in(tmp_path)
    took: dict[bool, list[float]] = {False: [], True: []}
    async with webhook() as hook:
        hook.answers += [slow] * 1000
        try:
            await server.start()
            client = server.client()
            for n in range(size(4, 40)):
                has_push = bool(n % 2)
                params = request(hook.url if has_push else "", skill="stream")
                begun = time.monotonic()
                frames = [frame async for frame in client.stream("SendStreamingMessage", params)]
                took[has_push].append((time.monotonic() - begun) * 1000)
                assert len(frames) > 10
        finally:
            await server.close()
    report(
        "N4, a stream, milliseconds",
        without=f"{statistics.median(took[False]):.1f}",
        beside_a_slow_webhook=f"{statistics.median(took[True]):.1f}",
    )


async def test_a_dead_endpoint_does_not_slow_another(tmp_path: Path, hook: Webhook):
    """Very many due deliveries to an endpoint that hangs up; another's arrive as they would."""
    count = size(500, 10_000)
    server = server_in(tmp_path)
    try:
        waits: dict[str, list[float]] = {}
        for what in ("alone", "beside"):
            if what == "beside":
                await server.stop()
                await _fill(server.database, count)
            await server.start()
            client = server.client()
            for n in range(size(5, 40)):
                begun = time.monotonic()
                answer = await client.call("SendMessage", request(f"{hook.url}/{what}{n}"))
                task_id = answer["task"]["id"]
                await hook.until(partial(_has_ended, task_id))
                waits.setdefault(what, []).append((time.monotonic() - begun) * 1000)
        left = [one for one in await PushesBeside(server.database).listed(20_000) if one.error]
    finally:
        await server.close()
    report(
        f"from a send to its last notification, milliseconds, beside {count} due to a dead one",
        alone=f"{statistics.median(waits['alone']):.1f}",
        beside=f"{statistics.median(waits['beside']):.1f}",
        worst=f"{max(waits['beside']):.1f}",
        tried=len(left),
    )


def _has_ended(task_id: str, calls: list[Call]) -> bool:
    return any(call.task_id == task_id and call.kind == "completed" for call in calls)


async def _fill(database: Path, count: int) -> None:
    """Store tasks whose webhooks are due and lead nowhere."""
    from accord.auth import Keyring, key_file_of
    from accord.push.webhooks import Webhook, _context, _encode

    store = SqliteStore(database)
    await store.open(lambda tasks: None)
    keyring = Keyring.open(key_file_of(database))
    space = Namespace("Pushing", "", "")
    at_ms = now_ms() - 60_000
    items = []
    for n in range(count):
        task_id, key = f"dead-{n}", store.replica << 32 | n + 1
        task = b'{"task":{"id":"%b","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}'
        text = task % task_id.encode()
        data = keyring.seal(
            _encode(Webhook("http://127.0.0.1:9/")), context=_context(space, task_id, "c")
        )
        push = Push(key, "c", space, "http://127.0.0.1:9", "1.0", data, at_ms)
        items.append(
            Create(
                key, space, task_id, "c", "echo", b"{}", 3, at_ms, 1, 1, 1, b"c" + text,
                Leaves.END, text[8:-1], b"[]", None, 1, (push,),
            )
        )  # fmt: skip
    assert all(await store.commit(items))
    await store.close()
