"""Questions with a deadline, passed on by `Agent.proxy` and by `ctx.delegate`: the agent that asks
decides, and nobody else.
"""

import asyncio

import pytest

from accord import Agent, Context, Expired, connect
from accord.client import Client
from accord.engine.log import Log
from accord.model import (
    A2AError,
    Message,
    Part,
    Role,
    StatusUpdate,
    TaskState,
    TaskStatus,
    UnsupportedOperation,
)
from accord.testing import Clock
from tests.engine.processes import Disk, message, reaches, text_of
from tests.reliability.ways import Refused

from .relays import Gate, proxied, served
from .test_moved_on import delegating, until_said

LATE = "could be answered until .* and that has passed"


def cashier(within: float, gate: Gate) -> Agent:
    agent = Agent("Cashier")

    @agent.skill
    async def pay(text: str, ctx: Context) -> str:
        is_paid = await ctx.ask("Pay 10?", bool, within=within, default=False)
        if not is_paid:
            await gate.event.wait()
        return f"paid: {is_paid}"

    return agent


@pytest.fixture(params=["relay", "delegate"])
def before(request: pytest.FixtureRequest):
    """Return an agent of ours before the one at an address."""

    async def make(address: str, desk: Client) -> Agent:
        return await proxied(address) if request.param == "relay" else delegating(desk)

    return make


async def test_id_and_deadline_are_passed_on_and_so_is_the_answer(before):
    async with (
        served(cashier(60, Gate())) as address,
        connect(address) as desk,
        connect(await before(address, desk)) as client,
    ):
        asked = await client.send("go")
        [there] = [task async for task in desk.list()]
        [ours] = asked.questions
        [theirs] = (await desk.wait(there.id)).questions
        assert (ours.id, ours.expires_at) == (theirs.id, theirs.expires_at)
        done = await asked.answer(True)
        assert done.text == "paid: True"
        sent = (await desk.get(there.id)).history[-1]
        assert sent.metadata["urn:accord:question:1"] == {"id": theirs.id}


async def test_when_the_deadline_passes_the_agent_is_looked_at(before, monkeypatch):
    """The task here is what it is there, soon after; an answer that comes then pays nothing."""
    monkeypatch.setattr("accord.client.questions.PASSED_S", 0.05)
    gate = Gate()
    async with (
        served(cashier(0.5, gate)) as address,
        connect(address) as desk,
        connect(await before(address, desk)) as client,
    ):
        asked = await client.send("go")
        assert asked.state is TaskState.INPUT_REQUIRED
        await until_said(client, asked.task_id, TaskState.WORKING)
        with pytest.raises(UnsupportedOperation, match=LATE):
            await asked.answer(True)
        with pytest.raises(UnsupportedOperation, match=LATE):
            await client.send("true", task_id=asked.task_id)
        assert len((await client.get(asked.task_id)).history) == 2, "refused before it is stored"
        gate.event.set()
        await until_said(client, asked.task_id, TaskState.COMPLETED)
        assert (await client.wait(asked.task_id)).text == "paid: False"


