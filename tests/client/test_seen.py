"""`client.subscribe(id, seen=task)`: going on with a task of which much is known already."""

import asyncio

import pytest

from accord import Agent, Context
from accord.client import Gap
from accord.client.streams.seen import apply, own
from accord.model import RESUME, ArtifactUpdate, Task, TaskState


def slow_agent(go_on: asyncio.Event, *, cursors: bool, streams: bool = True) -> Agent:
    agent = Agent("Test agent")

    @agent.skill
    async def count(text: str, ctx: Context):
        yield "0 "
        yield "1 "
        await ctx.status("half")
        await go_on.wait()
        yield "2 "
        await ctx.status("nearly")
        yield "3 "

    @agent.card
    def edit(card):
        offered = card.capabilities.extensions
        card.capabilities.extensions = [e for e in offered if cursors or e.uri != RESUME]
        card.capabilities.streaming = streams

    return agent


def texts(task: Task) -> list[str]:
    return [artifact.text for artifact in task.artifacts]


async def until_half(client) -> tuple[Task, str]:
    """The task as far as a reader saw it that is gone now, and its cursor."""
    seen: Task | None = None
    async with client.stream("go") as stream:
        async for event in stream:
            if seen is None:
                seen = own(event)
            else:
                apply(seen, event)
            if seen.status.message is not None and seen.status.message.text == "half":
                break
        return seen, stream.cursor


@pytest.mark.parametrize("cursors", [True, False])
@pytest.mark.parametrize("when", ["working", "ended"])
async def test_a_reader_of_another_life_misses_nothing(reach, when, cursors):
    """What happened in between comes once, with or without cursors, also of a task that has
    ended; the fold of both lives is the task.
    """
    go_on = asyncio.Event()
    async with reach(slow_agent(go_on, cursors=cursors)) as client:
        seen, cursor = await until_half(client)
        if when == "ended":
            go_on.set()
            await client.wait(seen.id)
        later = client.subscribe(seen.id, after=cursor, seen=seen)
        first = asyncio.ensure_future(anext(later))
        go_on.set()
        events = [await first] + [event async for event in later]
        now = await client.get(seen.id)
    for event in events:
        apply(seen, event)
    assert not any(isinstance(event, Gap | Task) for event in events)
    assert texts(seen) == texts(now) == ["0 1 2 3 "]
    assert all(event.append for event in events if isinstance(event, ArtifactUpdate))
    assert seen.status.state is TaskState.COMPLETED


async def test_an_agent_without_streams_is_asked(reach_new):
    """Where there is nothing to subscribe to, the task is asked for."""
    go_on = asyncio.Event()
    async with reach_new(slow_agent(go_on, cursors=False, streams=False)) as client:
        seen, _ = await until_half(client)
        go_on.set()
        later = client.subscribe(seen.id, seen=seen)
        async for event in later:
            apply(seen, event)
    assert (texts(seen), seen.status.state) == (["0 1 2 3 "], TaskState.COMPLETED)


async def test_what_can_not_be_joined_comes_as_a_whole(reach_new):
    """An artifact that is another now replaces the one that was seen."""
    go_on = asyncio.Event()
    async with reach_new(slow_agent(go_on, cursors=False)) as client:
        seen, _ = await until_half(client)
        seen.artifacts[0].parts[0].text = "something else"
        go_on.set()
        later = client.subscribe(seen.id, seen=seen)
        events = [event async for event in later]
    whole = next(event for event in events if isinstance(event, ArtifactUpdate))
    assert not whole.append
    assert whole.artifact.text.startswith("0 1 ")


async def test_nothing_new_is_told_of_what_is_known(reach_new):
    """A status recorded at another time is the same status."""

    async def ask(text: str, ctx: Context) -> str:
        return await ctx.ask("Where?")

    async with reach_new(ask) as client:
        reply = await client.send("hello")
        seen = own(reply.task)
        seen.status.timestamp = "2020-01-01T00:00:00Z"
        later = client.subscribe(seen.id, seen=seen)
        waiting = asyncio.ensure_future(anext(later))
        await reply.answer("Rome")
        events = [await waiting] + [event async for event in later]
        states = [e.status.state for e in events if not isinstance(e, ArtifactUpdate)]
    assert TaskState.INPUT_REQUIRED not in states
    assert states[-1] is TaskState.COMPLETED
