"""What a later life of a run knows of the earlier ones beside its steps: what had been said, asked and agreed, and for how long."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context, Message, Part
from accord.engine.runs import lives, upkeep
from accord.model import TaskState
from accord.store.sqlite import SqliteStore
from tests.engine.test_lives import crashed, status, until
from tests.engine.test_parallel import ended, living
from tests.reliability.harness import message, state_of, text_of, told
from tests.reliability.inside import Inside

Skill = Callable[..., Coroutine[Any, Any, Any] | AsyncIterator[Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def agent_of(skill: Skill, **options: Any) -> Agent:
    agent = Agent("Again")
    agent.skill(id="work", durable=True, **options)(skill)
    return agent


async def forever() -> None:
    await asyncio.Event().wait()


# The history


async def test_the_history_is_what_it_was_at_each_point(path):
    """A loop around a model, which is given all that was said: after a restart it is given the same."""
    lived, reached = 1, asyncio.Event()
    given: list[tuple[int, str]] = []

    async def model(said: str) -> str:
        given.append((lived, said))
        return f"answer {len(given)}"

    async def work(ctx: Context) -> None:
        ctx.status("working")
        ctx.status("working on")

    def said(ctx: Context) -> str:
        seen.setdefault(lived, []).append(text := " ".join(one.text for one in ctx.history))
        return text

    seen: dict[int, list[str]] = {}

    async def chat(text: str, ctx: Context) -> str:
        await ctx.step(model, said(ctx))
        ctx.status("thinking")
        ctx.status("thinking more")
        await ctx.step(model, said(ctx))
        await ctx.step(work, ctx)
        await ctx.step(model, said(ctx))
        more = await ctx.ask("More?")
        assert more == "yes"
        await ctx.step(model, said(ctx))
        if lived == 1:
            reached.set()
            await forever()
        return await ctx.step(model, said(ctx))

    async with crashed(agent_of(chat), path) as inside:
        task = await inside.send(message("hello"))
        await inside.send(message("yes", task_id=task["id"], returnImmediately=True))
        await until(reached)
        await inside.send(message("are you there?", task_id=task["id"], returnImmediately=True))
    lived = 2
    async with living(agent_of(chat), SqliteStore(path)) as inside:
        task = await ended(inside)
    assert text_of(task) == "answer 5", told(task)
    third = "hello thinking thinking more working"
    assert seen[1] == ["hello", "hello thinking", third, f"{third} working on More? yes"]
    assert seen[2] == [*seen[1], f"{third} working on More? yes are you there?"]
    assert [life for life, _ in given] == [1, 1, 1, 1, 2]


async def test_a_function_that_asks_whether_it_is_new_gets_the_same_answer(path):
    agent, done = Agent("Greeter"), []

    async def greet() -> str:
        done.append("greeted")
        return "hello"

    @agent.skill(durable=True)
    async def talk(text: str, ctx: Context) -> str:
        greeting = await ctx.step(greet) if len(ctx.history) == 1 else "again"
        return f"{greeting} {await ctx.ask('Name?')}, {len(ctx.history)} said"

    async with crashed(agent, path) as inside:
        task = await inside.send(message("go"))
    async with living(agent, SqliteStore(path)) as inside:
        task = await inside.send(message("Ada", task_id=task["id"]))
    assert (text_of(task), done) == ("hello Ada, 3 said", ["greeted"])


async def test_a_conversation_is_what_it_was(path):
    """Tasks that came later, or have ended since, are seen as they were: not at all, or at work."""
    agent, lived = Agent("Talker"), 1
    reached, go_on = asyncio.Event(), asyncio.Event()
    seen: dict[int, list[tuple[str, str]]] = {}

    async def note(what: str) -> str:
        return what

    @agent.skill(durable=True)
    async def look(text: str, ctx: Context) -> str:
        earlier = await ctx.conversation()
        seen[lived] = [(one.history[0].text, one.status.state.word) for one in earlier]
        if [one for one in earlier if one.status.state is TaskState.WORKING]:
            await ctx.step(note, "busy")
        if lived == 1:
            reached.set()
            await forever()
        return f"{len(await ctx.conversation())} now"

    @agent.skill
    async def echo(text: str) -> str:
        if text == "slow":
            await go_on.wait()
        return text

    def said(text: str, skill: str, **more: Any) -> dict[str, Any]:
        params = message(text, skill, **more)
        params["message"]["contextId"] = "talk"
        return params

    async with crashed(agent, path) as inside:
        await inside.send(said("quick", "echo"))
        slow = await inside.send(said("slow", "echo", returnImmediately=True))
        task = await inside.send(said("look", "look", returnImmediately=True))
        await until(reached)
        go_on.set()
        await status(inside, slow["id"], "TASK_STATE_COMPLETED")
        await inside.send(said("later", "echo"))
    lived = 2
    async with living(agent, SqliteStore(path)) as inside:
        task = await status(inside, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    assert text_of(task) == "3 now", told(task)
    assert seen[1] == seen[2] == [("quick", "completed"), ("slow", "working")]


async def test_a_step_may_look_at_the_conversation(path):
    agent = Agent("Talker")

    @agent.skill
    async def look(text: str, ctx: Context) -> str:
        async def count() -> int:
            return len(await ctx.conversation())

        return f"{await ctx.step(count)} before"

    async with living(agent, SqliteStore(path)) as inside:
        assert text_of(await inside.send(message("go"))) == "0 before"


# Questions


def asking(*questions: Any) -> Skill:
    """A function that asks these: a text, or a text and a type, or a text, a type and a name."""

    async def work(text: str, ctx: Context) -> str:
        answers = []
        for one in questions:
            question, *more = one if isinstance(one, tuple) else (one,)
            type_, name = [*more, *(str, "")[len(more) :]]
            answers.append(f"{question} {await ctx.ask(question, type_, name=name)}")
        return "; ".join(answers)

    return work


async def test_an_answer_is_not_taken_for_another_question(path):
    """The function has changed while its question was open: what is said to the old one does not answer the new one."""
    async with crashed(agent_of(asking(("Send newsletter?", bool))), path) as inside:
        task = await inside.send(message("go"))
    async with crashed(agent_of(asking(("Delete everything?", bool))), path) as inside:
        task = await inside.send(message("true", task_id=task["id"]))
        assert state_of(task) == "TASK_STATE_INPUT_REQUIRED"
        assert told(task).startswith("Delete everything?")
    async with living(agent_of(asking(("Delete everything?", bool), "Why?")), SqliteStore(path)) as inside:
        task = await inside.send(message("false", task_id=task["id"]))
        assert told(task) == "Why?"
    async with living(agent_of(asking(("Delete everything?", bool), "Why?")), SqliteStore(path)) as inside:
        task = await inside.send(message("no reason", task_id=task["id"]))
    assert text_of(task) == "Delete everything? False; Why? no reason"


@pytest.mark.parametrize("first", ["Budget in EUR?", ("How many days?", int), "How many nights?"])
async def test_an_answered_question_that_changed_fails_and_names_both(path, first):
    async with crashed(agent_of(asking("How many days?", "Which hotel?")), path) as inside:
        task = await inside.send(message("go"))
        await inside.send(message("3", task_id=task["id"]))
    async with living(agent_of(asking(first, "Which hotel?")), SqliteStore(path)) as inside:
        task = await inside.send(message("Ritz", task_id=task["id"]))
    assert state_of(task) == "TASK_STATE_FAILED"
    asked = first if isinstance(first, str) else first[0]
    how = "of another type " if asked == "How many days?" else ""
    assert f"now asks {asked!r} {how}(question 1), where 'How many days?' was asked and answered before" in told(task)


async def test_a_question_with_a_name_is_that_whatever_its_text_says(path):
    now = 0

    async def work(text: str, ctx: Context) -> str:
        first = await ctx.ask(f"It is {now}. Go on?", bool, name="go on")
        return f"{first} {await ctx.ask(f'It is {now}. Really?', bool, name='really')}"

    async with crashed(agent_of(work), path) as inside:
        task = await inside.send(message("go"))
    now = 1
    async with crashed(agent_of(work), path) as inside:
        task = await inside.send(message("maybe", task_id=task["id"]))
        assert told(task).startswith("That does not fit")
        task = await inside.send(message("yes", task_id=task["id"]))
        assert told(task).startswith("It is 1. Really?")
    now = 2
    async with living(agent_of(work), SqliteStore(path)) as inside:
        assert text_of(await inside.send(message("no", task_id=task["id"]))) == "True False"


async def test_a_question_of_an_earlier_release_is_known_by_its_number(path):
    """Its line has nothing else."""
    agent = agent_of(asking("How many days?", "Which hotel?"))
    async with crashed(agent, path) as inside:
        task = await inside.send(message("go"))
    store = SqliteStore(path)
    await store.open()
    for table in ("events", "notes"):
        for (data,) in store._db.execute(f"SELECT data FROM {table}").fetchall():
            lines = [b"q1" if line.startswith(b"q[1,") else line for line in bytes(data).split(b"\n")]
            store._db.execute(f"UPDATE {table} SET data=? WHERE data=?", (b"\n".join(lines), data))
    assert any(
        b"q1" in bytes(data).split(b"\n") for (data,) in store._db.execute("SELECT data FROM events UNION SELECT data FROM notes")
    )
    store._db.commit()
    await store.close()
    async with living(agent, SqliteStore(path)) as inside:
        assert told(await inside.send(message("3", task_id=task["id"]))) == "Which hotel?"


async def test_a_wrong_answer_to_a_question_of_several_parts_shows_them_again(path):
    question = Message(message_id="q", role="ROLE_AGENT", parts=[Part(text="Days?"), Part(text="Two or three.")])

    async def work(text: str, ctx: Context) -> int:
        return await ctx.ask(question, int)

    async with living(agent_of(work), SqliteStore(path)) as inside:
        task = await inside.send(message("go"))
        task = await inside.send(message("many", task_id=task["id"]))
    parts = task["status"]["message"]["parts"]
    assert [part.get("text", "")[:18] for part in parts] == ["That does not fit:", "Days?", "Two or three.", ""]


async def test_an_authorization_that_was_granted_is_not_waited_for_twice(path):
    lived, reached = 1, asyncio.Event()

    async def token() -> str:
        return f"token {lived}"

    async def work(text: str, ctx: Context) -> str:
        got = await ctx.require_auth(f"Sign in, try {lived}", until=token())
        if lived == 1:
            reached.set()
            await forever()
        return f"got {got}"

    async with crashed(agent_of(work), path) as inside:
        task = await inside.send(message("go", returnImmediately=True))
        await until(reached)
        await status(inside, task["id"], "TASK_STATE_WORKING")
        await inside._app._engine.feed.flush()
    lived = 2
    async with living(agent_of(work), SqliteStore(path)) as inside:
        task = await ended(inside)
    assert text_of(task) == "got token 2", told(task)
    assert sum(said["role"] == "ROLE_AGENT" for said in task["history"]) == 1


# What came with the message


@pytest.mark.parametrize("where", ["at work", "at a question"])
async def test_what_the_client_can_take_is_known_in_every_life(path, where):
    lived, reached = 1, asyncio.Event()

    async def work(text: str, ctx: Context) -> str:
        if where == "at a question":
            await ctx.ask("Go on?")
        elif lived == 1:
            reached.set()
            await forever()
        return ", ".join(ctx.accepted_output_modes)

    async with crashed(agent_of(work), path) as inside:
        is_waiting = where == "at a question"
        params = message("go", returnImmediately=not is_waiting)
        params.setdefault("configuration", {})["acceptedOutputModes"] = ["text/x", "text/y"]
        task = await inside.send(params)
        if not is_waiting:
            await until(reached)
    lived = 2
    async with living(agent_of(work), SqliteStore(path)) as inside:
        task = await (inside.send(message("yes", task_id=task["id"])) if is_waiting else ended(inside))
    assert text_of(task) == "text/x, text/y"


# A store in memory


async def test_in_memory_durable_work_gets_its_time_to_end(caplog):
    """No other process will go on with it: it is finished, and nobody is told to look for it later."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(n: int) -> int:
        began.set()
        await go_on.wait()
        return n

    async def work(text: str, ctx: Context) -> str:
        return f"{await ctx.step(slow, 1)} {await ctx.step(slow, 2)}"

    agent = agent_of(work)
    app = agent.app()
    await app.open()
    sent = asyncio.create_task(Inside(app).send(message("go")))
    await until(began)
    stopping = asyncio.create_task(app.close(60))
    await asyncio.sleep(0.05)
    go_on.set()
    async with asyncio.timeout(10):
        assert text_of(await sent) == "1 2"
        await stopping
    async with connectable(agent):
        pass
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == ["tasks are kept in memory: durable work (work) ends with this process too"]


