"""SendStreamingMessage: the task, then what happens to it."""

import asyncio

import pytest

from accord import Artifact, Context, Part, Reply
from accord.model import Limits
from tests.drive import Refused, kinds, refusal_of, say, state_of, text_of


def chunks(frames):
    return [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]


async def test_a_stream_shows_the_task_and_then_every_change(connect, store):
    """First the task, then status and artifact updates in order, closed by the end (STR-1, STR-2,
    STR-3, STR-6).
    """

    async def work(request: str, ctx: Context):
        ctx.status("thinking")
        yield "one"
        yield "two"

    async with connect(work, store=store) as client:
        frames = await (await client.stream("go")).rest()
        assert kinds(frames) == [
            "task submitted",
            "working",
            "working",
            "chunk",
            "chunk",
            "completed",
        ]
        first = frames[0]["task"]
        assert [text_of(message) for message in first["history"]] == ["go"]
        assert {(u["taskId"], u["contextId"]) for f in frames[1:] for u in f.values()} == {
            (first["id"], first["contextId"])
        }


async def test_progress_is_shown_while_the_work_goes_on(connect):
    """A stream gives prompt feedback: nothing is held back for the end (STR-1; design, rule 9)."""
    gate = asyncio.Event()

    async def work(request: str):
        yield "early"
        await gate.wait()
        yield "late"

    async with connect(work) as client:
        stream = await client.stream("go")
        assert kinds(await stream.take(3)) == ["task submitted", "working", "chunk"]
        gate.set()
        assert kinds(await stream.rest()) == ["chunk", "completed"]


async def test_a_reply_streams_as_one_message(connect):
    """The other shape of a stream: exactly one message, then closed (STR-2)."""

    async def greet(name: str) -> Reply:
        return Reply("Hello")

    async with connect(greet) as client:
        frames = await (await client.stream("hi")).rest()
        assert kinds(frames) == ["message"]


async def test_yields_are_chunks_of_one_artifact(connect):
    """`append` after the first, no lastChunk that was not known, and the whole is their sum (STR-9;
    design, rule 9).
    """

    async def write(request: str):
        for word in ("to ", "be ", "or"):
            yield word

    async with connect(write) as client:
        frames = await (await client.stream("go")).rest()
        assert [c.get("append", False) for c in chunks(frames)] == [False, True, True]
        assert not any("lastChunk" in c for c in chunks(frames))
        assert len({c["artifact"]["artifactId"] for c in chunks(frames)}) == 1
        task = await client.get(frames[0]["task"]["id"])
        assert [text_of(artifact) for artifact in task["artifacts"]] == ["to be or"]


async def test_a_returned_value_is_known_to_be_the_last_chunk(connect):
    """lastChunk only where it is known: a returned value, ctx.artifact, write(last=True) (design,
    rule 9).
    """

    async def write(request: str, ctx: Context):
        await ctx.write("one")
        await ctx.write("two", last=True)
        await ctx.artifact("three", name="Third")
        return Artifact(artifact_id="own", parts=[Part(text="four")])

    async with connect(write) as client:
        frames = await (await client.stream("go")).rest()
        seen = [
            (text_of(c["artifact"]), c.get("append", False), c.get("lastChunk", False))
            for c in chunks(frames)
        ]
        assert seen == [
            ("one", False, False),
            ("two", True, True),
            ("three", False, True),
            ("four", False, True),
        ]
        assert [a["artifactId"] for a in (await client.get(frames[0]["task"]["id"]))["artifacts"]][
            -1
        ] == "own"


async def test_a_yielded_artifact_is_its_own(connect):
    """An Artifact among chunks does not join them (design, rule 9)."""

    async def write(request: str):
        yield "a"
        yield Artifact(artifact_id="table", name="Table", parts=[Part(data=[1, 2])])
        yield "b"

    async with connect(write) as client:
        task = (await client.send("go"))["task"]
        assert [text_of(artifact) for artifact in task["artifacts"]] == ["ab", ""]
        assert task["artifacts"][1] == {
            "artifactId": "table",
            "name": "Table",
            "parts": [{"data": [1, 2]}],
        }


async def test_an_artifact_sent_again_replaces_the_earlier_one(connect):
    """Without append the artifact of that id is made anew (STR-9)."""

    async def write(request: str):
        yield Artifact(artifact_id="plan", parts=[Part(text="draft")])
        yield Artifact(artifact_id="plan", parts=[Part(text="final")])

    async with connect(write) as client:
        task = (await client.send("go"))["task"]
        assert [text_of(artifact) for artifact in task["artifacts"]] == ["final"]


