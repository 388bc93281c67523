"""What happens to functions when the server stops, and when the client cancels."""

import asyncio
import base64
import contextlib
import logging
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Ask, Context, File
from accord.engine.log.entries import NOBODY, Attempt, Released, StepEnded, StepLeft
from accord.engine.runs import engine as engine_
from accord.model import Message, Part, Role, SendMessageRequest, TaskState, Unavailable
from accord.store.contract import Can, Namespace, ReceivedPost, Record
from accord.store.sqlite.store import SqliteStore
from tests.engine.processes import (
    Disk,
    Memory,
    Process,
    ended,
    log_of,
    message,
    reaches,
    state_of,
    text_of,
    told,
    until,
)
from tests.reliability.inside import pass_turns
from tests.reliability.ways import Refused


async def entries(process: Process, task_id: str) -> list[Any]:
    tasks = process.app._engine.tasks
    return await log_of(tasks.store, Namespace(process.app.agent.name), task_id)


# The server stops


class Unreadable(SqliteStore):
    """A file that can be opened, and then not be read."""

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        raise Unavailable("the store can't be read now")


async def test_what_fails_to_open_closes_what_it_had_opened(disk: Disk) -> None:
    """Else the file stays locked, or a heartbeat says that somebody is at work."""
    agent, closed = Agent("Shut"), list[str]()

    @agent.skill
    async def echo(text: str) -> str:
        return text

    @agent.lifespan
    async def life() -> AsyncIterator[None]:
        yield
        closed.append("lifespan")

    app = agent.app(store=Unreadable(disk.path))
    with pytest.raises(Unavailable):
        await app.open()
    await app.close()
    assert closed == ["lifespan"]
    async with disk.process(agent) as process:
        assert text_of(await process.send(message("hello"))) == "hello"


async def test_a_close_while_the_app_is_being_opened_waits_for_that(disk: Disk) -> None:
    """A program that gives up its start closes all of it: nothing is left that works on."""
    agent, before = Agent("Hurried"), asyncio.all_tasks()
    is_opening, may_open = asyncio.Event(), asyncio.Event()

    @agent.skill
    async def echo(text: str) -> str:
        return text

    @agent.lifespan
    async def life() -> AsyncIterator[None]:
        is_opening.set()
        await may_open.wait()
        yield

    app = agent.app(store=SqliteStore(disk.path))
    opening = asyncio.create_task(app.open())
    await is_opening.wait()
    opening.cancel()
    closing = asyncio.create_task(app.close())
    await pass_turns(3)
    may_open.set()
    await closing
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert asyncio.all_tasks() == before


class Unread(SqliteStore):
    """A file whose posts can't be read."""

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        raise Unavailable("the store can't be read now")


async def test_nothing_looks_at_the_store_after_a_stop(disk: Disk) -> None:
    """Also if it was away just then: what waits for it ends too."""
    agent, before = Agent("Still"), asyncio.all_tasks()

    @agent.skill
    async def echo(text: str) -> str:
        return text

    app = agent.app(store=Unread(disk.path))
    await app.open()
    await Process(app).send(message("hello"))
    await app.close()
    assert asyncio.all_tasks() == before


