"""D1, seen from inside: with the commit held back, nobody is told anything that depends on it.

Random kills find a reply sent too early only by luck; here the moment between append and commit
lasts as long as the test likes.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
import pytest_asyncio

from accord import Agent, Context
from accord.store.contract import Item
from accord.store.memory import MemoryStore
from tests.reliability.clients import Frame, GrpcClient
from tests.reliability.harness import RESUME, WAYS, Refused, message, state_of
from tests.reliability.inside import Inside, pass_turns
from tests.reliability.line import Line

TURNS = 200  # of the loop: far more than any operation takes in memory


class Held(MemoryStore):
    """A store whose disk can be made to take its time."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        await self.gate.wait()
        return await super().commit(items)


class Scene:
    """An agent on a held store, a task of it in each state, and one way to talk to it."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.store = Held()
        self.finish = asyncio.Event()
        agent = Agent("Held")
        agent.skill(self._talk, id="talk")
        agent.skill(self._work, id="work")
        self.app = agent.app(store=self.store, grpc_port=0 if WAYS[way].is_grpc else None)

    async def connect(self) -> None:
        port = self.app.grpc_port
        self.client = (
            Inside(self.app, self.way) if port is None else GrpcClient(Line(port), WAYS[self.way])
        )
        await self.open_task()  # what comes later finds the connection open

    async def first(
        self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> Frame:
        """The first frame of a stream, at the moment it is told."""
        if isinstance(self.client, Inside):
            return await self.client.first(method, params, headers)
        async with aclosing(self.client.stream(method, params, headers)) as frames:
            return await anext(frames)

    async def _talk(self, text: str, ctx: Context) -> str:
        while text != "stop":
            text = await ctx.ask("and then?")
        return "stopped"

    async def _work(self, text: str) -> str:
        await self.finish.wait()
        return "done"

    async def open_task(self) -> str:
        return (await self.client.send(message("hello", "talk")))["id"]

    async def ended_task(self) -> str:
        """A task that has just completed, which the store does not know yet."""
        task_id = (await self.client.send(message("hello", "work", returnImmediately=True)))["id"]
        self.store.gate.clear()
        self.finish.set()
        await pass_turns(TURNS)
        return task_id

    async def held_back(self, work: Any) -> Any:
        """Return what `work` gives, having seen that it waits for the commit."""
        self.store.gate.clear()
        doing = asyncio.ensure_future(work)
        await pass_turns(TURNS)
        assert not doing.done(), f"told before it was stored: {doing.exception() or doing.result()}"
        self.store.gate.set()
        return await asyncio.wait_for(doing, timeout=60)


@pytest_asyncio.fixture(params=WAYS)
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    scene = Scene(request.param)
    async with scene.app.lifespan():
        await scene.connect()
        yield scene
        scene.store.gate.set()


@pytest.mark.parametrize("is_immediate", [True, False])
async def test_new_task_is_told_when_stored(scene: Scene, is_immediate: bool) -> None:
    """D1: a task id is a promise."""
    task = await scene.held_back(
        scene.client.send(message("hello", "talk", returnImmediately=is_immediate))
    )
    assert state_of(await scene.client.get(task["id"])) == "TASK_STATE_INPUT_REQUIRED"


async def test_stream_begins_when_its_task_is_stored(scene: Scene) -> None:
    """D1: every frame is an acknowledgement."""
    frame = await scene.held_back(scene.first("SendStreamingMessage", message("stop", "talk")))
    assert (frame.id, frame.state) == (1, "TASK_STATE_SUBMITTED")


async def test_answer_to_a_question_is_told_when_stored(scene: Scene) -> None:
    """D1: a message that was answered is in the history for ever."""
    task_id = await scene.open_task()
    task = await scene.held_back(scene.client.send(message("more", task_id=task_id)))
    assert len(task["history"]) == 3


async def test_cancel_is_told_when_stored(scene: Scene) -> None:
    """D1: canceled stays canceled."""
    task_id = await scene.open_task()
    assert state_of(await scene.held_back(scene.client.cancel(task_id))) == "TASK_STATE_CANCELED"


async def test_end_is_shown_when_stored(scene: Scene) -> None:
    """D6: a reader is not told of an end a crash could still take back."""
    task_id = await scene.ended_task()
    assert state_of(await scene.held_back(scene.client.get(task_id))) == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("operation", ["cancel", "send", "subscribe"])
async def test_end_is_a_reason_to_refuse_when_stored(scene: Scene, operation: str) -> None:
    """D6: a refusal because a task has ended tells of the end as much as any other reply; so does
    0.3's stream of just that end.
    """
    task_id = await scene.ended_task()
    work = {
        "cancel": lambda: scene.client.cancel(task_id),
        "send": lambda: scene.client.send(message("more", task_id=task_id)),
        "subscribe": lambda: scene.first("SubscribeToTask", {"id": task_id}),
    }
    if operation == "subscribe" and scene.way.endswith("0.3"):
        assert (await scene.held_back(work[operation]())).is_final
        return
    with pytest.raises(Refused):
        await scene.held_back(work[operation]())


async def test_message_that_gets_no_turn_is_told_when_the_end_is_stored(scene: Scene) -> None:
    """D6: so does the refusal of a message that still waited when the task ended."""
    task_id = (await scene.client.send(message("hello", "work", returnImmediately=True)))["id"]
    waiting = asyncio.ensure_future(scene.client.send(message("more", task_id=task_id)))
    await pass_turns(TURNS)
    scene.store.gate.clear()
    scene.finish.set()
    with pytest.raises(Refused):
        await scene.held_back(waiting)


async def test_resumed_stream_shows_only_what_is_stored(scene: Scene) -> None:
    """S2: the log a client resumes is the stored one."""
    task_id = await scene.ended_task()
    resumed = scene.first(
        "SubscribeToTask", {"id": task_id}, RESUME | {"last-event-id": "2"}
    )  # the last that is stored
    assert "artifactUpdate" in (await scene.held_back(resumed)).event
