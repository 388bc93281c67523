"""Skills whose first output decides whether there is a task (design, rule 8)."""

import asyncio

import pytest

from accord import Agent, Context, InvalidParams, Message, Part, Reply
from accord.auth import ApiKeys
from accord.model import Role, StatusUpdate, TaskState, TaskStatus
from tests.drive import kinds, refusal_of, say, state_of, text_of


def agent_of(function, **options) -> Agent:
    agent = Agent("Test agent", **options)
    agent.skill(function, first_word=True)
    return agent


async def replies(text: str):
    return Reply(text.upper())


async def yields(text: str):
    yield Message(message_id="m", role=Role.AGENT, parts=[Part(text=text.upper())])
    raise AssertionError("nobody listens any more")


async def says(text: str, ctx: Context):
    await ctx.say(Message(message_id="m", role=Role.AGENT, parts=[Part(text=text.upper())]))


@pytest.mark.parametrize("skill", [replies, yields, says])
async def test_a_message_first_makes_no_task(connect, skill):
    """The sender gets the message, and nothing else exists."""
    async with connect(agent_of(skill)) as client:
        answer = (await client.send("hello"))["message"]
        assert (text_of(answer), answer.get("taskId", "")) == ("HELLO", "")
        assert kinds(await (await client.stream("hello")).rest()) == ["message"]
        assert (await client.list()).get("tasks", []) == []


async def test_anything_else_makes_a_task(connect):
    """The task begins with it, and the skill knew its id before."""
    known = []

    async def writes(text: str, ctx: Context):
        known.append(ctx.task_id)
        yield "a"
        yield "b"

    async with connect(agent_of(writes)) as client:
        task = (await client.send("hello"))["task"]
        assert (state_of(task), text_of(task), task["id"]) == ("completed", "ab", known[0])
        frames = await (await client.stream("hello")).rest()
        assert kinds(frames) == ["task submitted", "working", "chunk", "chunk", "completed"]


async def test_an_error_before_the_first_word_is_the_answer(connect):
    """No task is left behind, whatever was raised."""

    async def refuses(text: str, ctx: Context):
        if text == "invalid":
            raise InvalidParams("no such city")
        if text == "reject":
            ctx.reject("not today")
        raise RuntimeError("broken")

    async with connect(agent_of(refuses)) as client:
        for text, said in (
            ("invalid", "no such city"),
            ("reject", "not today"),
            ("other", "The agent failed. Reference: "),
        ):
            assert said in (await refusal_of(client.send(text))).message
            assert said in (await refusal_of(client.stream(text))).message
        assert (await client.list()).get("tasks", []) == []


async def test_an_error_after_it_fails_the_task(connect_rpc):
    """There is a task by then, and so something to fail."""

    async def breaks(text: str):
        yield "a"
        raise RuntimeError("broken")

    async with connect_rpc(agent_of(breaks)) as client:
        assert state_of((await client.send("hello"))["task"]) == "failed"


async def test_return_immediately_waits_for_the_first_word(connect):
    """Before it there is no task that could be returned."""
    begun, speak, end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(text: str):
        begun.set()
        await speak.wait()
        yield "a"
        await end.wait()

    async with connect(agent_of(slow)) as client:
        sending = asyncio.create_task(client.send(say(configuration={"returnImmediately": True})))
        await begun.wait()
        assert (await client.list()).get("tasks", []) == []
        assert not sending.done()
        speak.set()
        task = (await sending)["task"]
        assert (state_of(task), text_of(task)) == ("working", "a")
        end.set()


async def test_a_status_first_is_the_first_status(connect_rpc):
    """`ctx.say` begins the task as it says, without a working before it; submitted is how every
    task begins.
    """

    async def submits(text: str, ctx: Context):
        for state in (TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED):
            await ctx.say(StatusUpdate(task_id="", context_id="", status=TaskStatus(state=state)))

    async with connect_rpc(agent_of(submits)) as client:
        frames = await (await client.stream("hello")).rest()
        assert kinds(frames) == ["task submitted", "working", "completed"]


async def test_a_question_first_makes_a_task(connect):
    """A question needs a task that waits for its answer."""

    async def asks(text: str, ctx: Context):
        return Reply(await ctx.ask("Where?"))

    async with connect(agent_of(asks)) as client:
        task = (await client.send("hello"))["task"]
        assert state_of(task) == "input-required"
        done = (await client.send(say("Rome", taskId=task["id"])))["task"]
        assert (state_of(done), text_of(done["status"]["message"])) == ("completed", "Rome")


async def test_a_refused_follow_up_leaves_the_question_open(connect):
    """The sender of a message the skill refuses gets the error; the task waits as before."""

    async def bridge(text: str, ctx: Context):
        if text == "wrong":
            raise InvalidParams("not a city")
        if text == "Rome":
            return "done"
        word = Message(message_id="q", role=Role.AGENT, parts=[Part(text="Where?")])
        await ctx.say(
            StatusUpdate(
                task_id="",
                context_id="",
                status=TaskStatus(state=TaskState.INPUT_REQUIRED, message=word),
            )
        )

    async with connect(agent_of(bridge)) as client:
        task = (await client.send("hello"))["task"]
        assert state_of(task) == "input-required"
        refused = await refusal_of(client.send(say("wrong", taskId=task["id"])))
        assert refused.message == "not a city"
        now = await client.get(task["id"])
        assert (state_of(now), text_of(now["status"]["message"])) == ("input-required", "Where?")
        done = (await client.send(say("Rome", taskId=task["id"])))["task"]
        assert (state_of(done), text_of(done)) == ("completed", "done")


