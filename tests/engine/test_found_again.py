"""What a function finds again beside its steps: what had been said, asked and agreed when it came
to a place the first time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from accord import Agent, Context, Message, Part
from accord.model import Role, TaskState
from tests.engine.processes import Disk, Memory, ended, message, reaches, text_of, told, until

Skill = Callable[..., Coroutine[Any, Any, Any] | AsyncIterator[Any]]


def agent_of(skill: Skill, **options: Any) -> Agent:
    agent = Agent("Again")
    agent.skill(id="work", durable=True, **options)(skill)
    return agent


async def forever() -> None:
    await asyncio.Event().wait()


# The history


async def test_the_history_is_what_it_was_when_the_function_took_its_last_message(
    place: Disk | Memory,
) -> None:
    """A function that looks at what was said goes the same way again: nothing that came later is in
    it until all is replayed.
    """
    number, reached = 1, asyncio.Event()
    given: list[tuple[int, str]] = []

    async def model(said: str) -> str:
        given.append((number, said))
        return f"answer {len(given)}"

    async def work(ctx: Context) -> None:
        ctx.status("working")
        ctx.status("working on")

    def said(ctx: Context) -> str:
        seen.setdefault(number, []).append(text := " ".join(one.text for one in ctx.history))
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
        if number == 1:
            reached.set()
            await forever()
        return await ctx.step(model, said(ctx))

    async with place.dying(agent_of(chat)) as process:
        task = await process.send(message("hello"))
        await process.send(message("yes", task_id=task["id"], returnImmediately=True))
        await until(reached.is_set)
        await process.send(message("are you there?", task_id=task["id"], returnImmediately=True))
    number = 2
    async with place.process(agent_of(chat)) as process:
        task = await ended(process)
    assert text_of(task) == "answer 5", told(task)
    third = "hello thinking thinking more working"
    assert seen[1] == ["hello", "hello thinking", third, f"{third} working on More? yes"]
    assert seen[2] == ["hello"] * 3 + [seen[1][3], f"{third} working on More? yes are you there?"]
    assert [process for process, _ in given] == [1, 1, 1, 1, 2]


async def test_a_function_that_asks_whether_it_is_new_gets_the_same_answer(
    place: Disk | Memory,
) -> None:
    agent, done = Agent("Greeter"), []

    async def greet() -> str:
        done.append("greeted")
        return "hello"

    @agent.skill(durable=True)
    async def talk(text: str, ctx: Context) -> str:
        greeting = await ctx.step(greet) if len(ctx.history) == 1 else "again"
        return f"{greeting} {await ctx.ask('Name?')}, {len(ctx.history)} said"

    async with place.dying(agent) as process:
        task = await process.send(message("go"))
    async with place.process(agent) as process:
        task = await process.send(message("Ada", task_id=task["id"]))
    assert (text_of(task), done) == ("hello Ada, 3 said", ["greeted"])


async def test_a_conversation_is_what_it_was(place: Disk | Memory) -> None:
    """Tasks that came later, or have ended since, are seen as they were: not at all, or at work."""
    agent, number = Agent("Talker"), 1
    reached, go_on = asyncio.Event(), asyncio.Event()
    seen: dict[int, list[tuple[str, str]]] = {}

    async def note(what: str) -> str:
        return what

    @agent.skill(durable=True)
    async def check(text: str, ctx: Context) -> str:
        earlier = await ctx.conversation()
        seen[number] = [(one.history[0].text, one.status.state.word) for one in earlier]
        if [one for one in earlier if one.status.state is TaskState.WORKING]:
            await ctx.step(note, "busy")
        if number == 1:
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

    async with place.dying(agent) as process:
        await process.send(said("quick", "echo"))
        slow = await process.send(said("slow", "echo", returnImmediately=True))
        task = await process.send(said("check", "check", returnImmediately=True))
        await until(reached.is_set)
        go_on.set()
        await reaches(process, slow["id"], "TASK_STATE_COMPLETED")
        await process.send(said("later", "echo"))
    number = 2
    async with place.process(agent) as process:
        task = await reaches(process, task["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    assert text_of(task) == "3 now", told(task)
    assert seen[1] == seen[2] == [("quick", "completed"), ("slow", "working")]


async def test_a_step_may_look_at_the_conversation(place: Disk | Memory) -> None:
    agent = Agent("Talker")

    @agent.skill
    async def check(text: str, ctx: Context) -> str:
        async def count() -> int:
            return len(await ctx.conversation())

        return f"{await ctx.step(count)} before"

    async with place.process(agent) as process:
        assert text_of(await process.send(message("go"))) == "0 before"


# Questions


async def test_a_question_with_a_name_is_that_whatever_its_text_says(place: Disk | Memory) -> None:
    now = 0

    async def work(text: str, ctx: Context) -> str:
        first = await ctx.ask(f"It is {now}. Go on?", bool, name="go on")
        return f"{first} {await ctx.ask(f'It is {now}. Really?', bool, name='really')}"

    async with place.dying(agent_of(work)) as process:
        task = await process.send(message("go"))
    now = 1
    async with place.dying(agent_of(work)) as process:
        task = await process.send(message("maybe", task_id=task["id"]))
        assert told(task).startswith("That does not fit")
        task = await process.send(message("yes", task_id=task["id"]))
        assert told(task).startswith("It is 1. Really?")
    now = 2
    async with place.process(agent_of(work)) as process:
        assert text_of(await process.send(message("no", task_id=task["id"]))) == "True False"


async def test_a_wrong_answer_to_a_question_of_several_parts_shows_them_again(
    place: Disk | Memory,
) -> None:
    question = Message(
        message_id="q", role=Role.AGENT, parts=[Part(text="Days?"), Part(text="Two or three.")]
    )

    async def work(text: str, ctx: Context) -> int:
        return await ctx.ask(question, int)

    async with place.process(agent_of(work)) as process:
        task = await process.send(message("go"))
        task = await process.send(message("many", task_id=task["id"]))
    parts = task["status"]["message"]["parts"]
    assert [part.get("text", "")[:18] for part in parts] == [
        "That does not fit:",
        "Days?",
        "Two or three.",
        "",
    ]


async def test_an_authorization_that_was_granted_is_not_waited_for_twice(
    place: Disk | Memory,
) -> None:
    number, reached = 1, asyncio.Event()

    async def token() -> str:
        return f"token {number}"

    async def work(text: str, ctx: Context) -> str:
        got = await ctx.require_auth(f"Sign in, try {number}", until=token())
        if number == 1:
            reached.set()
            await forever()
        return f"got {got}"

    async with place.dying(agent_of(work)) as process:
        task = await process.send(message("go", returnImmediately=True))
        await until(reached.is_set)
        await reaches(process, task["id"], "TASK_STATE_WORKING")
        await process.app._engine.tasks.flush()
    number = 2
    async with place.process(agent_of(work)) as process:
        task = await ended(process)
    assert text_of(task) == "got token 2", told(task)
    assert sum(said["role"] == "ROLE_AGENT" for said in task["history"]) == 1


# What came with the message


@pytest.mark.parametrize("where", ["at work", "at a question"])
async def test_what_the_client_can_take_is_known_in_every_attempt(
    place: Disk | Memory, where: str
) -> None:
    number, reached = 1, asyncio.Event()

    async def work(text: str, ctx: Context) -> str:
        if where == "at a question":
            await ctx.ask("Go on?")
        elif number == 1:
            reached.set()
            await forever()
        return ", ".join(ctx.accepted_output_modes)

    async with place.dying(agent_of(work)) as process:
        is_waiting = where == "at a question"
        params = message("go", returnImmediately=not is_waiting)
        params.setdefault("configuration", {})["acceptedOutputModes"] = ["text/x", "text/y"]
        task = await process.send(params)
        if not is_waiting:
            await until(reached.is_set)
    number = 2
    async with place.process(agent_of(work)) as process:
        task = await (
            process.send(message("yes", task_id=task["id"])) if is_waiting else ended(process)
        )
    assert text_of(task) == "text/x, text/y"
