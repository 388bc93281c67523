"""Many tasks that wait for a time, and a server that is killed again and again: every timer fires
once, none early, none is lost, and a task that waits costs no memory.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from accord.engine.log import AskExpired, Ids, Woke, entries_of
from accord.store import Namespace
from accord.store.sqlite import SqliteStore
from tests.cli.shell import found
from tests.processes import Process, start, until
from tests.reliability.clients import HttpClient
from tests.reliability.harness import WAYS, message, report, seed, size, text_of

AGENT = Path(__file__).parent / "sleepers.py"
SPREAD_S = size(2, 60)  # over which the tasks are due
LATE_S = 1.5  # a healthy server is a second late


class Server:
    """The agent under `accord serve`, over as many lives as it takes."""

    def __init__(self, folder: Path, session: aiohttp.ClientSession) -> None:
        self.store = f"sqlite:///{folder}/t.db"
        self._folder = folder
        self._session = session
        self.process: Process | None = None

    async def start(self) -> HttpClient:
        command = [sys.executable, "-m", "accord", "serve", str(AGENT), "--port", "0"]
        self.process = start(*command, "--store", self.store, cwd=self._folder)
        url = found(r"http://[\d.:]+", await self.process.line(60))
        return HttpClient(self._session, url, WAYS["jsonrpc"])

    def kill(self) -> None:
        if self.process is not None:
            self.process.close()

    @property
    def resident(self) -> int:
        """Bytes of memory the process has."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(found(r"(?<=VmRSS:)\s+\d+", status)) * 1024


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Server]:
    async with aiohttp.ClientSession() as session:
        server = Server(folder, session)
        try:
            yield server
        finally:
            server.kill()


async def test_every_timer_fires_once_whatever_dies(tmp_path: Path) -> None:
    """Half of the tasks sleep, half have asked with a deadline."""
    count, kills, chance = size(40, 20_000), size(2, 20), random.Random(seed())
    async with serving(tmp_path) as server:
        client = await server.start()
        empty = server.resident
        began = time.time() + size(6, 200)
        due = {n: began + SPREAD_S * n / count for n in range(count)}
        tasks = dict[int, str]()
        waiting = asyncio.Semaphore(64)

        async def make(n: int) -> None:
            async with waiting:
                skill = "ask" if n % 2 else "nap"
                sent = message(f"{due[n]}", skill, returnImmediately=True)
                tasks[n] = (await client.send(sent))["id"]

        first = count // 10  # what a server sets up once, it has set up for these
        await asyncio.gather(*(make(n) for n in range(first)))
        warm = server.resident
        await asyncio.gather(*(make(n) for n in range(first, count)))
        assert time.time() < began, "too slow to make the tasks before the first is due"
        if size(0, 1):  # questions are given up after a minute
            await until(lambda: time.time() > began - 5, "the rest", seconds=200)
        made = server.resident
        server.kill()
        client = await server.start()
        await asyncio.sleep(0.5)
        again = server.resident
        for _ in range(kills - 1):
            await asyncio.sleep(chance.random() * SPREAD_S / kills)
            server.kill()
            client = await server.start()
        await until(lambda: time.time() > began + SPREAD_S, "the last timer", seconds=120)
        late = [float(await ended(client, tasks[n])) for n in range(count)]
        server.kill()
    fired = await fires(server.store, list(tasks.values()))
    # At rest, in the process that made them, and in one that found them.
    making, finding = (made - warm) / (count - first), (again - empty) / count
    report(
        "Timers",
        tasks=count,
        kills=kills,
        early=sum(seconds < 0 for seconds in late),
        fired_once=fired.count(1),
        median_late_s=sorted(late)[count // 2],
        latest_s=max(late),
        bytes_per_task_where_made=round(making),
        bytes_per_task_where_found=round(finding),
    )
    assert min(late) >= -0.001
    assert fired == [1] * count
    if size(0, 1):
        assert making < 1000
        assert finding < 1000


async def ended(client: HttpClient, task_id: str) -> str:
    async with asyncio.timeout(120):
        while True:
            task = await client.get(task_id)
            if task["status"]["state"] == "TASK_STATE_COMPLETED":
                return text_of(task)
            await asyncio.sleep(0.05)


async def fires(url: str, tasks: list[str]) -> list[int]:
    """How often the timer of each task has fired, by its log."""
    store = SqliteStore(url.removeprefix("sqlite:///"))
    await store.open(lambda tasks: None)
    try:
        found = list[int]()
        for task_id in tasks:
            record = await store.load(Namespace("Sleepers"), task_id)
            assert record is not None
            rows = await store.read({record.key: 0})
            entries = [one.entry for one in entries_of(rows, Ids(record.id, record.context_id))]
            found.append(sum(isinstance(entry, Woke | AskExpired) for entry in entries))
        return found
    finally:
        await store.close()


@pytest.mark.alone
async def test_on_a_healthy_server_a_timer_is_about_a_second_late(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        client = await server.start()
        due = time.time() + 11
        task = await client.send(message(f"{due}", "nap", returnImmediately=True))
        assert 0 <= float(await ended(client, task["id"])) < LATE_S
