"""What our client sees of one and the same agent, the clerk, whoever's library serves it.

The clerk asks when told `ask`, waits to be canceled when told `wait`, counts in chunks when given a
number, and echoes the rest.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from accord.client import Client, connect
from accord.model import (
    A2AError,
    ArtifactUpdate,
    StatusUpdate,
    Task,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
    UnsupportedOperation,
)
from accord.protocol import BindingName, VersionNumber
from tests.processes import start

__all__ = ["Contract", "Hooks", "ListedHooks", "started"]


@contextmanager
def started(*command: str | Path) -> Iterator[str]:
    """Run a server that prints its URL when it can be called; end it afterwards."""
    with start(*command) as process:
        yield process.line_sync()


class Contract:
    """The life of a task. A class of tests adds the fixtures `url` and `door`: where the clerk is,
    and what to speak with it.
    """

    finished: type[A2AError] | tuple[type[A2AError], ...] = (
        UnsupportedOperation  # what a message to a finished task is told
    )

    @pytest.fixture
    async def client(
        self, url: str, door: tuple[BindingName, VersionNumber]
    ) -> AsyncIterator[Client]:
        binding, version = door
        async with connect(url, binding=binding, version=version) as client:
            assert (client.binding, client.version) == door
            yield client

    async def test_send_and_get(self, client):
        """A blocking send gives the task at its end, and the task can be asked for again."""
        reply = await client.send("hello")
        task = await client.get(reply.task_id)
        assert (reply.text, reply.state, bool(reply.context_id)) == (
            "heard hello",
            TaskState.COMPLETED,
            True,
        )
        assert (task.id, task.context_id, task.status.state) == (
            reply.task_id,
            reply.context_id,
            TaskState.COMPLETED,
        )
        assert [artifact.text for artifact in task.artifacts] == ["heard hello"]

    async def test_history_is_kept(self, client):
        """The message is the first of the task's history, as it was sent."""
        reply = await client.send("hello")
        task = await client.get(reply.task_id, history_length=10)
        assert task.history[0].text == "hello"

    async def test_stream(self, client):
        """Events in order, each once, and the fold of them is the task the agent has."""
        stream = client.stream("5")
        kinds = [type(event) async for event in stream]
        task = await client.get(stream.task_id)
        assert kinds == [Task, StatusUpdate, *[ArtifactUpdate] * 5, StatusUpdate]
        assert (stream.reply.text, stream.reply.state) == ("0 1 2 3 4 ", TaskState.COMPLETED)
        assert task.artifacts[0].text == "0 1 2 3 4 "

    async def test_a_question_is_answered(self, client):
        """Input-required, and the next message of the same task."""
        asked = await client.send("ask")
        answered = await asked.answer("three")
        assert (asked.question, asked.state) == ("How many days?", TaskState.INPUT_REQUIRED)
        assert (answered.text, answered.task_id, answered.state) == (
            "heard three",
            asked.task_id,
            TaskState.COMPLETED,
        )

    async def test_a_question_is_answered_in_streams(self, client):
        """The same, as it happens: the stream ends with the question, the next one with the
        task.
        """
        asking = client.stream("ask")
        states = [event.status.state async for event in asking if isinstance(event, StatusUpdate)]
        answering = client.stream(
            "three", task_id=asking.task_id, context_id=asking.reply.context_id
        )
        async for _ in answering:
            pass
        assert states == [TaskState.WORKING, TaskState.INPUT_REQUIRED]
        assert asking.reply.question == "How many days?"
        assert (answering.reply.text, answering.reply.state) == ("heard three", TaskState.COMPLETED)

    async def test_cancel_ends_a_running_task(self, client):
        """`wait=False` returns while the agent works; cancel returns the canceled task, and so it
        stays.
        """
        reply = await client.send("wait", wait=False)
        canceled = await client.cancel(reply.task_id)
        found = await client.get(reply.task_id)
        assert reply.state in (TaskState.SUBMITTED, TaskState.WORKING)
        assert (canceled.status.state, found.status.state) == (
            TaskState.CANCELED,
            TaskState.CANCELED,
        )

    async def test_a_reader_who_left_comes_back(self, client):
        """A stream is left early, the task is joined again, and its end is seen; old agents do not
        repeat where it stands.
        """
        async with client.stream("wait") as early:
            await anext(early)
        late = client.subscribe(early.task_id)
        first = await anext(late)
        await client.cancel(early.task_id)
        last = [event async for event in late][-1]
        assert isinstance(first, Task)
        assert (first.id, last.status.state) == (early.task_id, TaskState.CANCELED)

    async def test_a_waiting_task_is_followed_to_its_end(self, client):
        """A reader joins while the agent waits for an answer, and sees what the answer led to."""
        asked = await client.send("ask")
        late = client.subscribe(asked.task_id)
        first = await anext(late)
        await asked.answer("three")
        rest = [event async for event in late]
        assert first.status.state is TaskState.INPUT_REQUIRED
        assert (rest[-1].status.state, late.reply.text) == (TaskState.COMPLETED, "heard three")

    async def test_an_unknown_task_is_not_found(self, client):
        """One class, whatever is asked of a task that is not there."""
        with pytest.raises(TaskNotFound):
            await client.get("nope")
        with pytest.raises(TaskNotFound):
            await client.cancel("nope")
        with pytest.raises(TaskNotFound):
            await client.send("hello", task_id="nope")

    async def test_an_unknown_task_is_not_followed(self, client):
        """A stream that never was must not look like one that has ended."""
        with pytest.raises(TaskNotFound):
            await anext(client.subscribe("nope"))

    async def test_a_finished_task_is_not_cancelable(self, client):
        """Terminal is final, and errors name the agent."""
        done = await client.send("hello")
        with pytest.raises(TaskNotCancelable) as caught:
            await client.cancel(done.task_id)
        assert "Clerk" in caught.value.__notes__[0]

    async def test_a_finished_task_takes_no_message(self, client):
        """Terminal is final (SND-6); 0.3 has no error for it, so each library took another."""
        done = await client.send("hello")
        with pytest.raises(self.finished):
            await client.send("more", task_id=done.task_id, context_id=done.context_id)

    async def test_a_finished_task_has_nothing_to_follow(self, client):
        """1.0 refuses the subscription, 0.3 shows the task and is done."""
        done = await client.send("hello")
        following = client.subscribe(done.task_id)
        if client.version == "1.0":
            with pytest.raises(UnsupportedOperation):
                await anext(following)
        else:
            assert [type(event) async for event in following] == [Task]


