"""What code inside a run can do beside `ctx`: answer with an error, find its context, bridge."""

import asyncio
import enum
import threading

import pytest

import accord
from accord import Agent, Artifact, Context, InvalidParams, Message, Part, TaskNotFound
from accord.model import ArtifactUpdate, Role, StatusUpdate, TaskState, TaskStatus
from tests.drive import kinds, refusal_of, say, state_of, text_of
from tests.processes import until


async def test_a_skill_answers_with_an_error_of_the_protocol(connect):
    """Before any output its sender gets the error, as if the server had refused the message."""

    async def pick(number: int):
        if number > 3:
            raise InvalidParams("choose 1, 2 or 3", violations=(("number", "is too large"),))
        return number

    async with connect(pick) as client:
        refused = await refusal_of(client.send("7"))
        assert refused.message == "choose 1, 2 or 3"
        assert refused.reason == "INVALID_PARAMS"
        assert state_of((await client.send("2"))["task"]) == "completed"


async def test_a_stream_shows_the_rejection(connect):
    """It has shown the task by then: its end says why."""

    async def pick(request: str):
        raise InvalidParams("choose 1, 2 or 3")

    async with connect(pick) as client:
        events = await (await client.stream("7")).rest()
        status = events[-1]["statusUpdate"]["status"]
        assert status["state"] == "TASK_STATE_REJECTED"
        assert status["message"]["parts"] == [{"text": "choose 1, 2 or 3"}]


async def test_an_error_after_output_fails_the_task_with_its_text(connect):
    """A client has seen output by then: the task can only fail."""

    async def pick(request: str, ctx: Context):
        ctx.write("half")
        raise InvalidParams("no more than half")

    async with connect(pick) as client:
        task = (await client.send("go"))["task"]
        assert state_of(task) == "failed"
        assert task["status"]["message"]["parts"] == [{"text": "no more than half"}]


async def test_an_error_of_the_users_own_class_is_the_protocols(connect):
    """Clients know the codes of the protocol alone."""

    class Unlucky(InvalidParams):
        pass

    async def pick(request: str):
        raise Unlucky("no luck")

    async with connect(pick) as client:
        assert (await refusal_of(client.send("go"))).reason == "INVALID_PARAMS"


async def test_what_another_agent_reports_is_no_answer_of_ours(connect):
    """Our client did not ask for that task: it learns that we failed, and not from whom."""
    other = Agent("Other")

    @other.skill
    async def echo(text: str) -> str:
        return text

    async def ask_other(request: str):
        async with accord.connect(other) as client:
            await client.get("no-such-task")

    async with connect(ask_other) as client:
        task = (await client.send("go"))["task"]
        assert state_of(task) == "failed"
        assert "Reference" in task["status"]["message"]["parts"][0]["text"]


async def test_code_inside_a_run_finds_its_context(connect):
    """However deep, in a thread too, and in a skill that takes no context."""

    def deep() -> str:
        accord.current().status("deep inside")
        return accord.current().task_id

    async def skill(request: str):
        return deep()

    def plain(request: str):
        return deep()

    for function in (skill, plain):
        async with connect(function) as client:
            events = await (await client.stream("go")).rest()
            task_id = events[0]["task"]["id"]
            updates = [e["artifactUpdate"] for e in events if "artifactUpdate" in e]
            assert updates[0]["artifact"]["parts"] == [{"text": task_id}]
            statuses = [e["statusUpdate"]["status"] for e in events if "statusUpdate" in e]
            assert "deep inside" in str(statuses)


async def test_code_on_an_event_loop_of_another_thread_asks_and_ends_with_its_run():
    """Some frameworks call async tools there."""
    ended = threading.Event()
    agent = Agent("Booker")

    async def tool() -> str:
        try:
            return f"{await accord.current().ask('How many days?', int) + 1} nights"
        finally:
            ended.set()

    @agent.skill
    async def book(request: str) -> str:
        return await asyncio.to_thread(asyncio.run, tool())

    async with accord.connect(agent) as client:
        asked = await client.send("go")
        assert asked.question == "How many days?"
        assert (await asked.answer(2)).text == "3 nights"
        ended.clear()
        asked = await client.send("go")
        assert (await client.cancel(asked.task_id)).state.word == "canceled"
        await until(ended.is_set)


def test_outside_of_a_run_there_is_no_context():
    """The error says where it can be used."""
    with pytest.raises(RuntimeError, match="code that a skill with a task calls"):
        accord.current()


async def test_a_forgotten_await_is_an_error_and_never_text(connect, caplog):
    """A client must not be sent the name of a coroutine."""

    async def greet(request: str, ctx: Context):
        name = ctx.ask("Who are you?")
        return f"Hello {name}"

    async with connect(greet) as client:
        task = (await client.send("go"))["task"]
        assert state_of(task) == "failed"
    assert "write `await` before ctx.ask(...)" in caplog.text


