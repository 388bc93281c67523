"""A function that is called again: it takes the same way as before, or nothing is recorded of what
it does instead.
"""

import asyncio
from collections.abc import Mapping

import pytest

from accord import Agent, Context, Unavailable
from accord.engine.log.entries import StepLeft
from accord.engine.runs import recovery
from accord.engine.runs import retention as upkeep
from accord.engine.skills.context import Fail, Reject
from accord.model import TaskState, now_ms
from accord.store.contract import Namespace, Row
from accord.store.sqlite.store import SqliteStore
from tests.engine.processes import (
    Disk,
    Memory,
    Process,
    log_of,
    message,
    reaches,
    state_of,
    text_of,
    told,
    until,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage() for record in caplog.records if "can't go on" in record.getMessage()
    ]


async def nothing() -> None:
    pass


# Functions that have changed


async def test_a_mismatch_in_one_branch_records_nothing_of_the_others(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """Its siblings are cancelled by it: what they stopped waiting for, the version that recorded it
    still waits for.
    """
    agent, number, begun, recorded = Agent("Lanes"), 1, asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        if number < 3:
            await asyncio.Event().wait()
        return "done"

    @agent.skill(durable=True)
    async def lanes(text: str, ctx: Context) -> str:
        async def other() -> None:
            await begun.wait()
            if number == 2:
                await ctx.step(nothing, name="new")
            await ctx.step(nothing)
            recorded.set()

        return (await ctx.gather(ctx.step(slow), other()))[0]

    async with place.dying(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(recorded.is_set)
    number = 2
    begun.clear()
    async with place.process(agent):
        await until(lambda: errors(caplog))
    number = 3
    async with place.process(agent) as process:
        task = await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
        log = await log_of(process.app._engine.tasks.store, Namespace("Lanes"), task["id"])
    assert text_of(task) == "done"
    assert not [entry for entry in log if isinstance(entry, StepLeft)]


@pytest.mark.parametrize(
    "error", [KeyError("oh"), Fail("no"), Reject("no")], ids=["an error", "Fail", "Reject"]
)
async def test_a_function_that_raises_before_it_has_come_to_what_is_recorded_has_changed(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """A bug of a new version fails new tasks, and none that the old one is in the middle of."""
    agent, number, there = Agent("Versions"), 1, asyncio.Event()

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        if number == 2:
            raise error
        await ctx.step(nothing)
        there.set()
        if number == 1:
            await asyncio.Event().wait()
        return "done"

    async with place.dying(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(there.is_set)
    number = 2
    async with place.process(agent) as process:
        await until(lambda: errors(caplog))
        assert state_of(await process.get(task["id"])) == "TASK_STATE_WORKING"
    number = 3
    async with place.process(agent) as process:
        assert (
            text_of(await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"))
            == "done"
        )


@pytest.mark.parametrize("where", ["the same process", "the next process"])
async def test_a_plain_skill_that_has_changed_since_it_asked_is_tried_again(
    place: Disk | Memory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    """Its answer is stored, and nothing else was done with it: there is no reason to fail it that a
    durable one would not have.
    """
    monkeypatch.setattr(recovery, "MISMATCH_RETRY_S", 0.01)
    agent, number = Agent("Plain"), 1

    @agent.skill
    async def work(text: str, ctx: Context) -> str:
        if number == 2:
            await ctx.step(nothing, name="new")
        await ctx.step(nothing)
        return await ctx.ask("Name?")

    async with place.process(agent) as process:
        task = await process.send(message("go"))
    number = 2
    async with place.process(agent) as process:
        task = await process.send(message("Ada", task_id=task["id"], returnImmediately=True))
        await until(lambda: errors(caplog))
        assert state_of(await process.get(task["id"])) == "TASK_STATE_WORKING"
        if where == "the same process":
            number = 3
            assert (
                text_of(
                    await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
                )
                == "Ada"
            )
    number = 3
    async with place.process(agent) as process:
        assert (
            text_of(await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"))
            == "Ada"
        )


# Questions


async def test_an_authorization_that_comes_without_a_message_is_waited_for_again(
    place: Disk | Memory,
) -> None:
    """Nobody would call the function otherwise: what it waits for does not come from its client."""
    agent, calls, granted = Agent("Auth"), [], asyncio.Event()

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        calls.append(text)
        await ctx.require_auth("Sign in there", until=granted.wait())
        return "done"

    async with place.dying(agent) as process:
        task = await process.send(message("go"))
        assert state_of(task) == "TASK_STATE_AUTH_REQUIRED"
    async with place.process(agent) as process:
        await until(lambda: len(calls) == 2)
        assert state_of(await process.get(task["id"])) == "TASK_STATE_AUTH_REQUIRED"
        granted.set()
        assert (
            text_of(await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"))
            == "done"
        )


async def test_an_answer_in_the_moment_in_which_the_function_gave_up_waiting_is_none_in_the_next_attempt_either(  # noqa: E501
    place: Disk | Memory,
) -> None:
    """It is recorded as taken, and the function never got it: what it did instead is what it has to
    do again.
    """
    agent, number, ways = Agent("Hasty"), 1, list[str]()
    asking: asyncio.Task[None] | None = None

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        nonlocal asking
        asking = asyncio.current_task()
        try:
            async with asyncio.timeout(0.01 if number == 2 else None):
                ways.append(await ctx.ask("Name?"))
        except (TimeoutError, asyncio.CancelledError):
            asking.uncancel()
            ways.append("nobody")
        await ctx.step(nothing, name=ways[-1])
        if number == 1:
            await asyncio.Event().wait()
        return ways[-1]

    async with place.dying(agent) as process:
        task = await process.send(message("go"))
        (log,) = process.app._engine.tasks.directory.live()
        answering = asyncio.create_task(
            process.send(message("Ada", task_id=task["id"], returnImmediately=True))
        )
        while log.state is TaskState.INPUT_REQUIRED:  # noqa: ASYNC110  in the very turn of the loop in which it changes
            await asyncio.sleep(0)
        asking.cancel()
        await answering
        await until(lambda: ways)
        await process.app._engine.tasks.flush()
    assert ways == ["nobody"]
    number = 2
    async with place.process(agent) as process:
        assert (
            text_of(await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"))
            == "nobody"
        )


# Deaths, and what follows them


class Busy(SqliteStore):
    """A store whose first read fails."""

    has_failed = False

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        if not self.has_failed:
            self.has_failed = True
            raise Unavailable("the store can't be read now; try again later")
        return await super().read(after)


async def test_a_read_that_fails_when_work_is_taken_up_ends_nothing(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again: that the disk was slow once is no reason to fail durable work."""
    monkeypatch.setattr(recovery, "READ_RETRY_S", 0.01)
    agent, number, calls = Agent("Again"), 1, []

    @agent.skill(durable=True)
    async def work(text: str) -> str:
        calls.append(text)
        if number == 1:
            await asyncio.Event().wait()
        return "done"

    async with disk.dying(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(lambda: calls)
    number = 2
    store = Busy(disk.path)
    app = agent.app(store=store)
    await app.open()
    try:
        task = await reaches(Process(app), task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    finally:
        await app.close()
    assert store.has_failed
    assert text_of(task) == "done", told(task)


async def test_a_death_is_blamed_on_the_same_runs_however_many_there_are(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than are read at a time: those that had been still are not blamed because the one that
    had not is found later.
    """
    monkeypatch.setattr(recovery, "RECENT_MS", 400)
    monkeypatch.setattr(recovery, "MAX_ATTEMPTS", 0)  # the first blame is the end
    agent, number = Agent("Neighbours"), 1

    @agent.skill(durable=True)
    async def work(text: str) -> str:
        await (asyncio.Event().wait() if number == 1 else asyncio.sleep(0))
        return "done"

    async with place.dying(agent) as process:
        still = [await process.send(message("still", returnImmediately=True)) for _ in range(40)]
        since_ms = now_ms()
        await until(lambda: now_ms() > since_ms + 800)
        busy = await process.send(message("busy", returnImmediately=True))
    number = 2
    async with place.process(agent) as process:
        for task in still:
            found = await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
            assert text_of(found) == "done", told(found)
        assert "the server died" in told(await process.get(busy["id"]))


async def test_a_death_is_blamed_on_runs_of_the_process_that_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two have died: that something had just happened in one of them says nothing about who killed
    the other.
    """
    monkeypatch.setattr(recovery, "RECENT_MS", 400)
    monkeypatch.setattr(recovery, "MAX_ATTEMPTS", 0)
    monkeypatch.setattr(upkeep, "CHECK_S", 60.0)
    place, agent, number = Memory(), Agent("Neighbours"), 1

    @agent.skill(durable=True)
    async def work(text: str) -> str:
        await (asyncio.Event().wait() if number == 1 else asyncio.sleep(0))
        return "done"

    async with place.dying(agent) as one, place.dying(agent) as other:
        still = await one.send(message("still", returnImmediately=True))
        alone = await other.send(message("alone", returnImmediately=True))
        since_ms = now_ms()
        await until(lambda: now_ms() > since_ms + 800)
        await other.app._engine.tasks.store.beat()
        await until(lambda: now_ms() > since_ms + 1_000)
        busy = await one.send(message("busy", returnImmediately=True))
    number = 2
    async with place.process(agent) as process:
        assert (
            text_of(
                await reaches(process, still["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
            )
            == "done"
        )
        for task in (alone, busy):
            assert "the server died" in told(
                await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
            )
