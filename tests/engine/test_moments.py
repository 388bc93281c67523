"""What passes: a store that is not sure for a moment, a message that is refused, a task that rests,
one that can't be stored.
"""

import asyncio

import pytest

from accord import Agent, Ask, Caller, Context, Message, Part, Retention
from accord.engine.ownership import directory
from accord.engine.runs import activity
from accord.engine.runs import retention as upkeep
from accord.model import Role, SendMessageRequest
from accord.operations.call import Call
from accord.operations.send import send_message
from tests.engine.processes import (
    Disk,
    Memory,
    ended,
    message,
    reaches,
    state_of,
    text_of,
    told,
    until,
)
from tests.reliability.inside import pass_turns
from tests.reliability.ways import Refused


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)


async def test_no_step_begins_while_another_process_may_have_the_task(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until that is known: mostly nothing was wrong, and then nothing has failed."""
    monkeypatch.setattr(activity, "_SURE_S", 0.005)
    agent, world, go_on = Agent("Careful"), [], asyncio.Event()

    async def effect() -> str:
        world.append("done")
        return "done"

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        world.append("called")
        await go_on.wait()
        return await ctx.step(effect)

    async with place.process(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(lambda: world)
        store = process.app._engine.tasks.store
        store.is_sure = False
        go_on.set()
        await pass_turns(100)
        assert world == ["called"]
        assert state_of(await process.get(task["id"])) == "TASK_STATE_WORKING"
        store.is_sure = True
        task = await ended(process)
    assert text_of(task) == "done", told(task)


async def test_a_task_whose_message_was_refused_is_as_free_as_before(place: Disk | Memory) -> None:
    """It was claimed for that message. Kept, its question would never be found unanswered, and no
    other process could have it.
    """
    agent = Agent("Asking")

    @agent.skill
    async def work(text: str) -> Ask:
        return Ask("Name?")

    async with place.process(agent) as process:
        task = await process.send(message("go"))
        params = message("Ada", task_id=task["id"])
        params["message"]["contextId"] = "another"
        with pytest.raises(Refused, match="belongs to context"):
            await process.send(params)
        process.app._engine.retention = Retention(unanswered_s=0)
        task = await reaches(process, task["id"], "TASK_STATE_FAILED")
    assert told(task) == "no answer: the question was open for too long"


async def test_what_resting_tasks_take_is_counted_right_also_when_one_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that rested here, was taken by another process and came back as its orphan would be
    counted twice for good.
    """
    monkeypatch.setattr(directory, "IDLE", 5)
    place, agent, number, calls = Memory(), Agent("Resting"), 1, []

    @agent.skill(durable=True)
    async def chat(text: str) -> Ask:
        calls.append(text)
        if text == "away" and number == 1:
            await asyncio.Event().wait()
        return Ask("More?")

    async with place.process(agent) as process:
        kept = process.app._engine.tasks.directory
        task = await process.send(message("here"))
        await until(lambda: not kept.live())
        async with place.dying(agent) as other:
            await other.send(message("away", task_id=task["id"], returnImmediately=True))
            await until(lambda: calls == ["here", "away"])
            number = 2
        await reaches(process, task["id"], "TASK_STATE_INPUT_REQUIRED")
        await until(lambda: not kept.live())
        assert kept._idle_bytes == sum(slot.log.size for slot in kept._idle.values())
        for _ in range(10):
            await process.send(message("more"))
        await until(lambda: not kept.live())
        assert len(kept._idle) == 5
        assert kept._idle_bytes == sum(slot.log.size for slot in kept._idle.values())


@pytest.mark.parametrize("what", ["a caller's name", "an answer"])
async def test_what_can_not_be_encoded_harms_nobody_else(disk: Disk, what: str) -> None:
    """It shares its commit with others, who would wait for ever while that is tried again."""
    agent, half = Agent("Strange"), "half a character: \ud800"

    @agent.skill
    async def work(text: str) -> str:
        return half if text == "strange" and what == "an answer" else f"{text} done"

    async with disk.process(agent) as process, asyncio.timeout(10):
        call = Call(caller=Caller(half)) if what == "a caller's name" else Call()
        said = Message(message_id="m", role=Role.USER, parts=[Part(text="strange")])
        strange = send_message(process.app._service, call, SendMessageRequest(message=said))
        others = [process.send(message(str(n))) for n in range(5)]
        _, *tasks = await asyncio.gather(strange, *others, return_exceptions=True)
        assert [text_of(task) for task in tasks] == [f"{n} done" for n in range(5)]
        assert text_of(await process.send(message("later"))) == "later done"
        assert not process.app._engine.tasks.trouble
