"""What a skill may return, raise and be: functions of every kind, several of them, and failing
ones.
"""

import logging
import threading
from dataclasses import dataclass

import msgspec
import pytest

from accord import Agent, Artifact, Ask, Caller, Context, File, Message, Part, Reply, StatusMessage
from accord.engine.skills import definition_of
from accord.model import Role
from tests.drive import kinds, refusal_of, say, state_of, text_of


@dataclass
class Flight:
    number: str
    seats: int


class Hotel(msgspec.Struct):
    name: str


JSON_TYPE = "application/json"
RETURNED = [
    ("text", [{"text": "text"}]),
    (Flight("AB1", 2), [{"data": {"number": "AB1", "seats": 2}, "mediaType": JSON_TYPE}]),
    (Hotel("Ritz"), [{"data": {"name": "Ritz"}, "mediaType": JSON_TYPE}]),
    ({"a": [1, None]}, [{"data": {"a": [1, None]}, "mediaType": JSON_TYPE}]),
    (7, [{"data": 7, "mediaType": JSON_TYPE}]),
    (File(b"hi", name="a.txt"), [{"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain"}]),
    (
        File(url="https://x.example/a.pdf", name="a.pdf"),
        [{"url": "https://x.example/a.pdf", "filename": "a.pdf", "mediaType": "application/pdf"}],
    ),
    (b"hi", [{"raw": "aGk=", "mediaType": "application/octet-stream"}]),
    (Part(text="p", metadata={"k": 1}), [{"text": "p", "metadata": {"k": 1}}]),
    ([Part(text="a"), Part(text="b")], [{"text": "a"}, {"text": "b"}]),
]


@pytest.mark.parametrize(("value", "parts"), RETURNED, ids=lambda v: type(v).__name__)
async def test_what_a_skill_returns_becomes_an_artifact(connect_rpc, value, parts):
    """Results are artifacts, by type: text, data or file (MSG-1)."""

    async def make(request: str):
        return value

    async with connect_rpc(make) as client:
        task = (await client.send("go"))["task"]
        assert [artifact["parts"] for artifact in task["artifacts"]] == [parts]


async def test_nothing_returned_is_nothing_made(connect):
    """None completes the task with neither artifact nor message (design, rule 8)."""

    async def quiet(request: str):
        return None

    async with connect(quiet) as client:
        task = (await client.send("go"))["task"]
        assert state_of(task) == "completed"
        assert "artifacts" not in task
        assert "message" not in task["status"]


@pytest.mark.parametrize(
    "word",
    [StatusMessage("bye"), Message(message_id="x", role=Role.AGENT, parts=[Part(text="bye")])],
    ids=["StatusMessage", "Message"],
)
async def test_a_message_returned_by_a_task_is_its_last_word(connect_rpc, word):
    """It becomes the completing status message, and no artifact (design, rule 8)."""

    async def leave(request: str):
        return word

    async with connect_rpc(leave) as client:
        task = (await client.send("go"))["task"]
        assert (state_of(task), text_of(task["status"]["message"])) == ("completed", "bye")
        assert "artifacts" not in task


async def test_a_reply_of_a_skill_with_a_task_is_a_mistake(connect_rpc, caplog):
    """`Reply` has one meaning: an answer without a task (design, rule 8)."""

    async def leave(request: str):
        return Reply("bye")

    async with connect_rpc(leave) as client:
        assert state_of((await client.send("go"))["task"]) == "failed"
        assert "annotate it -> Reply, or say StatusMessage(...)" in caplog.text


async def test_skills_may_be_plain_functions(connect):
    """A def runs in a thread and answers like any other."""

    def shout(request: str):
        return f"{request.upper()} {threading.current_thread() is threading.main_thread()}"

    async with connect(shout) as client:
        assert text_of((await client.send("hi"))["task"]) == "HI False"


async def test_skills_may_be_plain_generators(connect):
    """Their yields are chunks too, and their return value the last (design, rule 9)."""

    def count(request: str, ctx: Context):
        ctx.status("counting")
        yield "1"
        ctx.write("2")
        return "3"

    async with connect(count) as client:
        frames = await (await client.stream("go")).rest()
        assert kinds(frames) == [
            "task submitted",
            "working",
            "working",
            "chunk",
            "chunk",
            "chunk",
            "completed",
        ]
        assert text_of(await client.get(frames[0]["task"]["id"])) == "123"


