"""S4: thousands of readers of tasks in which nothing happens cost next to nothing, and leave
nothing behind.
"""

import asyncio
import contextlib
import gc
import os
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from accord import Agent, Context
from accord.store.contract import Namespace
from tests.processes import until
from tests.reliability.harness import JSON, message, report, size
from tests.reliability.inside import Inside
from tests.survive.host import Host, hosting
from tests.survive.memory import resident

pytestmark = pytest.mark.alone

MOST_KIB = 10  # per reader; the promise is 20
MOST_MIB = 300  # in all
MOST_MORE = 0.25  # that a second crowd takes, of what the first one took: a leak would be 1
READERS_PER_TASK = 500


async def subscribe(port: int, task_id: str) -> asyncio.StreamWriter:
    """Open a stream and read up to its first event. A raw socket: ten thousand readers have to fit
    into this process too.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    headers = "".join(f"{name}: {value}\r\n" for name, value in JSON.items())
    writer.write(
        f"POST /tasks/{task_id}:subscribe HTTP/1.1\r\nhost: "
        f"127.0.0.1\r\n{headers}content-length: 2\r\n\r\n{{}}".encode()
    )
    await reader.readuntil(b"data: ")
    return writer


@contextlib.asynccontextmanager
async def crowd(host: Host, task_ids: list[str]) -> AsyncIterator[None]:
    """A reader of each of these tasks; afterwards the server has closed its side of them too."""
    folder = f"/proc/{host.pid}/fd"
    open_files, streams = len(os.listdir(folder)), list[asyncio.StreamWriter]()
    try:
        for start in range(0, len(task_ids), 50):
            some = task_ids[start : start + 50]
            streams += await asyncio.gather(*(subscribe(host._port, task_id) for task_id in some))
        yield
    finally:
        for writer in streams:
            writer.close()
    await until(lambda: len(os.listdir(folder)) <= open_files, "all connections to be closed")


async def test_idle_readers_are_cheap_and_leave_nothing_behind(tmp_path: Path) -> None:
    """S4: memory per reader is bounded, and what a crowd of them has left is used for the next one.

    It is not all given back to the system: Python keeps each MiB in which one object is left.
    """
    readers = size(3_000, 10_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < readers + 200:
        pytest.skip(f"the system allows {hard} open files, fewer than the readers of this test")
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(soft, readers + 200), hard)
    )  # the server inherits it
    async with hosting(tmp_path, is_forked=False, limits={"streams": readers + 100}) as host:
        client = host.client()
        tasks = [
            (await client.send(message("hello", "talk")))["id"]
            for _ in range(readers // READERS_PER_TASK)
        ]
        async with crowd(host, [task_id for task_id in tasks for _ in range(5)]):
            before = resident(host.pid)
            everyone = [tasks[n // READERS_PER_TASK] for n in range(readers)]
            async with crowd(host, everyone):
                taken = resident(host.pid) - before
            kept = resident(host.pid) - before
            async with crowd(host, everyone):
                again = resident(host.pid) - before
        sizes = {"kib_base": before, "kib_taken": taken, "kib_kept": kept, "kib_taken_again": again}
        kib = {name: found >> 10 for name, found in sizes.items()}
        report("S4", readers=readers, kib_each=round(taken / readers / 1024, 1), **kib)
        assert taken <= readers * MOST_KIB << 10
        assert before + taken <= MOST_MIB << 20
        assert again <= taken * (1 + MOST_MORE)


def futures() -> int:
    """How many there are in this process."""
    gc.collect()
    return sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects())


async def test_signs_of_life_leave_nothing_behind() -> None:
    """S4: a reader of an idle task is kept alive for ever: hundreds of signs later it costs what it
    did at first.
    """
    agent = Agent("Idle")

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        return await ctx.ask("and then?")

    app = agent.app()
    async with app.lifespan():
        task = await Inside(app).send(message("hello"))
        tasks = app._engine.tasks
        found = await tasks.find(Namespace("Idle"), task["id"])
        assert found is not None
        view = await tasks.views.after(found, found.seq)
        before = futures()
        for _ in range(500):
            assert await view.next(0) is None
        assert futures() <= before + 5
        view.close()
