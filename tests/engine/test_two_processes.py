"""Two processes on the same tasks: whoever is asked, the one that runs a task gets what is for it,
and everyone sees all of it.
"""

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from accord import Agent, Ask, Context, Limits
from accord.engine.ownership import directory
from accord.engine.skills import Cancellation, definition_of
from accord.model import TaskNotCancelable
from accord.store.contract import Namespace
from tests.engine.processes import Memory, Process, message, reaches, state_of, text_of, told, until
from tests.reliability.ways import Refused


class Shop:
    """An agent that is served twice, and what it does where."""

    def __init__(self) -> None:
        self.agent = Agent("Shop")
        self.go_on = asyncio.Event()
        self.calls: list[str] = []
        self.canceled: list[bool] = []
        for skill in (self.hold, self.ask, self.count, self.chat):
            self.agent.skill(skill, durable=skill is not self.chat)

    async def hold(self, text: str, ctx: Context) -> str:
        self.calls.append("hold")
        ctx.status("holding")
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.canceled.append(ctx.is_canceled)
            raise
        return f"held {text}"

    async def ask(self, text: str, ctx: Context) -> str:
        self.calls.append("ask")
        return f"{await ctx.ask('First?')} {await ctx.ask('Second?')}"

    async def count(self, text: str, ctx: Context) -> AsyncIterator[str]:
        for n in range(int(text)):
            if n == 5:
                self.calls.append("half")
                await self.go_on.wait()
            yield f"{n} "

    async def chat(self, text: str) -> Ask:
        self.calls.append(f"chat {text}")
        await self.go_on.wait()
        return Ask("More?", takes_waiting=True)


class Two:
    """The process that runs the tasks, and the other one."""

    def __init__(self, shop: Shop, owner: Process, other: Process) -> None:
        self.shop, self.owner, self.other = shop, owner, other


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    place, shop = Memory(), Shop()
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(place.process(shop.agent)) for _ in range(2)]
        yield Two(shop, *processes)


def runs(process: Process) -> int:
    return len(process.app._engine.runs.running())


async def begun(two: Two, text: str, skill: str) -> str:
    """A task that the owner runs."""
    task = await two.owner.send(message(text, skill, returnImmediately=True))
    await until(lambda: two.shop.calls)
    return str(task["id"])


async def test_a_task_is_seen_from_both(two: Two) -> None:
    task_id = await begun(two, "x", "hold")
    seen = await two.other.get(task_id)
    assert (state_of(seen), told(seen)) == ("TASK_STATE_WORKING", "holding")
    (listed,) = (await two.other.call("ListTasks", {}))["tasks"]
    assert listed["id"] == task_id
    two.shop.go_on.set()
    assert text_of(await reaches(two.other, task_id, "TASK_STATE_COMPLETED")) == "held x"
    assert two.shop.calls == ["hold"]


async def test_a_message_reaches_the_run_on_the_other_process(two: Two) -> None:
    """It waits for its turn in the one function there is; its sender is answered by what that makes
    of it.
    """
    task_id = await begun(two, "1", "chat")
    sent = asyncio.create_task(two.other.send(message("2", task_id=task_id)))
    await until(lambda: any(log.inbox for log in two.owner.app._engine.tasks.directory.live()))
    two.shop.go_on.set()
    async with asyncio.timeout(10):
        task = await sent
    assert (state_of(task), told(task)) == ("TASK_STATE_INPUT_REQUIRED", "More?")
    assert two.shop.calls == ["chat 1", "chat 2"]
    assert [
        said["parts"][0]["text"] for said in task["history"] if said["role"] == "ROLE_USER"
    ] == ["1", "2"]


async def test_an_answer_reaches_the_function_that_asked_on_the_other_process(two: Two) -> None:
    """The function is not called again as long as the process that runs it is alive."""
    task = await two.owner.send(message("go", "ask"))
    assert told(task) == "First?"
    task = await two.other.send(message("a", task_id=task["id"]))
    assert told(task) == "Second?"
    task = await two.other.send(message("b", task_id=task["id"]))
    assert text_of(task) == "a b"
    assert two.shop.calls == ["ask"]