def connectable(agent: Agent) -> Any:
    return agent.app().serving()


async def test_in_memory_an_open_question_ends_with_its_process():
    """Whoever reads along is told so, and a stop does not wait for an answer nobody can give."""
    go_on = asyncio.Event()

    async def work(text: str, ctx: Context) -> str:
        if text == "late":
            await go_on.wait()
        return await ctx.ask("Name?")

    app = agent_of(work).app()
    await app.open()
    inside = Inside(app)
    early = await inside.send(message("early"))
    late = await inside.send(message("late", returnImmediately=True))
    feed = app._engine.feed
    logs = {log.task.id: log for log in feed.live()}
    stopping = asyncio.create_task(app.close(60))
    await asyncio.sleep(0.05)
    go_on.set()
    async with asyncio.timeout(10):
        await stopping
    for task in (early, late):
        log = logs[task["id"]]
        assert log.task.status.state is TaskState.FAILED
        assert log.task.status.message.text.startswith("interrupted: the server stopped, and what it kept was in memory")


# Time


async def test_steps_are_a_sign_of_life(path, monkeypatch):
    monkeypatch.setattr(upkeep, "LOOK_S", 0.02)

    async def wait(n: int) -> int:
        await asyncio.sleep(0.2)
        return n

    async def work(text: str, ctx: Context) -> str:
        return " ".join([str(await ctx.step(wait, n)) for n in range(8)])

    async with living(agent_of(work, idle_s=1.0), SqliteStore(path)) as inside:
        task = await inside.send(message("go"))
    assert text_of(task) == "0 1 2 3 4 5 6 7", told(task)


