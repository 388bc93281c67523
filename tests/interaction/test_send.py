"""SendMessage: what comes back, and when."""

import asyncio

from accord import Agent, Ask, Context, Message, Reply
from tests.drive import refusal_of, say, state_of, text_of


async def test_a_blocking_send_waits_for_the_end_of_the_work(connect):
    """Without returnImmediately the answer is the task as it ended, artifacts and all (SND-3)."""

    async def echo(request: str):
        await asyncio.sleep(0)
        return request.upper()

    async with connect(echo) as client:
        answer = await client.send("hello")
        assert list(answer) == ["task"]
        assert (state_of(answer["task"]), text_of(answer["task"])) == ("completed", "HELLO")


async def test_a_blocking_send_returns_at_a_question(connect):
    """An interrupted state ends the wait as a terminal one does (SND-3)."""

    async def book(request: str, ctx: Context):
        return await ctx.ask("When?")

    async with connect(book) as client:
        task = (await client.send("a table"))["task"]
        assert (state_of(task), text_of(task["status"]["message"])) == ("input-required", "When?")


async def test_a_send_that_does_not_wait_returns_the_task_at_once(connect):
    """With returnImmediately the task comes back as soon as it exists, and goes on (SND-4,
    GEN-9).
    """
    gate = asyncio.Event()

    async def slow(request: str):
        await gate.wait()
        return "done"

    async with connect(slow) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        assert state_of(task) in ("submitted", "working")
        events = await client.subscribe(task["id"])
        gate.set()
        await events.rest()
        assert state_of(await client.get(task["id"])) == "completed"


async def test_a_reply_skill_answers_with_a_bare_message(connect):
    """A direct answer is a message and no task; returnImmediately changes nothing about it (SND-1,
    SND-2, SND-5, CTX-1).
    """

    async def greet(name: str) -> Reply:
        return Reply(f"Hello, {name}")

    async with connect(greet) as client:
        answer = await client.send(say("Ada", configuration={"returnImmediately": True}))
        assert list(answer) == ["message"]
        message = answer["message"]
        assert (message["role"], text_of(message)) == ("ROLE_AGENT", "Hello, Ada")
        assert message["contextId"]
        assert "taskId" not in message
        assert (await client.list())["totalSize"] == 0


async def test_a_task_and_its_context_get_ids_from_the_server(connect):
    """Every new task has an id of its own, and a context where the message named none (CTX-1,
    CTX-5).
    """

    async def echo(request: str):
        return request

    async with connect(echo) as client:
        one, two = [(await client.send("hi"))["task"] for _ in range(2)]
        assert len({one["id"], two["id"], one["contextId"], two["contextId"]}) == 4


async def test_a_context_chosen_by_the_client_is_kept(connect):
    """An unknown contextId starts a conversation of that name, never another (CTX-2, CTX-4,
    CTX-9).
    """

    async def echo(request: str):
        return request

    async with connect(echo) as client:
        tasks = [(await client.send(say(contextId="trip-7")))["task"] for _ in range(2)]
        assert [task["contextId"] for task in tasks] == ["trip-7", "trip-7"]
        assert tasks[0]["id"] != tasks[1]["id"]


async def test_a_message_for_an_unknown_task_is_refused(connect):
    """A taskId names a task that exists: it can't be used to choose one (SND-7, CTX-5, CTX-6)."""

    async def echo(request: str):
        return request

    async with connect(echo) as client:
        refused = await refusal_of(client.send(say(taskId="nowhere")))
        assert (refused.reason, refused.detail) == ("TASK_NOT_FOUND", {"taskId": "nowhere"})


async def test_a_message_for_a_finished_task_is_refused(connect):
    """Terminal states are final; the error names the context a new task can be started in (SND-6,
    MSG-4).
    """

    async def echo(request: str):
        return request

    async with connect(echo) as client:
        task = (await client.send("hi"))["task"]
        refused = await refusal_of(client.send(say(taskId=task["id"])))
        assert refused.reason == "UNSUPPORTED_OPERATION"
        assert refused.detail == {"taskId": task["id"], "contextId": task["contextId"]}
        assert len((await client.get(task["id"]))["history"]) == 1


