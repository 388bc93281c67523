"""Our client and agents built with a2a-sdk 1.x, over every version and binding they serve."""

import asyncio

import pytest

from accord.client import connect
from accord.model import (
    ArtifactUpdate,
    StatusUpdate,
    Task,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
)
from tests.client.sdk import DOORS, serving_sdk

every_door = pytest.mark.parametrize(
    ("binding", "version"), DOORS, ids=[f"{b}-{v}" for b, v in DOORS]
)


@every_door
async def test_send_get_and_errors(binding, version):
    """The plain life of a task."""
    async with serving_sdk() as url, connect(url, binding=binding, version=version) as client:
        reply = await client.send("hello")
        task = await client.get(reply.task_id)
        with pytest.raises(TaskNotFound):
            await client.get("nope")
        with pytest.raises(TaskNotCancelable):
            await client.cancel(reply.task_id)
    assert (reply.text, reply.state) == ("heard hello", TaskState.COMPLETED)
    assert (task.id, task.status.state) == (reply.task_id, TaskState.COMPLETED)


@every_door
async def test_stream(binding, version):
    """Events in order, each once, folded into the task the agent has."""
    async with serving_sdk() as url, connect(url, binding=binding, version=version) as client:
        stream = client.stream("5")
        kinds = [type(event) async for event in stream]
        task = await client.get(stream.task_id)
    assert kinds == [Task, StatusUpdate, *[ArtifactUpdate] * 5, StatusUpdate]
    assert stream.reply.text == task.artifacts[0].text == "0 1 2 3 4 "


@every_door
async def test_a_question_is_answered(binding, version):
    """Input-required, and the next message of the same task."""
    async with serving_sdk() as url, connect(url, binding=binding, version=version) as client:
        asked = await client.send("ask")
        answered = await asked.answer("three")
    assert (asked.question, asked.state) == ("How many days?", TaskState.INPUT_REQUIRED)
    assert (answered.text, answered.task_id) == ("heard three", asked.task_id)


@every_door
async def test_a_question_is_answered_in_streams(binding, version):
    """The same, as it happens: the first frame of the answer's stream may still show the
    question.
    """
    async with serving_sdk() as url, connect(url, binding=binding, version=version) as client:
        asking = client.stream("ask")
        async for _ in asking:
            pass
        answering = client.stream(
            "three", task_id=asking.task_id, context_id=asking.reply.context_id
        )
        async for _ in answering:
            pass
    assert (asking.reply.question, answering.reply.text) == ("How many days?", "heard three")


@every_door
async def test_cancel_and_subscribe(binding, version):
    """A running task is joined by a second reader, which sees it canceled."""
    async with serving_sdk() as url, connect(url, binding=binding, version=version) as client:
        reply = await client.send("wait", wait=False)
        late = client.subscribe(reply.task_id)
        first = await anext(late)
        reading = asyncio.ensure_future(anext(late))
        canceled = await client.cancel(reply.task_id)
        last = await asyncio.wait_for(reading, 10)
        await late.close()
    assert first is not None
    assert canceled.status.state is TaskState.CANCELED
    assert last.status.state in (TaskState.WORKING, TaskState.CANCELED)


@pytest.mark.parametrize(("binding", "version"), DOORS[:3], ids=[b for b, _ in DOORS[:3]])
async def test_list_and_push_configs(binding, version):
    """What 1.0 has beyond a task's life: lists, and the four operations on webhooks."""
    async with serving_sdk() as url, connect(url, binding=binding, version=version) as client:
        ids = {(await client.send(str(i))).task_id for i in range(3)}
        listed = {task.id async for task in client.list(page_size=2)}
        task_id = ids.pop()
        made = await client.create_push_config(task_id, "http://127.0.0.1:9/hook", token="n-1")
        found = await client.get_push_config(task_id, made.id)
        configs = await client.list_push_configs(task_id)
        await client.delete_push_config(task_id, made.id)
        left = await client.list_push_configs(task_id)
    assert listed == ids | {task_id}
    assert (made.url, found.url, found.token) == (
        "http://127.0.0.1:9/hook",
        "http://127.0.0.1:9/hook",
        "n-1",
    )
    assert ([config.id for config in configs], left) == ([made.id], [])


async def test_the_agents_order_decides():
    """Without a wish, the first interface of the card that we speak is used (CRD-3)."""
    async with serving_sdk() as url, connect(url) as client:
        assert (client.binding, client.version) == ("JSONRPC", "1.0")
