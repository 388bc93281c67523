"""The client in A2A 1.1, on every binding."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from accord import Agent, Context, Reply, TaskGenerationMismatch, UnsupportedOperation, connect
from accord.client import Gap
from accord.model import Message, StatusUpdate, Task
from accord.protocol import BindingName
from tests.drive import serving

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


def _asking() -> Agent:
    agent = Agent("Test agent")

    @agent.skill
    async def question(request: str, ctx: Context) -> str:
        return await ctx.ask(f"{request}?")

    return agent


@asynccontextmanager
async def _connected(agent: Agent, binding: BindingName, **options: Any) -> AsyncIterator[Any]:
    app = agent.app(previews=["1.1"], grpc_port=0)
    async with serving(app, app.close) as url:
        await app.open()
        options.setdefault("previews", ["1.1"])
        async with connect(url, binding=binding, **options) as client:
            yield client


@pytest.mark.parametrize("binding", BINDINGS)
async def test_tasks_and_events_have_generations(binding):
    """And what an agent of 1.1 says of how the task came about."""
    async with _connected(_asking(), binding) as client:
        assert client.version == "1.1"
        events = [event async for event in client.stream("go")]
        assert [event.generation for event in events] == [1, 2, 3]
        task = await client.get(events[0].id)
        assert task.generation == 3
        assert [entry.generation for entry in task.timeline] == [1, 1, 2, 3]
        reply = await client.send("x", task_id=task.id, if_generation_match=3)
        assert reply.task.artifact_generations == {reply.task.artifacts[0].artifact_id: (5, 5)}
        assert [one.generation async for one in client.list()] == [reply.task.generation]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_for_another_generation_raises(binding):
    """With what the agent says of the generations."""
    async with _connected(_asking(), binding) as client:
        task_id = (await client.send("go")).task.id
        for call in (
            client.send("x", task_id=task_id, if_generation_match=2),
            anext(client.stream("x", task_id=task_id, if_generation_match=2)),
        ):
            with pytest.raises(TaskGenerationMismatch) as caught:
                await call
            assert caught.value.detail["currentGeneration"] == "3"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_get_waits_for_the_next_generation(binding):
    """The long poll, as users write it."""
    async with _connected(_asking(), binding) as client:
        task = (await client.send("go")).task
        held = asyncio.ensure_future(client.get(task.id, current_generation=task.generation))
        await client.send("x", task_id=task.id)
        assert (await held).generation > task.generation


@pytest.mark.parametrize("binding", BINDINGS)
async def test_what_has_no_generation_is_as_before(binding):
    """A reply without a task, webhooks, a task that is cancelled."""
    agent = _asking()

    @agent.skill
    async def greet(request: str) -> Reply:
        return Reply(f"hello {request}")

    async with _connected(agent, binding) as client:
        assert (await client.send("you", skill="greet")).message.text == "hello you"
        assert [type(event) async for event in client.stream("you", skill="greet")] == [Message]
        task = (await client.send("go", skill="question")).task
        assert await client.list_push_configs(task.id) == []
        assert (await client.cancel(task.id)).generation == 4


@pytest.mark.parametrize("binding", BINDINGS)
async def test_10_is_spoken_unless_the_preview_is_asked_for(binding):
    """What only 1.1 can say is refused before anything is sent: a condition is not just left
    out.
    """
    async with _connected(_asking(), binding, previews=()) as client:
        assert client.version == "1.0"
        task = (await client.send("go")).task
        assert task.generation == 0
        with pytest.raises(UnsupportedOperation, match="has no generations; nothing was sent"):
            await client.send("x", task_id=task.id, if_generation_match=3)
        with pytest.raises(UnsupportedOperation, match="has no generations; nothing was sent"):
            await client.get(task.id, current_generation=3)


def test_a_preview_has_to_be_asked_for() -> None:
    with pytest.raises(ValueError, match=r"--preview 1\.1"):
        connect("http://localhost:1", version="1.1")
    with pytest.raises(ValueError, match=r"previews 1\.7: choose from 1\.1"):
        connect("http://localhost:1", previews=["1.7"])  # type: ignore[list-item]


# An agent that is not ours


def _status(state: str, generation: Any, text: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"state": f"TASK_STATE_{state}"}
    if text:
        status["message"] = {
            "messageId": text,
            "role": "ROLE_AGENT",
            "parts": [{"text": text}],
        }
    return {"taskId": "t", "contextId": "c", "status": status, "generation": generation}


class Stranger:
    """Streams what it is given, and answers GetTask with a task of its own."""

    def __init__(self, frames: list[Any], task: dict[str, Any], *, streaming: bool = True) -> None:
        self.frames = frames
        self.task = task
        self.asked: list[Any] = []
        self.polled = asyncio.Event()
        self._streaming = streaming

    async def card(self, request: web.Request) -> web.Response:
        where = {"url": str(request.url.origin()) + "/", "protocolBinding": "JSONRPC"}
        card = {
            "name": "Stranger",
            "description": "",
            "version": "1",
            "supportedInterfaces": [where | {"protocolVersion": "1.1"}],
            "capabilities": {"streaming": self._streaming},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
        }
        return web.json_response(card)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        call = await request.json()
        self.asked.append((call["method"], call["params"].get("currentGeneration")))
        envelope = {"jsonrpc": "2.0", "id": call["id"]}
        if call["method"] == "GetTask":
            self.polled.set()
            return web.json_response(envelope | {"result": self.task})
        if call["method"] == "SendMessage":
            return web.json_response(envelope | {"result": {"task": self.frames[0]["task"]}})
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for frame in self.frames:
            data = json.dumps(envelope | {"result": frame})
            await answer.write(f"data: {data}\n\n".encode())
        return answer

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Any]:
        app = web.Application()
        app.router.add_get("/.well-known/agent-card.json", self.card)
        app.router.add_post("/", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        try:
            async with connect(f"http://{host}:{port}", previews=["1.1"]) as client:
                yield client
        finally:
            await runner.cleanup()


def _task(state: str, generation: Any, **more: Any) -> dict[str, Any]:
    status = {"state": f"TASK_STATE_{state}"}
    return {"id": "t", "contextId": "c", "status": status, "generation": generation} | more


async def test_a_gap_is_noticed_and_the_task_is_fetched():
    """Each event comes once; what can't be told any more is a Gap."""
    frames = [
        {"task": _task("SUBMITTED", "1")},
        {"statusUpdate": _status("WORKING", "2")},
        {"statusUpdate": _status("COMPLETED", "5")},
    ]
    stranger = Stranger(frames, _task("COMPLETED", "5"))
    async with stranger.client() as client:
        events = [event async for event in client.stream("go")]
    assert ("GetTask", None) in stranger.asked
    assert any(isinstance(event, Gap) for event in events)
    ends = [e for e in events if isinstance(e, StatusUpdate) and e.status.state.word == "completed"]
    assert len(ends) == 1


