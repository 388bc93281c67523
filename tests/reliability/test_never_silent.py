"""S5: a stream that is quiet says so, and a stream that ends says why."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.reliability.harness import (
    BROKEN,
    WAYS,
    Client,
    Frame,
    Refused,
    Server,
    message,
    report,
    running,
    size,
    state_of,
    told,
)

FAST_S = 0.05


@pytest_asyncio.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[Server]:
    """A server that keeps idle streams alive twenty times a second instead of every fifteen."""
    async with running(tmp_path, keep_alive_s=FAST_S) as server:
        yield server


@pytest_asyncio.fixture
async def patient(tmp_path: Path) -> AsyncIterator[Server]:
    """A server that gives running work all the time it needs to end."""
    async with running(tmp_path, grace_s=20) as server:
        yield server


async def how_it_ended(frames: AsyncIterator[Frame]) -> str:
    """The last state of a stream, the reason of its error, or "cut" or "silent"."""
    last = ""
    try:
        async for frame in frames:
            last = frame.state
    except Refused as error:
        return error.reason
    except BROKEN:
        return "cut"
    return last or "silent"


@pytest.mark.parametrize("way", ["jsonrpc", "rest"])
@pytest.mark.parametrize("skill", ["wait", "talk"])
async def test_idle_stream_is_kept_alive(hasty: Server, way: str, skill: str) -> None:
    """S5: proxies close what is silent; a comment now and then is not silence, and not an event
    either.
    """
    client, comments = hasty.client(way), Comments(3)
    task = await client.send(message("hello", skill, returnImmediately=True))
    reading = asyncio.create_task(how_it_ended(client.subscribe(task["id"], comments=comments)))
    await asyncio.wait_for(comments.are_enough.wait(), timeout=30)
    await client.cancel(task["id"])
    assert await reading == "TASK_STATE_CANCELED"
    assert set(comments) == {": keep-alive"}


class Comments(list[str]):
    """Comments of a stream; tells when there are enough of them."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.are_enough = asyncio.Event()
        self._enough = enough

    def append(self, comment: str) -> None:
        super().append(comment)
        if len(self) == self._enough:
            self.are_enough.set()


Open = Callable[[Client], AsyncIterator[Frame]]


def talking(client: Client) -> AsyncIterator[Frame]:
    return client.stream("SendStreamingMessage", message("20000 5", "chunks"))


def waiting(client: Client) -> AsyncIterator[Frame]:
    return client.stream("SendStreamingMessage", message("hello", "wait"))


def stubborn(client: Client) -> AsyncIterator[Frame]:
    return client.stream("SendStreamingMessage", message("hello", "stubborn"))


async def test_every_stream_ends_with_a_word_when_the_server_stops(server: Server) -> None:
    """S5: SIGTERM with streams open in every way: an interrupted task ends as failed, and its
    stream says so; one that stays open for an answer tells its readers to come back; the process
    ends with code 0.
    """
    rounds, each = size(2, 30), 4
    ends: list[str] = []
    for _ in range(rounds):
        streams = [
            open_(client)
            for client in server.clients()
            for open_ in (talking, waiting, stubborn)
            for _ in range(each)
        ]
        for client in server.clients():  # and subscriptions of tasks that wait for their user
            for _ in range(each):
                streams.append(
                    client.subscribe((await client.send(message("hello", "talk")))["id"])
                )
        firsts = await asyncio.gather(*(anext(stream) for stream in streams))
        reading = [asyncio.create_task(how_it_ended(stream)) for stream in streams]
        assert await server.stop() == 0
        ended = await asyncio.gather(*reading)
        ends += ended
        await server.start()
        for first, end in zip(firsts, ended, strict=True):
            task = await server.client().get(first.task_id)
            is_open = state_of(task) == "TASK_STATE_INPUT_REQUIRED"
            assert is_open or told(task).startswith("interrupted")
            assert end == ("UNAVAILABLE" if is_open else "TASK_STATE_FAILED")
    by_error = ends.count("UNAVAILABLE")
    report(
        "S5",
        stops=rounds,
        streams=len(ends),
        by_end=len(ends) - by_error,
        by_error=by_error,
        silent=0,
    )


