"""What a task, and all of them together, may hold: past a limit the caller or the agent is told,
and the task stays readable.
"""

import asyncio

import pytest

from accord import Ask, Context, StatusMessage
from accord.model import Limits
from tests.drive import heard, refusal_of, say, state_of, text_of

FAR = 100
NOW = {"returnImmediately": True}


async def more(request: str):
    return Ask("more?")


def is_busy(refused, what):
    """429 with Retry-After on HTTP, RESOURCE_EXHAUSTED with it on gRPC."""
    assert refused.status in (429, 8)
    assert refused.reason == "RESOURCE_EXHAUSTED"
    assert int(refused.headers["retry-after"]) >= 1
    assert what in refused.message


async def test_history(connect):
    """The last message that fits is answered; the next is refused with the way out, and kept
    nowhere.
    """
    async with connect(more, limits=Limits(history=5)) as client:
        task = (await client.send("0"))["task"]
        for n in range(1, 3):  # with the agent's questions between them: 0 ? 1 ? 2
            await client.send(say(str(n), taskId=task["id"]))
        before = await client.get(task["id"])
        assert [text_of(message) for message in before["history"]] == [
            "0",
            "more?",
            "1",
            "more?",
            "2",
        ]
        for _ in range(FAR):
            no = await refusal_of(client.send(say("more", taskId=task["id"])))
            assert (no.reason, "5 messages" in no.message) == ("UNSUPPORTED_OPERATION", True)
        assert no.detail["contextId"] == task["contextId"]
        assert await client.get(task["id"]) == before
        assert (await client.list())["totalSize"] == 1


@pytest.mark.parametrize("count", [3, 4, 3 * FAR])
async def test_artifacts(connect, count):
    """The agent is told when it makes too many; what it made until then stays, and the task says
    why it failed.
    """

    async def make(request: str, ctx: Context):
        for i in range(count):
            await ctx.artifact(str(i))

    async with connect(make, limits=Limits(artifacts=3)) as client:
        task = (await client.send("go"))["task"]
        assert [text_of(artifact) for artifact in task["artifacts"]] == ["0", "1", "2"]
        if count == 3:
            assert state_of(task) == "completed"
        else:
            assert state_of(task) == "failed"
            assert "3 artifacts, the most a task may hold" in text_of(task["status"]["message"])
        assert await client.get(task["id"]) == task


@pytest.mark.parametrize(
    ("chunks", "state"), [(18, "completed"), (24, "failed"), (20 * FAR, "failed")]
)
async def test_task_size(connect, chunks, state):
    """In bytes, whatever the number of artifacts; a chunk of 1,000 bytes is stored with some bytes
    around it.
    """

    async def talk(request: str):
        for _ in range(chunks):
            yield "x" * 900

    async with connect(talk, limits=Limits(task_size=22_000)) as client:
        task = (await client.send("go"))["task"]
        assert state_of(task) == state
        assert 15_000 < len(text_of(task)) <= 22_000
        if state == "failed":
            assert "more than 22000 bytes" in text_of(task["status"]["message"])
        assert await client.get(task["id"]) == task


@pytest.mark.parametrize("verb", ["status", "ask", "reply"])
async def test_task_size_of_words(connect, verb):
    """What the agent says is kept in the history, so it counts like what it makes; how it fails is
    told all the same.
    """

    async def talk(request: str, ctx: Context):
        for _ in range(20 * FAR):
            if verb == "status":
                await ctx.status("x" * 1_000)
            elif verb == "ask":
                await ctx.ask("x" * 30_000)
            else:
                return StatusMessage("x" * 30_000)

    async with connect(talk, limits=Limits(task_size=22_000)) as client:
        task = (await client.send("go"))["task"]
        assert (state_of(task), "more than 22000 bytes" in text_of(task["status"]["message"])) == (
            "failed",
            True,
        )
        assert await client.get(task["id"]) == task


async def test_task_size_of_messages(connect):
    """The user's messages count too: a task can't be filled from that side either."""
    async with connect(more, limits=Limits(task_size=7_000)) as client:
        task = (await client.send("x" * 1_000))["task"]
        for _ in range(3):
            await client.send(say("x" * 1_000, taskId=task["id"]))
        no = await refusal_of(client.send(say("x" * 1_000, taskId=task["id"])))
        assert (no.reason, "7000 bytes" in no.message) == ("UNSUPPORTED_OPERATION", True)
        far = await refusal_of(client.send(say("x" * 8_000 * FAR, taskId=task["id"])))
        assert far.reason == "UNSUPPORTED_OPERATION"
        assert state_of(await client.get(task["id"])) == "input-required"


async def test_waiting_messages(connect):
    """429 for the next; the ones that wait get their turns, in order."""
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()
        return "all heard" if request == "2" else Ask("?", takes_waiting=True)

    async with connect(work, limits=Limits(waiting_messages=3)) as client:
        task = (await client.send(say("go", configuration=NOW)))["task"]
        waiting = []
        for n in range(3):
            waiting.append(asyncio.ensure_future(client.send(say(str(n), taskId=task["id"]))))
            await heard(client, task["id"], n + 2)
        for _ in range(FAR):
            no = await refusal_of(client.send(say("too many", taskId=task["id"])))
        is_busy(no, "3 messages already wait")
        gate.set()
        answers = [(await answer)["task"] for answer in waiting]
        assert state_of(answers[-1]) == "completed"
        told = [
            text_of(message)
            for message in (await client.get(task["id"]))["history"]
            if message["role"] == "ROLE_USER"
        ]
        assert told == ["go", "0", "1", "2"]


