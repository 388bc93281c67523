"""A run that was cut off goes on where it was: what is recorded is neither done nor asked nor said
again.
"""

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Ask, Context, Message
from accord.engine.durable.steps import StepFailed
from accord.store.contract import Item
from accord.store.sqlite.store import SqliteStore
from tests.engine.processes import (
    Disk,
    Memory,
    Process,
    Twice,
    ended,
    message,
    reaches,
    state_of,
    text_of,
    told,
    until,
)

# At a question


async def test_an_answer_after_a_restart_continues_the_function(place: Disk | Memory) -> None:
    """The function is called again from the top and gets the answers it had; the client sees one
    task.
    """
    agent = Agent("Trips")

    @agent.skill
    async def trip(to: str, ctx: Context) -> AsyncIterator[str]:
        yield f"To {to}"
        days = await ctx.ask("How many days?", int)
        yield f", {days} days"
        hotel = await ctx.ask("A hotel?", bool)
        yield ", hotel" if hotel else ", no hotel"

    async with place.process(agent) as process:
        task = await process.send(message("Rome"))
    async with place.process(agent) as process:
        task = await process.send(message("3", task_id=task["id"]))
        assert told(task).startswith("A hotel?")
    async with place.dying(agent) as process:
        assert state_of(await process.get(task["id"])) == "TASK_STATE_INPUT_REQUIRED"
    async with place.process(agent) as process:
        task = await process.send(message("yes", task_id=task["id"]))
    assert (state_of(task), text_of(task)) == ("TASK_STATE_COMPLETED", "To Rome, 3 days, hotel")
    assert [said["parts"][0]["text"] for said in task["history"]] == [
        "Rome",
        "How many days?",
        "3",
        "A hotel?",
        "yes",
    ]


async def test_a_wrong_answer_and_its_correction_are_one_question_after_a_restart(
    disk: Disk,
) -> None:
    """Asking again after a wrong answer is the same ask."""
    agent = Agent("Trips")

    @agent.skill
    async def trip(to: str, ctx: Context) -> str:
        days = await ctx.ask("How many days?", int)
        nights = await ctx.ask("How many nights?", int)
        return f"{days} days, {nights} nights"

    async with disk.process(agent) as process:
        task = await process.send(message("Rome"))
        task = await process.send(message("many", task_id=task["id"]))
        assert "does not fit" in told(task)
    async with disk.process(agent) as process:
        task = await process.send(message("3", task_id=task["id"]))
        assert "nights" in told(task)
    async with disk.process(agent) as process:
        assert text_of(await process.send(message("2", task_id=task["id"]))) == "3 days, 2 nights"


async def test_the_whole_message_can_be_the_answer_after_a_restart(disk: Disk) -> None:
    agent = Agent("Forms")

    @agent.skill
    async def form(text: str, ctx: Context) -> Any:
        answer = await ctx.ask("Fill in", Message)
        return ctx.message.message_id == answer.message_id and answer.parts[0].data

    async with disk.process(agent) as process:
        task = await process.send(message("go"))
    async with disk.process(agent) as process:
        answer = {
            "messageId": "the-answer",
            "role": "ROLE_USER",
            "parts": [{"data": {"x": 1}}],
            "taskId": task["id"],
        }
        task = await process.send({"message": answer})
    assert task["artifacts"][0]["parts"][0]["data"] == {"x": 1}


async def test_a_message_id_used_twice_in_a_task_does_not_confuse_the_messages(
    twice: Twice,
) -> None:
    @twice.agent.skill(durable=True)
    async def book(to: str, ctx: Context) -> str:
        nights = await ctx.ask("How many nights?", int)
        await twice.die()
        return f"{to}: {nights}"

    def named(text: str, **more: Any) -> dict[str, Any]:
        params = message(text, **more)
        params["message"]["messageId"] = "1"
        return params

    twice.number = 1
    async with twice.place.dying(twice.agent) as process:
        task = await process.send(named("Rome"))
        await process.send(named("3", task_id=task["id"], returnImmediately=True))
        await until(twice._there.is_set)
        twice.number = 2
    async with twice.place.process(twice.agent) as process:
        assert text_of(await ended(process)) == "Rome: 3"


