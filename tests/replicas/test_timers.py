"""Many tasks that wait for a time, on replicas that are killed again and again: every timer fires
once, on whichever replica there is, none early, and none is lost.
"""

import asyncio
import contextlib
import time
from pathlib import Path

from accord.engine.log import AskExpired, Ids, Woke, entries_of
from accord.store import Row
from tests.postgres import execute, schema_url
from tests.processes import until
from tests.reliability.harness import message, report, seed, size, text_of
from tests.replicas.clients import Again
from tests.replicas.fleet import Fleet, fleet, settled
from tests.replicas.test_processes import BEAT_S, LEASE_S, schema_of

TASKS = size(300, 20_000)
KILLS = size(3, 20)  # of one replica; the last time all of them die
FIRST_S = size(13, 240)  # the first is due so late: longer than a function stays in memory for it
SPREAD_S = size(3, 60)  # over which the tasks are due


async def test_every_timer_fires_once_whichever_replica_dies(tmp_path: Path) -> None:
    """Half of the tasks sleep, half have asked with a deadline."""
    with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
        async with fleet([url] * 3, tmp_path, seed()) as replicas:
            began = time.time() + FIRST_S
            tasks = await make(replicas, began)
            assert time.time() < began, "too slow to make the tasks before the first is due"
            await until(lambda: time.time() > began - 1, "the first timer", seconds=FIRST_S)
            await kill_some(replicas)
            late = await lateness(replicas, list(tasks.values()))
            await settled(schema_of(url))
        fired = fires(schema_of(url))
    report(
        "Timers on three replicas",
        tasks=TASKS,
        kills=KILLS + len(replicas.replicas),
        early=sum(seconds < 0 for seconds in late),
        lost=TASKS - len(late),
        fired_once=sum(fired[task] == 1 for task in tasks.values()),
        median_late_s=sorted(late)[TASKS // 2],
        p99_late_s=sorted(late)[TASKS * 99 // 100],
        latest_s=max(late),
    )
    assert min(late) >= -0.001
    assert fired == dict.fromkeys(tasks.values(), 1)


async def make(replicas: Fleet, began: float) -> dict[int, str]:
    """Give the replicas their tasks."""
    tasks, waiting = dict[int, str](), asyncio.Semaphore(64)

    async def one(n: int) -> None:
        async with waiting:
            skill = "ask" if n % 2 else "nap"
            due = began + SPREAD_S * n / TASKS
            sent = message(f"{due}", skill, returnImmediately=True)
            tasks[n] = (await replicas.client().send(sent))["id"]

    await asyncio.gather(*(one(n) for n in range(TASKS)))
    return tasks


async def kill_some(replicas: Fleet) -> None:
    """Kill one replica after the other while timers fire, and all of them at the end."""
    for _ in range(KILLS):
        await asyncio.sleep(replicas.random.random() * 2 * SPREAD_S / KILLS)
        replica = replicas.random.choice(replicas.replicas)
        await replica.kill()
        await replica.start(replicas.session)
    for replica in replicas.replicas:
        await replica.kill()
    await replicas.start()


async def lateness(replicas: Fleet, tasks: list[str]) -> list[float]:
    """Wait for the end of all tasks. Return how late their timers were."""
    waiting = asyncio.Semaphore(32)

    async def one(task_id: str) -> float:
        while True:
            async with waiting:
                with contextlib.suppress(Again):
                    task = await replicas.get(task_id)
                    if task["status"]["state"] == "TASK_STATE_COMPLETED":
                        return float(text_of(task))
            await asyncio.sleep(0.2)  # a client that polls

    async with asyncio.timeout(size(60, 600)):
        return await asyncio.gather(*map(one, tasks))


def fires(schema: str) -> dict[str, int]:
    """How often the timer of each task has fired, by its log."""
    found = dict[str, int]()
    for id_, context, *row in execute(
        "SELECT t.id, t.context, e.task, e.pos, e.seq, e.at_ms, e.data"
        f" FROM {schema}.tasks t JOIN {schema}.events e ON e.task = t.key"
    ):
        for one in entries_of([Row(*row)], Ids(id_, context)):
            found[id_] = found.get(id_, 0) + isinstance(one.entry, Woke | AskExpired)
    return found
