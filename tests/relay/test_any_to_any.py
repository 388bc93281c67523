"""Every way into a relay with every way out of it, and all that callers do."""

import asyncio

import pytest

from accord import File
from accord.model import ArtifactUpdate, StatusUpdate, Task, TaskState
from tests.relay.relays import DOORS, Gate, clerk, relayed


def kinds(events):
    return [
        event.status.state.word if isinstance(event, StatusUpdate) else type(event).__name__
        for event in events
    ]


@pytest.mark.parametrize("way_out", DOORS)
@pytest.mark.parametrize("way_in", DOORS)
async def test_any_to_any(way_in: str, way_out: str) -> None:
    """Send, stream, ask and answer, get, list, cancel, subscribe, file."""
    gate = Gate()
    async with asyncio.timeout(30), relayed(clerk(gate), way_in, way_out) as client:
        # send
        reply = await client.send("hello")
        assert (reply.text, reply.state) == ("HELLO", TaskState.COMPLETED)
        # stream
        stream = client.stream("count 5")
        events = [event async for event in stream]
        assert kinds(events) == ["Task", "working", *["ArtifactUpdate"] * 5, "completed"]
        assert stream.reply.text == "0 1 2 3 4 "
        # ask and answer
        asked = await client.send("ask")
        answered = await asked.answer("three")
        assert (asked.question, asked.state) == ("How many days?", TaskState.INPUT_REQUIRED)
        assert (answered.text, answered.task_id) == ("heard three", asked.task_id)
        # get
        task = await client.get(answered.task_id)
        assert (task.id, task.context_id) == (answered.task_id, answered.context_id)
        assert [artifact.text for artifact in task.artifacts] == ["heard three"]
        # list, where the way in has one
        ids = {reply.task_id, stream.task_id, asked.task_id}
        if client.version == "1.0":
            assert {one.id async for one in client.list()} == ids
        # files, both ways
        [file] = (await client.send("file abc")).files
        assert (file.name, file.data) == ("a.bin", b"abcabcabc")
        taken = await client.send(File(b"12345", name="five.bin"), skill="size")
        assert taken.text == "five.bin 5"
        # cancel and subscribe
        async with client.stream("wait") as early:
            async for event in early:
                if isinstance(event, ArtifactUpdate):
                    break
        late = client.subscribe(early.task_id)
        first = await anext(late)
        canceled = await client.cancel(early.task_id)
        last = [event async for event in late][-1]
        assert isinstance(first, Task) or client.version == "0.1"  # whose streams have no task
        assert canceled.status.state is TaskState.CANCELED
        assert last.status.state is TaskState.CANCELED
