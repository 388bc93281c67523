"""`ctx.state`: what an agent remembers of a conversation."""

import asyncio
import logging
from typing import Any

import pytest

import accord
from accord import Agent, Ask, Context, Limits
from accord.model import StatusUpdate, TaskState, TaskStatus
from tests.drive import say, state_of, text_of
from tests.engine.processes import Disk, Memory, message, reaches, until
from tests.engine.processes import text_of as shown


async def count(text: str, ctx: Context):
    """Counts its turns, and ends each of them as it is told."""
    state = ctx.state
    turns = state.get("turns", 0)
    state["turns"] = turns + 1
    if text == "fail":
        ctx.fail("as told")
    if text == "raise":
        raise ValueError("as told")
    if text == "reject":
        ctx.reject("as told")
    if text == "question":
        return Ask("More?")
    if text == "ask":
        return f"{turns} {await ctx.ask('More?')}"
    if text == "leave":
        status = TaskStatus(state=TaskState.INPUT_REQUIRED)
        await ctx.say(StatusUpdate(task_id="", context_id="", status=status))
        return None
    if text == "end":
        status = TaskStatus(state=TaskState.COMPLETED)
        await ctx.say(StatusUpdate(task_id="", context_id="", status=status))
        return None
    return str(turns)


async def test_a_later_task_of_the_conversation_finds_what_an_earlier_one_left(connect_rpc, store):
    """Another conversation finds nothing."""
    async with connect_rpc(count, store=store) as client:
        first = (await client.send("a"))["task"]
        assert text_of(first) == "0"
        context = {"contextId": first["contextId"]}
        assert text_of((await client.send(say("b", **context)))["task"]) == "1"
        assert text_of((await client.send(say("c", **context)))["task"]) == "2"
        assert text_of((await client.send("other"))["task"]) == "0"
        assert text_of((await client.send(say("d", contextId="chosen")))["task"]) == "0"
        assert text_of((await client.send(say("e", contextId="chosen")))["task"]) == "1"


@pytest.mark.parametrize("how", ["question", "ask", "leave", "end"])
async def test_a_turn_that_ends_with_a_question_or_an_event_stores_it_too(connect_rpc, how):
    async with connect_rpc(count) as client:
        first = (await client.send(say(how, contextId="c")))["task"]
        assert state_of(first) == ("completed" if how == "end" else "input-required")
        assert text_of((await client.send(say("a", contextId="c")))["task"]) == "1"
        if how in ("question", "leave"):  # the next turn of the same task
            assert text_of((await client.send(say("b", taskId=first["id"])))["task"]) == "2"


@pytest.mark.parametrize("how", ["fail", "raise", "reject"])
async def test_a_turn_that_fails_stores_nothing(connect_rpc, how):
    async with connect_rpc(count) as client:
        await client.send(say("a", contextId="c"))
        await client.send(say(how, contextId="c"))
        assert text_of((await client.send(say("b", contextId="c")))["task"]) == "1"


async def test_a_canceled_turn_stores_nothing(connect_rpc):
    entered = asyncio.Event()

    async def wait(text: str, ctx: Context):
        if text == "wait":
            ctx.state["seen"] = True
            entered.set()
            await asyncio.Event().wait()
        return str(ctx.state)

    async with connect_rpc(wait) as client:
        now = {"returnImmediately": True}
        task = (await client.send(say("wait", contextId="c", configuration=now)))["task"]
        await entered.wait()
        assert state_of(await client.cancel(task["id"])) == "canceled"
        assert text_of((await client.send(say("look", contextId="c")))["task"]) == "{}"


async def test_a_message_that_waited_finds_what_the_turn_before_it_left(connect_rpc, store):
    """Its run begins the moment the other ends: what that one left is stored first."""
    entered, gate = asyncio.Event(), asyncio.Event()

    async def talk(text: str, ctx: Context):
        ctx.state["said"] = [*ctx.state.get("said", []), text]
        if text == "first":
            entered.set()
            await gate.wait()
            return Ask("And?", takes_waiting=True)
        return " ".join(ctx.state["said"])

    async with connect_rpc(talk, store=store) as client:
        now = {"returnImmediately": True}
        task = (await client.send(say("first", configuration=now)))["task"]
        await entered.wait()
        waiting = asyncio.create_task(client.send(say("second", taskId=task["id"])))
        while len((await client.get(task["id"]))["history"]) < 2:  # noqa: ASYNC110  as a client without a stream
            await asyncio.sleep(0.01)
        gate.set()
        assert text_of((await waiting)["task"]) == "first second"


