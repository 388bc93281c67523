"""Turns: questions, answers, and messages that come while the agent is busy."""

import asyncio
from dataclasses import dataclass

from accord import Ask, Context, Limits, Message
from tests.drive import heard, kinds, refusal_of, say, state_of, text_of


async def test_a_skill_may_ask_as_often_as_it_likes(connect, store):
    """Each answer continues the same call of the function (design, rule 7)."""

    async def book(request: str, ctx: Context):
        day = await ctx.ask("Which day?")
        hour = await ctx.ask("Which hour?")
        return f"{request} on {day} at {hour}"

    async with connect(book, store=store) as client:
        asked = (await client.send("a table"))["task"]
        again = (await client.send(say("Monday", taskId=asked["id"])))["task"]
        assert text_of(again["status"]["message"]) == "Which hour?"
        done = (await client.send(say("nine", taskId=asked["id"])))["task"]
        assert (state_of(done), text_of(done)) == ("completed", "a table on Monday at nine")


async def test_everything_said_is_in_the_history_in_order(connect):
    """User messages and the questions between them, oldest first (MSG-2)."""

    async def book(request: str, ctx: Context):
        return "at " + await ctx.ask("When?")

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        done = (await client.send(say("nine", taskId=asked["id"])))["task"]
        assert [text_of(message) for message in done["history"]] == ["a table", "When?", "nine"]


async def test_a_typed_question_carries_its_schema(connect):
    """A console can draw a form of it."""

    @dataclass
    class Seats:
        adults: int
        children: int = 0

    async def book(request: str, ctx: Context):
        seats = await ctx.ask("How many?", Seats)
        return f"{seats.adults}+{seats.children}"

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        question, schema = asked["status"]["message"]["parts"]
        assert question == {"text": "How many?"}
        assert schema["mediaType"] == "application/schema+json"
        assert "adults" in str(schema["data"])
        done = (await client.send(say([{"data": {"adults": 2}}], taskId=asked["id"])))["task"]
        assert text_of(done) == "2+0"


async def test_a_plain_answer_may_be_typed_as_text(connect):
    """Bare text does for int, float, bool and str; JSON text for the rest."""

    async def survey(request: str, ctx: Context):
        return repr(
            [
                await ctx.ask("n", int),
                await ctx.ask("b", bool),
                await ctx.ask("x", float),
                await ctx.ask("s"),
            ]
        )

    async with connect(survey) as client:
        task = (await client.send("go"))["task"]
        for answer in ("3", "yes", "1.5", "4"):
            task = (await client.send(say(answer, taskId=task["id"])))["task"]
        assert text_of(task) == "[3, True, 1.5, '4']"


async def test_a_wrong_answer_is_asked_for_again(connect):
    """The question comes back saying what was wrong; the function sees only the answer that
    fits.
    """

    async def survey(request: str, ctx: Context):
        return f"{await ctx.ask('How many?', int)} it is"

    async with connect(survey) as client:
        asked = (await client.send("go"))["task"]
        again = (await client.send(say("many", taskId=asked["id"])))["task"]
        assert state_of(again) == "input-required"
        assert "does not fit" in text_of(again["status"]["message"])
        done = (await client.send(say("7", taskId=asked["id"])))["task"]
        assert text_of(done) == "7 it is"


async def test_an_answer_can_be_taken_as_the_whole_message(connect):
    """ask(question, Message) hands over every part; ctx.message is the newest taken."""

    async def book(request: str, ctx: Context):
        answer = await ctx.ask("Send the file", Message)
        return f"{len(answer.parts)} parts, newest is it: {ctx.message is answer}"

    async with connect(book) as client:
        asked = (await client.send("hi"))["task"]
        done = (await client.send(say([{"text": "here"}, {"raw": "aGk="}], taskId=asked["id"])))[
            "task"
        ]
        assert text_of(done) == "2 parts, newest is it: True"


