"""An agent that goes on without an answer: whoever passed its question on notices, and an answer
that comes too late is not given to what it asks next.
"""

import asyncio

import pytest

from accord import Agent, Context, connect
from accord.client import Client
from accord.model import TaskState, UnsupportedOperation
from tests.engine.processes import message, reaches, text_of, told

from .relays import Gate, proxied, served


def cashier(gate: Gate, within: float | None = None) -> Agent:
    """Asks, and does not wait for the answer once the gate is open."""
    agent = Agent("Cashier")

    @agent.skill
    async def pay(text: str, ctx: Context) -> str:
        asking = asyncio.ensure_future(ctx.ask("Pay 10?", bool, within=within))
        opened = asyncio.ensure_future(gate.event.wait())
        await asyncio.wait({asking, opened}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return f"paid 10: {asking.result()}"
        asking.cancel()
        await asyncio.wait({asking})
        if text == "one":
            return "nobody answered"
        return f"paid 4,000: {await ctx.ask('Pay 4,000?', bool)}"

    return agent


def delegating(desk: Client) -> Agent:
    agent = Agent("Shop")

    @agent.skill
    async def buy(text: str, ctx: Context) -> str:
        return (await ctx.delegate(desk, text)).text

    return agent


@pytest.fixture(params=["relay", "delegate"])
async def passes_on(request: pytest.FixtureRequest):
    """An agent of ours before the cashier, and the cashier's gate."""
    gate = Gate()
    async with served(cashier(gate)) as address:
        if request.param == "relay":
            async with served(await proxied(address)) as front, connect(front) as client:
                yield client, gate, address
        else:
            desk = connect(address)
            async with desk, connect(delegating(desk)) as client:
                yield client, gate, address


async def until_said(client: Client, task_id: str, state: TaskState, text: str = "") -> None:
    """Wait until a task is in a state, with this message."""
    async with asyncio.timeout(30):
        while True:
            status = (await client.get(task_id)).status
            said = status.message.text if status.message is not None else ""
            if status.state is state and said.endswith(text):
                return
            await asyncio.sleep(0.02)


async def test_it_is_looked_now_and_then_whether_the_agent_still_asks(passes_on, monkeypatch):
    """Else the task would wait for input for ever."""
    monkeypatch.setattr("accord.client.questions.LOOK_S", 0.05)
    client, gate, _ = passes_on
    asked = await client.send("one")
    assert asked.state is TaskState.INPUT_REQUIRED
    gate.event.set()
    await until_said(client, asked.task_id, TaskState.COMPLETED)
    assert (await client.wait(asked.task_id)).text == "nobody answered"


@pytest.mark.parametrize("within", [None, 3600], ids=["no deadline", "an hour"])
async def test_it_is_looked_after_the_relay_has_died_too(disk, within, monkeypatch):
    """Also if there is a deadline, and that is far away."""
    monkeypatch.setattr("accord.client.questions.LOOK_S", 0.05)
    monkeypatch.setattr("accord.engine.runs.questions.WATCH_MS", 100)
    gate = Gate()
    async with served(cashier(gate, within)) as address:
        relay = await proxied(address)
        async with disk.dying(relay) as process:
            task = await process.send(message("one"))
            assert told(task) == "Pay 10?"
        gate.event.set()
        async with disk.process(relay) as process:
            done = await reaches(process, task["id"], "TASK_STATE_COMPLETED")
    assert text_of(done) == "nobody answered"


async def test_its_next_question_is_asked_here_too(passes_on, monkeypatch):
    monkeypatch.setattr("accord.client.questions.LOOK_S", 0.05)
    client, gate, _ = passes_on
    asked = await client.send("two")
    gate.event.set()
    await until_said(client, asked.task_id, TaskState.INPUT_REQUIRED, "Pay 4,000?")
    done = await client.send("no", task_id=asked.task_id)
    assert done.text == "paid 4,000: False"


async def test_a_late_answer_is_not_given_to_the_next_question(passes_on):
    """It was accepted here before the question was known here, though after it was asked there."""
    client, gate, address = passes_on
    asked = await client.send("two")
    assert asked.task.status.message.text.endswith("Pay 10?")
    gate.event.set()
    async with connect(address) as direct:
        [there] = [task async for task in direct.list()]

        await until_said(direct, there.id, TaskState.INPUT_REQUIRED, "Pay 4,000?")
        with pytest.raises(UnsupportedOperation):
            await client.send("yes", task_id=asked.task_id)
        await until_said(client, asked.task_id, TaskState.INPUT_REQUIRED, "Pay 4,000?")
        assert (await direct.get(there.id)).status.message.text == "Pay 4,000?", "not paid"
    done = await client.send("no", task_id=asked.task_id)
    assert done.text == "paid 4,000: False"
