"""A function that no longer does what is recorded: released, tried again, and repaired by the
version that recorded it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from accord import Agent, Context
from accord.engine.runs import recovery
from accord.engine.runs import retention as upkeep
from tests.engine.processes import Disk, Memory, message, reaches, state_of, text_of, told, until

Skill = Callable[..., Coroutine[Any, Any, Any]]
WHAT = "the function now calls step 'search' (call 1), where step 'look_up' (call 1) was recorded"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)


class Versions:
    """Versions of one skill, and what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.there = asyncio.Event()
        self.go_on = asyncio.Event()
        self.calls = 0

    def agent(self, skill: Skill) -> Agent:
        agent = Agent("Versions")
        agent.skill(id="work", durable=True)(skill)
        return agent

    async def look_up(self) -> str:
        self.done.append("look_up")
        return "found"

    async def search(self) -> str:
        self.done.append("search")
        return "found anew"

    async def old(self, text: str, ctx: Context) -> str:
        self.calls += 1
        found = await ctx.step(self.look_up)
        self.there.set()
        await self.go_on.wait()
        return f"old {found}"

    async def new(self, text: str, ctx: Context) -> str:
        self.calls += 1
        return f"new {await ctx.step(self.search)}"

    async def catching(self, text: str, ctx: Context) -> str:
        try:
            await ctx.step(self.search)
        except Exception:
            self.done.append("caught")
        except BaseException:
            self.done.append("caught all")
        return "well"

    async def patched(self, text: str, ctx: Context) -> str:
        if ctx.patched("search"):
            return f"new {await ctx.step(self.search)}"
        return f"old {await ctx.step(self.look_up)}"

    async def begin(self, place: Disk | Memory) -> str:
        """A process of the old version, which dies after its step."""
        async with place.dying(self.agent(self.old)) as process:
            task = await process.send(message("go", returnImmediately=True))
            await until(self.there.is_set)
        return str(task["id"])


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage() for record in caplog.records if "can't go on" in record.getMessage()
    ]