async def test_returning_ask_ends_the_turn_and_the_next_message_calls_afresh(connect, store):
    """Nothing is kept in memory between the calls; the history says what went before (design,
    section 1).
    """

    async def collect(request: str, ctx: Context):
        if request != "that is all":
            return Ask("What else?")
        return " and ".join(m.text for m in ctx.history if m.role == "ROLE_USER")

    async with connect(collect, store=store) as client:
        task = (await client.send("milk"))["task"]
        task = (await client.send(say("bread", taskId=task["id"])))["task"]
        assert (state_of(task), text_of(task["status"]["message"])) == (
            "input-required",
            "What else?",
        )
        task = (await client.send(say("that is all", taskId=task["id"])))["task"]
        assert (state_of(task), text_of(task)) == ("completed", "milk and bread and that is all")


async def test_a_question_left_open_outlives_the_server(connect, lasting):
    """`return Ask` leaves nothing in memory, so any later server takes the answer."""

    async def collect(request: str, ctx: Context):
        return Ask("What else?") if request == "milk" else f"{len(ctx.history)} messages"

    async with connect(collect, store=lasting) as client:
        task = (await client.send("milk"))["task"]
    async with connect(collect, store=lasting) as client:
        assert await client.get(task["id"]) == task
        done = (await client.send(say("bread", taskId=task["id"])))["task"]
        assert text_of(done) == "3 messages"


async def test_a_message_for_a_busy_task_is_no_answer_to_what_is_asked_later(connect):
    """It waits while the function works. A question refuses it, and its sender is told why
    (design, rule 7).
    """
    entered, gate = asyncio.Event(), asyncio.Event()

    async def work(request: str, ctx: Context):
        entered.set()
        await gate.wait()
        return await ctx.ask("And?")

    async with connect(work) as client:
        events = await client.stream("start")
        await entered.wait()
        task_id = (await events.next())["task"]["id"]
        first = await client.send(
            say("one", taskId=task_id, configuration={"returnImmediately": True})
        )
        assert state_of(first["task"]) == "working"
        second = asyncio.create_task(refusal_of(client.send(say("two", taskId=task_id))))
        await heard(client, task_id, 3)
        gate.set()
        assert (await second).reason == "UNSUPPORTED_OPERATION"
        assert text_of((await client.get(task_id))["status"]["message"]) == "And?"
        done = await client.send(say("three", taskId=task_id))
        assert text_of(done["task"]) == "three"


async def test_the_messages_waiting_for_a_task_are_bounded(connect):
    """The 33rd is told to come back later, with HTTP's own word for it on every binding (OPS-2,
    GEN-6; design, rule 7).
    """
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()
        return Ask("And?") if request == "start" else "done"

    async with connect(work) as client:
        at_once = {"returnImmediately": True}
        task = (await client.send(say("start", configuration=at_once)))["task"]
        for n in range(32):
            await client.send(say(f"message {n}", taskId=task["id"], configuration=at_once))
        refused = await refusal_of(client.send(say("one too many", taskId=task["id"])))
        assert (refused.status, refused.headers["Retry-After"]) == (
            8 if client.binding == "GRPC" else 429,
            "1",
        )
        assert len((await client.get(task["id"]))["history"]) == 33
        gate.set()


async def test_whoever_still_waits_when_the_task_ends_is_told_so(connect):
    """UnsupportedOperation names the context; the message stays in the history (design, rule 7)."""
    entered, gate = asyncio.Event(), asyncio.Event()

    async def work(request: str):
        entered.set()
        await gate.wait()
        return "done"

    async with connect(work) as client:
        task = (await client.send(say("start", configuration={"returnImmediately": True})))["task"]
        late = asyncio.create_task(refusal_of(client.send(say("late", taskId=task["id"]))))
        await heard(client, task["id"], 2)
        gate.set()
        refused = await late
        assert (refused.reason, refused.detail["contextId"]) == (
            "UNSUPPORTED_OPERATION",
            task["contextId"],
        )
        assert [text_of(m) for m in (await client.get(task["id"]))["history"]] == ["start", "late"]


async def test_a_waiting_message_starts_the_next_turn_of_an_open_task(connect):
    """After `return Ask(..., takes_waiting=True)` the oldest message that waits is taken without
    anybody sending again (SND-9; design, rule 7).
    """
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()
        return Ask("And?", takes_waiting=True) if request == "start" else f"got {request}"

    async with connect(work) as client:
        task = (await client.send(say("start", configuration={"returnImmediately": True})))["task"]
        next_turn = asyncio.create_task(client.send(say("next", taskId=task["id"])))
        await heard(client, task["id"], 2)
        gate.set()
        assert text_of((await next_turn)["task"]) == "got next"