@pytest.mark.parametrize("skill", [replies, lambda text: text.upper()], ids=["message", "task"])
async def test_a_key_gives_the_same_answer(connect, skill):
    """One call of the function, however often it is sent (design, rule 17)."""
    calls = []

    async def counted(text: str):
        calls.append(text)
        found = skill(text)
        return await found if asyncio.iscoroutine(found) else found

    async with connect(agent_of(counted)) as client:
        request = say("hello")
        key = {"Idempotency-Key": "k-1"}
        first, *more = await asyncio.gather(*(client.send(request, headers=key) for _ in range(3)))
        more.append(await client.send(request, headers=key))
        [(kind, value)] = first.items()
        id_ = "messageId" if kind == "message" else "id"
        assert [one[kind][id_] for one in more] == [value[id_]] * 3
        assert calls == ["hello"]


# Named as people name what holds a secret; a list of words never has them all.
SECRETS = [
    *("X-ClientSecret", "AccessToken", "X_Api_Key", "X-UserToken", "X-Pass", "X-OTP"),
    *("X-Sessionid", "X-API-Key", "X-Auth-Token", "X-Pin", "Ocp-Apim-Subscription-Key", "X-Vault"),
]


async def test_headers_without_credentials(connect):
    """A skill sees the headers its agent asks for; whatever else may show who it is, is neither
    seen nor stored.
    """
    seen = []

    async def look(text: str, ctx: Context):
        seen.append((ctx.headers, ctx.tenant, ctx.task.history[0].text))
        return "ok"

    headers = {
        "X-Request-Id": "r-1",
        "Authorization": "Bearer s3cret",
        "Cookie": "a=s3cret",
        "X-Color": "blue",
        **dict.fromkeys(SECRETS, "s3cret"),
    }
    async with connect(agent_of(look)) as client:
        await client.send(say("hello", tenant="blue"), headers=headers)
    async with connect(agent_of(look, headers=["X-Color", "X-Shape"])) as client:
        await client.send(say("hello", tenant="blue"), headers=headers)
    assert seen == [
        ({"x-request-id": "r-1"}, "blue", "hello"),
        ({"x-color": "blue"}, "blue", "hello"),
    ]


async def test_the_agents_own_key_is_hidden_whatever_its_header_is_called(connect_rpc):
    """A scheme of the agent says which header holds a key."""
    seen = []

    async def look(text: str, ctx: Context):
        seen.append(ctx.headers)
        return ctx.caller.name

    key = "k-0123456789abcdef"
    auth = ApiKeys(header="X-Team", keys={key: "ada"})
    async with connect_rpc(agent_of(look, auth=auth, headers=["X-Color"])) as client:
        reply = await client.send("hello", headers={"X-Team": key, "X-Color": "blue"})
    assert (text_of(reply["task"]), seen) == ("ada", [{"x-color": "blue"}])
    for name in ("x-team", "Authorization", "Cookie"):
        with pytest.raises(ValueError, match="holds credentials"):
            agent_of(look, auth=auth, headers=["X-Color", name])


async def test_a_task_of_one_is_no_one_elses(connect_rpc):
    """`ctx.task` is a copy: what a skill does to it changes nothing."""

    async def changes(text: str, ctx: Context):
        yield "a"
        task = ctx.task
        task.artifacts.clear()
        yield str(len(ctx.task.artifacts))

    async with connect_rpc(agent_of(changes)) as client:
        assert text_of((await client.send("hello"))["task"]) == "a1"


async def test_a_plain_function_may_have_a_first_word(connect_rpc):
    """What it returns is its first word."""

    def plain(text: str):
        return Reply(text)

    def refuses(text: str):
        raise InvalidParams("no")

    for skill, expected in ((plain, "message"), (refuses, "refused")):
        async with connect_rpc(agent_of(skill)) as client:
            if expected == "message":
                assert text_of((await client.send("hi"))["message"]) == "hi"
            else:
                assert (await refusal_of(client.send("hi"))).message == "no"


def test_an_agent_that_never_has_tasks_needs_no_first_word():
    """Both together contradict each other, which is said at start."""

    async def reply(text: str) -> Reply:
        return Reply(text)

    with pytest.raises(TypeError, match="never has a task"):
        agent_of(reply).app()


async def test_a_webhook_comes_with_the_task(connect_rpc):
    """One that is registered with the message is registered when there is a task."""

    async def writes(text: str):
        yield "a"

    config = {"id": "c1", "url": "http://127.0.0.1:9/hook"}
    async with connect_rpc(agent_of(writes), allow_hosts=["127.0.0.1"]) as client:
        request = say(
            configuration={"taskPushNotificationConfig": config, "returnImmediately": True}
        )
        task = (await client.send(request))["task"]
        found = await client.list_push_configs(task["id"])
        assert [one["id"] for one in found["configs"]] == ["c1"]


async def test_a_caller_who_leaves_does_not_stop_it(connect_rpc):
    """What was begun is ended, as with every task."""
    begun, speak = asyncio.Event(), asyncio.Event()

    async def slow(text: str):
        begun.set()
        await speak.wait()
        return "done"

    async with connect_rpc(agent_of(slow)) as client:
        sending = asyncio.create_task(client.send("hello"))
        await begun.wait()
        sending.cancel()
        speak.set()
        async with asyncio.timeout(30):
            while [state_of(t) for t in (await client.list()).get("tasks", [])] != ["completed"]:  # noqa: ASYNC110  as a client
                await asyncio.sleep(0.02)
