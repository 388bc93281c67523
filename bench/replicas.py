"""Several replicas on one PostgreSQL: what a send costs them is a row of the table; how fast they
tell each other things, `python -m bench.replicas` prints in about a minute.

Replicas, PostgreSQL and the load share this machine: on two cores the rates say how the cores are
shared, not how replicas scale.

Beside them is the cluster store of a2a-sdk on the same database, if what it needs is installed:
`pip install 'a2a-sdk[postgresql]'`.
"""

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from bench import sdk_cluster
from bench.rows import Effort, Row
from bench.server import Server
from tests.postgres import base_url, execute, schema_url
from tests.reliability.clients import HttpClient
from tests.reliability.harness import message
from tests.reliability.ways import WAYS
from tests.replicas.fleet import Fleet, Replica, fleet

LEASE_S, BEAT_S = 3.0, 1.0
RATE_S = 4.0
TICK = os.sysconf("SC_CLK_TCK")


def client(replicas: Fleet, replica: Replica) -> HttpClient:
    return HttpClient(replicas.session, replica.url, WAYS["jsonrpc"])


def show(name: str, value: str) -> None:
    print(f"{name:<62} {value}", flush=True)


def spread(values: list[float]) -> str:
    values.sort()
    p50, p90 = statistics.median(values), values[int(len(values) * 0.9)]
    return f"p50 {p50 * 1000:.1f} ms, p90 {p90 * 1000:.1f} ms ({len(values)})"


async def events(replicas: Fleet) -> None:
    owner, other = (client(replicas, replica) for replica in replicas.replicas[:2])
    task = await owner.send(message("200", "ticks", returnImmediately=True))
    late: list[float] = []
    async for frame in other.subscribe(task["id"]):
        now = time.time_ns()
        if "artifactUpdate" in frame.event:
            said = frame.event["artifactUpdate"]["artifact"]["parts"][-1]["text"].split()[-1]
            late.append((now - int(said)) / 1e9)
    show("event to a reader on another replica", spread(late))


async def turns(replicas: Fleet) -> None:
    owner, other = (client(replicas, replica) for replica in replicas.replicas[:2])
    task = await owner.send(message("hello", "talk"))
    took: list[float] = []
    for n in range(150):
        began = time.perf_counter()
        await other.send(message(f"{n}", task_id=task["id"]))
        took.append(time.perf_counter() - began)
    show("message to a task owned elsewhere, to the end of its turn", spread(took))


async def taken(replicas: Fleet, schema: str) -> None:
    dying = client(replicas, replicas.replicas[0])
    for _ in range(300):
        await dying.send(message("1000", "ticks", returnImmediately=True))
    owner = execute(f"SELECT owner FROM {schema}.tasks WHERE owner IS NOT NULL LIMIT 1")
    await replicas.replicas[0].kill()
    began = time.perf_counter()
    asked = f"SELECT count(*) FROM {schema}.tasks WHERE owner = {owner[0][0] if owner else 0}"
    while execute(asked)[0][0]:  # noqa: ASYNC110  another process takes them
        await asyncio.sleep(0.05)
    took = time.perf_counter() - began
    show(f"owner killed, until all is taken (lease {LEASE_S:g} s)", f"{took:.1f} s")


class ReplicaSends(Row):
    """CPU time of all replicas together per finished task, at 32 tasks at once."""

    columns = ("1 replica", "2 replicas", "4 replicas")
    needs_server = False

    async def measure(self, server: Server, effort: Effort) -> float:
        pinned = os.sched_getaffinity(0)
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # the replicas inherit it
        try:
            with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
                _, each_us = await rate([url] * int(server.column.split()[0]))
        finally:
            os.sched_setaffinity(0, pinned)
        return each_us


async def rate(stores: list[str]) -> tuple[float, float]:
    """Return finished tasks a second, and microseconds of the replicas' CPU time for each."""
    async with fleet(stores, Path(tempfile.mkdtemp()), 1) as replicas:
        until, count = time.perf_counter() + RATE_S, 0

        async def send(n: int) -> None:
            nonlocal count
            one = client(replicas, replicas.replicas[n % len(stores)])
            while time.perf_counter() < until:
                await one.send(message("hello", "echo"))
                count += 1

        before = sum(cpu_s(replica.pid) for replica in replicas.replicas)
        await asyncio.gather(*(send(n) for n in range(32)))
        used = sum(cpu_s(replica.pid) for replica in replicas.replicas) - before
        return count / RATE_S, used / max(count, 1) * 1e6


async def show_rate(stores: list[str], name: str) -> None:
    rate_, each_us = await rate(stores)
    show(name, f"{rate_:.0f} finished tasks/s, {each_us:.0f} µs CPU of the replicas each")


async def others() -> None:
    """The same of a2a-sdk: its store without HTTP, so it has less to do than our replicas."""
    event = "a2a-sdk's cluster store: event to a reader in another process"
    saves = f"a2a-sdk's cluster store, 1 process, {sdk_cluster.AT_ONCE} tasks at once"
    if reason := sdk_cluster.missing():
        show(event, reason)
        show(saves, reason)
        return
    with schema_url() as url:
        schema = schema_of(url)
        execute(f"CREATE SCHEMA {schema}")
        late, figures = await sdk_cluster.measure(base_url(), schema)
        show(event, spread(late))
        show(saves, f"{figures['saves_s']:.0f} saves/s, {figures['cpu_us']:.0f} µs CPU each")


def schema_of(url: str) -> str:
    return url.partition("schema=")[2].partition("&")[0]


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


async def main() -> None:
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
        schema = schema_of(url)
        async with fleet([url] * 3, Path(tempfile.mkdtemp()), 1) as replicas:
            await events(replicas)
            await turns(replicas)
            await taken(replicas, schema)
    await show_rate([f"sqlite:///{tempfile.mkdtemp()}/tasks.db"], "SQLite, 1 process")
    for count in (1, 2, 4):
        with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
            await show_rate([url] * count, f"PostgreSQL, {count} replica{'s' if count > 1 else ''}")
    await others()


REPLICA_ROWS: tuple[Row, ...] = (
    ReplicaSends(
        "replicas", "send, 32 at once, replicas on one PostgreSQL", rounds=1, is_slow=True
    ),
)


if __name__ == "__main__":
    asyncio.run(main())
