"""Work that survives: what the log has is not asked or done again."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from accord import Agent, Context, Message
from tests.drive import say, state_of, text_of

FIXTURES = Path(__file__).parent.parent / "fixtures"


class Life:
    """What happened in the process: counts that a restart does not reset, as the world outside would."""

    def __init__(self):
        self.done: list[str] = []
        self.gate = asyncio.Event()

    def note(self, what):
        self.done.append(what)


@pytest.fixture
def life():
    return Life()


async def test_an_answer_after_a_restart_continues_the_function(connect_rpc, lasting):
    """The function is called again from the top and gets the answers it had; the client sees one task (rule 17)."""

    async def trip(place: str, ctx: Context):
        yield f"To {place}"
        days = await ctx.ask("How many days?", int)
        yield f", {days} days"
        hotel = await ctx.ask("A hotel?", bool)
        yield ", hotel" if hotel else ", no hotel"

    async with connect_rpc(trip, store=lasting) as client:
        task = (await client.send("Rome"))["task"]
    async with connect_rpc(trip, store=lasting) as client:
        task = (await client.send(say("3", taskId=task["id"])))["task"]
        assert text_of(task["status"]["message"]).startswith("A hotel?")
    async with connect_rpc(trip, store=lasting) as client:
        task = (await client.send(say("yes", taskId=task["id"])))["task"]
    assert state_of(task) == "completed"
    assert [text_of(a) for a in task["artifacts"]] == ["To Rome, 3 days, hotel"]
    assert [text_of(m) for m in task["history"]] == ["Rome", "How many days?", "3", "A hotel?", "yes"]


async def test_a_wrong_answer_and_its_correction_are_one_question_after_a_restart(connect_rpc, lasting):
    """Asking again after a wrong answer is one ask (rule 17)."""

    async def trip(place: str, ctx: Context):
        days = await ctx.ask("How many days?", int)
        nights = await ctx.ask("How many nights?", int)
        return f"{days} days, {nights} nights"

    async with connect_rpc(trip, store=lasting) as client:
        task = (await client.send("Rome"))["task"]
        task = (await client.send(say("many", taskId=task["id"])))["task"]
        assert "does not fit" in text_of(task["status"]["message"])
    async with connect_rpc(trip, store=lasting) as client:
        task = (await client.send(say("3", taskId=task["id"])))["task"]
        assert "nights" in text_of(task["status"]["message"])
    async with connect_rpc(trip, store=lasting) as client:
        task = (await client.send(say("2", taskId=task["id"])))["task"]
        assert text_of(task["artifacts"][0]) == "3 days, 2 nights"


async def test_steps_are_done_once_over_restarts(connect_rpc, lasting, life):
    """Their results are in the log before the function goes on (rule 17)."""

    @dataclass
    class Flight:
        number: str
        price: int

    async def find(place: str) -> Flight:
        life.note("find")
        return Flight("AZ 1", 120)

    def book(flight: Flight) -> str:
        life.note("book")
        return "booked " + flight.number

    async def trip(place: str, ctx: Context):
        flight = await ctx.step(find, place)
        assert isinstance(flight, Flight)
        if not await ctx.ask(f"Book for {flight.price}?", bool):
            ctx.reject("as you wish")
        return await ctx.step(book, flight)

    async with connect_rpc(trip, store=lasting) as client:
        task = (await client.send("Rome"))["task"]
    async with connect_rpc(trip, store=lasting) as client:
        task = (await client.send(say("yes", taskId=task["id"])))["task"]
    assert text_of(task["artifacts"][0]) == "booked AZ 1"
    assert life.done == ["find", "book"]


async def test_a_step_that_failed_for_good_fails_the_same_again(connect_rpc, lasting, life):
    """What a step raises in the end is recorded, and raised again without calling it (rule 17)."""

    async def pay() -> None:
        life.note("pay")
        raise ValueError("card declined")

    async def shop(text: str, ctx: Context):
        try:
            await ctx.step(pay, retries=2)
        except Exception as error:
            return await ctx.ask(f"{error}. Another card?")

    async with connect_rpc(shop, store=lasting) as client:
        task = (await client.send("buy"))["task"]
        assert "card declined" in text_of(task["status"]["message"])
    async with connect_rpc(shop, store=lasting) as client:
        assert state_of((await client.send(say("no", taskId=task["id"])))["task"]) == "completed"
    assert life.done == ["pay"] * 3


async def test_a_function_that_changed_fails_and_says_which_step_differs(connect_rpc, lasting, life):
    """Nothing new is done on top of a record that does not fit."""

    async def old_step() -> str:
        return "x"

    async def new_step() -> str:
        life.note("new")
        return "y"

    async def before(text: str, ctx: Context):
        await ctx.step(old_step)
        return await ctx.ask("Sure?")

    async def after(text: str, ctx: Context):
        await ctx.step(new_step)
        return await ctx.ask("Sure?")

    before.__name__ = after.__name__ = "work"
    async with connect_rpc(before, store=lasting) as client:
        task = (await client.send("go"))["task"]
    async with connect_rpc(after, store=lasting) as client:
        task = (await client.send(say("yes", taskId=task["id"])))["task"]
    assert state_of(task) == "failed"
    assert "old_step" in text_of(task["status"]["message"])
    assert life.done == []


async def test_output_that_comes_out_different_replaces_the_artifact(connect_rpc, lasting, life):
    """Equal output is not sent again; the first that differs is sent as the whole artifact so far (rule 17)."""

    async def write(text: str, ctx: Context):
        await asyncio.sleep(0)  # else it may be at its end before the stream is looked at, and be told as one
        yield "a"
        yield "b" if not life.done else "B"
        await ctx.ask("More?")
        yield "c"

    async with connect_rpc(write, store=lasting) as client:
        task = (await client.send("go"))["task"]
        life.note("restart")
    async with connect_rpc(write, store=lasting) as client:
        stream = await client.stream(say("yes", taskId=task["id"]))
        updates = [f["artifactUpdate"] for f in await stream.rest() if "artifactUpdate" in f]
        assert [(text_of(u["artifact"]), u.get("append", False)) for u in updates] == [("aB", False), ("c", True)]
        assert text_of((await client.get(task["id"]))["artifacts"][0]) == "aBc"


async def test_the_whole_message_can_be_the_answer_after_a_restart(connect_rpc, lasting):
    async def form(text: str, ctx: Context):
        answer = await ctx.ask("Fill in", Message)
        return ctx.message.message_id == answer.message_id and answer.parts[0].data

    async with connect_rpc(form, store=lasting) as client:
        task = (await client.send("go"))["task"]
    async with connect_rpc(form, store=lasting) as client:
        answer = {"messageId": "the-answer", "role": "ROLE_USER", "parts": [{"data": {"x": 1}}], "taskId": task["id"]}
        task = (await client.send({"message": answer}))["task"]
    assert task["artifacts"][0]["parts"][0]["data"] == {"x": 1}


def durable_agent(life):
    agent = Agent("Durable")

    async def reserve(item: str) -> str:
        life.note(f"reserve {item}")
        return f"{item} reserved"

    @agent.skill(durable=True)
    async def order(item: str, ctx: Context):
        ctx.status("reserving")
        yield await ctx.step(reserve, item)
        life.note("working")
        await life.gate.wait()
        yield ", " + await ctx.step(reserve, "box")

    @agent.skill
    async def plain(text: str):
        life.note("working")
        await life.gate.wait()

    return agent


async def test_a_durable_run_goes_on_after_a_stop(connect_rpc, lasting, life):
    """durable=True: the run is taken up by replay; nothing recorded is done or sent again (D4)."""
    async with connect_rpc(durable_agent(life), store=lasting) as client:
        task = (await client.send(say("nut", configuration={"returnImmediately": True})))["task"]
        await until(lambda: "working" in life.done)
    async with connect_rpc(durable_agent(life), store=lasting) as client:
        stream = await client.subscribe(task["id"])
        life.gate.set()
        frames = await stream.rest()
        task = await client.get(task["id"])
    assert [text_of(f["artifactUpdate"]["artifact"]) for f in frames if "artifactUpdate" in f] == [", box reserved"]
    assert (state_of(task), text_of(task)) == ("completed", "nut reserved, box reserved")
    assert [m for m in life.done if m != "working"] == ["reserve nut", "reserve box"]
    assert [text_of(m) for m in task["history"]] == ["nut", "reserving"]


async def test_messages_that_waited_for_a_durable_run_get_their_turn_after_a_stop(connect_rpc, lasting, life):
    """An accepted message is kept, in its place in the queue (rule 8)."""
    agent = Agent("Chat")

    @agent.skill(durable=True)
    async def chat(text: str, ctx: Context):
        life.note("working")
        await life.gate.wait()
        return text + await ctx.ask("1?") + await ctx.ask("2?")

    async with connect_rpc(agent, store=lasting) as client:
        task = (await client.send(say("a", configuration={"returnImmediately": True})))["task"]
        await until(lambda: "working" in life.done)
        for text in "bc":
            await client.send(say(text, taskId=task["id"], configuration={"returnImmediately": True}))
    life.gate.set()
    async with connect_rpc(agent, store=lasting) as client:
        await until_state(client, task["id"], "completed")
        assert text_of(await client.get(task["id"])) == "abc"


async def test_a_plain_run_fails_when_its_process_ends(connect_rpc, lasting, life):
    """Side effects nobody agreed to repeat are not repeated."""
    async with connect_rpc(durable_agent(life), store=lasting) as client:
        sent = say("x", metadata={"skill": "plain"}, configuration={"returnImmediately": True})
        task = (await client.send(sent))["task"]
        await until(lambda: "working" in life.done)
    async with connect_rpc(durable_agent(life), store=lasting) as client:
        task = await client.get(task["id"])
    assert (state_of(task), text_of(task["status"]["message"]).partition(":")[0]) == ("failed", "interrupted")
    assert life.done == ["working"]


async def test_a_database_of_the_first_schema_opens_and_goes_on(connect_rpc, tmp_path):
    """D9: tasks, questions and keys of an older release are all there, and its parked function can be answered."""
    shutil.copy(FIXTURES / "schema-0001.db", tmp_path / "tasks.db")
    agent = Agent("Fixture")

    @agent.skill
    async def echo(text: str) -> str:
        return text

    @agent.skill
    async def trip(text: str, ctx: Context):
        days = await ctx.ask("How many days?", int)
        yield f"{days} days in {text}"

    @agent.skill
    async def chat(text: str):
        return "See you"

    async with connect_rpc(agent, store=f"sqlite:///{tmp_path}/tasks.db") as client:
        tasks = {text_of(t["history"][0]): t for t in (await client.list())["tasks"]}
        assert {text: state_of(t) for text, t in tasks.items()} == {
            "hello": "completed",
            "Rome": "input-required",
            "hi": "input-required",
            "x": "failed",
        }
        done = (await client.send(say("3", taskId=tasks["Rome"]["id"])))["task"]
        assert text_of(done["artifacts"][0]) == "3 days in Rome"
        assert state_of((await client.send(say("bye", taskId=tasks["hi"]["id"])))["task"]) == "completed"


async def until_state(client, task_id, state):
    """Poll, as a client without a stream would."""
    async with asyncio.timeout(10):
        while state_of(await client.get(task_id)) != state:  # noqa: ASYNC110  the server has no event to wait on from here
            await asyncio.sleep(0.01)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  set by the agent, in whichever life
            await asyncio.sleep(0.01)