async def test_the_task_says_which_context_an_answer_belongs_to(connect):
    """With a taskId alone the context is the task's (CTX-7, CTX-10)."""

    async def book(request: str, ctx: Context):
        return "at " + await ctx.ask("When?")

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        done = (await client.send(say("nine", taskId=asked["id"])))["task"]
        assert (done["id"], done["contextId"], text_of(done)) == (
            asked["id"],
            asked["contextId"],
            "at nine",
        )
        assert done["history"][-1]["contextId"] == asked["contextId"]


async def test_a_context_that_is_not_the_tasks_is_refused(connect):
    """taskId and contextId that disagree are a mistake, and nothing is stored of it (CTX-8)."""

    async def book(request: str, ctx: Context):
        return await ctx.ask("When?")

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        refused = await refusal_of(client.send(say("nine", taskId=asked["id"], contextId="other")))
        assert (refused.reason, list(refused.violations)) == (
            "INVALID_PARAMS",
            ["message.contextId"],
        )
        assert await client.get(asked["id"]) == asked


async def test_what_the_agent_says_names_its_task_and_context(connect):
    """Agent messages carry contextId, and taskId when there is a task (CTX-12)."""

    async def book(request: str, ctx: Context):
        await ctx.ask("When?")

    async with connect(book) as client:
        task = (await client.send("a table"))["task"]
        word = task["status"]["message"]
        assert (word["role"], word["taskId"], word["contextId"]) == (
            "ROLE_AGENT",
            task["id"],
            task["contextId"],
        )
        assert word["messageId"]


async def test_tasks_of_one_context_run_side_by_side(connect):
    """A context is a conversation, not a queue (CTX-13)."""
    both = asyncio.Barrier(2)

    async def meet(request: str):
        await both.wait()
        return request

    async with connect(meet) as client:
        answers = await asyncio.gather(
            *(client.send(say(word, contextId="c")) for word in ("one", "two"))
        )
        assert [text_of(answer["task"]) for answer in answers] == ["one", "two"]


async def test_the_skill_sees_the_tasks_a_message_refers_to(connect):
    """Related tasks are the agent's to use (CTX-11)."""

    async def relate(request: Message):
        return ",".join(request.reference_task_ids)

    async with connect(relate) as client:
        task = (await client.send(say(referenceTaskIds=["t-1", "t-2"])))["task"]
        assert text_of(task) == "t-1,t-2"


async def test_a_caller_who_hangs_up_stops_nothing(connect):
    """Processing is independent of the connection (GEN-9)."""
    entered, gate = asyncio.Event(), asyncio.Event()

    async def slow(request: str):
        entered.set()
        await gate.wait()
        return "done"

    async with connect(slow) as client:
        sending = asyncio.create_task(client.send("hi"))
        await entered.wait()
        sending.cancel()
        await asyncio.wait({sending})
        [listed] = (await client.list())["tasks"]
        events = await client.subscribe(listed["id"])
        gate.set()
        await events.rest()
        assert text_of(await client.get(listed["id"])) == "done"


async def test_a_finished_conversation_goes_on_in_a_new_task(connect):
    """A follow-up names the context and starts a new task there (SND-6, CTX-9)."""
    agent = Agent("Notes")

    @agent.skill
    async def note(request: str):
        return Ask("More?") if request == "first" else "noted"

    async with connect(agent) as client:
        first = (await client.send("first"))["task"]
        await client.send(say("enough", taskId=first["id"]))
        second = (await client.send(say("again", contextId=first["contextId"])))["task"]
        listed = await client.list(contextId=first["contextId"])
        assert [task["id"] for task in listed["tasks"]] == [second["id"], first["id"]]