async def test_live_tasks(connect):
    """As many as there is room for; no more are begun, and reading goes on."""
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()

    async with connect(work, limits=Limits(tasks=4)) as client:
        for _ in range(4):
            task = (await client.send(say(configuration=NOW)))["task"]
        for _ in range(FAR):
            no = await refusal_of(client.send("one more"))
        is_busy(no, "4 tasks are running")
        is_busy(await refusal_of(client.stream("one more")), "4 tasks are running")
        assert (await client.list())["totalSize"] == 4
        assert state_of(await client.get(task["id"])) == "working"
        await client.cancel(task["id"])
        assert state_of((await client.send(say(configuration=NOW)))["task"]) in (
            "submitted",
            "working",
        )
        gate.set()


@pytest.mark.parametrize(
    ("setting", "whose"), [("streams_per_task", "this task"), ("streams", "this server")]
)
async def test_streams(connect, setting, whose):
    """429 for the next subscription; one that ends makes room, and the readers already there lose
    nothing.
    """
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()
        return "done"

    async with connect(work, limits=Limits(**{setting: 3})) as client:
        task = (await client.send(say(configuration=NOW)))["task"]
        frames = [await client.subscribe(task["id"]) for _ in range(3)]
        for stream in frames:
            await stream.next()
        for _ in range(FAR):
            no = await refusal_of(client.subscribe(task["id"]))
        is_busy(no, f"3 streams of {whose}")
        assert no.detail["limit"] == setting
        if setting == "streams":
            is_busy(await refusal_of(client.stream("a new task")), "3 streams of this server")
            assert (await client.list())["totalSize"] == 1, (
                "a stream that is refused begins no task"
            )
        gate.set()
        for stream in frames:
            assert list((await stream.rest())[-1]) == ["statusUpdate"]
        assert state_of(await client.get(task["id"])) == "completed"


async def test_a_stream_that_ends_makes_room(connect):
    """The count is of open streams, also when a client just hangs up."""

    async def work(request: str):
        await asyncio.Event().wait()

    async with connect(work, limits=Limits(streams=1, keep_alive_comment_s=0.05)) as client:
        task = (await client.send(say(configuration=NOW)))["task"]
        first = await client.subscribe(task["id"])
        await first.next()
        first.close()
        async with asyncio.timeout(10):
            while True:
                try:
                    second = await client.subscribe(task["id"])
                except Exception as no:
                    is_busy(no, "1 streams of this server")
                else:
                    break
        assert list(await second.next()) == ["task"]


async def test_tasks_that_wait_for_their_client_leave_room_for_others(connect):
    """A question may stay open for days: it is no work. Nor can it lock the server: its answer is
    always taken.
    """
    gate = asyncio.Event()

    async def talk(request: str, ctx: Context):
        if request == "work":
            await gate.wait()
        return await ctx.ask("?")

    async with connect(talk, limits=Limits(tasks=2)) as client:
        asked = [(await client.send("hi"))["task"]["id"] for _ in range(5)]
        for _ in range(2):
            await client.send(say("work", configuration=NOW))
        is_busy(await refusal_of(client.send("one more")), "2 tasks are running")
        answers = [(await client.send(say("4", taskId=id_)))["task"] for id_ in asked]
        assert {(state_of(task), text_of(task)) for task in answers} == {("completed", "4")}
        is_busy(await refusal_of(client.send("one more")), "2 tasks are running")
        gate.set()


async def test_an_answer_to_a_function_that_is_no_longer_in_memory_is_taken_too(
    connect_rpc, lasting
):
    """It is called again, though the server does all it may: whoever was asked is heard."""
    gate = asyncio.Event()

    async def talk(request: str, ctx: Context):
        if request == "work":
            await gate.wait()
        return await ctx.ask("?")

    async with connect_rpc(talk, store=lasting) as client:
        asked = (await client.send("hi"))["task"]["id"]
    async with connect_rpc(talk, store=lasting, limits=Limits(tasks=1)) as client:
        await client.send(say("work", configuration=NOW))
        is_busy(await refusal_of(client.send("one more")), "1 tasks are running")
        assert text_of((await client.send(say("4", taskId=asked)))["task"]) == "4"
        gate.set()


async def test_answers_make_a_server_work_on_no_more_than_it_has_room_for(connect_rpc, monkeypatch):
    """Open questions are kept on the disk, as many as there are; all answered at once they would be
    a crowd. What was being worked on ends by itself, so that the answer is only late.
    """
    monkeypatch.setattr("accord.engine.tasks.tasks.MAX_WAITING", 1)
    gate = asyncio.Event()

    async def work(request: str):
        if request == "ask":
            return Ask("?")
        await gate.wait()

    async with connect_rpc(work, limits=Limits(tasks=1)) as client:
        asked = [(await client.send("ask"))["task"]["id"] for _ in range(3)]
        for id_ in asked[:2]:
            await client.send(say("work", taskId=id_, configuration=NOW))
        is_busy(
            await refusal_of(client.send(say("work", taskId=asked[2]))),
            "2 tasks are running",
        )
        assert state_of(await client.get(asked[2])) == "input-required"
        gate.set()
