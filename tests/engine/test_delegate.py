"""Handing a part of a task to another agent."""

import asyncio

import pytest

from accord import Agent, Context, connect
from accord.model import TaskState


def agent_of(skill, name="Desk", **options):
    agent = Agent(name, **options)
    agent.skill(skill)
    return agent


async def test_the_answer_comes_back_and_progress_becomes_ours():
    async def measure(item: str, ctx: Context):
        await ctx.status("measuring")
        yield f"{item}: 3 m"

    desk = agent_of(measure)

    async def order(item: str, ctx: Context):
        reply = await ctx.delegate(desk, item)
        return f"ordered {reply.text}"

    async with connect(agent_of(order, "Shop")) as client:
        stream = client.stream("shelf")
        said = [e.status.message.text async for e in stream if getattr(e, "status", None) and e.status.message]
        assert (stream.reply.text, said) == ("ordered shelf: 3 m", ["Desk: measuring"])


async def test_a_question_of_the_other_agent_is_asked_of_our_client():
    """With its schema, and the answer is passed on; the other agent never learns that it was not its own client."""

    async def paint(item: str, ctx: Context):
        colour = await ctx.ask("Which colour?")
        coats = await ctx.ask("How many coats?", int)
        return f"{coats} coats of {colour}"

    desk = agent_of(paint)

    async def order(item: str, ctx: Context):
        return (await ctx.delegate(desk, item)).text

    async with connect(agent_of(order, "Shop")) as client:
        reply = await client.send("shelf")
        assert reply.question == "Which colour?"
        reply = await reply.answer("blue")
        assert reply.question == "How many coats?"
        assert reply.task.status.message.parts[1].data == {"type": "integer"}
        assert (await reply.answer("2")).text == "2 coats of blue"


async def test_a_part_that_fails_fails_the_whole_with_its_reason_unless_caught():
    async def refuse(item: str, ctx: Context):
        ctx.reject("out of stock")

    desk = agent_of(refuse)

    async def order(item: str, ctx: Context):
        await ctx.delegate(desk, item)

    async with connect(agent_of(order, "Shop")) as client:
        reply = await client.send("shelf")
        assert (reply.state, reply.task.status.message.text) == (TaskState.FAILED, "Desk declined: out of stock")


async def test_cancelling_the_whole_cancels_the_part():
    stopped, started = asyncio.Event(), asyncio.Event()

    async def forever(item: str):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    desk = agent_of(forever)

    async with connect(desk) as to_desk:

        async def order(item: str, ctx: Context):
            await ctx.delegate(to_desk, item)

        async with connect(agent_of(order, "Shop")) as client:
            reply = await client.send("shelf", wait=False)
            await asyncio.wait_for(started.wait(), 10)
            assert (await client.cancel(reply.task_id)).state is TaskState.CANCELED
            await asyncio.wait_for(stopped.wait(), 10)
        assert [task.state async for task in to_desk.list()] == [TaskState.CANCELED]


async def test_an_agent_that_is_not_there_fails_the_task(caplog):
    async def order(item: str, ctx: Context):
        await ctx.delegate("http://127.0.0.1:9", item)

    async with connect(agent_of(order, "Shop")) as client:
        assert (await client.send("shelf")).state is TaskState.FAILED
    assert "127.0.0.1:9" in caplog.text


@pytest.mark.parametrize("given", ["", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "nonsense"])
async def test_the_trace_travels_along(given):
    """W3C trace context: the same trace, a span of its own; a new trace if none came (OPS-4)."""
    from accord import observe

    async def look(item: str):
        return observe.current()

    desk = agent_of(look)

    async def order(item: str, ctx: Context):
        return (await ctx.delegate(desk, item)).text

    async with connect(agent_of(order, "Shop"), headers={"traceparent": given} if given else None) as client:
        version, trace, span, _flags = (await client.send("x")).text.split("-")
    assert (version, len(trace), len(span)) == ("00", 32, 16)
    if given.startswith("00"):
        assert trace == given.split("-")[1]
        assert span != given.split("-")[2]
