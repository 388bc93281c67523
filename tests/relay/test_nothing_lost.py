"""Streams through a hub or a relay that is killed, from an agent that is restarted and has no
cursors.
"""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from accord.client import Client, Gap, Retry, connect
from accord.hub import RestClient
from accord.model import FINAL, ArtifactUpdate, StatusUpdate, Task, TaskState
from tests.processes import Forked, fork, free_port, until, until_listening
from tests.reliability.harness import quick_folder, report, size

SCRIPT = str(Path(__file__).parent / "serve.py")
STREAMS, CHUNKS, KILLS = size(12, 200), size(30, 100), size(2, 5)
PAUSE_MS = size(200, 150)
PATIENT = Retry(max_time_s=120.0, first_max_time_s=120.0, most_s=0.5)


class Server:
    """The agent, the relay or the hub: a process that is killed and started again on its port and
    file.
    """

    def __init__(self, folder: Path, kind: str, url: str = "") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{kind}.log"
        self._arguments = (SCRIPT, kind, str(self.port), str(folder / f"{kind}.db"), url)
        self._process: Forked | None = None

    async def start(self) -> None:
        self._process = fork(*self._arguments, log=self.log)
        await until_listening(self.port)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    def close(self) -> None:
        if self._process is not None:
            self._process.close()


class Caller:
    """Reads one task to its end, over and over cut off at a random event, and goes on behind it."""

    def __init__(self, number: int, client: Client) -> None:
        self.number = number
        self.task_id = ""
        self.events: list[object] = []
        self.cuts = 0
        self._client = client
        self._chance = random.Random(number)

    async def read(self) -> None:
        stream = self._client.stream(f"{CHUNKS} {PAUSE_MS}", key=f"stream-{self.number}")
        while not await self._read_some(stream):
            self.cuts += 1
            stream = self._client.subscribe(self.task_id, after=stream.cursor)

    async def _read_some(self, stream) -> bool:
        left = self._chance.randint(1, CHUNKS // 2)
        async with stream:
            async for event in stream:
                assert not isinstance(event, Gap), event
                self.events.append(event)
                self.task_id = stream.task_id
                if _is_end(event):
                    return True
                left -= 1
                if not left:
                    return False
        raise AssertionError("a stream ended before its task")


def has_read(callers: list[Caller], mark: int) -> bool:
    """Whether they have read so many events, or one of them has come to the end."""
    ended = any(caller.events and _is_end(caller.events[-1]) for caller in callers)
    return ended or sum(len(caller.events) for caller in callers) >= mark


def _is_end(event: object) -> bool:
    return isinstance(event, StatusUpdate) and event.status.state in FINAL


def text_of(events: Sequence[object]) -> str:
    """What a reader of these events has in the end."""
    text = ""
    for event in events:
        if isinstance(event, ArtifactUpdate):
            text = text * bool(event.append) + event.artifact.text
    return text


async def added(hub: Server, folder: Path, agent: str) -> str:
    """Add the agent to a hub, which has just been started; return its address there."""
    file = folder / "hub.admin"
    await until(lambda: file.exists() and file.read_text().endswith("\n"), "a key", seconds=120)
    await RestClient(hub.url, file.read_text().strip()).call(
        "POST", "/agents", {"url": agent, "name": "counter"}
    )
    return f"{hub.url}/agents/counter"


@pytest.mark.timeout(300 if STREAMS < 100 else 0)
@pytest.mark.parametrize("through", ["hub"] if STREAMS < 100 else ["hub", "relay"])
async def test_nothing_is_lost_and_nothing_comes_twice(through: str):
    """What callers received is what the relay has stored, event by event, and that is what the
    agent made; no task that a caller was told of is missing. A hub is one relay beside others.
    """
    folder = quick_folder()
    agent = Server(folder, "agent")
    relay = Server(folder, through, agent.url)
    chance = random.Random(7)
    try:
        await agent.start()
        await relay.start()
        place = await added(relay, folder, agent.url) if through == "hub" else relay.url
        async with connect(place, retry=PATIENT) as client:
            callers = [Caller(i, client) for i in range(STREAMS)]
            reading = [asyncio.create_task(caller.read()) for caller in callers]
            total = STREAMS * CHUNKS
            for n in range(1, 2 * KILLS + 1):
                mark = total * n // (2 * KILLS + 2)
                await until(partial(has_read, callers, mark), "enough events", seconds=120)
                victim = relay if n % 2 else agent
                await victim.kill()
                await asyncio.sleep(chance.random() / 5)  # how long it is away is any time
                await victim.start()
            await asyncio.wait_for(asyncio.gather(*reading), 240)
            for caller in callers:
                stored = [event async for event in client.subscribe(caller.task_id, after=0)]
                assert caller.events == stored
                task = await client.get(caller.task_id)
                assert isinstance(stored[0], Task)
                assert task.status.state is TaskState.COMPLETED
                expected = "".join(f"{i} " for i in range(CHUNKS))
                assert task.artifacts[0].text == text_of(stored) == expected
            listed = {task.id async for task in client.list()}
            assert listed == {caller.task_id for caller in callers}
        report(
            f"{through}, nothing lost",
            streams=STREAMS,
            events=sum(len(caller.events) for caller in callers),
            cuts=sum(caller.cuts for caller in callers),
            kills=KILLS,
            kills_of_agent=KILLS,
            lost=0,
            twice=0,
        )
    finally:
        relay.close()
        agent.close()
    for server in (agent, relay):
        assert "Traceback" not in server.log.read_text(), server.log.read_text()[-4000:]
