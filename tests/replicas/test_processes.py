"""Three real replicas on a real PostgreSQL, under load, while what can fail does.

Each test ends with the same checks: nothing that was acknowledged is lost, nothing is stored twice,
nothing is stuck, and nobody's answer contradicts another's.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.pooler import needs_pgbouncer, pooled
from tests.postgres import OwnServer, add, execute, schema_url
from tests.proxy import proxied
from tests.reliability.harness import report, seed, size
from tests.replicas.fleet import Fleet, check_stored, fleet, settled

LOAD_S = size(2, 600)
PAUSES = size(3, 200)
PAUSE_S = 30.0  # with all that follows from it, at most
WIDTH = 16
LEASE_S, BEAT_S = 1.5, 0.4
LONG_LEASE_S = 4.0  # where nobody may be taken for dead, on a machine with other work either

Trouble = Callable[[Fleet], Coroutine[Any, Any, dict[str, object]]]


def schema_of(url: str) -> str:
    return url.partition("schema=")[2].partition("&")[0]


async def run(
    promise: str,
    stores: list[str],
    folder: Path,
    trouble: Trouble | None = None,
    query: Callable[..., list[Any]] = execute,
    *,
    load_s: float = LOAD_S,
    enough: asyncio.Event | None = None,
) -> dict[str, object]:
    """Load three replicas while there is trouble, for `load_s` or until there was enough of it.
    Then look at everything.
    """
    schema = schema_of(stores[0])
    figures: dict[str, object] = {}
    async with fleet(stores, folder, seed()) as replicas:
        loading = asyncio.create_task(replicas.load("c", load_s, WIDTH, enough))
        if trouble is not None:
            troubling = asyncio.create_task(_until(loading, trouble(replicas)))
            figures = await troubling
        await loading
        await settled(schema, query)
        clients = replicas.clients
        tasks = check_stored(schema, clients, query)
        died = query(f"SELECT count(*) FROM {schema}.replicas WHERE died IS NOT NULL")[0][0]
    figures |= {
        "tasks": tasks,
        "messages": len(clients.accepted),
        "answers": clients.answers,
        "tries": clients.tries,
        "events": clients.events,
        "died": died,
        "lost": 0,
        "doubled": 0,
        "stuck": 0,
    }
    report(promise, **figures)
    assert tasks > 10
    return figures


async def _until(
    loading: "asyncio.Task[None]", trouble: Coroutine[Any, Any, dict[str, object]]
) -> dict[str, object]:
    """Make trouble until the load is over, at the latest."""
    troubling = asyncio.ensure_future(trouble)
    await asyncio.wait({loading, troubling}, return_when=asyncio.FIRST_COMPLETED)
    if loading.done():
        loading.result()
    return await troubling


def troubles(log: Path) -> list[str]:
    """The lines of a log that tell of trouble: for an outage, its beginning and its end."""
    return [
        line for line in log.read_text().splitlines() if " ERROR: " in line or " WARNING: " in line
    ]


def ends_s() -> float:
    return asyncio.get_running_loop().time() + LOAD_S * 0.8


@pytest.mark.parametrize("notify", ["on", "off"])
async def test_without_trouble(tmp_path: Path, notify: str) -> None:
    """D, I, S and V with senders, readers and cancels on all replicas; the same without NOTIFY."""
    with schema_url(notify=notify, lease_s=LONG_LEASE_S, beat_s=BEAT_S) as url:
        figures = await run(f"NOTIFY {notify}", [url] * 3, tmp_path)
        assert figures["died"] == 0


async def test_one_of_three_is_killed_again_and_again(tmp_path: Path) -> None:
    """V2, D1, D4: kill -9, under load."""

    async def kill(replicas: Fleet) -> dict[str, object]:
        kills, until_s = 0, ends_s()
        while asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(size(1, 10))  # load, between two kills
            replica = replicas.random.choice(replicas.replicas)
            await replica.kill()
            kills += 1
            await asyncio.sleep(replicas.random.random())
            await replica.start(replicas.session)
        return {"kills": kills}

    with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
        figures = await run("one of three killed", [url] * 3, tmp_path, kill)
        assert figures["kills"]


@needs_pgbouncer
async def test_one_of_three_behind_a_pooler_is_killed(tmp_path: Path) -> None:
    """PgBouncer in transaction mode, with five sessions for all: no setting of a session, no
    prepared statement, no wake-up; the same promises.
    """

    async def kill(replicas: Fleet) -> dict[str, object]:
        await asyncio.sleep(LOAD_S / 2)
        replica = replicas.random.choice(replicas.replicas)
        await replica.kill()
        await replica.start(replicas.session)
        return {"kills": 1}

    with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as direct:
        async with pooled(direct) as url:
            await run("behind a pooler", [url] * 3, tmp_path, kill)


async def test_a_replica_that_was_paused_past_its_lease_is_fenced(tmp_path: Path) -> None:
    """D5: whatever it wrote after others took it for dead is refused. It goes on under a new
    number.
    """
    with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
        schema = schema_of(url)
        enough = asyncio.Event()
        last: dict[int, int] = {}  # batch of a replica that was declared dead, when it was

        def judged() -> dict[int, int]:
            rows = execute(
                f"SELECT r.id, coalesce(max(b.n), 0) FROM {schema}.replicas r LEFT JOIN "
                f"{schema}.batches b ON b.replica = r.id WHERE r.died IS NOT NULL GROUP BY r.id"
            )
            return dict(rows)

        async def pause(replicas: Fleet) -> dict[str, object]:
            for _ in range(PAUSES):
                await asyncio.sleep(0.5)  # load, between two pauses
                replica = replicas.random.choice(replicas.replicas)
                known = len(last)
                replica.is_up = False
                replica.signal(signal.SIGSTOP)
                try:
                    async with asyncio.timeout(PAUSE_S):
                        while len(judged()) == known:  # noqa: ASYNC110  others judge
                            await asyncio.sleep(0.05)
                    for number, batch in judged().items():
                        last.setdefault(number, batch)
                finally:
                    replica.signal(signal.SIGCONT)
                assert await replica.is_ready(replicas.session, LEASE_S + 20)
                replica.is_up = True
            enough.set()
            return {"pauses": PAUSES}

        await run(
            "paused past the lease",
            [url] * 3,
            tmp_path,
            pause,
            load_s=2 * PAUSES * PAUSE_S,
            enough=enough,
        )
        now = judged()
        stale = [number for number, batch in last.items() if now[number] != batch]
        report("D5 paused past the lease", pauses=PAUSES, fenced=len(last), stale_writes=len(stale))
        assert not stale
        assert len(last) >= PAUSES


async def test_connections_that_are_cut_around_a_commit(tmp_path: Path) -> None:
    """A batch whose outcome is unknown happens once."""
    with schema_url(lease_s=LEASE_S, beat_s=BEAT_S) as url:
        async with proxied(url) as one, proxied(url) as two, proxied(url) as three:
            proxies = [one, two, three]

            async def cut(replicas: Fleet) -> dict[str, object]:
                until_s = ends_s()
                while asyncio.get_running_loop().time() < until_s:
                    await asyncio.sleep(replicas.random.random() * 0.3)  # until the next cut
                    how = replicas.random.choice(("before", "after"))
                    replicas.random.choice(proxies).cut(how, replicas.random.choice((0, 200, 1000)))
                return {"cuts": sum(proxy.count for proxy in proxies)}

            stores = [proxy.url for proxy in proxies]
            figures = await run("connections cut", stores, tmp_path, cut)
            assert figures["cuts"]


async def test_postgresql_is_stopped_hard(tmp_path: Path) -> None:
    """Held, not given up: everybody goes on when it is back, and nobody has judged anybody."""
    server = await asyncio.to_thread(OwnServer)
    try:
        url = add(server.url, schema="accord", lease_s=LONG_LEASE_S, beat_s=BEAT_S)

        async def stop(replicas: Fleet) -> dict[str, object]:
            stops, until_s = 0, ends_s()
            while asyncio.get_running_loop().time() < until_s:
                await asyncio.sleep(1)  # load, between two stops
                await asyncio.to_thread(server.stop_hard)
                await asyncio.sleep(LONG_LEASE_S + 1)  # longer than anybody would be waited for
                await asyncio.to_thread(server.start)
                stops += 1
            return {"stops": stops}

        figures = await run("PostgreSQL stopped hard", [url] * 3, tmp_path, stop, server.execute)
        assert figures["stops"]
        assert figures["died"] == 0
        for n in range(3):
            assert len(troubles(tmp_path / f"replica-{n}.log")) <= 2 * int(str(figures["stops"]))
    finally:
        await asyncio.to_thread(server.close)


async def test_more_replicas_than_there_are_connections_for(tmp_path: Path) -> None:
    """A replica needs two connections, and takes more only if there are some. Six of them share 17
    (three of 20 are the superuser's), also after a restart of the database, when all of them
    connect at once. One that gets none at its start says so and ends, for who started it to try
    again.
    """
    server = await asyncio.to_thread(OwnServer, max_connections=20)
    try:
        await asyncio.to_thread(server.execute, "CREATE ROLE plain LOGIN")
        await asyncio.to_thread(server.execute, "GRANT CREATE ON DATABASE postgres TO plain")
        plain = server.url.replace("//postgres", "//plain", 1)
        url = add(plain, schema="accord", lease_s=LONG_LEASE_S, beat_s=BEAT_S)
        before = 0

        async def restart(replicas: Fleet) -> dict[str, object]:
            nonlocal before
            await asyncio.sleep(LOAD_S / 2)
            await asyncio.to_thread(server.stop_hard)
            await asyncio.to_thread(server.start)
            before = replicas.clients.answers
            refused = sum(replica.refusals for replica in replicas.replicas)
            return {"answers before": before, "starts refused": refused}

        load_s = LOAD_S + 4
        figures = await run(
            "17 connections", [url] * 6, tmp_path, restart, server.execute, load_s=load_s
        )
        assert figures["answers"] != before
    finally:
        await asyncio.to_thread(server.close)