async def test_a_question_the_function_stopped_waiting_for_is_not_open(twice: Twice) -> None:
    """The task works again, in this process and, without asking again, in the next."""

    @twice.agent.skill(durable=True)
    async def greet(text: str, ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.05):
                name = await ctx.ask("Name?")
        except TimeoutError:
            name = "nobody"
        await twice.die()
        return f"for {name}"

    before, after = await twice.run()
    assert state_of(before) == "TASK_STATE_WORKING"
    assert text_of(after) == "for nobody"
    assert [said["role"] for said in after["history"]] == ["ROLE_USER", "ROLE_AGENT"]


async def test_questions_of_branches_are_asked_one_after_the_other_and_found_again(
    place: Disk | Memory,
) -> None:
    """A message can't say which of two questions it answers: the second is asked when the first is
    answered.
    """
    agent = Agent("Forms")

    @agent.skill(durable=True)
    async def form(text: str, ctx: Context) -> str:
        name, town = await ctx.gather(ctx.ask("Name?"), ctx.ask("Town?"))
        return f"{name} of {town}"

    async with place.dying(agent) as process:
        task = await process.send(message("go"))
        assert told(task) == "Name?"
    async with place.dying(agent) as process:
        task = await process.send(message("Ada", task_id=task["id"]))
        assert told(task) == "Town?"
    async with place.process(agent) as process:
        assert text_of(await process.send(message("Rome", task_id=task["id"]))) == "Ada of Rome"


# At work


async def test_steps_are_done_once_over_restarts(place: Disk | Memory) -> None:
    """Their results are in the log before the function goes on, and come back as what they were."""
    agent, done = Agent("Trips"), []

    @dataclass
    class Flight:
        number: str
        price: int

    async def find(to: str) -> Flight:
        done.append("find")
        return Flight("AZ 1", 120)

    def book(flight: Flight) -> str:
        done.append("book")
        return f"booked {flight.number}"

    @agent.skill
    async def trip(to: str, ctx: Context) -> str:
        flight = await ctx.step(find, to)
        assert isinstance(flight, Flight)
        if not await ctx.ask(f"Book for {flight.price}?", bool):
            ctx.reject("as you wish")
        return str(await ctx.step(book, flight))

    async with place.process(agent) as process:
        task = await process.send(message("Rome"))
    async with place.process(agent) as process:
        assert text_of(await process.send(message("yes", task_id=task["id"]))) == "booked AZ 1"
    assert done == ["find", "book"]


async def test_a_step_that_failed_for_good_fails_the_same_again(twice: Twice) -> None:
    """What a step raises in the end is recorded, and raised in every attempt as the same
    StepFailed, without calling it.
    """
    caught: list[tuple[str, str, str]] = []

    async def pay() -> None:
        twice.done.append("pay")
        raise ValueError("card declined")

    @twice.agent.skill(durable=True)
    async def shop(text: str, ctx: Context) -> str:
        try:
            await ctx.step(pay, retries=1)
        except StepFailed as error:
            caught.append((error.type, error.message, type(error.__cause__).__name__))
        await twice.die()
        return "over"

    _, after = await twice.run()
    assert text_of(after) == "over"
    assert twice.done == ["pay"] * 2
    assert caught == [
        ("ValueError", "card declined", "ValueError"),
        ("ValueError", "card declined", "NoneType"),
    ]


async def test_branches_keep_their_results_whichever_comes_first(twice: Twice) -> None:
    """A member of gather is known by its place: nothing is swapped if it comes earlier or later the
    next time.
    """

    async def book(city: str) -> str:
        twice.done.append(city)
        return f"ticket to {city}"

    @twice.agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def one(city: str, is_late: bool) -> str:
            if is_late:
                await until(lambda: len(twice.done) == 1)
            return f"{city}: {await ctx.step(book, city)}"

        found = await ctx.gather(one("Rome", twice.is_first), one("Oslo", False))
        await twice.die()
        return ", ".join(found)

    _, after = await twice.run()
    assert text_of(after) == "Rome: ticket to Rome, Oslo: ticket to Oslo", told(after)
    assert twice.done == ["Oslo", "Rome"]


