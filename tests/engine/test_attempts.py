"""Runs that may be what kills their process: counted, tried later and alone, given up in the
end.
"""

import asyncio
import time
from typing import Any

import pytest

from accord import Agent, Context
from accord.engine.log.entries import Attempt
from accord.engine.runs import recovery
from accord.model import now_ms
from accord.store.contract import Namespace
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
    monkeypatch.setattr(recovery, "PAUSE_S", 0.001)
    monkeypatch.setattr(recovery, "_CHECK_S", 0.001)


class Bomb:
    """A durable skill whose process dies when it has come to a certain place."""

    def __init__(self) -> None:
        self.agent = Agent("Bomb")
        self.is_harmless = False
        self.calls = 0
        self.there = asyncio.Event()
        self.steps: list[str] = []
        self.agent.skill(durable=True)(self.work)

    async def work(self, text: str, ctx: Context) -> str:
        self.calls += 1
        for name in list(self.steps):
            await ctx.step(self.note, name=name)
        self.there.set()
        if not self.is_harmless:
            await asyncio.Event().wait()
        return "done"

    async def note(self) -> None:
        pass

    async def die(self, place: Disk | Memory, task: dict[str, Any] | None = None) -> dict[str, Any]:
        """A process that dies when the function is there."""
        self.there.clear()
        async with place.dying(self.agent) as process:
            task = task or await process.send(message("go", returnImmediately=True))
            await until(self.there.is_set)
        return task


async def attempts(process: Process, task_id: str) -> list[int]:
    store = process.app._engine.tasks.store
    log = await log_of(store, Namespace(process.app.agent.name), task_id)
    return [entry.count for entry in log if isinstance(entry, Attempt)]


async def test_a_run_whose_process_dies_eight_times_is_tried_once_more_and_then_fails(
    place: Disk | Memory,
) -> None:
    """One attempt each, and nothing recorded in any: the ninth death is the last, and the client is
    told why.
    """
    bomb = Bomb()
    task: dict[str, Any] | None = None
    for _ in range(1 + recovery.MAX_ATTEMPTS):
        task = await bomb.die(place, task)
    assert task is not None
    async with place.process(bomb.agent) as process:
        found = await process.get(task["id"])
        assert await attempts(process, task["id"]) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert state_of(found) == "TASK_STATE_FAILED"
    assert told(found) == (
        "interrupted, and can't be resumed: the server died 9 times in a row while the agent worked on this"  # noqa: E501
    )
    assert bomb.calls == 9


async def test_anything_newly_recorded_begins_the_count_anew(place: Disk | Memory) -> None:
    """A run that gets on is no suspect, however often the process dies: it would be failed for
    nothing.
    """
    bomb = Bomb()
    task: dict[str, Any] | None = None
    for n in range(12):
        if n % 2:
            bomb.steps.append(f"step {n}")
        task = await bomb.die(place, task)
    assert task is not None
    bomb.is_harmless = True
    async with place.process(bomb.agent) as process:
        assert text_of(await reaches(process, task["id"], "TASK_STATE_COMPLETED")) == "done"
        assert await attempts(process, task["id"]) == [1, *[1, 2] * 5, 1]


async def test_a_clean_stop_between_deaths_does_not_count(place: Disk | Memory) -> None:
    bomb = Bomb()
    task = await bomb.die(place, await bomb.die(place))
    bomb.there.clear()
    async with place.process(bomb.agent) as process:
        await until(bomb.there.is_set)
    bomb.is_harmless = True
    async with place.process(bomb.agent) as process:
        await reaches(process, task["id"], "TASK_STATE_COMPLETED")
        assert await attempts(process, task["id"]) == [1, 2, 2]


async def test_a_death_is_blamed_on_those_who_recorded_something_shortly_before(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had been still for a while did not kill the process."""
    monkeypatch.setattr(recovery, "RECENT_MS", 40)
    monkeypatch.setattr(recovery, "MAX_ATTEMPTS", 0)  # the first blame is the end
    agent, number = Agent("Neighbours"), 1

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        await (asyncio.Event().wait() if number == 1 else asyncio.sleep(0))
        return f"{text} done"

    async with place.dying(agent) as process:
        still = await process.send(message("still", returnImmediately=True))
        since_ms = now_ms()
        await until(lambda: now_ms() > since_ms + 80)
        busy = await process.send(message("busy", returnImmediately=True))
        number = 2
    async with place.process(agent) as process:
        found = await reaches(process, still["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
        assert text_of(found) == "still done", told(found)
        assert "the server died" in told(await process.get(busy["id"]))


async def test_a_death_with_nobody_to_blame_counts_against_all(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something slow may be what kills: without this rule it would be tried for ever."""
    monkeypatch.setattr(recovery, "RECENT_MS", 0)
    bomb = Bomb()
    task = await bomb.die(place, await bomb.die(place))
    bomb.is_harmless = True
    async with place.process(bomb.agent) as process:
        await reaches(process, task["id"], "TASK_STATE_COMPLETED")
        assert await attempts(process, task["id"]) == [1, 2]


async def test_from_three_attempts_on_runs_start_after_a_pause_and_alone(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a killer takes no other run with it: the next starts when this one has recorded
    something, ended, or run a while.
    """
    agent, number, begun = Agent("Neighbours"), 1, []
    go_on = {name: asyncio.Event() for name in "abc"}

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        begun.append(text)
        if number < 4:
            await asyncio.Event().wait()
        await go_on[text].wait()
        return text

    tasks: list[dict[str, Any]] = []
    for number in (1, 2, 3):  # noqa: B007  the function looks at it
        begun.clear()
        async with place.dying(agent) as process:
            tasks = tasks or [
                await process.send(message(name, returnImmediately=True)) for name in "abc"
            ]
            await until(lambda: len(begun) == 3)
    number = 4
    monkeypatch.setattr(recovery, "PAUSE_S", 0.1)
    begun.clear()
    start = time.monotonic()
    async with place.process(agent) as process:
        for count in (1, 2, 3):
            await until(lambda wanted=count: len(begun) >= wanted)  # type: ignore[misc]
            assert time.monotonic() - start >= 0.1 * count
            assert len(begun) == count
            go_on[begun[-1]].set()
        for task in tasks:
            await reaches(process, task["id"], "TASK_STATE_COMPLETED")
            assert await attempts(process, task["id"]) == [1, 2, 3]


async def test_a_run_that_waits_for_its_turn_can_be_cancelled_and_holds_up_no_stop(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held, not lost: the client may cancel it, and the next process has it."""
    bombs = Bomb()
    tasks: list[dict[str, Any]] = []
    for _ in range(3):
        bombs.calls = 0
        async with place.dying(bombs.agent) as process:
            tasks = tasks or [
                await process.send(message("go", returnImmediately=True)) for _ in range(2)
            ]
            await until(lambda: bombs.calls == 2)
    monkeypatch.setattr(recovery, "PAUSE_S", 60.0)
    bombs.calls = 0
    async with place.process(bombs.agent) as process:
        assert state_of(await process.cancel(tasks[0]["id"])) == "TASK_STATE_CANCELED"
        assert state_of(await process.get(tasks[1]["id"])) == "TASK_STATE_WORKING"
    assert bombs.calls == 0
    monkeypatch.setattr(recovery, "PAUSE_S", 0.001)
    bombs.is_harmless = True
    async with place.process(bombs.agent) as process:
        await reaches(process, tasks[1]["id"], "TASK_STATE_COMPLETED")
        assert await attempts(process, tasks[1]["id"]) == [1, 2, 3]
        assert state_of(await process.get(tasks[0]["id"])) == "TASK_STATE_CANCELED"
