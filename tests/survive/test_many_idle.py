"""S4: a thousand readers of tasks in which nothing happens cost next to nothing, and leave nothing behind."""

import asyncio
import gc
import resource
from pathlib import Path

import pytest

from accord import Agent, Context
from accord.run.reader import Reader
from accord.store import Scope
from tests.reliability.harness import JSON, message, report, size
from tests.reliability.inside import Inside
from tests.survive.host import hosting
from tests.survive.test_available import resident

MOST_KIB = 20  # per reader
READERS_PER_TASK = 500


async def subscribe(port: int, task_id: str) -> asyncio.StreamWriter:
    """Open a stream and read up to its first event. A raw socket: ten thousand readers have to fit into this process too."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    headers = "".join(f"{name}: {value}\r\n" for name, value in JSON.items())
    writer.write(f"POST /tasks/{task_id}:subscribe HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}content-length: 2\r\n\r\n{{}}".encode())
    await reader.readuntil(b"data: ")
    return writer


async def test_idle_readers_are_cheap_and_leave_nothing_behind(tmp_path: Path) -> None:
    """S4: memory per reader is bounded, and comes back when they go; the server answers meanwhile."""
    readers = size(1_000, 10_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < readers + 200:
        pytest.skip(f"the system allows {hard} open files, fewer than the readers of this test")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, readers + 200), hard))  # the server inherits it
    async with hosting(tmp_path, limits={"streams": readers + 100}) as host:
        client, port = host.client(), host._port
        tasks = [(await client.send(message("hello", "talk")))["id"] for _ in range(readers // READERS_PER_TASK)]
        warm = await asyncio.gather(*(subscribe(port, tasks[0]) for _ in range(50)))
        before = resident(host.pid)
        streams: list[asyncio.StreamWriter] = []
        for start in range(0, readers, 50):
            streams += await asyncio.gather(*(subscribe(port, tasks[start // READERS_PER_TASK]) for _ in range(50)))
        each_kib = (resident(host.pid) - before) / readers / 1024
        assert each_kib <= MOST_KIB
        for writer in [*streams, *warm]:
            writer.close()
        again = await asyncio.gather(*(subscribe(port, task_id) for task_id in tasks for _ in range(READERS_PER_TASK // 2)))
        after = resident(host.pid)
        assert after - before <= 1.2 * readers * each_kib * 1024, "readers who left are still held"
        for writer in again:
            writer.close()
        report("S4", readers=readers, kib_each=round(each_kib, 1), kib_after=(after - before) >> 10)


def futures() -> int:
    """How many there are in this process."""
    gc.collect()
    return sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects())


async def test_signs_of_life_leave_nothing_behind() -> None:
    """S4: a reader of an idle task is kept alive for ever: hundreds of signs later it costs what it did at first."""
    agent = Agent("Idle")

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        return await ctx.ask("and then?")

    app = agent.app()
    async with app.lifespan():
        task = await Inside(app).send(message("hello"))
        feed = app._engine.feed
        log = await feed.find(Scope(), task["id"])
        reader = Reader(feed, log, log.seq)
        before = futures()
        for _ in range(500):
            assert await reader.next(0) is None
        assert futures() <= before + 5
        reader.close()