class Slow(SqliteStore):
    """A file that gives tasks back when the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_asked, self.may = asyncio.Event(), asyncio.Event()
        self.done: list[str] = []

    async def unclaim(self, key: int, pos: int) -> None:
        self.is_asked.set()
        await self.may.wait()
        await super().unclaim(key, pos)
        self.done.append("given back")

    async def close(self) -> None:
        self.done.append("closed")
        await super().close()


async def test_what_is_being_given_back_is_so_before_the_store_is_closed(disk: Disk) -> None:
    agent = Agent("Back")

    @agent.skill
    async def ask(text: str) -> Ask:
        return Ask("Which?")

    store = Slow(disk.path)
    app = agent.app(store=store)
    await app.open()
    process = Process(app)
    task = await process.send(message("go"))
    wrong = message("x", task_id=task["id"])
    wrong["message"]["contextId"] = "another"
    with pytest.raises(Refused, match="belongs to context"):
        await process.send(wrong)
    await until(store.is_asked.is_set)
    closing = asyncio.create_task(app.close())
    await until(lambda: app._engine.tasks.writer.is_closing)
    await pass_turns(100)
    store.may.set()
    await closing
    assert store.done == ["given back", "closed"]


@pytest.mark.parametrize("is_durable", [False, True])
async def test_a_stop_without_the_bytes_of_a_file_stores_no_end_that_has_it(
    disk: Disk, is_durable: bool
) -> None:
    """The file store is away. Nobody is told of a file that is lost: the next process makes it, or
    says that the task was interrupted.
    """
    agent, go_on = Agent("Files"), asyncio.Event()

    @agent.skill(durable=is_durable)
    async def give(text: str) -> File:
        await go_on.wait()
        return File(b"x" * 100_000, name="x.bin")

    folder = disk.path.with_name("files")
    folder.write_bytes(b"no folder")
    files = folder.as_uri()
    async with disk.process(agent, files=files) as process:
        task = await process.send(message("go", returnImmediately=True))
        reading = await process.subscribed(task["id"])
        go_on.set()
        log = process.app._engine.tasks.directory.live()[0]
        await until(lambda: log.state is TaskState.COMPLETED)
    with contextlib.suppress(Refused):
        assert "TASK_STATE_COMPLETED" not in str(await reading)
    folder.unlink()
    async with disk.process(agent, files=files) as process:
        if not is_durable:
            found = await process.get(task["id"])
            assert (state_of(found), found.get("artifacts")) == ("TASK_STATE_FAILED", None)
            return
        found = await reaches(process, task["id"], "TASK_STATE_COMPLETED")
        (part,) = found["artifacts"][0]["parts"]
        assert base64.b64decode(part["raw"]) == b"x" * 100_000


async def test_what_is_taken_up_after_all_runs_were_stopped_is_left_to_the_next_process(
    place: Disk | Memory,
) -> None:
    """A look for orphans may be under way when a server stops: the function it would call could
    record nothing.
    """
    agent, called = Agent("Late"), list[str]()

    @agent.skill(durable=True)
    async def echo(text: str) -> str:
        called.append(text)
        return text

    async with place.process(agent) as process:
        engine = process.app._engine
        (served,) = engine.runs.agents.values()
        engine.runs.is_closed = True
        late = Message(message_id="m", role=Role.USER, parts=[Part(text="late")])
        request = SendMessageRequest(message=late)
        receipt = engine.runs.start(served.default, request, Namespace("Late"), NOBODY).receipt
        await receipt.stored()
        receipt.close()
        assert [run.task for run in engine.runs.running()] == [None]  # its function is not called
    async with place.process(agent) as process:
        await reaches(process, late.task_id, TaskState.COMPLETED.value)
    assert called == ["late"]


@pytest.mark.parametrize("where", ["outside of steps", "in a step", "in a gather", "at a question"])
async def test_a_stop_cancels_the_function_and_records_nothing_of_it(
    place: Disk | Memory, where: str
) -> None:
    """`finally` and `async with` run like in any asyncio code; what they do is not taken for the
    function's work.
    """
    agent, world, number = Agent("Seats"), [], 1
    there = asyncio.Event()

    async def note(what: str) -> str:
        world.append(what)
        return what

    async def wait() -> str:
        there.set()
        if number == 1:
            await asyncio.Event().wait()
        return "waited"

    @agent.skill(durable=True)
    async def seat(text: str, ctx: Context) -> str:
        held = await ctx.step(note, "held")
        try:
            if where == "outside of steps":
                found = await wait()
            elif where == "in a step":
                found = await ctx.step(wait)
            elif where == "in a gather":
                found, _ = await ctx.gather(ctx.step(wait), ctx.step(note, "beside"))
            else:
                found = await ctx.ask("Buy it?")
        finally:
            world.append(f"finally, canceled by the client: {ctx.is_canceled}")
            if number == 1:
                ctx.status("cleaning up")
                with pytest.raises(asyncio.CancelledError):
                    await ctx.step(note, "never")
        return f"{held} {found}"

    async with place.process(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        if where == "at a question":
            await reaches(process, task["id"], "TASK_STATE_INPUT_REQUIRED")
        else:
            await until(there.is_set)
        await until(lambda: "beside" in world or where != "in a gather")
        await process.app._engine.tasks.flush()
    assert world[-1] == "finally, canceled by the client: False"
    number = 2
    async with place.process(agent) as process:
        if where == "at a question":
            await process.send(message("waited", task_id=task["id"]))
        task = await ended(process)
        log = await entries(process, task["id"])
    assert text_of(task) == "held waited", told(task)
    assert world.count("held") == 1
    assert "never" not in world
    assert not [entry for entry in log if isinstance(entry, StepLeft)]
    assert [
        said["parts"][0]["text"] for said in task["history"] if said["role"] == "ROLE_AGENT"
    ] in ([], ["Buy it?"])


@pytest.mark.parametrize("how", ["returns", "raises", "swallows and goes on"])
async def test_whatever_a_cancelled_function_does_its_task_goes_on(
    place: Disk | Memory, how: str
) -> None:
    """A function that is stopped has no say in its task any more: the next process calls it
    again.
    """
    agent, number, there = Agent("Stubborn"), 1, asyncio.Event()

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        try:
            there.set()
            if number == 1:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            if how == "raises":
                raise ValueError("no") from None
            if how == "swallows and goes on":
                ctx.write("not heard")
                await asyncio.sleep(0)
            return "cut short"
        return "whole"

    async with place.process(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(there.is_set)
    number = 2
    async with place.process(agent) as process:
        task = await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    assert text_of(task) == "whole"


async def test_a_step_under_way_has_the_grace_period_and_no_other_begins(
    place: Disk | Memory,
) -> None:
    """What is done is recorded; what comes after it is the next process's."""
    agent, begun, go_on = Agent("Lanes"), [], asyncio.Event()

    async def work(name: str) -> str:
        begun.append(name)
        await go_on.wait()
        return name

    @agent.skill(durable=True)
    async def lanes(text: str, ctx: Context) -> str:
        async def lane(name: str) -> list[str]:
            return [await ctx.step(work, f"{name}{n}") for n in range(3)]

        return " ".join([name for one in await ctx.gather(lane("a"), lane("b")) for name in one])

    async with contextlib.AsyncExitStack() as stack:
        process = await stack.enter_async_context(place.process(agent, grace_s=60))
        task = await process.send(message("go", returnImmediately=True))
        await until(lambda: len(begun) == 2)
        stopping = asyncio.create_task(stack.aclose())
        await until(lambda: process.app._engine.tasks.is_draining)
        go_on.set()
        async with asyncio.timeout(10):
            await stopping
    assert begun == ["a0", "b0"]
    async with place.process(agent) as process:
        assert text_of(await ended(process)) == "a0 a1 a2 b0 b1 b2"
        log = await entries(process, task["id"])
    assert sorted(begun) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert len([entry for entry in log if isinstance(entry, StepEnded)]) == 6


