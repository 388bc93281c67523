"""S2 from the client's side: connections cut at random, the server killed again and again; nothing
lost, nothing twice.
"""

import asyncio
import sys
from pathlib import Path

from accord.client import Gap, Retry, connect
from accord.model import FINAL, ArtifactUpdate, StatusUpdate, TaskState
from tests.client.peers import Proxy
from tests.processes import Process, free_port, start

STREAMS = 96
EVENTS = 200  # a task, working, chunks, and the end
KILLS = 3
TOGETHER = 24
PATIENCE_S = 240
ROOT = Path(__file__).parents[2]


class Server:
    """The counting agent in a process of its own, on one port and one database for all its
    lives.
    """

    def __init__(self, database: Path) -> None:
        self.port = free_port()
        self._database = database
        self._process: Process | None = None

    async def start(self) -> None:
        module = "tests.client.counting"
        self._process = start(
            sys.executable, "-m", module, str(self.port), self._database, cwd=ROOT
        )
        await self._process.line()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()


async def test_received_equals_stored(tmp_path):
    """Every stream ends with its task's end, and what was received is what is stored: none lost,
    none twice (S2).
    """
    server = Server(tmp_path / "tasks.db")
    await server.start()
    received: dict[str, list] = {}
    ended = asyncio.Semaphore(0)
    places = asyncio.Semaphore(TOGETHER)
    retry = Retry(attempts=200, first_s=0.02, most_s=0.2)

    async def read(client) -> None:
        async with places:
            stream = client.stream(str(EVENTS - 3))
            events = [event async for event in stream]
            received[stream.task_id] = events
            ended.release()

    async def kill() -> None:
        """Again and again, when another part of the streams has come to its end."""
        for _ in range(KILLS):
            for _ in range(STREAMS // (KILLS + 1)):
                await ended.acquire()
            server.kill()
            await server.start()

    try:
        async with asyncio.timeout(PATIENCE_S), Proxy(server.port, 0.02, seed=7) as proxy:
            async with connect(proxy.url, retry=retry) as client:
                await asyncio.gather(kill(), *[read(client) for _ in range(STREAMS)])
            async with connect(f"http://127.0.0.1:{server.port}") as client:
                stored = {
                    task_id: [event async for event in client.subscribe(task_id, after=0)]
                    for task_id in received
                }
                tasks = {task_id: await client.get(task_id) for task_id in received}
    finally:
        server.kill()
    assert len(received) == STREAMS
    assert proxy.cuts > STREAMS // 10
    assert [task_id for task_id in received if received[task_id] != stored[task_id]] == []
    assert not any(isinstance(event, Gap) for events in received.values() for event in events)
    assert {task.status.state for task in tasks.values()} == {
        TaskState.COMPLETED,
        TaskState.FAILED,
    } & FINAL
    for task_id, events in received.items():
        text = "".join(event.artifact.text for event in events if isinstance(event, ArtifactUpdate))
        assert isinstance(events[-1], StatusUpdate)
        assert text == (tasks[task_id].artifacts[0].text if tasks[task_id].artifacts else "")
    complete = sum(task.status.state is TaskState.COMPLETED for task in tasks.values())
    print(
        f"\n{STREAMS} streams x {EVENTS} events, {proxy.cuts} cuts, {KILLS} kills: 0 lost, 0 twice; {complete} tasks completed"  # noqa: E501
    )