@pytest.mark.parametrize("how", ["new", "catching"])
async def test_a_changed_function_is_released_and_the_log_names_both(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Nothing new is done on top of a record that does not fit, whatever the function catches; the
    client still sees it working.
    """
    versions = Versions()
    task_id = await versions.begin(place)
    async with place.process(versions.agent(getattr(versions, how))) as process:
        await until(lambda: errors(caplog))
        assert state_of(await process.get(task_id)) == "TASK_STATE_WORKING"
    (said,) = errors(caplog)
    assert said.startswith(
        f"skill work: task {task_id} can't go on: {WHAT}; deploy the version that recorded it"
    )
    assert "ctx.patched('name')" in said
    assert versions.done in (["look_up"], ["look_up", "caught all"])


async def test_it_is_tried_again_and_again(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovery, "MISMATCH_RETRY_S", 0.01)
    versions = Versions()
    task_id = await versions.begin(place)
    async with place.process(versions.agent(versions.new)) as process:
        await until(lambda: versions.calls >= 4)
        assert state_of(await process.get(task_id)) == "TASK_STATE_WORKING"
    assert versions.done == ["look_up"]
    assert len(errors(caplog)) >= 3


async def test_the_version_that_recorded_it_repairs_it(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """A rollback is all it takes: nothing was lost, and nothing is done again."""
    versions = Versions()
    task_id = await versions.begin(place)
    async with place.process(versions.agent(versions.new)):
        await until(lambda: errors(caplog))
    versions.go_on.set()
    async with place.process(versions.agent(versions.old)) as process:
        assert (
            text_of(await reaches(process, task_id, "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"))
            == "old found"
        )
    assert versions.done == ["look_up"]


async def test_a_version_that_keeps_the_old_way_repairs_it_too(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """`ctx.patched` is False where the record went past without it, and True in new runs."""
    versions = Versions()
    task_id = await versions.begin(place)
    async with place.process(versions.agent(versions.new)):
        await until(lambda: errors(caplog))
    async with place.process(versions.agent(versions.patched)) as process:
        assert (
            text_of(await reaches(process, task_id, "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"))
            == "old found"
        )
        assert text_of(await process.send(message("another"))) == "new found anew"
    assert versions.done == ["look_up", "search"]


async def test_after_a_while_it_fails_with_the_reason(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour, counted from the first time, over restarts."""
    versions = Versions()
    task_id = await versions.begin(place)
    async with place.process(versions.agent(versions.new)) as process:
        await until(lambda: versions.calls == 2)
        assert state_of(await process.get(task_id)) == "TASK_STATE_WORKING"
    monkeypatch.setattr(recovery, "MISMATCH_MS", 0)
    async with place.process(versions.agent(versions.new)) as process:
        task = await reaches(process, task_id, "TASK_STATE_FAILED")
    assert told(task).startswith(
        f"interrupted, and can't be resumed: {WHAT}; deploy the version that recorded it"
    )
    assert versions.done == ["look_up"]


async def test_it_can_be_cancelled_and_takes_no_answers_for_others(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """The task is still the client's, though no version can go on with it right now."""
    versions = Versions()
    task_id = await versions.begin(place)
    async with place.process(versions.agent(versions.new)) as process:
        await until(lambda: errors(caplog))
        assert state_of(await process.cancel(task_id)) == "TASK_STATE_CANCELED"
    assert versions.done == ["look_up"]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_message_that_waits_for_its_turn_does_not_start_another_run(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    """The run is not over: a second one beside it would lose what the first has done."""
    versions = Versions()
    async with place.dying(versions.agent(versions.old)) as process:
        task_id = (await process.send(message("go", returnImmediately=True)))["id"]
        await until(versions.there.is_set)
        if when == "before":
            await process.send(message("and this", task_id=task_id, returnImmediately=True))
    async with place.process(versions.agent(versions.new)) as process:
        await until(lambda: errors(caplog))
        if when == "meanwhile":
            await process.send(message("and this", task_id=task_id, returnImmediately=True))
        assert state_of(await process.get(task_id)) == "TASK_STATE_WORKING"
        await process.app._engine.tasks.flush()
    versions.go_on.set()
    async with place.process(versions.agent(versions.old)) as process:
        task = await reaches(process, task_id, "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    assert text_of(task) == "old found", told(task)
    assert versions.done == ["look_up"]


# Questions


def asking(*questions: Any) -> Skill:
    """A function that asks these: a text, or a text and a type."""

    async def work(text: str, ctx: Context) -> str:
        answers = []
        for one in questions:
            question, type_ = one if isinstance(one, tuple) else (one, str)
            answers.append(f"{question} {await ctx.ask(question, type_)}")
        return "; ".join(answers)

    return work


@pytest.mark.parametrize("first", ["Budget in EUR?", ("How many days?", int), "How many nights?"])
async def test_an_answered_question_that_changed_names_both(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture, first: Any
) -> None:
    """An answer is never given to another question: "3" days are no 3 EUR."""
    versions = Versions()
    before, after = (
        versions.agent(asking("How many days?", "Which hotel?")),
        versions.agent(asking(first, "Which hotel?")),
    )
    async with place.dying(before) as process:
        task = await process.send(message("go"))
        await process.send(message("3", task_id=task["id"]))
    async with place.process(after) as process:
        await process.send(message("Ritz", task_id=task["id"], returnImmediately=True))
        await until(lambda: errors(caplog))
    asked = first if isinstance(first, str) else first[0]
    how = (
        (" for an answer of type int", " for one of type str")
        if asked == "How many days?"
        else ("", "")
    )
    expected = (
        f"now asks {asked!r}{how[0]} (question 1), where 'How many days?'{how[1]} was asked "
        "and answered"
    )
    assert expected in errors(caplog)[0]
    async with place.process(before) as process:
        task = await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    assert text_of(task) == "How many days? 3; Which hotel? Ritz", told(task)


async def test_an_answer_to_a_question_that_changed_while_it_was_open_is_not_taken_for_the_new_one(
    place: Disk | Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """What is said to the old question does not answer the new one."""
    versions = Versions()
    async with place.dying(versions.agent(asking(("Send newsletter?", bool)))) as process:
        task = await process.send(message("go"))
    async with place.process(versions.agent(asking(("Delete everything?", bool)))) as process:
        await process.send(message("true", task_id=task["id"], returnImmediately=True))
        await until(lambda: errors(caplog))
    assert (
        "now asks 'Delete everything?' (question 1), where 'Send newsletter?' was asked "
        "and answered" in errors(caplog)[0]
    )
