"""D1, seen from inside: with the commit held back, nobody is told anything that depends on it.

Random kills find a reply sent too early only by luck; here the moment between append and commit lasts as long as the test likes.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from accord import Agent, Context
from accord.store import Keep, Write
from accord.store.memory import MemoryStore
from tests.reliability.harness import RESUME, Refused, message, state_of
from tests.reliability.inside import Inside, pass_turns

TURNS = 200  # of the loop: far more than any operation takes in memory


class Held(MemoryStore):
    """A store whose disk can be made to take its time."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, writes: Sequence[Write], keeps: Sequence[Keep]) -> None:
        await self.gate.wait()
        await super().commit(writes, keeps)


class Scene:
    """An agent on a held store, and a task of it in each state."""

    def __init__(self) -> None:
        self.store = Held()
        self.finish = asyncio.Event()
        agent = Agent("Held")
        agent.skill(self._talk, id="talk")
        agent.skill(self._work, id="work")
        self.app = agent.app(store=self.store)
        self.inside = Inside(self.app)

    async def _talk(self, text: str, ctx: Context) -> str:
        while text != "stop":
            text = await ctx.ask("and then?")
        return "stopped"

    async def _work(self, text: str) -> str:
        await self.finish.wait()
        return "done"

    async def open_task(self) -> str:
        return (await self.inside.send(message("hello", "talk")))["id"]

    async def ended_task(self) -> str:
        """A task that has just completed, which the store does not know yet."""
        task_id = (await self.inside.send(message("hello", "work", returnImmediately=True)))["id"]
        self.store.gate.clear()
        self.finish.set()
        await pass_turns(TURNS)
        return task_id

    async def held_back(self, work: Any) -> Any:
        """Return what `work` gives, having seen that it waits for the commit."""
        self.store.gate.clear()
        doing = asyncio.ensure_future(work)
        await pass_turns(TURNS)
        assert not doing.done(), f"told before it was stored: {doing}"
        self.store.gate.set()
        return await asyncio.wait_for(doing, timeout=10)


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    async with scene.app.lifespan():
        yield scene
        scene.store.gate.set()


@pytest.mark.parametrize("is_immediate", [True, False])
async def test_new_task_is_told_when_stored(scene: Scene, is_immediate: bool) -> None:
    """D1: a task id is a promise."""
    task = await scene.held_back(scene.inside.send(message("hello", "talk", returnImmediately=is_immediate)))
    assert state_of(await scene.inside.get(task["id"])) == "TASK_STATE_INPUT_REQUIRED"


async def test_stream_begins_when_its_task_is_stored(scene: Scene) -> None:
    """D1: every frame is an acknowledgement."""
    frames = await scene.held_back(scene.inside.stream("SendStreamingMessage", message("stop", "talk")))
    assert frames[-1].is_final


async def test_answer_to_a_question_is_told_when_stored(scene: Scene) -> None:
    """D1: a message that was answered is in the history for ever."""
    task_id = await scene.open_task()
    task = await scene.held_back(scene.inside.send(message("more", task_id=task_id)))
    assert len(task["history"]) == 3


async def test_cancel_is_told_when_stored(scene: Scene) -> None:
    """D1: canceled stays canceled."""
    task_id = await scene.open_task()
    assert state_of(await scene.held_back(scene.inside.cancel(task_id))) == "TASK_STATE_CANCELED"


async def test_end_is_shown_when_stored(scene: Scene) -> None:
    """D6: a reader is not told of an end a crash could still take back."""
    task_id = await scene.ended_task()
    assert state_of(await scene.held_back(scene.inside.get(task_id))) == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("operation", ["cancel", "send", "subscribe"])
async def test_end_is_a_reason_to_refuse_when_stored(scene: Scene, operation: str) -> None:
    """D6: a refusal because a task has ended tells of the end as much as any other reply."""
    task_id = await scene.ended_task()
    work = {
        "cancel": lambda: scene.inside.cancel(task_id),
        "send": lambda: scene.inside.send(message("more", task_id=task_id)),
        "subscribe": lambda: scene.inside.stream("SubscribeToTask", {"id": task_id}),
    }
    with pytest.raises(Refused):
        await scene.held_back(work[operation]())


async def test_message_that_gets_no_turn_is_told_when_the_end_is_stored(scene: Scene) -> None:
    """D6: so does the refusal of a message that still waited when the task ended."""
    task_id = (await scene.inside.send(message("hello", "work", returnImmediately=True)))["id"]
    waiting = asyncio.ensure_future(scene.inside.send(message("more", task_id=task_id)))
    await pass_turns(TURNS)
    scene.store.gate.clear()
    scene.finish.set()
    with pytest.raises(Refused):
        await scene.held_back(waiting)


async def test_resumed_stream_shows_only_what_is_stored(scene: Scene) -> None:
    """S2: the log a client resumes is the stored one."""
    task_id = await scene.ended_task()
    resumed = scene.inside.stream("SubscribeToTask", {"id": task_id}, RESUME | {"last-event-id": "0"})
    assert (await scene.held_back(resumed))[-1].is_final