async def test_a_message_behind_a_cancel_that_is_refused_is_read(two: Two) -> None:
    """While the cancel is dealt with, what was posted after it waits: it may be the end of all."""
    task_id = await begun(two, "1", "chat")
    is_asked, says = asyncio.Event(), asyncio.Event()

    async def on_cancel(cancellation: Cancellation) -> None:
        is_asked.set()
        await says.wait()
        raise TaskNotCancelable("not now")

    definition_of(two.shop.agent).skills["chat"].on_cancel = on_cancel
    cancelled = asyncio.create_task(two.other.cancel(task_id))
    await until(is_asked.is_set)
    sent = asyncio.create_task(two.other.send(message("2", task_id=task_id)))
    (log,) = two.owner.app._engine.tasks.directory.live()
    store = two.owner.app._engine.tasks.store
    async with asyncio.timeout(10):
        while len(await store.unread_posts({log.key})) < 2:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0.01)
        says.set()
        with pytest.raises(Refused, match="not now"):
            await cancelled
        await until(lambda: log.inbox)
        two.shop.go_on.set()
        assert told(await sent) == "More?"
    assert two.shop.calls == ["chat 1", "chat 2"]


async def test_a_cancel_reaches_the_function_on_the_other_process(two: Two) -> None:
    """It cleans up there, and knows that the client has cancelled."""
    task_id = await begun(two, "x", "hold")
    async with asyncio.timeout(10):
        task = await two.other.cancel(task_id)
    assert state_of(task) == "TASK_STATE_CANCELED"
    assert two.shop.canceled == [True]
    assert (runs(two.owner), runs(two.other)) == (0, 0)


async def test_a_stream_on_the_other_process_shows_everything(two: Two) -> None:
    """From the task as it is on, each event once and in order, to the end."""
    task_id = await begun(two, "10", "count")
    reading = await two.other.subscribed(task_id)
    two.shop.go_on.set()
    async with asyncio.timeout(10):
        frames = await reading
    first, *rest = frames
    text = text_of(first.event["task"])
    for frame in rest:
        if "artifactUpdate" in frame.event:
            update = frame.event["artifactUpdate"]
            text = (text if update.get("append") else "") + "".join(
                part["text"] for part in update["artifact"]["parts"]
            )
    assert text == "".join(f"{n} " for n in range(10))
    assert frames[-1].is_final
    assert [frame.id for frame in frames] == list(range(frames[0].id, frames[0].id + len(frames)))


async def test_a_streamed_message_to_the_other_process_shows_the_turn(two: Two) -> None:
    task = await two.owner.send(message("go", "ask"))
    frames = await two.other.stream("SendStreamingMessage", message("a", task_id=task["id"]))
    assert frames[-1].state == "TASK_STATE_INPUT_REQUIRED"
    frames = await two.other.stream("SendStreamingMessage", message("b", task_id=task["id"]))
    assert frames[-1].state == "TASK_STATE_COMPLETED"
    assert text_of(await two.owner.get(task["id"])) == "a b"


async def test_the_task_a_sender_gets_at_once_has_its_message(two: Two) -> None:
    """Also if another process runs it: what was asked before is not shown as if nothing had been
    said to it.
    """
    task_id = await begun(two, "1", "chat")
    task = await two.other.send(message("2", task_id=task_id, returnImmediately=True))
    assert [said["parts"][0]["text"] for said in task["history"]] == ["1", "2"]


async def test_a_key_used_on_both_processes_is_one_message(two: Two) -> None:
    """Whoever repeats a send after a lost answer may get to another process."""
    params, key = message("go", "ask"), {"idempotency-key": "k"}
    one = await two.owner.send(params, key)
    other = await two.other.send(params, key)
    assert one["id"] == other["id"]
    assert two.shop.calls == ["ask"]


async def test_a_message_is_refused_by_the_owner_with_its_own_error(two: Two) -> None:
    """What the process that runs the task says of it is what the sender is told, on whatever
    process it is.
    """
    task_id = await begun(two, "1", "chat")
    params = message("2", task_id=task_id)
    params["message"]["contextId"] = "another"
    with pytest.raises(Refused, match="belongs to context"):
        await two.other.send(params)
    two.shop.go_on.set()
    await reaches(two.owner, task_id, "TASK_STATE_INPUT_REQUIRED")
    await two.other.cancel(task_id)
    with pytest.raises(Refused, match="is canceled and takes no more messages"):
        await two.other.send(message("3", task_id=task_id))