async def test_a_plain_function_may_leave_a_question(connect):
    """`return Ask` works from a thread."""

    def book(request: str):
        return Ask("When?") if request == "a table" else f"at {request}"

    async with connect(book) as client:
        asked = (await client.send("a table"))["task"]
        assert state_of(asked) == "input-required"
        assert text_of((await client.send(say("nine", taskId=asked["id"])))["task"]) == "at nine"


@pytest.mark.parametrize(
    "wait",
    [
        lambda ctx: ctx.ask("When?"),
        lambda ctx: ctx.step(str),
        lambda ctx: ctx.delegate("http://127.0.0.1:1", "go"),
        lambda ctx: ctx.require_auth("sign in"),
        lambda ctx: ctx.conversation(),
    ],
)
async def test_a_plain_function_cannot_wait_for_an_answer(connect_rpc, caplog, wait):
    """What has to be awaited fails in a thread, at the call, and the log says what to write
    instead.
    """

    def book(request: str, ctx: Context):
        wait(ctx)

    async with connect_rpc(book) as client:
        task = (await client.send("go"))["task"]
        assert state_of(task) == "failed"
        assert "write async def book" in caplog.text


async def test_a_reply_skill_has_no_task_to_speak_of(connect, caplog):
    """Task verbs raise TypeError there (design, rule 8)."""

    async def greet(request: str, ctx: Context) -> Reply:
        ctx.status("thinking")
        return Reply("hi")

    async with connect(greet) as client:
        refused = await refusal_of(client.send("go"))
        assert refused.reason == "INTERNAL_ERROR"
        assert "annotated -> Reply" in caplog.text
        assert "annotated" not in refused.message


def helpdesk():
    agent = Agent("Help desk")

    @agent.skill
    async def sell(request: str):
        return "sell"

    @agent.skill(id="repair-it")
    async def repair(request: str):
        return "repair"

    return agent


@pytest.mark.parametrize(
    ("id_", "name"),
    [
        ("orderHardware", "Order hardware"),
        ("order_hardware", "Order hardware"),
        ("order", "Order"),
        ("GET", "Get"),
    ],
)
def test_a_skill_without_a_name_is_called_by_the_words_of_its_id(id_, name):
    """People read the name on the card and in the console: `orderHardware` is no word."""
    agent = Agent("Office")
    agent.skill(lambda text: text, id=id_)
    assert definition_of(agent).skills[id_].card.name == name


async def test_a_message_may_name_its_skill(connect):
    """metadata.skill chooses; else the first skill is the default."""
    async with connect(helpdesk()) as client:
        assert text_of((await client.send("hi"))["task"]) == "sell"
        assert (
            text_of((await client.send(say(metadata={"skill": "repair-it"})))["task"]) == "repair"
        )
        assert (
            text_of((await client.send(say() | {"metadata": {"skill": "repair-it"}}))["task"])
            == "repair"
        )


@pytest.mark.parametrize("name", ["nowhere", 7, ["sell"]])
async def test_an_unknown_skill_is_refused(connect, name):
    """The error names the skills there are (GEN-2)."""
    async with connect(helpdesk()) as client:
        refused = await refusal_of(client.send(say(metadata={"skill": name})))
        assert (refused.reason, list(refused.violations)) == (
            "INVALID_PARAMS",
            ["message.metadata.skill"],
        )
        assert "sell, repair-it" in refused.message


async def test_a_route_function_chooses_where_the_message_does_not(connect):
    """It may be async, and None is the default skill."""
    agent = helpdesk()

    @agent.skill(default=True)
    async def talk(request: str):
        return "talk"

    @agent.route
    async def route(message: Message):
        return "repair-it" if "broken" in message.text else None

    async with connect(agent) as client:
        words = ("it is broken", "hello")
        assert [text_of((await client.send(word))["task"]) for word in words] == ["repair", "talk"]
        assert (
            text_of((await client.send(say("it is broken", metadata={"skill": "sell"})))["task"])
            == "sell"
        )


async def test_a_later_message_goes_to_the_skill_that_began_the_task(connect):
    """A task is one skill's, whatever the default is."""
    agent = Agent("Two")

    @agent.skill
    async def first(request: str):
        return "first"

    @agent.skill
    async def second(request: str):
        return Ask("more?") if request == "begin" else "second"

    async with connect(agent) as client:
        task = (await client.send(say("begin", metadata={"skill": "second"})))["task"]
        assert text_of((await client.send(say("go on", taskId=task["id"])))["task"]) == "second"