async def test_a_follow_up_that_names_another_skill_is_refused():
    """It would be answered by a skill its sender did not mean."""
    agent = Agent("Two")

    @agent.skill
    async def first(request: str, ctx: Context) -> str:
        return await ctx.ask("More?")

    @agent.skill
    async def second(request: str) -> str:
        return request

    async with accord.connect(agent) as client:
        reply = await client.send("go", metadata={"skill": "first"})
        with pytest.raises(InvalidParams, match="worked on by skill 'first'"):
            await client.send("x", task_id=reply.task_id, metadata={"skill": "second"})
        done = await client.send("x", task_id=reply.task_id, metadata={"skill": "first"})
        assert done.text == "x"


class Color(str, enum.Enum):  # noqa: UP042  as users write them
    RED = "red"


class Name(str):
    pass


@pytest.mark.parametrize("value", [Color.RED, Name("red")], ids=lambda v: type(v).__name__)
async def test_a_kind_of_text_is_text(connect, value):
    """Whatever class of str an agent uses."""

    async def make(request: str):
        yield value

    async with connect(make) as client:
        assert text_of((await client.send("go"))["task"]) == "red"


def status(state: TaskState, text: str = "") -> StatusUpdate:
    message = Message(message_id="m", role=Role.AGENT, parts=[Part(text=text)]) if text else None
    return StatusUpdate(
        task_id="theirs", context_id="theirs", status=TaskStatus(state=state, message=message)
    )


async def test_a_bridge_says_events_as_they_are(connect):
    """With the ids of our own task; a final status ends it, whatever the function does then."""

    async def bridge(request: str, ctx: Context):
        await ctx.say(status(TaskState.WORKING, "on it"))
        for append, text in ((False, "a"), (True, "b")):
            artifact = Artifact(artifact_id="one", parts=[Part(text=text)])
            await ctx.say(
                ArtifactUpdate(
                    task_id="theirs",
                    context_id="theirs",
                    artifact=artifact,
                    append=append,
                    last_chunk=append,
                )
            )
        await ctx.say(status(TaskState.FAILED, "broken"))

    async with connect(bridge) as client:
        events = await (await client.stream("go")).rest()
        assert kinds(events)[-1] == "failed"
        task = await client.get(events[0]["task"]["id"])
        assert state_of(task) == "failed"
        assert task["status"]["message"]["parts"] == [{"text": "broken"}]
        assert [a["artifactId"] for a in task["artifacts"]] == ["one"]
        assert text_of(task) == "ab"
        assert "theirs" not in str(events)


async def test_a_bridge_leaves_a_question_open(connect):
    """The turn ends when the function returns; the next message calls it again."""

    async def bridge(request: str, ctx: Context):
        if request == "go":
            await ctx.say(status(TaskState.INPUT_REQUIRED, "How many?"))
        else:
            await ctx.say(Message(message_id="m", role=Role.AGENT, parts=[Part(text="done")]))

    async with connect(bridge) as client:
        task = (await client.send("go"))["task"]
        assert state_of(task) == "input-required"
        task = (await client.send(say("2", taskId=task["id"])))["task"]
        assert state_of(task) == "completed"
        assert task["status"]["message"]["parts"] == [{"text": "done"}]


async def test_a_bridge_waits_for_an_authorization_or_returns_without_it(connect):
    """Its sender gets the task at once, also if the function goes on by itself later."""
    allowed = asyncio.Event()

    async def bridge(request: str, ctx: Context):
        if request != "in":
            await ctx.say(status(TaskState.AUTH_REQUIRED, "Sign in"))
        if request == "wait":
            await allowed.wait()
            await ctx.say(status(TaskState.WORKING))
        if request != "go":
            await ctx.say(status(TaskState.COMPLETED, "done"))

    async with connect(bridge) as client:
        waits = (await client.send("wait"))["task"]
        assert state_of(waits) == "auth-required"
        stream = await client.subscribe(waits["id"])
        allowed.set()
        events = await stream.rest()
        assert kinds(events)[-1] == "completed"

        left = (await client.send("go"))["task"]
        assert state_of(left) == "auth-required"
        task = (await client.send(say("in", taskId=left["id"])))["task"]
        assert state_of(task) == "completed"
        assert [m["parts"][0]["text"] for m in task["history"]] == ["go", "Sign in", "in"]


async def test_a_skill_that_finds_no_task_may_say_so(connect):
    """Any error of the protocol will do."""

    async def look(request: str):
        raise TaskNotFound("there is no order 7")

    async with connect(look) as client:
        assert (await refusal_of(client.send("go"))).reason == "TASK_NOT_FOUND"
