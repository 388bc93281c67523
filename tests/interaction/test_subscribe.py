"""SubscribeToTask, and resuming a broken stream."""

import asyncio

from accord import Ask, Context
from tests.drive import kinds, refusal_of, say, state_of, text_of

RESUME = {"A2A-Extensions": "urn:accord:resume:1"}


async def test_a_late_reader_starts_from_the_task_as_it_stands(connect, store):
    """A subscription opens with the current task, then only what follows (SUB-1, SUB-2, SUB-4)."""
    gate = asyncio.Event()

    async def work(request: str):
        yield "early"
        await gate.wait()
        yield "late"

    async with connect(work, store=store) as client:
        early = await client.stream("go")
        first = (await early.take(3))[0]["task"]
        late = await client.subscribe(first["id"])
        snapshot = (await late.next())["task"]
        assert (state_of(snapshot), text_of(snapshot)) == ("working", "early")
        gate.set()
        assert kinds(await late.rest()) == kinds(await early.rest()) == ["chunk", "completed"]


async def test_an_unknown_task_cannot_be_subscribed_to(connect):
    """TaskNotFound, as a plain answer (SUB-3)."""

    async def echo(request: str):
        return request

    async with connect(echo) as client:
        assert (await refusal_of(client.subscribe("nowhere"))).reason == "TASK_NOT_FOUND"


async def test_a_finished_task_cannot_be_subscribed_to(connect):
    """Every terminal state refuses with UnsupportedOperation (SUB-3)."""

    async def end(request: str, ctx: Context):
        match request:
            case "fail":
                ctx.fail("no")
            case "reject":
                ctx.reject("no")
            case "wait":
                await ctx.ask("?")

    async with connect(end) as client:
        tasks = [
            (await client.send(word))["task"] for word in ("complete", "fail", "reject", "wait")
        ]
        tasks[3] = await client.cancel(tasks[3]["id"])
        assert [state_of(task) for task in tasks] == ["completed", "failed", "rejected", "canceled"]
        refusals = [await refusal_of(client.subscribe(task["id"])) for task in tasks]
        assert {refused.reason for refused in refusals} == {"UNSUPPORTED_OPERATION"}


async def test_a_subscription_to_a_parked_task_lives_until_its_end(connect):
    """Interrupted tasks can be subscribed to, and the stream outlasts their questions (SUB-4)."""

    async def book(request: str, ctx: Context):
        day = await ctx.ask("Which day?")
        hour = await ctx.ask("Which hour?")
        return f"{day} {hour}"

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        events = await client.subscribe(asked["id"])
        assert kinds(await events.take(1)) == ["task input-required"]
        for answer in ("Monday", "nine"):
            await client.send(say(answer, taskId=asked["id"]))
        assert kinds(await events.rest()) == [
            "working",
            "input-required",
            "working",
            "chunk",
            "completed",
        ]


async def test_a_subscription_follows_a_task_parked_before_a_restart(connect, lasting):
    """A parked task is as alive to a new server as to the old one (SUB-4)."""

    async def book(request: str):
        return Ask("When?") if request == "a table" else "booked"

    async with connect(book, store=lasting) as client:
        asked = (await client.send("a table"))["task"]
    async with connect(book, store=lasting) as client:
        events = await client.subscribe(asked["id"])
        assert kinds(await events.take(1)) == ["task input-required"]
        await client.send(say("nine", taskId=asked["id"]))
        assert kinds(await events.rest()) == ["working", "chunk", "completed"]


async def test_a_cursor_alone_changes_nothing(connect):
    """Without our extension the protocol's way holds: the task first (design, rule 2)."""

    async def book(request: str, ctx: Context):
        await ctx.ask("When?")

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        events = await client.subscribe(asked["id"], headers={"Last-Event-ID": "1"})
        assert kinds(await events.take(1)) == ["task input-required"]


async def test_a_broken_stream_goes_on_where_it_broke(connect, store):
    """With the resume extension: exactly the events after the cursor, no snapshot, nothing twice
    (STR-8; design, rule 2).
    """
    gate = asyncio.Event()

    async def work(request: str):
        for n in range(5):
            yield str(n)
        await gate.wait()
        yield "end"

    async with connect(work, store=store) as client:
        broken = await client.stream("go")
        seen = await broken.take(4)
        task_id = seen[0]["task"]["id"]
        broken.close()
        resumed = await client.subscribe(
            task_id, headers=RESUME | {"Last-Event-ID": str(broken.ids[-1])}
        )
        gate.set()
        rest = await resumed.rest()
        assert broken.ids + resumed.ids == list(range(1, 10))
        assert kinds(seen + rest) == ["task submitted", "working", *["chunk"] * 6, "completed"]


async def test_a_finished_task_gives_its_tail_and_closes(connect, store):
    """What was missed can be had after the end too (design, rule 2)."""

    async def work(request: str):
        yield "one"
        yield "two"

    async with connect(work, store=store) as client:
        task = (await client.send("go"))["task"]
        tail = await client.subscribe(task["id"], headers=RESUME | {"Last-Event-ID": "3"})
        assert kinds(await tail.rest()) == ["chunk", "completed"]
        everything = await client.subscribe(task["id"], headers=RESUME | {"Last-Event-ID": "0"})
        assert kinds(await everything.rest()) == [
            "task submitted",
            "working",
            "chunk",
            "chunk",
            "completed",
        ]


async def test_a_reader_that_has_seen_the_end_gets_an_empty_stream(connect, store):
    """Nothing follows the last event, so the stream closes at once (design, rule 2)."""

    async def echo(request: str):
        return request

    async with connect(echo, store=store) as client:
        first = await client.stream("go")
        task_id = (await first.rest())[0]["task"]["id"]
        again = await client.subscribe(
            task_id, headers=RESUME | {"Last-Event-ID": str(first.ids[-1])}
        )
        assert await again.rest() == []


async def test_a_tail_can_be_read_from_the_next_server(connect, lasting):
    """A reconnecting reader misses nothing, whoever serves it now."""

    async def work(request: str):
        yield "one"
        yield "two"

    async with connect(work, store=lasting) as client:
        task = (await client.send("go"))["task"]
    async with connect(work, store=lasting) as client:
        tail = await client.subscribe(task["id"], headers=RESUME | {"Last-Event-ID": "2"})
        assert kinds(await tail.rest()) == ["chunk", "chunk", "completed"]
        assert tail.ids == [3, 4, 5]


async def test_a_cursor_beyond_the_log_gets_the_task_as_it_is(connect):
    """A failover may lose what a client has seen: a Task frame on a resumed stream is the sign of a
    gap (design, rule 2).
    """

    async def book(request: str, ctx: Context):
        await ctx.ask("When?")

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        stream = await client.subscribe(asked["id"], headers=RESUME | {"Last-Event-ID": "99"})
        assert (await stream.next())["task"]["id"] == asked["id"]
        stream.close()