async def test_a_clean_release_is_no_death(place: Disk | Memory) -> None:
    """However often a server is restarted, what it runs is never suspected of having stopped it."""
    agent, there, number = Agent("Patient"), asyncio.Event(), 0

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        there.set()
        if number < 11:
            await asyncio.Event().wait()
        return "done"

    task: dict[str, Any] = {}
    for number in range(1, 11):  # noqa: B007  the function looks at it
        there.clear()
        async with place.process(agent) as process:
            task = task or await process.send(message("go", returnImmediately=True))
            await until(there.is_set)
    number = 11
    async with place.process(agent) as process:
        task = await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
        log = await entries(process, task["id"])
    assert text_of(task) == "done", told(task)
    assert [entry.count for entry in log if isinstance(entry, Attempt)] == [0] * 10
    assert len([entry for entry in log if isinstance(entry, Released)]) == 10


async def test_a_step_the_function_gave_up_does_not_hold_up_a_stop(disk: Disk) -> None:
    agent, working = Agent("Hasty"), asyncio.Event()

    async def slow() -> None:
        await asyncio.Event().wait()

    @agent.skill(durable=True)
    async def hurry(text: str, ctx: Context) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await ctx.step(slow)
        working.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(10):  # not the minute it has
        async with disk.process(agent, grace_s=60) as process:
            await process.send(message("go", returnImmediately=True))
            await until(working.is_set)


