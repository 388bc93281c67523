"""Functions of the user's: told of tasks and events, and around skills."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from msgspec.structs import replace

from accord import A2AError, Agent, Context, InvalidParams, Part, Reply, SkillCall, Task, connect
from accord.app import App
from accord.client import Client
from accord.engine.runs import hooks
from accord.model import ArtifactUpdate, StatusUpdate
from accord.store.sqlite.store import SqliteStore
from tests.processes import until

CARD = re.compile(r"\d{16}")


def desk() -> Agent:
    agent = Agent("Desk")

    @agent.skill
    async def order(item: str, ctx: Context):
        await ctx.status(f"looking for {item}")
        yield f"found {item}, "
        yield "ordered"

    @agent.skill
    def count(words: list[str]) -> int:
        return len(words)

    @agent.skill
    async def greet(name: str) -> Reply:
        return Reply(f"Hello {name}")

    @agent.skill
    async def choose(what: str, ctx: Context) -> str:
        return await ctx.ask(f"Which {what}?")

    return agent


def unwritable(part: Part) -> Part:
    raise ZeroDivisionError


# Told of tasks


async def test_hooks_are_told_of_tasks_and_events_in_order_after_they_are_stored():
    agent, tasks, events, threads = desk(), [], [], set()

    @agent.on_task
    async def on_task(task: Task):
        tasks.append((task.status.state.word, len(task.artifacts)))

    @agent.on_event
    def on_event(event):
        events.append(type(event))
        threads.add(threading.current_thread())

    async with connect(agent) as client:
        reply = await client.send("a shelf", skill="order")
    assert reply.text == "found a shelf, ordered"
    assert tasks == [("submitted", 0), ("working", 0), ("completed", 1)]
    assert events[:2] == [Task, StatusUpdate]
    assert events[-1] is StatusUpdate
    assert ArtifactUpdate in events
    assert threading.main_thread() not in threads  # a plain function holds up nobody


async def test_a_question_is_a_change_of_state():
    agent, states = desk(), []
    agent.on_task(lambda task: states.append(task.status.state.word))
    async with connect(agent) as client:
        reply = await client.send("colour", skill="choose")
        assert (await reply.answer("red")).text == "red"
    assert states == ["submitted", "working", "input-required", "working", "completed"]


async def test_of_a_fork_hooks_are_told_what_happens_to_it():
    """Not again what happened to the forked task."""
    agent, states, events = desk(), [], []
    agent.on_task(lambda task: states.append(task.status.state.word))
    agent.on_event(lambda event: events.append(type(event)))
    async with connect(agent) as client:
        asked = await client.send("colour", skill="choose")
        await asked.answer("red")
        waiting = await client.fork(asked.task_id, at=3)
        assert (await waiting.answer("blue")).text == "blue"
    assert states == [
        *("submitted", "working", "input-required", "working", "completed"),
        *("input-required", "working", "completed"),
    ]
    assert events.count(Task) == 1


@asynccontextmanager
async def served(app: App) -> AsyncIterator[Client]:
    await app.open()
    try:
        async with connect(app) as client:
            yield client
    finally:
        await app.close()


class Damaged(SqliteStore):
    """A file in which the tasks of one context can't be read."""

    async def load(self, namespace, task_id, *, watch=False):
        record = await super().load(namespace, task_id, watch=watch)
        if record is not None and record.context_id == "damaged":
            record.head, record.rows = b"", []
        return record


async def test_a_task_that_can_not_be_read_keeps_no_hook_from_the_next_one(tmp_path, caplog):
    agent, told, counted = desk(), [], []
    agent.on_task(lambda task: told.append((task.context_id, task.status.state.word)))
    agent.on_event(counted.append)
    async with served(agent.app(store=Damaged(tmp_path / "tasks.db"))) as client:
        for context in ("damaged", "sound"):
            await client.send("a shelf", skill="order", context_id=context)
        await until(lambda: ("sound", "completed") in told)
    assert len([event for event in counted if isinstance(event, Task)]) == 2
    assert "can't be read; its hooks are left out" in caplog.text


async def test_what_is_known_of_open_tasks_is_bounded(monkeypatch):
    """Where several processes share them, a task may end in another one."""
    monkeypatch.setattr(hooks, "OPEN", 3)
    agent, states = desk(), []
    agent.on_task(lambda task: states.append(task.status.state.word))
    app = agent.app()
    async with served(app) as client:
        for _ in range(5):
            await client.send("colour", skill="choose")
        await until(lambda: states.count("input-required") == 5)
        assert len(app._engine._hooks._states) == 3


class Seen:
    """A hook that is an object."""

    def __init__(self) -> None:
        self.tasks: list[str] = []

    async def __call__(self, task: Task) -> None:
        self.tasks.append(task.id)


