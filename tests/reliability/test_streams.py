"""S1, S2: a task's events are numbered, and a broken stream goes on where it broke."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.reliability.agents.busy import agent
from tests.reliability.harness import (
    BROKEN,
    RESUME,
    WAYS,
    Client,
    Frame,
    Refused,
    Server,
    message,
    report,
    seed,
    size,
    state_of,
    tally,
    text_of,
)
from tests.reliability.inside import Inside, pass_turns


async def collect(frames: AsyncIterator[Frame]) -> list[Frame]:
    return [frame async for frame in frames]


async def first(frames: AsyncGenerator[Frame, None]) -> Frame:
    """The first frame of a stream, which is then hung up on."""
    async with aclosing(frames):
        async for frame in frames:
            return frame
    raise AssertionError("the stream ended before its first frame")


@pytest.mark.parametrize("way", WAYS)
async def test_two_readers_see_the_same_numbers_without_a_gap(server: Server, way: str) -> None:
    """S1: the SSE id, or gRPC's number of the first frame, counts 1, 2, 3, ...: the same event for
    everyone, whenever they came.
    """
    client = server.client(way)
    sent = client.stream("SendStreamingMessage", message("100 2", "chunks"))
    opening = await anext(sent)
    second = asyncio.create_task(collect(client.subscribe(opening.task_id, after=0)))
    frames = [opening, *await collect(sent)]
    assert [frame.id for frame in frames] == list(
        range(1, 104)
    )  # the task, working, 100 chunks, completed
    assert await second == frames
    assert await collect(client.subscribe(opening.task_id, after=0)) == frames


@pytest.mark.parametrize("way", WAYS)
async def test_plain_subscriber_gets_the_number_its_snapshot_stands_for(
    server: Server, way: str
) -> None:
    """S1: the Task that opens a subscription carries the number of the last event in it, so the
    next one follows it.
    """
    client = server.client(way)
    task = await client.send(message("100 2", "chunks", returnImmediately=True))
    frames = await collect(client.subscribe(task["id"]))
    assert "task" in frames[0].event
    assert [frame.id for frame in frames] == list(range(frames[0].id, 104))


@pytest.mark.parametrize("way", WAYS)
async def test_resume_gives_exactly_what_follows_the_cursor(server: Server, way: str) -> None:
    """S2: with the extension and a cursor there is no snapshot, also for a task that has ended,
    wherever the cursor stands.
    """
    client = server.client(way)
    frames = await collect(client.stream("SendStreamingMessage", message("300 0", "chunks")))
    for after in (0, 1, 2, 150, 301, 302, 303):
        resumed = await asyncio.wait_for(
            collect(client.subscribe(frames[0].task_id, after=after)), timeout=60
        )
        assert resumed == frames[after:]


@pytest.mark.parametrize("way", WAYS)
async def test_resume_survives_a_restart(server: Server, way: str) -> None:
    """S2: the tail of a finished task comes from the store of the next process as well."""
    client = server.client(way)
    frames = await collect(client.stream("SendStreamingMessage", message("300 0", "chunks")))
    await server.kill()
    await server.start()
    assert await collect(client.subscribe(frames[0].task_id, after=7)) == frames[7:]


@pytest.mark.parametrize("way", WAYS)
async def test_without_the_extension_a_cursor_changes_nothing(server: Server, way: str) -> None:
    """S2: plain protocol behaviour: the Task comes first, and a finished task has no stream."""
    client = server.client(way)
    cursor = {"last-event-id": "1"}
    task = await client.send(message("hello", "talk"))
    opening = await first(client.stream("SubscribeToTask", {"id": task["id"]}, cursor))
    assert opening.event["task"]["id"] == task["id"]
    await client.cancel(task["id"])
    if way.endswith("0.3"):  # which gives the task and ends
        (only,) = await collect(client.stream("SubscribeToTask", {"id": task["id"]}, cursor))
        assert only.event["task"] == await client.get(task["id"])
        return
    with pytest.raises(Refused) as refused:
        await collect(client.stream("SubscribeToTask", {"id": task["id"]}, cursor))
    assert refused.value.reason == "UNSUPPORTED_OPERATION"


@pytest.mark.parametrize("way", WAYS)
async def test_the_extension_without_a_cursor_changes_nothing(server: Server, way: str) -> None:
    """S2: who has seen nothing yet has nothing to resume, and gets the Task first."""
    client = server.client(way)
    task = await client.send(message("hello", "talk"))
    opening = await first(client.stream("SubscribeToTask", {"id": task["id"]}, RESUME))
    assert opening.event["task"]["id"] == task["id"]


async def test_a_cursor_beyond_the_log_gets_the_task_as_it_is(server: Server) -> None:
    """S2: a database that was put back from a copy has fewer events than its readers saw. The Task,
    with the number it stands for, says that what they have is no longer what is stored; what
    follows it is told as usual.
    """
    for client in server.clients():
        ended = await client.send(message("hello", "echo"))
        (only,) = await collect(client.subscribe(ended["id"], after=1_000_000))
        assert (only.event["task"], only.id) == (await client.get(ended["id"]), 4)
        task = await client.send(message("hello", "talk"))
        frames = client.subscribe(task["id"], after=1_000_000)
        opening = await anext(frames)
        assert (opening.event["task"], opening.id) == (await client.get(task["id"]), 3)
        await client.send(message("stop", task_id=task["id"]))
        assert [frame.id for frame in await collect(frames)] == [4, 5, 6]


@pytest.mark.usefixtures("no_rest")
async def test_subscriber_of_an_open_task_sees_its_next_turn(tmp_path: Path) -> None:
    """S2: whoever subscribes at the moment a task comes to rest is not forgotten when it
    goes on.
    """
    app = agent.app(store=f"sqlite:///{tmp_path / 'accord.db'}")
    inside, moments = Inside(app), size(100, 2_000)

    async def subscribe(task_id: str, moment: int) -> list[Frame]:
        await pass_turns(moment)
        return await inside.stream("SubscribeToTask", {"id": task_id})

    async with app.lifespan():
        for n in range(moments):
            task = await inside.send(message("hello", "turns"))
            subscribed = asyncio.create_task(subscribe(task["id"], n % 50))
            await inside.send(message("and then", task_id=task["id"]))
            await pass_turns(60)
            await inside.send(message("stop", task_id=task["id"]))
            frames = await asyncio.wait_for(subscribed, timeout=60)
            assert frames[-1].state == "TASK_STATE_COMPLETED"
    report("S2, subscribed at rest", streams=moments, forgotten=0)


class Countdown:
    """Tells when a number of events has arrived, whoever got them."""

    def __init__(self) -> None:
        self._left = 0
        self._over = asyncio.Event()

    def arrived(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._over.set()

    async def after(self, count: int) -> None:
        self._left = count
        self._over.clear()
        await self._over.wait()


class Follower:
    """Follows one task to its end through cuts of its own and deaths of the server, another way
    after each of them.
    """

    def __init__(
        self,
        server: Server,
        chance: random.Random,
        params: dict[str, object],
        arrived: Callable[[], None],
    ) -> None:
        self.frames: list[Frame] = []
        self.cuts = 0
        self.came: Counter[str] = Counter()
        self.resumed: Counter[str] = Counter()
        self._server = server
        self._chance = chance
        self._params = params
        self._arrived = arrived

    async def follow(self) -> None:
        while not (self.frames and self.frames[-1].is_final):
            await self._server.up.wait()
            try:
                await self._read(
                    self._chance.choice(self._server.clients()), self._chance.randint(1, 120)
                )
            except BROKEN:
                continue  # killed: what has been read stays read

    async def _read(self, client: Client, patience: int) -> None:
        """Read at most `patience` frames, then hang up."""
        if self.frames:
            self.resumed[client.way] += 1
            stream = client.subscribe(self.frames[0].task_id, after=self.frames[-1].id)
        else:
            stream = client.stream("SendStreamingMessage", self._params, RESUME)
        async with aclosing(stream):
            async for frame in stream:
                self.frames.append(frame)
                self.came[client.way] += 1
                self._arrived()
                patience -= 1
                if not patience and not frame.is_final:
                    self.cuts += 1
                    return


async def test_received_log_equals_stored_log_through_cuts_and_kills(server: Server) -> None:
    """S2: streams of 200 events, cut by their clients at random and by three kills of the server: 0
      lost, 0 twice. Each goes on over any binding, in 1.0 or 0.3, whichever it was cut on; what it
      has then is what a reader of any of them finds stored.

    A task a kill interrupts ends as failed, and that end arrives like any other event.
    """
    streams, waves = size(120, 2_000), 4
    chance, countdown = random.Random(seed()), Countdown()
    params = [
        message(f"198 {chance.randint(0, 4)}", "chunks") for _ in range(streams)
    ]  # with task and states, 201 events
    followers = [
        Follower(server, random.Random(chance.random()), said, countdown.arrived) for said in params
    ]
    for wave in range(waves):
        group = [asyncio.create_task(follower.follow()) for follower in followers[wave::waves]]
        if wave < waves - 1:
            await asyncio.wait_for(
                countdown.after(int(len(group) * 200 * chance.uniform(0.4, 0.95))), timeout=300
            )
            await server.kill()
            await server.start()
        await asyncio.wait_for(asyncio.gather(*group), timeout=300)
    clients = server.clients()
    for n, follower in enumerate(followers):
        client = clients[n % len(clients)]
        stored = await collect(client.subscribe(follower.frames[0].task_id, after=0))
        assert follower.frames == stored
        assert [frame.id for frame in stored] == list(range(1, len(stored) + 1))
        await check_fold(client, stored)
    report(
        "S2",
        streams=streams,
        events=tally(sum((follower.came for follower in followers), Counter())),
        cuts=sum(follower.cuts for follower in followers),
        kills=waves - 1,
        resumed=tally(sum((follower.resumed for follower in followers), Counter())),
        interrupted=sum(follower.frames[-1].state == "TASK_STATE_FAILED" for follower in followers),
        lost=0,
        twice=0,
    )


async def check_fold(client: Client, stored: list[Frame]) -> None:
    """The task is the fold of its log."""
    task = await client.get(stored[0].task_id)
    chunks = [
        frame.event["artifactUpdate"]["artifact"]
        for frame in stored
        if "artifactUpdate" in frame.event
    ]
    assert text_of(task) == text_of({"artifacts": chunks})
    assert state_of(task) == stored[-1].state