async def test_a_branch_that_is_slow_to_come_to_its_steps_is_no_mismatch(twice: Twice) -> None:
    """What others do meanwhile is new in their branches, and says nothing about this one."""
    late = asyncio.Event()

    async def note(what: str) -> str:
        twice.done.append(what)
        return what

    @twice.agent.skill(durable=True)
    async def watch(text: str, ctx: Context) -> str:
        async def slow() -> str:
            if not twice.is_first:
                await late.wait()
            return str(await ctx.step(note, "slow"))

        async def quick() -> list[str]:
            found = [await ctx.step(note, f"quick {n}") for n in range(3)]
            if twice.is_first:
                await until(lambda: "slow" in twice.done)
            await twice.die()
            found.append(await ctx.step(note, "new"))
            late.set()
            return found

        one, two = await ctx.gather(slow(), quick())
        return f"{one} {len(two)}"

    _, after = await twice.run()
    assert text_of(after) == "slow 4", told(after)
    assert len(twice.done) == len(set(twice.done)) == 5


async def test_a_stream_shows_how_a_run_goes_on_after_a_stop(disk: Disk) -> None:
    """The first new output sends its artifact as a whole: readers replace what they had, and
    nothing is there twice.
    """
    agent, done, gate = Agent("Orders"), [], asyncio.Event()

    async def reserve(item: str) -> str:
        done.append(f"reserve {item}")
        return f"{item} reserved"

    @agent.skill(durable=True)
    async def order(item: str, ctx: Context) -> AsyncIterator[str]:
        ctx.status("reserving")
        yield "Order: "
        reserved = await ctx.step(reserve, item)
        done.append("working")
        await gate.wait()
        yield reserved
        yield ", " + await ctx.step(reserve, "box")

    async with disk.process(agent) as process:
        task = await process.send(message("nut", returnImmediately=True))
        await until(lambda: "working" in done)
    async with disk.process(agent) as process:
        reading = await process.subscribed(task["id"])
        gate.set()
        updates = [
            frame.event["artifactUpdate"]
            for frame in await reading
            if "artifactUpdate" in frame.event
        ]
        task = await process.get(task["id"])
    assert [(text_of({"artifacts": [u["artifact"]]}), u.get("append", False)) for u in updates] == [
        ("Order: nut reserved", False),
        (", box reserved", True),
    ]
    assert (state_of(task), text_of(task)) == (
        "TASK_STATE_COMPLETED",
        "Order: nut reserved, box reserved",
    )
    assert [what for what in done if what != "working"] == ["reserve nut", "reserve box"]
    assert [said["parts"][0]["text"] for said in task["history"]] == ["nut", "reserving"]


@pytest.mark.parametrize("how", ["stopped", "died"])
async def test_messages_that_waited_for_a_run_get_their_turn_in_the_next_process(
    place: Disk | Memory, how: str
) -> None:
    """An accepted message is kept, in its place in the queue."""
    agent, gate, working = Agent("Chat"), asyncio.Event(), asyncio.Event()
    heard: list[str] = []

    @agent.skill(durable=True)
    async def chat(text: str) -> str | Ask:
        working.set()
        await gate.wait()
        heard.append(text)
        return Ask("More?", takes_waiting=True) if text != "c" else "".join(heard)

    async with place.process(agent) if how == "stopped" else place.dying(agent) as process:
        task = await process.send(message("a", returnImmediately=True))
        await until(working.is_set)
        for text in "bc":
            await process.send(message(text, task_id=task["id"], returnImmediately=True))
    gate.set()
    async with place.process(agent) as process:
        assert text_of(await reaches(process, task["id"], "TASK_STATE_COMPLETED")) == "abc"