@pytest.mark.parametrize("way", WAYS)
async def test_waiting_sender_is_answered_when_the_server_stops(server: Server, way: str) -> None:
    """S5: a blocking send whose task is interrupted hears so, rather than a broken connection."""
    client = server.client(way)
    sending = asyncio.create_task(client.send(message("hello", "wait")))
    while not await server.client().total(
        "TASK_STATE_WORKING"
    ):  # another process: asking is the only way to know
        assert not sending.done()
    assert await server.stop() == 0
    task = await sending
    assert (state_of(task), told(task)[:11]) == ("TASK_STATE_FAILED", "interrupted")


@pytest.mark.parametrize("skill", ["blocked", "deaf"])
async def test_work_that_can_not_be_stopped_does_not_stop_the_server_from_stopping(
    server: Server, skill: str
) -> None:
    """S5: a thread that never returns and a coroutine that swallows its cancellation are left
    behind, their task failed.
    """
    client = server.client()
    opening = await anext(stream := client.stream("SendStreamingMessage", message("hello", skill)))
    assert await server.stop() == 0
    assert await how_it_ended(stream) == "TASK_STATE_FAILED"
    await server.start()
    assert told(await client.get(opening.task_id)).startswith("interrupted")


@pytest.mark.parametrize("way", WAYS)
async def test_work_that_can_end_in_time_does(patient: Server, way: str) -> None:
    """V1: a stop that is not in a hurry lets streams run to their end and refuses only what
    is new.
    """
    client = patient.client(way)
    opening = await anext(
        stream := client.stream("SendStreamingMessage", message("50 5", "chunks"))
    )
    stopping = asyncio.create_task(patient.stop())
    assert await how_it_ended(stream) == "TASK_STATE_COMPLETED"
    assert await stopping == 0
    await patient.start()
    assert state_of(await client.get(opening.task_id)) == "TASK_STATE_COMPLETED"


async def test_stream_of_a_killed_server_does_not_look_finished(server: Server) -> None:
    """S5: a cut is an error to the reader, never an end."""
    streams = [open_(client) for client in server.clients() for open_ in (talking, waiting)]
    await asyncio.gather(*(anext(stream) for stream in streams))
    reading = [asyncio.create_task(how_it_ended(stream)) for stream in streams]
    await server.kill()
    assert set(await asyncio.gather(*reading)) == {"cut"}


async def test_what_is_sent_while_the_server_stops_is_kept_or_refused(server: Server) -> None:
    """S5: under a stop a send is answered and durable, or refused as unavailable, or finds nobody
    there; it is no fault.
    """
    rounds, refusals, kept = size(3, 30), 0, 0
    for _ in range(rounds):
        outcomes: list[str] = []
        senders = [
            asyncio.create_task(send_on(client, outcomes))
            for client in server.clients()
            for _ in range(2)
        ]
        while len(outcomes) < 100:
            await asyncio.wait(senders, timeout=0.01)
        assert await server.stop() == 0
        await asyncio.gather(*senders)
        await server.start()
        reasons = {outcome for outcome in outcomes if outcome.isupper()}
        assert reasons <= {"UNAVAILABLE"}
        for task_id in outcomes:
            if task_id not in reasons:
                await server.client().get(task_id)
                kept += 1
        refusals += outcomes.count("UNAVAILABLE")
    report("S5, sends during a stop", stops=rounds, kept=kept, refused=refusals, lost=0)


async def send_on(client: Client, outcomes: list[str]) -> None:
    """Send one message after another until nobody is there, noting task ids and reasons of
    refusals.
    """
    while True:
        try:
            outcomes.append((await client.send(message("hello", "echo")))["id"])
        except Refused as error:
            outcomes.append(error.reason)
        except BROKEN:
            return