async def test_a_failing_skill_fails_its_task_and_tells_no_secrets(connect, caplog):
    """The client gets a number to quote, the log the rest (GEN-1, OPS-1)."""

    async def leak(request: str):
        yield "half"
        raise RuntimeError("password is hunter2")

    async with connect(leak) as client:
        task = (await client.send("go"))["task"]
        assert (state_of(task), text_of(task)) == ("failed", "half")
        assert "hunter2" not in str(task)
        reference = text_of(task["status"]["message"]).rpartition(" ")[2]
        [record] = [r for r in caplog.records if r.levelno == logging.ERROR]
        assert reference in record.getMessage()
        assert "hunter2" in caplog.text


async def test_a_failing_reply_is_an_error_and_tells_no_secrets(connect, caplog):
    """There is no task to fail: the call itself does (GEN-1, OPS-1)."""

    async def leak(request: str) -> Reply:
        raise RuntimeError("password is hunter2")

    async with connect(leak) as client:
        refused = await refusal_of(client.send("go"))
        assert refused.reason == "INTERNAL_ERROR"
        assert "hunter2" not in str(refused.error)
        assert refused.detail["reference"] in caplog.text


async def test_a_failing_route_is_our_fault_and_tells_no_secrets(connect, caplog):
    """Whatever breaks inside, the answer is an error in the binding's shape (GEN-1)."""
    agent = helpdesk()

    @agent.route
    def route(message: Message):
        raise RuntimeError("password is hunter2")

    async with connect(agent) as client:
        refused = await refusal_of(client.send("go"))
        assert refused.reason == "INTERNAL_ERROR"
        assert "hunter2" not in str(refused.error)
        assert refused.detail["reference"] in caplog.text


@pytest.mark.parametrize(("verb", "state"), [("fail", "failed"), ("reject", "rejected")])
async def test_a_skill_may_say_why_it_fails_or_declines(connect, verb, state):
    """ctx.fail and ctx.reject end the task with a reason the client may read (MSG-3)."""

    async def decline(request: str, ctx: Context):
        getattr(ctx, verb)("no seats left")

    async with connect(decline) as client:
        task = (await client.send("go"))["task"]
        assert (state_of(task), text_of(task["status"]["message"])) == (state, "no seats left")


async def test_an_agent_that_breaks_the_protocol_fails_its_task(connect, caplog):
    """An artifact without parts is the agent's fault, not the client's (section 1.4)."""

    async def empty(request: str):
        return Artifact(artifact_id="a", parts=[])

    async with connect(empty) as client:
        task = (await client.send("go"))["task"]
        assert state_of(task) == "failed"
        assert "artifacts" not in task


async def test_a_skill_knows_its_caller_and_task(connect):
    """Context and Caller are filled in, and take nothing from the message."""

    async def who(request: str, ctx: Context, caller: Caller):
        return f"{ctx.task_id} {ctx.context_id} {caller.is_anonymous} {ctx.caller is caller}"

    async with connect(who) as client:
        task = (await client.send("go"))["task"]
        assert text_of(task) == f"{task['id']} {task['contextId']} True True"


async def test_progress_is_kept_in_the_history(connect):
    """A status message moves into the history when the next one comes."""

    async def work(request: str, ctx: Context):
        ctx.status("one")
        ctx.status("two", metadata={"percent": 50})

    async with connect(work) as client:
        task = (await client.send("go"))["task"]
        assert [text_of(message) for message in task["history"]] == ["go", "one", "two"]
        assert task["metadata"] == {"percent": 50}


WRONG = [
    (lambda request: None, "say what 'request' is"),
    (lambda *args: None, "write out"),
]


@pytest.mark.parametrize(("function", "complaint"), WRONG)
def test_a_signature_that_cannot_be_filled_is_refused_at_the_start(function, complaint):
    """Not with the first message (design, rule 11)."""
    agent = Agent("Wrong")
    agent.skill(id="wrong")(function)
    with pytest.raises(TypeError, match=complaint):
        agent.app()


def test_two_parameters_cannot_take_the_same_thing():
    """Nobody could say which gets what (design, rule 11)."""
    agent = Agent("Wrong")

    @agent.skill
    async def twice(one: File, two: File):
        pass

    with pytest.raises(TypeError, match="both take the file"):
        agent.app()


def test_an_agent_without_a_skill_is_refused_at_the_start():
    """There is nothing it could do."""
    with pytest.raises(ValueError, match="no skill yet"):
        Agent("Idle").app()