@pytest.mark.parametrize("how", ["stopped", "died"])
async def test_a_plain_run_at_work_fails_when_its_process_ends(
    place: Disk | Memory, how: str
) -> None:
    """Side effects nobody agreed to repeat are not repeated."""
    agent, done = Agent("Plain"), []

    @agent.skill
    async def plain(text: str) -> None:
        done.append("working")
        await asyncio.Event().wait()

    async with place.process(agent) if how == "stopped" else place.dying(agent) as process:
        task = await process.send(message("x", returnImmediately=True))
        await until(lambda: done)
    async with place.process(agent) as process:
        task = await process.get(task["id"])
    assert (state_of(task), told(task).partition(":")[0]) == ("TASK_STATE_FAILED", "interrupted")
    assert done == ["working"]


async def test_an_authorization_is_waited_for_again_after_a_restart(place: Disk | Memory) -> None:
    agent, granted = Agent("Guard"), asyncio.Event()

    async def wait() -> str:
        await granted.wait()
        return "token"

    @agent.skill
    async def enter(text: str, ctx: Context) -> str:
        return f"got {await ctx.require_auth('sign in', until=wait())}"

    async with place.dying(agent) as process:
        task = await process.send(message("go"))
        assert state_of(task) == "TASK_STATE_AUTH_REQUIRED"
    async with place.process(agent) as process:
        granted.set()
        task = await reaches(process, task["id"], "TASK_STATE_COMPLETED")
    assert text_of(task) == "got token"
    assert sum(said["role"] == "ROLE_AGENT" for said in task["history"]) == 1


# A death anywhere


class Watched(SqliteStore):
    """Keeps a copy of its file after every commit: what a process that dies there leaves behind."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.copies: list[Path] = []

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        stored = await super().commit(items)
        copy = self.path.with_name(f"after-{len(self.copies)}.db")
        with (
            contextlib.closing(sqlite3.connect(self.path)) as now,
            contextlib.closing(sqlite3.connect(copy)) as then,
        ):
            now.backup(then)
        self.copies.append(copy)
        return stored


PLACES = {"car", "map", "bag", "flight", "seat", "hotel", "room", "breakfast"}


def traveller(done: list[str], *, slow: str = "") -> Agent:
    """Three journeys at once. Where one step is slow, the others are there first."""
    agent = Agent("Traveller")

    async def do(what: str) -> str:
        for _ in range(40 if what == slow else 1):
            await asyncio.sleep(0.001)
        done.append(what)
        return what

    @agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def journey(*places: str) -> str:
            return " ".join([await ctx.step(do, place) for place in places])

        async def rest() -> str:
            first = await journey("map", "bag")
            return ", ".join(
                [
                    first,
                    *await ctx.gather(
                        journey("flight", "seat"), journey("hotel", "room", "breakfast")
                    ),
                ]
            )

        return ", ".join(await ctx.gather(journey("car"), rest()))

    return agent


@pytest.mark.parametrize("slow", ["", "car", "map", "flight", "breakfast"])
async def test_a_death_between_any_two_commits_costs_no_step_that_is_recorded(
    tmp_path: Path, slow: str
) -> None:
    """Whatever comes up first in the next process, nothing recorded is done again and nothing is a
    mismatch.
    """
    first: list[str] = []
    store = Watched(tmp_path / "tasks.db")
    app = traveller(first, slow=slow).app(store=store)
    await app.open()
    await Process(app).send(message("go"))
    await app.close()
    for copy in store.copies:
        with contextlib.closing(sqlite3.connect(copy)) as db:
            tables = [
                name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
            ]
            text = repr([row for table in tables for row in db.execute(f"SELECT * FROM {table}")])
        recorded = set(re.findall(r'"do",\d+,"(\w+)"', text))
        again: list[str] = []
        async with Disk(copy).process(traveller(again)) as process:
            task = await ended(process)
        assert text_of(task) == "car, map bag, flight seat, hotel room breakfast", told(task)
        assert sorted(again) == sorted(PLACES - recorded)
    assert sorted(first) == sorted(PLACES)
