"""The client's surface is one: the same calls give the same results and the same errors on every
version and binding.
"""

import asyncio

import pytest

from accord import Agent, Ask, Context, File, Limits, Reply
from accord.client import connect
from accord.model import (
    ArtifactUpdate,
    Message,
    Part,
    PushNotificationNotSupported,
    Role,
    StatusUpdate,
    Task,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
    UnsupportedOperation,
)


async def echo(text: str) -> str:
    return text


async def count(text: str):
    for i in range(int(text)):
        yield f"{i} "


async def ask(text: str, ctx: Context) -> str:
    days = await ctx.ask("How many days?", int)
    return f"{text} for {days} days"


async def wait(text: str, ctx: Context) -> str:
    await ctx.ask("Go on?")
    return "done"


async def test_send_returns_the_settled_task(reach):
    """A blocking send waits for the end of the task, whatever is spoken on the wire (spec
    SND-3).
    """
    async with reach(echo) as client:
        reply = await client.send("A weekend in Rome")
    assert (reply.text, reply.state, bool(reply.task_id), bool(reply.context_id)) == (
        "A weekend in Rome",
        TaskState.COMPLETED,
        True,
        True,
    )


async def test_stream_shows_the_same_story(reach):
    """Task first, then what happens to it, then the end; and the fold of it is the task."""
    async with reach(count) as client:
        stream = client.stream("3")
        kinds = [type(event) async for event in stream]
    assert kinds == [
        Task,
        StatusUpdate,
        ArtifactUpdate,
        ArtifactUpdate,
        ArtifactUpdate,
        StatusUpdate,
    ]
    assert (stream.reply.text, stream.reply.state) == ("0 1 2 ", TaskState.COMPLETED)


async def test_an_answer_continues_the_task(reach):
    """`reply.answer` sends the next message of an input-required task (CTX-10)."""
    async with reach(ask) as client:
        question = await client.send("Rome")
        answered = await question.answer("3")
    assert (question.question, question.state) == ("How many days?", TaskState.INPUT_REQUIRED)
    assert (answered.text, answered.task_id) == ("Rome for 3 days", question.task_id)


async def test_a_stream_ends_with_the_question_and_goes_on_with_the_answer(reach):
    """A stream that began with a message ends when the agent needs the next one (design,
    rule 3).
    """
    async with reach(ask) as client:
        asking = client.stream("Rome")
        states = [e.status.state async for e in asking if isinstance(e, StatusUpdate)]
        answering = client.stream("3", task_id=asking.task_id, context_id=asking.reply.context_id)
        async for _ in answering:
            pass
    assert states[-1] is TaskState.INPUT_REQUIRED
    assert answering.reply.text == "Rome for 3 days"


async def test_get_returns_the_task(reach):
    """What `send` returned can be asked for again."""
    async with reach(echo) as client:
        reply = await client.send("hello")
        task = await client.get(reply.task_id)
    assert (task.id, task.status.state, task.artifacts[0].text) == (
        reply.task_id,
        TaskState.COMPLETED,
        "hello",
    )


async def test_cancel_ends_a_waiting_task(reach):
    """Cancel returns the canceled task."""
    async with reach(wait) as client:
        reply = await client.send("hello")
        task = await client.cancel(reply.task_id)
    assert task.status.state is TaskState.CANCELED


async def test_a_subscription_shows_what_follows(reach):
    """A second reader joins a task under way and sees its end."""
    async with reach(wait) as client:
        reply = await client.send("hello")
        late = client.subscribe(reply.task_id)
        first = await anext(late)
        await reply.answer("yes")
        rest = [event async for event in late]
    assert first is not None
    assert rest[-1].status.state is TaskState.COMPLETED


@pytest.mark.parametrize(
    ("what", "error"),
    [
        (lambda c, done: c.get("nope"), TaskNotFound),
        (lambda c, done: c.cancel("nope"), TaskNotFound),
        (lambda c, done: c.cancel(done), TaskNotCancelable),
        (
            lambda c, done: c.create_push_config(done, "https://hooks.example/x"),
            PushNotificationNotSupported,
        ),
    ],
    ids=["get unknown", "cancel unknown", "cancel finished", "push"],
)
async def test_errors_are_the_same_classes(reach, what, error):
    """Code on top catches one class, not one per binding (ERR-4)."""
    async with reach(echo, push=False) as client:
        done = (await client.send("hello")).task_id
        with pytest.raises(error) as caught:
            await what(client, done)
    assert "Test agent" in caught.value.__notes__[0]