async def test_too_many_waiting_messages_are_refused_through_the_other_process_too() -> None:
    place, shop = Memory(), Shop()
    limits = Limits(waiting_messages=1)
    async with (
        place.process(shop.agent, limits=limits) as owner,
        place.process(shop.agent, limits=limits) as other,
    ):
        task_id = await begun(Two(shop, owner, other), "1", "chat")
        await other.send(message("2", task_id=task_id, returnImmediately=True))
        with pytest.raises(Refused, match="1 messages already wait"):
            await other.send(message("3", task_id=task_id, returnImmediately=True))


async def test_what_a_dead_process_ran_goes_on_in_the_living_one() -> None:
    """It looks every second, and takes up what has no owner any more; a reader that stayed sees it
    go on.
    """
    place, shop = Memory(), Shop()
    async with place.process(shop.agent) as other:
        async with place.dying(shop.agent) as owner:
            task: dict[str, Any] = await owner.send(message("x", "hold", returnImmediately=True))
            await until(lambda: shop.calls)
            reading = await other.subscribed(task["id"])
        shop.go_on.set()
        task = await reaches(other, task["id"], "TASK_STATE_COMPLETED")
        async with asyncio.timeout(10):
            frames = await reading
    assert text_of(task) == "held x"
    assert frames[-1].is_final
    assert shop.calls == ["hold", "hold"]


async def test_a_task_of_a_newer_release_is_left_to_that(two: Two) -> None:
    """Who can't read its log neither answers nor cancels it, and says why."""
    two.shop.go_on.set()
    task = await two.owner.send(message("hello", "chat"))
    record = two.owner.app._engine.tasks.store._state.find(Namespace("Shop"), task["id"]).record
    await until(lambda: record.owner == 0)
    record.format += 1
    for asked in (
        two.other.send(message("more", task_id=task["id"])),
        two.other.cancel(task["id"]),
    ):
        with pytest.raises(Refused, match="written by a newer version"):
            await asked
    assert record.owner == 0
    assert (await two.other.get(task["id"]))["id"] == task["id"]


@pytest.mark.parametrize("kept", [0, 1_000], ids=["read anew", "kept"])
async def test_a_message_that_comes_while_its_task_is_claimed_is_read(
    two: Two, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """The store calls the task ours before we know that it is. The message does not wait until
    the work is over that the task was claimed for.
    """
    monkeypatch.setattr(directory, "IDLE", kept)
    two.shop.go_on.set()
    task_id = (await two.owner.send(message("one", "chat")))["id"]
    tasks = two.owner.app._engine.tasks
    two.shop.go_on.clear()
    record = tasks.store._state.find(Namespace("Shop"), task_id).record
    claim, unread_posts = tasks.directory.claim, tasks.store.unread_posts
    is_claimed, has_looked, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow_claim(*place: Any, **options: Any) -> Any:
        claimed = copy.copy(await claim(*place, **options))  # the task as it is now
        is_claimed.set()
        await go_on.wait()
        return claimed

    async def look(keys: Any) -> Any:
        found = await unread_posts(keys)
        if found:
            asyncio.get_running_loop().call_soon(has_looked.set)
        return found

    monkeypatch.setattr(tasks.directory, "claim", slow_claim)
    monkeypatch.setattr(tasks.store, "unread_posts", look)
    async with asyncio.timeout(10):
        here = asyncio.create_task(two.owner.send(message("two", task_id=task_id)))
        await is_claimed.wait()
        there = asyncio.create_task(two.other.send(message("three", task_id=task_id)))
        await has_looked.wait()
        go_on.set()
        await until(lambda: (record.posts, record.posts_read) == (1, 1))
        two.shop.go_on.set()
        await asyncio.gather(here, there)
    assert sorted(two.shop.calls) == ["chat one", "chat three", "chat two"]


async def test_an_event_that_comes_while_a_stream_is_opened_elsewhere_is_shown(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process is woken before it has anything to add the event to."""
    task_id = await begun(two, "x", "hold")
    tasks = two.other.app._engine.tasks
    shown = tasks.reader.shown
    is_opened, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*values: Any) -> Any:
        found = await shown(copy.copy(values[0]), *values[1:])
        is_opened.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(tasks.reader, "shown", slow)
    async with asyncio.timeout(10):
        reading = asyncio.create_task(two.other.subscribed(task_id))
        await is_opened.wait()
        two.shop.go_on.set()
        await reaches(two.owner, task_id, "TASK_STATE_COMPLETED")
        await until(lambda: tasks.views.remote._pump.is_idle)
        go_on.set()
        frames = await (await reading)
    assert frames[-1].state == "TASK_STATE_COMPLETED"
