"""GetTask, and how much history an answer holds."""

import pytest

from accord import Ask, Context
from tests.drive import kinds, refusal_of, say, state_of, text_of


async def talk(request: str, ctx: Context):
    """Goes on asking until it is told to stop."""
    return "bye" if request == "stop" else Ask(f"you said {request}")


async def said(client, *words):
    """Send some words to one task and return it."""
    task = (await client.send(words[0]))["task"]
    for word in words[1:]:
        task = (await client.send(say(word, taskId=task["id"])))["task"]
    return task


def texts(task):
    return [text_of(message) for message in task.get("history", [])]


async def test_a_task_can_be_read_as_often_as_wanted(connect, store):
    """Status, artifacts and history, and the same again the next time (GET-1, GET-3, IDM-1)."""
    async with connect(talk, store=store) as client:
        sent = await said(client, "one", "stop")
        assert await client.get(sent["id"]) == await client.get(sent["id"]) == sent
        assert (state_of(sent), text_of(sent), texts(sent)) == (
            "completed",
            "bye",
            ["one", "you said one", "stop"],
        )


async def test_a_task_outlives_its_server(connect, lasting):
    """What a client has been told survives."""
    async with connect(talk, store=lasting) as client:
        sent = await said(client, "one", "stop")
    async with connect(talk, store=lasting) as client:
        assert await client.get(sent["id"]) == sent


async def test_an_unknown_task_is_not_found(connect, store):
    """TaskNotFound, naming the id that was asked for (GET-1)."""
    async with connect(talk, store=store) as client:
        refused = await refusal_of(client.get("nowhere"))
        assert (refused.reason, refused.detail) == ("TASK_NOT_FOUND", {"taskId": "nowhere"})
        assert refused.message == "Task not found: nowhere"
        long = "n" * 200
        assert (await refusal_of(client.get(long))).message == "Task not found: " + long[:80]


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (None, ["one", "you said one", "two"]),
        (0, []),
        (1, ["two"]),
        (2, ["you said one", "two"]),
        (99, ["one", "you said one", "two"]),
    ],
)
async def test_history_is_cut_from_the_front(connect, store, length, expected):
    """Never more than the n newest messages; unset is everything, 0 leaves the member out (HIS-1,
    HIS-2, HIS-3, HIS-4).
    """
    async with connect(talk, store=store) as client:
        sent = await said(client, "one", "two")
        task = await client.get(sent["id"], **({} if length is None else {"historyLength": length}))
        assert texts(task) == expected
        assert ("history" in task) == bool(expected)
        assert task["status"] == sent["status"]


async def test_history_of_a_finished_task_is_cut_the_same_way(connect, store):
    """The rule is one, wherever the task is read from (HIS-3)."""
    async with connect(talk, store=store) as client:
        sent = await said(client, "one", "stop")
        assert texts(await client.get(sent["id"], historyLength=1)) == ["stop"]
        assert "history" not in await client.get(sent["id"], historyLength=0)


async def test_send_honours_the_history_length(connect):
    """The task a send returns is cut like any other (HIS-2, HIS-3)."""
    async with connect(talk) as client:
        task = (await client.send(say("one", configuration={"historyLength": 0})))["task"]
        assert "history" not in task
        task = (
            await client.send(say("two", taskId=task["id"], configuration={"historyLength": 1}))
        )["task"]
        assert texts(task) == ["two"]


async def test_the_snapshot_of_a_stream_honours_the_history_length(connect):
    """Every task in an answer is cut, the first frame of a stream included (HIS-4)."""
    async with connect(talk) as client:
        new = await client.stream(say("one", configuration={"historyLength": 0}))
        first = (await new.next())["task"]
        assert "history" not in first
        await new.rest()
        more = await client.stream(
            say("two", taskId=first["id"], configuration={"historyLength": 1})
        )
        frames = await more.rest()
        assert texts(frames[0]["task"]) == ["two"]
        assert kinds(frames)[-1].endswith(
            "input-required"
        )  # the turn may be over before the snapshot is taken


async def test_a_negative_history_length_is_refused(connect):
    """It names no number of messages (HIS-4, GEN-2)."""
    async with connect(talk) as client:
        sent = await said(client, "one")
        for call in (
            client.get(sent["id"], historyLength=-1),
            client.list(historyLength=-1),
            client.send(say(configuration={"historyLength": -1})),
        ):
            refused = await refusal_of(call)
            assert refused.reason == "INVALID_PARAMS"
            assert [field.rpartition(".")[2] for field in refused.violations] == ["historyLength"]
