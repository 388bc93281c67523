"""What users test their own code with."""

import asyncio

import pytest

from accord import Agent
from accord.client import ConnectionLost, Retry, connect
from accord.model import TaskNotFound, TaskState
from accord.testing import (
    Ask,
    Clock,
    Delay,
    Disconnect,
    Duplicate,
    FakeAgent,
    Status,
    client_fixture,
)

echo = Agent("Echo")


@echo.skill
async def say(text: str) -> str:
    return text


echoed = client_fixture(echo)


async def test_the_fixture_is_a_connected_client(echoed):
    """One line in conftest.py, and a test has a client of its agent."""
    assert (await echoed.send("hello")).text == "hello"


clock = Clock(start_ms=1_000_000_000_000)
timed = client_fixture(echo, clock=clock)


async def test_time_passes_for_the_agent_when_a_test_says_so(timed):
    """A clock stands still, and statuses have its time."""
    first = await timed.send("hello")
    clock.advance(1.5)
    second = await timed.send("hello")
    assert first.task.status.timestamp == "2001-09-09T01:46:40.000Z"
    assert second.task.status.timestamp == "2001-09-09T01:46:41.500Z"


async def test_what_waits_for_a_time_is_woken_when_the_clock_gets_there():
    """From another thread too, since a test may use the blocking client."""
    clock = Clock()
    waiting = asyncio.create_task(clock.sleep_until(clock.now_ms() + 60_000))
    await asyncio.to_thread(clock.advance, 59)
    await asyncio.sleep(0)
    assert not waiting.done()
    await asyncio.to_thread(clock.advance, 1)
    await asyncio.wait_for(waiting, 10)
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="PostgreSQL store goes by the database's clock"):
        clock.store("postgresql://host/db")


async def is_there(client, task_id):
    try:
        await client.get(task_id)
    except TaskNotFound:
        return False
    return True


async def test_old_things_go_when_the_clock_is_advanced(tmp_path):
    """Finished tasks after a month, on both stores that can be given a clock."""
    for url in ("memory://", f"sqlite:///{tmp_path}/tasks.db"):
        clock = Clock()
        app = echo.app(store=clock.store(url))
        async with app.lifespan(), connect(app) as client:
            task = (await client.send("hello")).task
            clock.advance(29 * 86_400)
            assert (await client.get(task.id)).id == task.id
            clock.advance(2 * 86_400)
            async with asyncio.timeout(10):
                while await is_there(client, task.id):  # noqa: ASYNC110  it is in the store
                    await asyncio.sleep(0.01)


async def test_a_fake_agent_follows_its_script():
    """Answers in order, the last one again and again: values, chunks, questions, failures,
    functions of the message.
    """
    script = [
        "Sunny",
        ["So", "me", " rain"],
        Ask("Which day?"),
        ValueError("no idea"),
        lambda message: message.text.upper(),
    ]
    async with FakeAgent(*script) as fake, connect(fake.url) as client:
        replies = [await client.send(text) for text in ("a", "b", "c", "d", "e", "f")]
    assert [reply.text for reply in replies[:2]] == ["Sunny", "Some rain"]
    assert (replies[2].question, replies[3].state) == ("Which day?", TaskState.FAILED)
    assert [reply.text for reply in replies[4:]] == ["E", "F"]
    assert [message.text for message in fake.messages] == ["a", "b", "c", "d", "e", "f"]


async def test_a_fake_agent_needs_no_port():
    """`connect(fake)` reaches it in process, faults included."""
    fake = FakeAgent("Sunny")
    async with connect(fake, retry=Retry(attempts=1)) as client:
        fake.fail(Disconnect())
        with pytest.raises(ConnectionLost):
            await client.send("a")
        assert (await client.send("b")).text == "Sunny"


@pytest.mark.parametrize(
    "fault",
    [Disconnect(1), Disconnect(), Delay(0.01), Duplicate(), Status(429, 0), Status(503)],
    ids=str,
)
async def test_every_fault_is_survived_by_a_client_that_retries(fault):
    """The faults are the ones a good client outlives; ours does."""
    async with (
        FakeAgent(["a", "b"]) as fake,
        connect(fake.url, retry=Retry(first_s=0.001)) as client,
    ):
        fake.fail(fault)
        stream = client.stream("go")
        async for _ in stream:
            pass
    assert (stream.reply.state, stream.reply.text) == (TaskState.COMPLETED, "ab")


async def test_requests_are_kept():
    """A test can look at what was sent."""
    async with FakeAgent("Sunny") as fake, connect(fake.url, headers={"X-Trace": "7"}) as client:
        await client.send("a")
    assert [(request.verb, request.headers["x-trace"]) for request in fake.requests] == [
        ("POST", "7")
    ]