async def test_what_waits_for_its_trial_is_not_idle(path, monkeypatch):
    """After three deaths it is called again later: its time counts from there."""
    monkeypatch.setattr(upkeep, "LOOK_S", 0.02)
    monkeypatch.setattr(lives, "PAUSE_S", 2.0)
    lived, reached = 0, asyncio.Event()

    async def work(text: str, ctx: Context) -> str:
        reached.set()
        if lived < 4:
            await forever()
        return "done"

    agent = agent_of(work, idle_s=1.0)
    task: dict[str, Any] = {}
    for lived in (1, 2, 3):  # noqa: B007  the function looks at it
        reached.clear()
        async with crashed(agent, path) as inside:
            task = task or await inside.send(message("go", returnImmediately=True))
            await until(reached)
    lived = 4
    async with living(agent, SqliteStore(path)) as inside:
        task = await status(inside, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    assert state_of(task) == "TASK_STATE_COMPLETED", told(task)


@pytest.mark.parametrize("how", ["killed", "stopped", "asked"])
async def test_the_work_of_all_lives_counts(path, monkeypatch, how):
    monkeypatch.setattr(upkeep, "LOOK_S", 0.02)
    lived, reached = 1, asyncio.Event()

    async def work(text: str, ctx: Context) -> str:
        if lived == 1:
            await asyncio.sleep(1.2)
            reached.set()
            if how != "asked":
                await forever()
        if how == "asked":
            await ctx.ask("Go on?")
        await asyncio.sleep(1.6)
        return "done"

    agent = agent_of(work, run_s=2.0)
    async with living(agent, SqliteStore(path)) if how == "stopped" else crashed(agent, path) as inside:
        task = await inside.send(message("go", returnImmediately=True))
        await until(reached)
        if how == "asked":
            await status(inside, task["id"], "TASK_STATE_INPUT_REQUIRED")
    lived = 2
    async with living(agent, SqliteStore(path)) as inside:
        if how == "asked":
            await inside.send(message("yes", task_id=task["id"]))
        task = await ended(inside)
    assert told(task) == "the agent did not finish within 2 s"