async def test_a_finished_task_takes_no_message(reach_new):
    """Terminal is final (SND-6); 0.1 reopens tasks and is left out."""
    async with reach_new(echo) as client:
        done = await client.send("hello")
        with pytest.raises(UnsupportedOperation):
            await client.send("more", task_id=done.task_id)


async def test_list_goes_through_all_pages(reach_new):
    """`list` yields every task once, newest first, however small the pages are."""
    async with reach_new(echo) as client:
        sent = [(await client.send(str(i))).task_id for i in range(7)]
        listed = [task.id async for task in client.list(page_size=3)]
        some = [task.id async for task in client.list(page_size=3, limit=4)]
    assert sorted(listed) == sorted(sent)
    assert some == listed[:4]


async def test_list_goes_on_where_a_page_ended_early(reach_new):
    """A server may cut a page of large tasks short: whoever lists them does not notice."""
    async with reach_new(echo, limits=Limits(page=50_000)) as client:
        sent = [(await client.send(f"{i}" + "x" * 20_000)).task_id for i in range(5)]
        listed = [task.id async for task in client.list(artifacts=True)]
    assert sorted(listed) == sorted(sent)


async def test_files_and_data_travel_both_ways(reach):
    """A file and a JSON value arrive as they were sent, through base64 once, twice or not at
    all.
    """

    async def back(message: Message) -> list[Part]:
        return message.parts

    picture = File(bytes(range(256)), name="p.png", media_type="image/png")
    async with reach(back) as client:
        reply = await client.send(["look", picture, Part(data={"w": 64, "deep": [1, None, "x"]})])
    [file] = reply.files
    assert (reply.text, reply.data) == ("look", {"w": 64, "deep": [1, None, "x"]})
    assert (file.data, file.name, file.media_type) == (picture.data, "p.png", "image/png")


async def test_a_bare_reply_has_no_task(reach_new):
    """A message that answers a message: nothing to get, nothing to cancel (SND-1)."""

    async def greet(text: str) -> Reply:
        return Reply(f"Hello, {text}")

    async with reach_new(greet) as client:
        reply = await client.send("Ada")
        events = [event async for event in client.stream("Ada")]
    assert (reply.text, reply.task, reply.message.role) == ("Hello, Ada", None, Role.AGENT)
    assert [type(event) for event in events] == [Message]


async def test_not_waiting_returns_the_task_at_once(reach_new):
    """`wait=False` gives the task in whatever state; `wait` goes on from there (SND-4)."""
    gate = asyncio.Event()

    async def slow(text: str) -> str:
        await gate.wait()
        return "done"

    async with reach_new(slow) as client:
        reply = await client.send("go", wait=False)
        early = reply.state
        gate.set()
        late = await client.wait(reply.task_id)
    assert early in (TaskState.SUBMITTED, TaskState.WORKING)
    assert late.text == "done"


async def test_a_conversation_carries_its_context(reach):
    """Messages of one conversation share a context, and the answer to a question goes to the task
    that asked.
    """

    async def talk(text: str, ctx: Context):
        return Ask("Which city?") if text == "a trip" else f"{text}, then"

    async with reach(talk) as client:
        trip = client.conversation()
        asked = await trip.send("a trip")
        answered = await trip.send("Rome")
        after = await trip.send("thanks")
    assert asked.question == "Which city?"
    assert (answered.text, answered.task_id) == ("Rome, then", asked.task_id)
    assert after.task_id != asked.task_id
    assert {asked.context_id, answered.context_id, after.context_id} == {trip.context_id}


async def test_in_process_is_the_same_code_minus_the_network():
    """`connect(agent)` needs no port: what a user's test does is what production does."""
    agent = Agent("Echo")
    agent.skill(echo)
    async with connect(agent) as client:
        reply = await client.send("hello")
        kinds = [type(event) async for event in client.stream("hello")]
    assert reply.text == "hello"
    assert kinds == [Task, StatusUpdate, ArtifactUpdate, StatusUpdate]


async def test_streams_can_be_left_early(reach):
    """Who has seen enough closes the stream; the task goes on without a reader."""
    async with reach(wait) as client:
        async with client.stream("hello") as stream:
            task_id = (await anext(stream)).id
        task = await client.get(task_id)
    assert task.id == task_id