ENDS = [RuntimeError("no"), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()]


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
async def test_a_hook_that_fails_or_hangs_harms_no_task(caplog, error):
    """Neither does one that would end the program. Other hooks are called."""
    agent, told = desk(), []
    never = asyncio.Event()
    seen = Seen()
    agent.on_task(seen)
    agent.on_task(partial(fails_at_once, error))

    @agent.on_event
    async def fails(event):
        raise error

    @agent.on_task
    async def hangs(task: Task):
        told.append(task.id)
        await never.wait()

    async with connect(agent) as client:
        for _ in range(3):
            assert (await client.send("a shelf", skill="order")).state.word == "completed"
        await until(lambda: told)
        assert "is not affected" in caplog.text
        never.set()
    assert len(told) == len(seen.tasks) == 9  # what waited was told before the end


def fails_at_once(error: BaseException, task: Task) -> None:
    raise error


# Around skills


async def test_middleware_is_around_every_kind_of_skill_the_first_outermost():
    agent, said = desk(), []

    @agent.middleware
    async def outer(call: SkillCall, next):
        said.append(f"outer {call.skill}")
        result = await next()
        said.append(f"outer {result if not isinstance(result, Reply) else 'a reply'}")
        return result

    @agent.middleware
    async def inner(call: SkillCall, next):
        said.append(f"inner {sorted(call.values)} {call.message.role.name}")
        await next()  # returning nothing leaves the result as it is

    async with connect(agent) as client:
        assert (await client.send("a shelf", skill="order")).text == "found a shelf, ordered"
        assert (await client.send(["a", "b"], skill="count")).data == 2
        assert (await client.send("Ann", skill="greet")).text == "Hello Ann"
    assert said == [
        "outer order",
        "inner ['ctx', 'item'] USER",
        "outer None",
        "outer count",
        "inner ['words'] USER",
        "outer 2",
        "outer greet",
        "inner ['name'] USER",
        "outer a reply",
    ]


async def test_middleware_decides_changes_arguments_and_answers_in_place_of_the_skill():
    agent = desk()

    @agent.middleware
    async def policy(call: SkillCall, next):
        if call.message.text == "a gun":
            call.ctx.reject("not here")
        if call.message.text == "a bomb":
            raise InvalidParams("never")
        if call.message.text == "time":
            return "now"
        if "item" in call.values:
            call.values["item"] = call.values["item"].upper()
        return await next()

    async with connect(agent) as client:
        assert (await client.send("a gun", skill="order")).state.word == "rejected"
        with pytest.raises(InvalidParams, match="never"):
            await client.send("a bomb", skill="order")
        assert (await client.send("time", skill="order")).text == "now"
        assert (await client.send("a shelf", skill="order")).text == "found A SHELF, ordered"


@pytest.mark.parametrize("skill", ["order", "greet", "choose"])
async def test_a_rewrite_covers_all_that_a_skill_says(skill):
    """Chunks, status messages, questions and replies: nothing of it is stored as it was."""
    agent = desk()

    def hide(part: Part) -> Part:
        return replace(part, text=CARD.sub("[card]", part.text)) if part.text else part

    @agent.middleware(required=True)
    async def redact(call: SkillCall, next):
        call.rewrite(hide)
        return await next()

    seen = []
    agent.on_event(seen.append)
    async with connect(agent) as client:
        reply = await client.send("4111111111111111", skill=skill)
        assert "[card]" in (reply.text or reply.question)
    answers = [one for one in seen if not isinstance(one, Task)]  # the task holds what was sent
    assert "4111111111111111" not in f"{reply.text} {reply.question} {answers}"


def broken_at(place: str):
    """Middleware that fails at this place."""

    async def broken(call: SkillCall, next):
        if place == "before":
            raise RuntimeError("before")
        if place == "exit":
            raise SystemExit
        if place == "rewrite":
            call.rewrite(unwritable)
        result = await next()
        if place == "after":
            raise RuntimeError("after")
        return result

    return broken


@pytest.mark.parametrize("place", ["before", "after", "rewrite", "exit"])
async def test_middleware_that_fails_is_left_out_and_logged(place, caplog):
    agent = desk()
    agent.middleware(broken_at(place))
    async with connect(agent) as client:
        assert (await client.send("a shelf", skill="order")).text == "found a shelf, ordered"
        assert (await client.send("Ann", skill="greet")).text == "Hello Ann"
    assert "broken failed" in caplog.text


@pytest.mark.parametrize("place", ["before", "after", "rewrite"])
async def test_required_middleware_that_fails_fails_the_task(place):
    """A policy that can't be asked allows nothing, and what can't be redacted is not said."""
    agent = desk()
    agent.middleware(required=True)(broken_at(place))
    async with connect(agent) as client:
        assert (await client.send("a shelf", skill="order")).state.word == "failed"
        assert (await client.send(["a"], skill="count")).state.word == "failed"
        with pytest.raises(A2AError):
            await client.send("Ann", skill="greet")


async def test_what_the_skill_raises_passes_through_middleware():
    agent = Agent("Desk")

    @agent.skill
    async def order(item: str, ctx: Context):
        ctx.fail("sold out")

    @agent.middleware
    async def timing(call: SkillCall, next):
        return await next()

    async with connect(agent) as client:
        reply = await client.send("a shelf")
        assert (reply.state.word, reply.task.status.message.text) == ("failed", "sold out")


def test_middleware_has_to_be_async():
    with pytest.raises(TypeError, match="async def"):
        Agent("Desk").middleware(print)