async def test_of_two_turns_at_once_the_later_wins_whole_and_that_is_logged(
    connect_rpc, store, caplog
):
    caplog.set_level(logging.WARNING, "accord")
    gates = {"one": asyncio.Event(), "two": asyncio.Event()}
    entered = asyncio.Queue[str]()

    async def note(text: str, ctx: Context):
        if text in gates:
            ctx.state[text] = True
            entered.put_nowait(text)
            await gates[text].wait()
        return " ".join(ctx.state)

    async with connect_rpc(note, store=store) as client:
        await client.send(say("look", contextId="c"))
        sent = {text: asyncio.create_task(client.send(say(text, contextId="c"))) for text in gates}
        assert {await entered.get(), await entered.get()} == {"one", "two"}
        for text in gates:
            gates[text].set()
            await sent[text]
        assert text_of((await client.send(say("look", contextId="c")))["task"]) == "two"
    logged = [r.message for r in caplog.records if "two turns ran at once" in r.message]
    assert len(logged) == 1
    assert logged[0].startswith("conversation c:")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x" * 1_000, "ctx.state takes 1012 bytes as JSON, and the state of a conversation may"),
        ({1, 2}, "ctx.state is not JSON: Object of type set is not JSON serializable"),
        (float("nan"), "ctx.state is not JSON"),
        ("\ud800", "ctx.state is not JSON"),
    ],
)
@pytest.mark.parametrize("how", ["return", "question", "ask"])
async def test_what_is_too_large_or_no_json_fails_the_task_with_the_reason(
    connect_rpc, value, reason, how
):
    async def keep(text: str, ctx: Context):
        if text == "look":
            return str(ctx.state)
        ctx.state["value"] = value
        if how == "ask":
            await ctx.ask("More?")
        return Ask("More?") if how == "question" else "done"

    async with connect_rpc(keep, limits=Limits(state_size=1_000)) as client:
        task = (await client.send(say("keep", contextId="c")))["task"]
        assert state_of(task) == "failed"
        assert reason in text_of(task["status"]["message"])
        assert text_of((await client.send(say("look", contextId="c")))["task"]) == "{}"


async def test_a_skill_without_a_context_is_told_to_take_one(connect_rpc):
    async def look(text: str):
        try:
            return str(accord.current().state)
        except RuntimeError as error:
            return str(error)

    async with connect_rpc(look) as client:
        assert "parameter `ctx: Context`" in text_of((await client.send("a"))["task"])


def said(text: str, *, context_id: str = "", **more: Any) -> dict[str, Any]:
    """The params of a send, in a conversation."""
    params = message(text, **more)
    if context_id:
        params["message"]["contextId"] = context_id
    return params


def agent_of(skill: Any, **options: Any) -> Agent:
    agent = Agent("Again")
    agent.skill(id="work", **options)(skill)
    return agent


async def test_a_later_attempt_finds_the_state_the_first_one_found(place: Disk | Memory) -> None:
    """Though another turn of the conversation has been stored since."""
    number, reached = 1, asyncio.Event()
    seen: list[dict[str, Any]] = []

    async def work(text: str, ctx: Context) -> str:
        seen.append(dict(ctx.state))
        ctx.state[text] = True
        if text == "long":
            await ctx.step(lambda: "done", name="step")
            if number == 1:
                reached.set()
                await asyncio.Event().wait()
        return " ".join(ctx.state)

    async with place.dying(agent_of(work, durable=True)) as process:
        await process.send(said("first", context_id="c"))
        long = await process.send(said("long", context_id="c", returnImmediately=True))
        await until(reached.is_set)
        await process.send(said("between", context_id="c"))
    number = 2
    async with place.process(agent_of(work, durable=True)) as process:
        task = await reaches(process, long["id"], "TASK_STATE_COMPLETED")
    assert seen == [{}, {"first": True}, {"first": True}, {"first": True}]
    assert shown(task) == "first long"


async def test_a_question_answered_after_a_restart_has_the_state_of_before(
    place: Disk | Memory,
) -> None:
    """Also in a skill that is not durable, and the turn before the question is stored already."""

    async def work(text: str, ctx: Context) -> str:
        before = dict(ctx.state)
        ctx.state[text] = True
        if text == "ask":
            ctx.state["answer"] = await ctx.ask("Which?")
        return f"{before} {ctx.state}"

    async with place.dying(agent_of(work)) as process:
        await process.send(said("first", context_id="c"))
        asked = await process.send(said("ask", context_id="c"))
        between = await process.send(said("between", context_id="c"))
    assert shown(between).startswith("{'first': True, 'ask': True} ")
    async with place.process(agent_of(work)) as process:
        task = await process.send(said("blue", task_id=asked["id"]))
        last = await process.send(said("last", context_id="c"))
    found = "{'first': True} {'first': True, 'ask': True, 'answer': 'blue'}"
    assert shown(task) == found
    assert shown(last).startswith("{'first': True, 'ask': True, 'answer': 'blue'} ")


async def test_any_replica_finds_it() -> None:
    place = Memory()
    async with place.process(agent_of(count)) as one, place.process(agent_of(count)) as two:
        for n, process in enumerate((one, two, two, one)):
            assert shown(await process.send(said("a", context_id="c"))) == str(n)
