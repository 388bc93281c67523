"""What was said stays as it was said, whatever becomes of the objects it was said with."""

import asyncio
from typing import Any

import pytest

from accord import Agent, Artifact, Ask, Context, Limits, Message, Part
from accord.engine.log.entry import About
from accord.engine.log.feed import Feed
from accord.model import Role, Task, TaskState, TaskStatus, Unavailable, now_ms
from accord.store import Keep, Scope, open_store
from tests.reliability.harness import Refused, message, state_of
from tests.reliability.inside import Inside


async def opened(agent: Agent, **options: Any) -> tuple[Any, Inside]:
    app = agent.app(**options)
    await app.open()
    return app, Inside(app)


@pytest.mark.parametrize("how", ["part", "artifact", "artifact metadata", "status metadata", "reused part"])
async def test_what_the_agent_changes_after_it_was_said_changes_nothing(store: str, how: str) -> None:
    """A task is the fold of its events: the snapshot says what the stream has told."""
    agent = Agent("Fickle")

    @agent.skill
    async def fickle(text: str, ctx: Context) -> None:
        held: dict[str, Any] = {"a": {"b": 1}}
        if how == "part":
            ctx.artifact(Part(data=held))
        elif how == "artifact":
            ctx.write(Artifact(artifact_id="x", parts=[Part(data=held)]))
        elif how == "artifact metadata":
            ctx.artifact("x", metadata=held)
        elif how == "status metadata":
            ctx.status("x", metadata=held)
        else:
            part = Part(data=held)
            ctx.write(part)
            part.data = "another"
            ctx.write(part)
        held["a"]["b"] = object()  # no JSON any more

    app, inside = await opened(agent, store=store)
    task = await asyncio.wait_for(inside.send(message("go")), timeout=10)
    assert state_of(task) == "TASK_STATE_COMPLETED"
    artifact = task.get("artifacts", [{}])[0]
    found = {
        "part": lambda: artifact["parts"],
        "artifact": lambda: artifact["parts"],
        "artifact metadata": lambda: artifact["metadata"],
        "status metadata": lambda: task["metadata"],
        "reused part": lambda: [part["data"] for part in artifact["parts"]],
    }[how]()
    said = {"a": {"b": 1}}
    assert found in ([{"data": said}], said, [said, "another"])
    await app.close()


async def test_a_task_that_can_not_be_written_stops_no_other(store: str) -> None:
    """It is given up as if the disk had refused it, and everyone else is served."""
    agent = Agent("Fickle")

    @agent.skill
    async def spoil(received: Message, ctx: Context) -> str:
        if received.metadata is not None:
            received.metadata["spoil"] = object()
        return "done"

    app, inside = await opened(agent, store=store)
    spoilt = message("go")
    spoilt["message"]["metadata"] = {"spoil": True}
    with pytest.raises(Refused, match="could not store"):
        await asyncio.wait_for(inside.send(spoilt), timeout=10)
    assert state_of(await asyncio.wait_for(inside.send(message("go")), timeout=10)) == "TASK_STATE_COMPLETED"
    await asyncio.wait_for(app.close(), timeout=10)


async def test_the_key_of_what_can_not_be_written_is_not_written_either(store: str) -> None:
    """Else its sender, trying again, would be told that the lost message had been answered."""
    feed, scope = Feed(open_store(store), Limits()), Scope("", "me")
    await feed.open()
    bad, good = (
        feed.create(scope, Task(id=id_, status=TaskStatus(state=TaskState.SUBMITTED)), About("x"), 1) for id_ in ("bad", "good")
    )
    await feed.flush()
    for log in (bad, good):
        log.add(Message(message_id="m", role=Role.USER, parts=[Part(text="more")]))
        feed.keep(Keep(scope, log.task.id, b"", now_ms(), task_id=log.task.id))
        log.set_status(TaskState.COMPLETED)
    bad.task.metadata = {"spoilt": object()}
    told = await asyncio.gather(bad.stored(), good.stored(), return_exceptions=True)
    assert (type(told[0]), told[1]) == (Unavailable, None)
    assert await feed.kept(scope, "bad", 0) is None
    assert await feed.kept(scope, "good", 0) is not None
    assert await feed.store.load(scope, "bad") is not None
    await feed.close()


async def test_a_stored_task_is_read_with_the_limits_it_was_made_with(lasting: str) -> None:
    """What a full history did not take then is not in it after a restart, and a lower limit makes nothing unreadable."""
    agent = Agent("Talker")

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        await ctx.step(asyncio.sleep, 0)  # stored: what follows comes after the first snapshot
        for word in "abcde":
            ctx.artifact(word)
            await ctx.status(word)
        return await ctx.ask("More?")

    app, inside = await opened(agent, store=lasting, limits=Limits(history=3))
    before = await inside.send(message("go"))
    await app.close()
    app, inside = await opened(agent, store=lasting, limits=Limits(history=3, artifacts=2))
    after = await inside.get(before["id"])
    await app.close()
    assert after == before


async def test_a_repeated_send_leaves_nothing_behind(store: str) -> None:
    """A task that was only looked at for its answer is not one of those that are worked on."""
    agent = Agent("Asker")

    @agent.skill
    async def ask(text: str) -> Ask:
        return Ask("And?")

    app, inside = await opened(agent, store=store, limits=Limits(tasks=1))
    first = message("go")
    task = await inside.send(first, {"idempotency-key": "k"})
    assert (await inside.send(first, {"idempotency-key": "k"}))["id"] == task["id"]
    assert state_of(await inside.send(message("another"))) == "TASK_STATE_INPUT_REQUIRED"
    await app.close()
