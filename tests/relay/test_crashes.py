"""A relay that dies at any point of a task goes on with it; the agent never notices."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Agent, Context
from accord.client import Client, connect
from accord.engine.skills import definition_of
from accord.model import IDEMPOTENT, AgentCard, TaskState
from tests.engine.processes import Disk, Memory, Process, message, reaches, state_of, text_of, told
from tests.relay.relays import Gate, clerk, proxied, served, switched
from tests.reliability.ways import Refused

INPUT, COMPLETED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"
AUTH, FAILED, CANCELED = "TASK_STATE_AUTH_REQUIRED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED"


@asynccontextmanager
async def agent_and_disk(agent: Agent, disk: Disk, **options: Any) -> AsyncIterator[tuple]:
    """An agent that stays, and a relay of it to be served from this disk."""
    async with served(agent) as url, connect(url) as direct:
        yield await proxied(url, **options), direct


async def states(client: Client) -> list[TaskState]:
    return [task.status.state async for task in client.list()]


@pytest.fixture(params=[True, False], ids=["cursors", "no cursors"])
def cursors(request: pytest.FixtureRequest) -> bool:
    return request.param


async def test_a_task_under_way_goes_on(disk: Disk, cursors: bool) -> None:
    gate = Gate()
    async with agent_and_disk(clerk(gate, cursors=cursors), disk) as (relay, direct):
        async with disk.dying(relay) as process:
            first = await process.first("SendStreamingMessage", message("wait"))
            task_id = first.event["task"]["id"]
            await _until_text(process, task_id, "begun")
        gate.event.set()
        async with disk.process(relay) as process:
            task = await reaches(process, task_id, COMPLETED, seconds=30)
        assert text_of(task) == "begun done"
        assert await states(direct) == [TaskState.COMPLETED]


async def _until_text(process: Process, task_id: str, text: str) -> None:
    async with asyncio.timeout(30):
        while text_of(await process.get(task_id)) != text:  # noqa: ASYNC110  as a client
            await asyncio.sleep(0.01)


async def test_a_question_is_answered_after_a_restart(disk: Disk, cursors: bool) -> None:
    """Twice: before the answer, and after it."""
    async with agent_and_disk(clerk(cursors=cursors), disk) as (relay, direct):
        async with disk.dying(relay) as process:
            asked = await process.send(message("ask"))
            assert (state_of(asked), told(asked)) == (INPUT, "How many days?")
        async with disk.dying(relay) as process:
            assert state_of(await process.get(asked["id"])) == INPUT
            done = await process.send(message("three", task_id=asked["id"]))
        assert (state_of(done), text_of(done)) == (COMPLETED, "heard three")
        async with disk.process(relay) as process:
            assert text_of(await process.get(asked["id"])) == "heard three"
        assert await states(direct) == [TaskState.COMPLETED]


async def test_an_authorization_is_waited_for_after_a_restart(disk: Disk) -> None:
    gate = Gate()
    async with agent_and_disk(clerk(gate), disk) as (relay, _):
        async with disk.dying(relay) as process:
            task = await process.send(message("auth"))
            assert (state_of(task), told(task)) == (AUTH, "Sign in")
        async with disk.process(relay) as process:
            assert state_of(await process.get(task["id"])) == AUTH
            gate.event.set()
            done = await reaches(process, task["id"], COMPLETED, seconds=30)
        assert text_of(done) == "signed in"


async def test_a_waiting_task_is_cancelled_after_a_restart(disk: Disk) -> None:
    async with agent_and_disk(clerk(), disk) as (relay, direct):
        async with disk.dying(relay) as process:
            asked = await process.send(message("ask"))
        async with disk.process(relay) as process:
            assert state_of(await process.cancel(asked["id"])) == CANCELED
        assert await states(direct) == [TaskState.CANCELED]


async def test_a_stop_leaves_the_agent_alone(disk: Disk) -> None:
    """A relay that stops in good order goes on as one that was killed."""
    gate = Gate()
    async with agent_and_disk(clerk(gate), disk) as (relay, direct):
        async with disk.process(relay) as process:
            first = await process.first("SendStreamingMessage", message("wait"))
            task_id = first.event["task"]["id"]
            await _until_text(process, task_id, "begun")
        assert await states(direct) == [TaskState.WORKING]
        gate.event.set()
        async with disk.process(relay) as process:
            task = await reaches(process, task_id, COMPLETED, seconds=30)
        assert text_of(task) == "begun done"


@pytest.mark.parametrize("keys", [True, False], ids=["keys", "no keys"])
async def test_a_silent_agent_and_a_death(disk: Disk, keys: bool) -> None:
    """The task exists, and nobody knows what it is there: the message is sent again under its key
    if the agent knows keys; else the task fails, since it might be done twice.
    """
    gate, calls = Gate(), []
    agent = Agent("Slow")

    @agent.skill(first_word=True)
    async def think(text: str, ctx: Context) -> str:
        calls.append(text)
        await gate.event.wait()
        return "at last"

    @agent.card
    def edit(card: AgentCard) -> None:
        if not keys:
            card.capabilities.extensions = [
                e for e in card.capabilities.extensions if e.uri != IDEMPOTENT
            ]

    async with agent_and_disk(agent, disk, silent_s=0.05) as (relay, _):
        async with disk.dying(relay) as process:
            task = await process.send(message("go", returnImmediately=True))
            assert state_of(task) == "TASK_STATE_SUBMITTED"
        gate.event.set()
        async with disk.process(relay) as process:
            done = await reaches(process, task["id"], COMPLETED, FAILED, seconds=30)
    assert calls == ["go"]
    if keys:
        assert text_of(done) == "at last"
    else:
        assert (state_of(done), "is not known" in told(done)) == (FAILED, True)


async def test_a_key_leads_to_one_task_over_a_death(disk: Disk) -> None:
    """A relay that died before the first word knows nothing; the agent knows the key."""
    gate, begun, calls = Gate(), asyncio.Event(), []
    agent = Agent("Slow")

    @agent.skill
    async def think(text: str, ctx: Context) -> str:
        calls.append(text)
        begun.set()
        await gate.event.wait()
        return "done"

    async with agent_and_disk(agent, disk) as (relay, direct):
        request, key = message("go"), {"idempotency-key": "k-1"}
        async with disk.dying(relay) as process:
            sending = asyncio.create_task(process.call("SendMessage", request, key))
            await begun.wait()
        with pytest.raises(Refused):
            await sending
        gate.event.set()
        async with disk.process(relay) as process:
            task = await process.send(request, key)
            assert (state_of(task), text_of(task)) == (COMPLETED, "done")
        assert (calls, await states(direct)) == (["go"], [TaskState.COMPLETED])


async def test_an_answer_that_may_not_have_arrived(disk: Disk) -> None:
    """The relay dies between taking an answer and sending it on, to an agent without keys: if it
    did not arrive, the agent still asks, and so do we.
    """
    agent = clerk()

    @agent.card
    def edit(card: AgentCard) -> None:
        card.capabilities.extensions = []

    held = asyncio.Event()
    reached = asyncio.Event()
    async with served(agent) as url, connect(url) as direct:
        relay = await proxied(url)
        function: Any = definition_of(relay).skills["work"].function
        work = function.__self__  # the relay
        connect_ = work.connect

        async def slow(context: Any) -> Client:
            if held.is_set():
                reached.set()
                await asyncio.Event().wait()
            return await connect_(context)

        work.connect = slow
        async with disk.dying(relay) as process:
            asked = await process.send(message("ask"))
            held.set()
            answering = asyncio.create_task(process.send(message("lost", task_id=asked["id"])))
            await reached.wait()
            await process.get(asked["id"])  # all of it is stored
        with pytest.raises(Refused):
            await answering
        work.connect = connect_
        async with disk.process(relay) as process:
            again = await reaches(process, asked["id"], INPUT, seconds=30)
            assert told(again) == "How many days?"
            done = await process.send(message("three", task_id=asked["id"]))
            assert text_of(done) == "heard three"
        assert await states(direct) == [TaskState.COMPLETED]


async def test_a_cancel_asked_of_another_process() -> None:
    """The process that follows the task asks the agent; what that says reaches whoever asked."""
    gate, place = Gate(), Memory()
    async with switched(clerk(gate)) as agent:
        relay = await proxied(agent.url)
        async with place.process(relay) as owner, place.process(relay) as other:
            first = await owner.first("SendStreamingMessage", message("wait"))
            task_id = first.event["task"]["id"]
            await _until_text(owner, task_id, "begun")
            await agent.off()
            with pytest.raises(Refused, match="can't be reached"):
                await other.cancel(task_id)
            assert state_of(await other.get(task_id)) == "TASK_STATE_WORKING"
            await agent.on()
            assert state_of(await other.cancel(task_id)) == CANCELED


async def test_what_callers_see_is_the_same_after_a_death(disk: Disk, cursors: bool) -> None:
    """A stream resumed at the next process has each event once."""
    gate = Gate()
    async with agent_and_disk(clerk(gate, cursors=cursors), disk) as (relay, _):
        async with disk.dying(relay) as process:
            first = await process.first("SendStreamingMessage", message("wait"))
            task_id = first.event["task"]["id"]
            await _until_text(process, task_id, "begun")
        gate.event.set()
        resume = {"a2a-extensions": "urn:accord:resume:1", "last-event-id": "0"}
        async with disk.process(relay) as process:
            await reaches(process, task_id, COMPLETED, seconds=30)
            frames = await process.stream("SubscribeToTask", {"id": task_id}, resume)
        names = [next(iter(frame.event)) for frame in frames]
        assert names == [
            "task",
            "statusUpdate",
            "artifactUpdate",
            "artifactUpdate",
            "statusUpdate",
        ]
        assert [frame.id for frame in frames] == [1, 2, 3, 4, 5]