async def test_readers_of_one_task_see_the_same_events_in_the_same_order(connect):
    """Broadcast: one reader more changes nothing for the others (STR-6, STR-7)."""
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()
        for n in range(20):
            yield str(n)

    async with connect(work) as client:
        stream = await client.stream("go")
        task_id = (await stream.next())["task"]["id"]
        await stream.next()
        others = [await client.subscribe(task_id) for _ in range(3)]
        for other in others:
            assert kinds(await other.take(1)) == ["task working"]
        gate.set()
        seen = await stream.rest()
        assert len(seen) == 21
        assert [await other.rest() for other in others] == [seen] * 3


async def test_closing_one_stream_closes_no_other(connect):
    """Streams are independent of each other and of the task (STR-7)."""
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()
        return "done"

    async with connect(work) as client:
        stream = await client.stream("go")
        task_id = (await stream.next())["task"]["id"]
        other = await client.subscribe(task_id)
        stream.close()
        gate.set()
        assert kinds(await other.rest())[-1] == "completed"
        assert state_of(await client.get(task_id)) == "completed"


async def test_a_stream_is_refused_as_a_send_is_with_a_plain_answer(connect_http):
    """Errors before the first event are no stream (STR-5)."""

    async def echo(request: str):
        return request

    async with connect_http(echo) as client:
        refused = await refusal_of(client.stream(say(taskId="nowhere")))
        assert refused.reason == "TASK_NOT_FOUND"
        assert refused.headers["Content-Type"] == "application/json"


async def test_return_immediately_changes_nothing_about_a_stream(connect):
    """A stream runs to the end of its turn all the same (SND-5)."""

    async def echo(request: str):
        return request

    async with connect(echo) as client:
        frames = await (await client.stream(say(configuration={"returnImmediately": True}))).rest()
        assert kinds(frames)[-1] == "completed"


async def test_frames_are_numbered_without_gaps(connect):
    """SSE ids count the events of the task from 1 (design, rule 1)."""

    async def work(request: str):
        for n in range(5):
            yield str(n)

    async with connect(work) as client:
        stream = await client.stream("go")
        frames = await stream.rest()
        assert stream.ids == list(range(1, len(frames) + 1))


async def test_a_stream_is_not_to_be_cached_or_held_back(connect_http):
    """The headers proxies look at (section 3.4)."""

    async def echo(request: str):
        return request

    async with connect_http(echo) as client:
        headers = (await client.stream("go")).headers
        assert headers["Content-Type"].startswith("text/event-stream")
        assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-cache", "no")


async def test_a_stream_whose_message_gets_no_turn_ends_with_an_error(connect):
    """An error after the first event is the last frame of the stream (section 3.3)."""
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()
        return "done"

    async with connect(work) as client:
        first = await client.stream("go")
        task_id = (await first.next())["task"]["id"]
        late = await client.stream(say("late", taskId=task_id))
        assert kinds(await late.take(1)) == ["task working"]
        gate.set()
        with pytest.raises(Refused, match="before it took your message") as refused:
            await late.rest()
        assert refused.value.reason == "UNSUPPORTED_OPERATION"


async def test_a_long_stream_arrives_whole(connect, store):
    """Far more events than are kept in memory, and larger than a socket's buffer."""

    async def count(request: str):
        for n in range(2000):
            yield f"{n:0100d}"

    async with connect(count, store=store) as client:
        frames = await (await client.stream("go")).rest()
        assert [int(text_of(c["artifact"])) for c in chunks(frames)] == list(range(2000))


async def test_a_reader_far_behind_is_served_from_the_store(connect, store):
    """A slow reader costs the run nothing and misses nothing."""
    gate = asyncio.Event()

    async def count(request: str):
        await gate.wait()
        for n in range(500):
            yield f"{n} ".ljust(20_000, ".")

    async with connect(count, store=store) as client:
        slow = await client.stream("go")
        task_id = (await slow.next())["task"]["id"]
        fast = await client.subscribe(task_id)
        gate.set()
        assert len(await fast.rest()) == 502
        rest = await slow.rest()
        assert [int(text_of(c["artifact"]).split()[0]) for c in chunks(rest)] == list(range(500))


async def test_an_idle_stream_shows_that_it_is_alive(connect_http):
    """A comment now and then keeps proxies from cutting it, and is no event (section 3.4; design,
    rule 5).
    """
    gate = asyncio.Event()

    async def slow(request: str):
        await gate.wait()
        return "done"

    async with connect_http(slow, limits=Limits(keep_alive_comment_s=0.05)) as client:
        stream = await client.stream("go")
        await stream.take(2)
        reading = asyncio.create_task(stream.rest())
        await asyncio.wait_for(stream.comment.wait(), 10)
        gate.set()
        assert kinds(await reading) == ["chunk", "completed"]