async def test_a_long_row_of_waiting_messages_is_gone_through(connect_rpc):
    """Each gets its turn, however many they are: a turn that is over at once does not begin the
    next within itself.
    """
    gate, taken = asyncio.Event(), []
    row = [str(n) for n in range(400)]

    async def work(request: str):
        await gate.wait()
        taken.append(request)
        return Ask(f"{request}?", takes_waiting=True)

    now = {"returnImmediately": True}
    async with connect_rpc(work, limits=Limits(waiting_messages=len(row))) as client:
        task = (await client.send(say("start", configuration=now)))["task"]
        for word in row[:-1]:
            await client.send(say(word, taskId=task["id"], configuration=now))
        last = asyncio.create_task(client.send(say(row[-1], taskId=task["id"])))
        await heard(client, task["id"], 1 + len(row))
        gate.set()
        assert text_of((await last)["task"]["status"]["message"]) == f"{row[-1]}?"
        assert taken == ["start", *row]


async def test_an_answer_is_never_met_with_the_old_question(connect):
    """Taking the answer makes the task working in the same commit (design, rule 7)."""
    gate = asyncio.Event()

    async def book(request: str, ctx: Context):
        await ctx.ask("When?")
        await gate.wait()
        return "booked"

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        taken = await client.send(
            say("nine", taskId=asked["id"], configuration={"returnImmediately": True})
        )
        assert state_of(taken["task"]) == "working"
        gate.set()


async def test_a_streamed_answer_begins_with_the_task_and_ends_with_its_turn(connect):
    """The stream of a follow-up opens with a snapshot, and closes at the next question (section 7,
    A7, A10).
    """

    async def book(request: str, ctx: Context):
        await ctx.ask("When?")
        await ctx.ask("Where?")

    async with connect(book) as client:
        first = await (await client.stream("a table")).rest()
        assert kinds(first) == ["task submitted", "working", "input-required"]
        second = await client.stream(say("nine", taskId=first[0]["task"]["id"]))
        assert kinds(await second.rest())[0].startswith("task ")
        assert text_of((await client.get(first[0]["task"]["id"]))["status"]["message"]) == "Where?"


async def test_questions_asked_at_once_are_asked_one_after_the_other(connect):
    """An answer could not say which of two it is for: questions wait for each other
    (docs/durable.md).
    """

    async def book(request: str, ctx: Context):
        when, where = await ctx.gather(ctx.ask("When?"), ctx.ask("Where?"))
        return f"{when} at {where}"

    async with connect(book) as client:
        task = (await client.send("go"))["task"]
        assert text_of(task["status"]["message"]) == "When?"
        task = (await client.send(say("noon", taskId=task["id"])))["task"]
        assert text_of(task["status"]["message"]) == "Where?"
        task = (await client.send(say("the inn", taskId=task["id"])))["task"]
        assert text_of(task) == "noon at the inn"


async def test_a_waiting_stream_lasts_until_the_end_of_its_own_turn(connect):
    """Another sender's question is shown in passing; it does not close the stream (design,
    rule 3).
    """
    gate = asyncio.Event()

    async def work(request: str):
        await gate.wait()
        return Ask("And?", takes_waiting=True) if request == "start" else f"got {request}"

    async with connect(work) as client:
        first = await client.stream("start")
        task_id = (await first.next())["task"]["id"]
        second = await client.stream(say("next", taskId=task_id))
        assert kinds(await second.take(1)) == ["task working"]
        gate.set()
        assert kinds(await first.rest()) == ["working", "input-required"]
        assert kinds(await second.rest()) == ["input-required", "working", "chunk", "completed"]


async def test_an_answer_may_be_json_in_text(connect):
    """For a person at a keyboard: a data part, else text as JSON."""

    @dataclass
    class Seats:
        adults: int

    async def book(request: str, ctx: Context):
        return f"{(await ctx.ask('How many?', Seats)).adults} seats"

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        done = (await client.send(say('{"adults": 2}', taskId=asked["id"])))["task"]
        assert text_of(done) == "2 seats"
