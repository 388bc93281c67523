"""Streams are not lost when their connection is."""

import asyncio
import json

import pytest

from accord import Agent
from accord.client import Budget, ConnectionLost, Gap, Retry, TooSlow, connect
from accord.model import A2AError, ArtifactUpdate, StatusUpdate, Task, TaskState, Unavailable
from accord.testing import Ask, Delay, Disconnect, Duplicate, FakeAgent, Status
from tests.client.peers import answer, card, scripted, sse, task

QUICK = Retry(first_s=0.001, most_s=0.01)
LETTERS = list("abcdefgh")


async def story(stream) -> list[str]:
    """A stream in words: the state of a task or status, the text of a chunk."""
    words = []
    async for event in stream:
        match event:
            case Task():
                words.append("task")
            case StatusUpdate():
                words.append(event.status.state.word)
            case ArtifactUpdate():
                words.append(event.artifact.text)
            case Gap():
                words.append("gap")
    return words


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize(
    "faults",
    [
        [Disconnect(3)],
        [Disconnect(1), Disconnect(1), Disconnect(1)],
        [Disconnect(5), Status(503), Disconnect(2)],
        [Disconnect(0)],
        [Disconnect(0), Disconnect(4)],
    ],
)
async def test_each_event_once_with_the_resume_extension(binding, faults):
    """After a cut the stream goes on behind the last event seen; if nothing was seen, the message
    is sent again and recognised.
    """
    async with (
        FakeAgent(LETTERS) as fake,
        connect(fake.url, binding=binding, retry=QUICK) as client,
    ):
        fake.fail(*faults)
        heard = await story(client.stream("go"))
    assert heard == ["task", "working", *LETTERS, "completed"]
    assert len(fake.messages) == 1


async def test_each_event_once_without_it():
    """With plain 1.0 the new subscription's task is compared with what was seen."""
    async with FakeAgent(LETTERS) as fake:
        async with connect(fake.url) as looking:
            plain = looking.card
        plain.capabilities.extensions = []
        async with connect(plain, retry=QUICK) as client:
            fake.fail(Disconnect(4), Disconnect(2))
            stream = client.stream("go")
            heard = await story(stream)
    assert (heard[:4], heard[-1]) == (["task", "working", "a", "b"], "completed")
    assert "".join(heard[2:-1]) == stream.reply.text == "abcdefgh"


async def test_a_question_ends_a_resumed_stream_too():
    """A subscription stays open at input-required; a stream that began with a message ends there,
    resumed or not.
    """
    async with FakeAgent(Ask("Which day?")) as fake, connect(fake.url, retry=QUICK) as client:
        fake.fail(Disconnect(1))
        stream = client.stream("go")
        heard = await asyncio.wait_for(story(stream), 10)
    assert heard[-1] == "input-required"
    assert stream.reply.question == "Which day?"


async def test_a_subscription_resumes_from_a_cursor():
    """A cursor kept from an earlier stream gives exactly what came after it, also of a finished
    task (design, rule 2).
    """
    async with FakeAgent(LETTERS) as fake, connect(fake.url) as client:
        stream = client.stream("go")
        for _ in range(4):
            await anext(stream)
        cursor, task_id = stream.cursor, stream.task_id
        await stream.close()
        await client.wait(task_id)
        assert await story(client.subscribe(task_id, after=cursor)) == [*LETTERS[2:], "completed"]


async def test_a_pruned_cursor_is_a_gap():
    """On a resumed stream a task frame means that the events are gone: said out loud, not passed
    over (design, rule 2).
    """
    frames = iter(
        [
            b"id: 1\ndata: %b\n\n" % _frame({"task": task("WORKING", "")}),
            b"id: 9\ndata: %b\n\n" % _frame({"task": task("COMPLETED", "all of it")}),
        ]
    )

    def handler(request):
        if request.verb == "GET":
            resume = [{"uri": "urn:accord:resume:1"}]
            return answer(
                card(
                    f"http://{request.headers['host']}/",
                    capabilities={"streaming": True, "extensions": resume},
                )
            )
        return sse(raw=next(frames), end=False)

    async with scripted(handler) as peer, connect(peer.url, retry=QUICK) as client:
        stream = client.stream("go")
        assert await story(stream) == ["task", "gap"]
        assert stream.reply.text == "all of it"
    assert peer.requests[-1].headers["last-event-id"] == "1"


async def test_repeated_events_are_heard_once():
    """A proxy that repeats itself does not make an agent say things twice: numbered events are
    known again.
    """
    async with FakeAgent(LETTERS) as fake, connect(fake.url, retry=QUICK) as client:
        fake.fail(Duplicate())
        assert await story(client.stream("go")) == ["task", "working", *LETTERS, "completed"]


async def test_a_stream_that_never_ends_well_says_so():
    """Never silent (S5): after the last attempt the reader is told, with the agent's name."""
    async with (
        FakeAgent(LETTERS) as fake,
        connect(fake.url, retry=Retry(attempts=3, first_s=0.001)) as client,
    ):
        fake.fail(Disconnect(2), *[Disconnect(0)] * 10)
        with pytest.raises(ConnectionLost, match="Fake agent"):
            await story(client.stream("go"))