async def test_a_function_that_does_not_end_is_left_behind_and_named(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop does not wait for ever: the log says which skill it was, and where it stood."""
    monkeypatch.setattr(engine_, "LEAVE_S", 0.05)
    agent, there, go_on = Agent("Deaf"), asyncio.Event(), asyncio.Event()

    @agent.skill(durable=True)
    async def deaf(text: str, ctx: Context) -> None:
        there.set()
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await go_on.wait()  # where it stands

    async with asyncio.timeout(10):
        async with disk.process(agent) as process:
            await process.send(message("go", returnImmediately=True))
            await until(there.is_set)
    (said,) = [
        record.getMessage() for record in caplog.records if "ends without it" in record.getMessage()
    ]
    assert said.startswith(
        "skill deaf did not end when it was cancelled; the process ends without it; it was at File"
    )
    assert "in deaf" in said
    go_on.set()


# The client cancels


@pytest.mark.parametrize("where", ["outside of steps", "in a step", "at a question"])
async def test_only_a_cancel_of_the_client_is_one_for_the_function(
    place: Disk | Memory, where: str
) -> None:
    """`ctx.is_canceled` says whether to undo what was done; what is done to undo it is done, and
    not recorded.
    """
    agent, world, there = Agent("Seats"), [], asyncio.Event()

    async def give_back() -> str:
        world.append("given back")
        return "given back"

    async def wait() -> None:
        there.set()
        await asyncio.Event().wait()

    @agent.skill(durable=True)
    async def seat(text: str, ctx: Context) -> str:
        try:
            if where == "outside of steps":
                await wait()
            elif where == "in a step":
                await ctx.step(wait)
            return await ctx.ask("Buy it?")
        except asyncio.CancelledError:
            if ctx.is_canceled:
                await ctx.step(give_back)
            raise

    async with place.process(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        if where == "at a question":
            await reaches(process, task["id"], "TASK_STATE_INPUT_REQUIRED")
        else:
            await until(there.is_set)
        task = await process.cancel(task["id"])
        log = await entries(process, task["id"])
    assert (state_of(task), world) == ("TASK_STATE_CANCELED", ["given back"])
    assert not [entry for entry in log if isinstance(entry, StepEnded | StepLeft)]
    async with place.process(agent) as process:
        assert state_of(await process.get(task["id"])) == "TASK_STATE_CANCELED"
    assert world == ["given back"]


# In memory alone


async def test_in_memory_durable_work_gets_its_time_to_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No other process will go on with it: it is finished, and an operator is told once that it
    does not outlive the process.
    """
    agent, began, go_on = Agent("Again"), asyncio.Event(), asyncio.Event()

    async def slow(n: int) -> int:
        began.set()
        await go_on.wait()
        return n

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        return f"{await ctx.step(slow, 1)} {await ctx.step(slow, 2)}"

    app = agent.app()
    await app.open()
    sent = asyncio.create_task(Process(app).send(message("go")))
    await until(began.is_set)
    stopping = asyncio.create_task(app.close(60))
    await until(lambda: app._engine.tasks.is_draining)
    go_on.set()
    async with asyncio.timeout(10):
        assert text_of(await sent) == "1 2"
        await stopping
    again = agent.app()
    await again.open()
    await again.close()
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == ["tasks are kept in memory: durable work (work) ends with this process too"]


async def test_in_memory_an_open_question_ends_with_its_process() -> None:
    """Whoever reads along is told so, and a stop does not wait for an answer nobody can give."""
    agent, go_on = Agent("Again"), asyncio.Event()

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        if text == "late":
            await go_on.wait()
        return await ctx.ask("Name?")

    app = agent.app()
    await app.open()
    process = Process(app)
    tasks = [
        await process.send(message("early")),
        await process.send(message("late", returnImmediately=True)),
    ]
    logs = {log.ids.task_id: log for log in app._engine.tasks.directory.live()}
    stopping = asyncio.create_task(app.close(60))
    await until(lambda: app._engine.tasks.is_draining)
    go_on.set()
    async with asyncio.timeout(10):
        await stopping
    for task in tasks:
        status = logs[task["id"]].draft.status
        assert status.state is TaskState.FAILED
        assert status.message.text.startswith(
            "interrupted: the server stopped, and its tasks were in memory only"
        )
