"""Several replicas on one PostgreSQL: what a send costs them is a row of the table; how fast they
tell each other things, `python -m bench.replicas` prints in about a minute.

Replicas, PostgreSQL and the load share this machine: on two cores the rates say how the cores are
shared, not how replicas scale.

Beside them is the cluster store of a2a-sdk on the same database, if what it needs is installed:
`pip install 'a2a-sdk[postgresql]'`.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import sdk_cluster, wire
from bench.load import drive
from bench.rows import Effort, Row
from bench.server import SERVERS, Server
from tests.postgres import base_url, execute, schema_url
from tests.reliability.clients import HttpClient
from tests.reliability.harness import message
from tests.reliability.ways import WAYS
from tests.replicas.fleet import Fleet, Replica, fleet

LEASE_S, BEAT_S = 3.0, 1.0
RATE_S = 4.0
_COMPLETED = wire.check(wire.COMPLETED)
TICK = os.sysconf("SC_CLK_TCK")


def client(replicas: Fleet, replica: Replica) -> HttpClient:
    return HttpClient(replicas.session, replica.url, WAYS["jsonrpc"])


def show(name: str, value: str) -> None:
    print(f"{name:<62} {value}", flush=True)


def spread(values: list[float]) -> str:
    values.sort()
    at = {share: values[int(len(values) * share / 100)] * 1000 for share in (50, 90, 99)}
    return ", ".join(f"p{share} {ms:.1f} ms" for share, ms in at.items()) + f" ({len(values)})"


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


async def turns(replicas: Fleet, *, echoes: int) -> None:
    """Send to a task that another replica owns, while so many clients send echoes to all."""
    owner, other = (client(replicas, replica) for replica in replicas.replicas[:2])
    task = await owner.send(message("hello", "talk"))
    took: list[float] = []

    async def echo(n: int) -> None:
        to = client(replicas, replicas.replicas[n % len(replicas.replicas)])
        while True:
            await to.send(message("hello", "echo"))

    beside = [asyncio.create_task(echo(n)) for n in range(echoes)]
    try:
        for n in range(400):
            began = time.perf_counter()
            await other.send(message(f"{n}", task_id=task["id"]))
            took.append(time.perf_counter() - began)
    finally:
        for one in beside:
            one.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    among = f", beside {echoes} clients" if echoes else ""
    show(f"message to a task owned elsewhere, to its answer{among}", spread(took))


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


class _Cost(NamedTuple):
    """What a finished task costs, with its HTTP request: its share of everything."""

    replicas_us: float  # CPU time of the replicas
    database_us: float  # CPU time of PostgreSQL; 0 if it is not ours to look at
    wal_bytes: float  # that PostgreSQL writes ahead
    transactions: float

    @property
    def all_us(self) -> float:
        return self.replicas_us + self.database_us


class _BenchReplica(Server):
    """The bench's agent, on a store that others share."""

    def __init__(self, store: str) -> None:
        super().__init__("postgres")
        self._store = store

    def _command(self) -> list[str]:
        return [sys.executable, str(SERVERS / "accord_server.py"), str(self.port), self._store]


class ReplicaSends(Row):
    """One of the costs of a finished task, with as many clients for each replica."""

    columns = ("1 replica", "2 replicas", "4 replicas")
    needs_server = False

    def __init__(
        self, id: str, title: str, part: Callable[[_Cost], float], *, unit: str = "µs"
    ) -> None:
        super().__init__(id, title, rounds=2, is_slow=True)
        self._part = part
        self.unit = unit

    async def measure(self, server: Server, effort: Effort) -> float:
        with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
            return self._part(await cost([url] * int(server.column.split()[0]), effort))


async def cost(stores: list[str], effort: Effort, *, clients: int = 32) -> _Cost:
    """Return what a finished task costs replicas that have so many clients each."""
    replicas = [_BenchReplica(store) for store in stores]
    try:
        await asyncio.gather(*(replica.start() for replica in replicas))
        lines = [await replica.connections(clients) for replica in replicas]

        async def load(seconds: float) -> int:
            done = await asyncio.gather(
                *(
                    drive(some, lambda _, of=replica: wire.send(of), _COMPLETED, seconds=seconds)  # type: ignore[misc]
                    for some, replica in zip(lines, replicas, strict=True)
                )
            )
            return sum(tally.units for tally in done)

        await load(effort.warm_s)
        before = _used(replicas)
        count = await load(max(effort.seconds, 1.0) * 2)
        used = [now - then for now, then in zip(_used(replicas), before, strict=True)]
        return _Cost(used[0] / count * 1e6, used[1] / count * 1e6, used[2] / count, used[3] / count)
    finally:
        await asyncio.gather(*(replica.stop() for replica in replicas))


def _used(replicas: list[_BenchReplica]) -> _Cost:
    """What was used so far, in seconds and bytes."""
    [(lsn, transactions)] = execute(
        "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, xact_commit + xact_rollback "
        "FROM pg_stat_database WHERE datname = current_database()"
    )
    return _Cost(
        sum(replica.cpu_s() for replica in replicas), database_s(), float(lsn), transactions
    )


def database_s() -> float:
    """CPU time of the PostgreSQL that the tests started, with the processes it has ended; 0 if it
    is another's.
    """
    if os.environ.get("ACCORD_TEST_POSTGRES"):
        return 0.0
    [(folder,)] = execute("SHOW data_directory")
    postmaster = int((Path(folder) / "postmaster.pid").read_text().split()[0])
    ended = Path(f"/proc/{postmaster}/stat").read_text().rpartition(")")[2].split()
    total = sum(int(ticks) for ticks in ended[11:15])
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == postmaster:
                total += int(fields[11]) + int(fields[12])
    return total / TICK


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
            await turns(replicas, echoes=0)
            await turns(replicas, echoes=12)
            await taken(replicas, schema)
    await show_rate([f"sqlite:///{tempfile.mkdtemp()}/tasks.db"], "SQLite, 1 process")
    for count in (1, 2, 4):
        with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
            await show_rate([url] * count, f"PostgreSQL, {count} replica{'s' if count > 1 else ''}")
    await others()


_ON = "send, replicas on one PostgreSQL, 32 connections each: "
REPLICA_ROWS: tuple[Row, ...] = (
    ReplicaSends("replicas", _ON + "replicas and database", lambda cost: cost.all_us),
    ReplicaSends("database", _ON + "the database alone", lambda cost: cost.database_us),
    ReplicaSends("wal", _ON + "what it writes ahead", lambda cost: cost.wal_bytes, unit="bytes"),
)


if __name__ == "__main__":
    asyncio.run(main())