async def test_a_late_answer_is_refused_alike_after_the_relay_has_died(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent works on, and has asked nothing since: the deadline is named, nothing is stored."""
    monkeypatch.setattr("accord.client.questions.PASSED_S", 0.05)
    gate = Gate()
    async with served(cashier(0.3, gate)) as address:
        relay = await proxied(address)
        async with disk.dying(relay) as process:
            task = await process.send(message("go"))
            await reaches(process, task["id"], "TASK_STATE_WORKING")
        async with disk.process(relay) as process:
            for _ in range(2):
                with pytest.raises(Refused, match=LATE):
                    await process.send(message("true", task_id=task["id"], returnImmediately=True))
            gate.event.set()
            done = await reaches(process, task["id"], "TASK_STATE_COMPLETED")
    assert text_of(done) == "paid: False"
    assert len(done["history"]) == 2


async def test_an_answer_that_comes_between_deadline_and_look_is_refused(before, monkeypatch):
    """Whoever passes it on does not decide: the agent does."""
    monkeypatch.setattr("accord.client.questions.PASSED_S", 3600)
    gate = Gate()
    async with (
        served(cashier(0.3, gate)) as address,
        connect(address) as desk,
        connect(await before(address, desk)) as client,
    ):
        asked = await client.send("go")
        [there] = [task async for task in desk.list()]
        await until_said(desk, there.id, TaskState.WORKING)
        with pytest.raises(UnsupportedOperation, match="not open"):
            await asked.answer(True)
        await until_said(client, asked.task_id, TaskState.WORKING)
        gate.event.set()
        await until_said(client, asked.task_id, TaskState.COMPLETED)
        assert (await client.wait(asked.task_id)).text == "paid: False"


async def test_a_late_answer_that_finds_the_end_ends_the_task_here(monkeypatch):
    """Nothing is written after that, which would be refused as another process's."""
    monkeypatch.setattr("accord.client.questions.PASSED_S", 3600)
    lost: list[Log] = []
    lose = Log.lose

    def losing(log: Log, error: A2AError | None = None) -> None:
        lost.append(log)
        lose(log, error)

    monkeypatch.setattr(Log, "lose", losing)
    gate = Gate()
    gate.event.set()
    async with (
        served(cashier(0.2, gate)) as address,
        connect(address) as desk,
        connect(await proxied(address)) as client,
    ):
        asked = await client.send("go")
        [there] = [task async for task in desk.list()]
        await until_said(desk, there.id, TaskState.COMPLETED)
        with pytest.raises(UnsupportedOperation, match="is completed"):
            await asked.answer(True)
        assert (await client.wait(asked.task_id)).text == "paid: False"
    assert not lost


async def test_a_question_that_was_answered_is_not_asked_again(before, monkeypatch):
    """When the next one's deadline has passed, the agent's stream begins with both."""
    monkeypatch.setattr("accord.client.questions.PASSED_S", 0.05)
    careful = Agent("Careful")

    @careful.skill
    async def pay(text: str, ctx: Context) -> str:
        amount = await ctx.ask("How much?", int)
        is_paid = await ctx.ask(f"Pay {amount}?", bool, within=0.5, default=False)
        return f"paid: {is_paid}"

    async with (
        served(careful) as address,
        connect(address) as desk,
        connect(await before(address, desk)) as client,
    ):
        asked = await (await client.send("go")).answer(10)
        assert asked.questions[0].text == "Pay 10?"
        await until_said(client, asked.task_id, TaskState.COMPLETED)
        task = await client.get(asked.task_id)
        said = [message.text for message in task.history if message.role is Role.AGENT]
        assert said == ["How much?", "Pay 10?"]


async def test_a_delegation_has_a_deadline_of_its_own():
    """The other agent's task is cancelled, and `Expired` raised."""
    shop, gate, clock = Agent("Shop"), Gate(), Clock()
    slow = Agent("Slow")

    @slow.skill
    async def work(text: str) -> str:
        await gate.event.wait()
        return text

    async with served(slow) as address, connect(address) as desk:

        @shop.skill(durable=True)
        async def buy(text: str, ctx: Context) -> str:
            try:
                return (await ctx.delegate(desk, text, within=3600)).text
            except Expired as error:
                return f"late: {error}"

        async with clock.connect(shop) as client:
            stream = client.stream("go")
            task = await anext(stream)
            async with asyncio.timeout(20):
                while not [task async for task in desk.list()]:  # noqa: ASYNC110  as a client without a stream
                    await asyncio.sleep(0.01)
            clock.advance(3601)
            done = await client.wait(task.id)
            assert done.text.startswith("late: the other agent was not done before 20")
            [there] = [task async for task in desk.list()]
            assert there.state is TaskState.CANCELED
            await stream.close()


async def test_a_question_without_an_id_is_answered_through_a_relay_too():
    """The relay's own id of it means nothing to the agent, which would refuse the answer."""
    agent = Agent("Bridge")

    @agent.skill
    async def book(text: str, ctx: Context) -> str | None:
        if len(ctx.history) > 1:
            return f"booked: {text}"
        asked = Message(message_id="m1", role=Role.AGENT, parts=[Part(text="Which room?")])
        status = TaskStatus(state=TaskState.INPUT_REQUIRED, message=asked)
        await ctx.say(StatusUpdate(task_id="", context_id="", status=status))
        return None

    async with served(agent) as address, connect(await proxied(address)) as client:
        asked = await client.send("go")
        assert asked.questions[0].text == "Which room?"
        assert (await asked.answer("Blue")).text == "booked: Blue"