async def test_a_send_that_may_have_been_done_is_not_repeated():
    """With an agent that recognises nothing, a lost answer is an error: better none than two
    (I1).
    """
    async with FakeAgent("done") as fake:
        async with connect(fake.url) as looking:
            plain = looking.card
        plain.capabilities.extensions = []
        async with connect(plain, retry=QUICK) as client:
            fake.fail(Disconnect(0))
            with pytest.raises(ConnectionLost):
                await story(client.stream("go"))
            fake.fail(Disconnect(0))
            with pytest.raises(ConnectionLost):
                await client.send("go")
            fake.fail(Status(503))
            with pytest.raises(Unavailable):
                await client.send("go")
    assert len(fake.requests) == 3


async def test_an_agent_that_does_not_stream_is_asked():
    """`stream` works with every agent: where there is no stream, the task is asked for until it has
    ended.
    """
    chunks = LETTERS * 100  # more than is stored at once: it is still at work when it first answers
    async with FakeAgent(chunks) as fake:
        async with connect(fake.url) as looking:
            plain = looking.card
        plain.capabilities.streaming = False
        async with connect(plain, retry=QUICK) as client:
            stream = client.stream("go")
            heard = await story(stream)
    assert (heard[0], heard[-1], stream.reply.text) == ("task", "completed", "".join(chunks))
    assert {request.headers["accept"] for request in fake.requests} == {"application/json"}


async def test_a_task_that_ended_during_the_cut_is_told_to_its_end():
    """A plain agent refuses to subscribe to a finished task: its end is fetched."""
    states = iter(["WORKING"])

    def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        match request.json["method"]:
            case "SendStreamingMessage":
                return sse(_envelope(request, {"task": task(next(states), "")}), end=False)
            case "SubscribeToTask":
                return answer(
                    {
                        "jsonrpc": "2.0",
                        "id": request.json["id"],
                        "error": {"code": -32004, "message": "over"},
                    }
                )
        history = [{"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}]
        return answer(_envelope(request, task("COMPLETED", history=history)))

    async with scripted(handler) as peer, connect(peer.url, retry=QUICK) as client:
        assert await story(client.stream("go")) == ["task", "17 crates", "completed"]


async def test_a_silent_stream_is_taken_for_cut():
    """A connection without a byte, keep-alives included, is dead however open it looks."""
    calls = []

    async def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        calls.append(request.json["method"])
        if len(calls) == 1:
            await asyncio.Event().wait()
        return sse(_envelope(request, {"task": task()}))

    budget = Budget(idle_s=0.2, work_s=0.2)
    async with (
        scripted(handler) as peer,
        connect(peer.url, retry=Retry(first_s=0.001, unsafe=True), budget=budget) as client,
    ):
        assert await story(client.stream("go")) == ["task"]
    assert calls == ["SendStreamingMessage", "SendStreamingMessage"]


async def test_an_agent_that_ends_streams_early_is_asked_less_and_less_often():
    """Each subscription shows the task as it was, and ends. Something new makes it quick again."""
    subscriptions = 0

    def handler(request):
        nonlocal subscriptions
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        subscriptions += request.json["method"] == "SubscribeToTask"
        if subscriptions == 9:
            return sse(_envelope(request, {"task": task()}))
        shown = task("WORKING", "") if subscriptions < 6 else task("WORKING", "half")
        return sse(_envelope(request, {"task": shown}))

    pauses = []
    retry = Retry(first_s=0.001, most_s=0.02, chance=lambda: 1.0, on_pause=pauses.append)
    async with scripted(handler) as peer, connect(peer.url, retry=retry) as client:
        assert (await story(client.stream("go")))[-1] == "completed"
    waited = [round(pause.seconds * 1000) for pause in pauses]
    assert waited == [1, 2, 4, 8, 16, 20, 1, 2, 4]


async def test_what_the_agent_says_in_a_stream_is_raised():
    """An error of the agent is not a cut: it ends the stream."""

    def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        error = {
            "jsonrpc": "2.0",
            "id": request.json["id"],
            "error": {"code": -32603, "message": "the crane broke"},
        }
        return sse(_envelope(request, {"task": task("WORKING", "")}), error)

    async with scripted(handler) as peer, connect(peer.url, retry=QUICK) as client:
        with pytest.raises(A2AError, match="the crane broke"):
            await story(client.stream("go"))


async def test_a_slow_agent_is_waited_for():
    """Late is not lost."""
    async with FakeAgent("done") as fake, connect(fake.url) as client:
        fake.fail(Delay(0.05))
        assert (await client.send("go")).state is TaskState.COMPLETED
    assert len(fake.requests) == 1


def _envelope(request, result):
    return {"jsonrpc": "2.0", "id": request.json["id"], "result": result}


def _frame(result) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "result": result}).encode()


async def test_a_closed_client_does_not_come_back():
    """A stream that is still read when its client is closed ends with an error, and finds no agent
    again.
    """
    async with FakeAgent(Ask("?")) as fake:
        client = await connect(fake.url, retry=QUICK)
        reply = await client.send("go")
        stream = client.subscribe(reply.task_id)
        await anext(stream)
        await client.close()
        with pytest.raises(RuntimeError, match="closed"):
            await anext(stream)


async def test_a_stream_with_a_deadline_ends_in_time():
    """Who gives a stream so many seconds gets it back then, however often it would have been
    resumed.
    """
    gate = asyncio.Event()

    async def slow(text: str) -> str:
        await gate.wait()
        return "done"

    agent = Agent("Slow")
    agent.skill(slow)
    async with connect(agent) as client:
        stream = client.stream("go", timeout_s=0.05)
        with pytest.raises(TooSlow, match="Slow"):
            await story(stream)
        gate.set()
        assert (await client.wait(stream.task_id)).text == "done"