class Hooks:
    """Webhooks, where the agent has them."""

    async def test_a_webhook_is_kept(self, client):
        """What is created is found again, by its id."""
        task_id = (await client.send("hello")).task_id
        made = await client.create_push_config(task_id, "http://127.0.0.1:9/hook", token="n-1")
        found = await client.get_push_config(task_id, made.id)
        assert (made.task_id, made.url) == (task_id, "http://127.0.0.1:9/hook")
        assert (found.id, found.url, found.token) == (made.id, "http://127.0.0.1:9/hook", "n-1")

    async def test_an_unknown_task_has_no_webhooks(self, client):
        """The task is what is missing, not the webhook."""
        with pytest.raises(TaskNotFound):
            await client.create_push_config("nope", "http://127.0.0.1:9/hook")


class ListedHooks:
    """What not every library with webhooks has over every binding."""

    async def test_webhooks_are_listed_and_removed(self, client):
        """Two of them, then one."""
        task_id = (await client.send("hello")).task_id
        made = [
            await client.create_push_config(task_id, f"http://127.0.0.1:9/{i}") for i in range(2)
        ]
        listed = await client.list_push_configs(task_id)
        await client.delete_push_config(task_id, made[0].id)
        left = await client.list_push_configs(task_id)
        assert sorted(config.url for config in listed) == [
            "http://127.0.0.1:9/0",
            "http://127.0.0.1:9/1",
        ]
        assert [config.id for config in left] == [made[1].id]