@pytest.mark.parametrize(
    "numbers",
    [
        (0, 0, 0, 0),
        (None, None, None, None),
        (-1, -1, 2**70, 2**70),
        ("x", "x", "y", "y"),
        ("1", "2", "2", "2"),
        ("1", "1", "1", "1"),  # the first event looks like what the task has already
        ("7", "7", "7", "7"),
        ("1", "2", "0", "9"),
        ("1", "5", "3", "4"),  # the first event looks like one after a gap
    ],
)
async def test_an_agent_without_generations_is_read_as_before(numbers):
    """0, or a number that does not grow, says that it has none: no event is left out then."""
    begun, first, second, third = numbers
    frames = [
        {"task": _task("SUBMITTED", begun)},
        {"statusUpdate": _status("WORKING", first, "a")},
        {"statusUpdate": _status("WORKING", second, "b")},
        {"statusUpdate": _status("COMPLETED", third)},
    ]
    stranger = Stranger(frames, _task("COMPLETED", third))
    async with stranger.client() as client:
        events = [event async for event in client.stream("go")]
    assert [type(event) for event in events] == [Task, StatusUpdate, StatusUpdate, StatusUpdate]
    said = [event.status.message.text for event in events if event.status.message is not None]
    assert said == ["a", "b"]
    assert "GetTask" not in [method for method, _ in stranger.asked]


async def test_without_streams_the_task_is_polled_by_generation():
    """A long poll that is not held is not repeated at once."""
    stranger = Stranger([{"task": _task("WORKING", "3")}], _task("WORKING", 3), streaming=False)
    async with stranger.client() as client:
        stream = client.stream("go")
        assert isinstance(await anext(stream), Task)
        reading = asyncio.ensure_future(anext(stream))
        async with asyncio.timeout(30):
            await stranger.polled.wait()
        stranger.task = _task("COMPLETED", "4")
        assert (await reading).status.state.word == "completed"
        assert ("GetTask", 3) in stranger.asked
        assert len(stranger.asked) < 20


@pytest.mark.parametrize(
    "timeline", ["x", [1], [{"generation": "1", "status": 7}], [{"generation": {}}], {}]
)
async def test_a_timeline_that_makes_no_sense_costs_nothing_else(timeline):
    stranger = Stranger([], _task("COMPLETED", "4", timeline=timeline, artifacts=[]))
    async with stranger.client() as client:
        task = await client.get("t")
        assert (task.generation, len(task.timeline)) in ((4, 0), (4, 1))
