"""One task, many versions: what one has begun, any other can read, continue, stream and cancel."""

import asyncio

import pytest

from accord import Agent, Context
from tests.legacy.wire import Old, say_0_1, say_0_3, say_1_0, say_rest, talking_to


async def book(request: str, ctx: Context):
    """Asks once, then answers."""
    day = await ctx.ask("When?")
    return f"{request} on {day}"


async def begin_0_1(client: Old) -> str:
    return (await client.result("tasks/send", say_0_1("t-old", "a table")))["id"]


async def begin_0_3(client: Old) -> str:
    return (await client.result("message/send", say_0_3("a table")))["id"]


async def begin_rest_0_3(client: Old) -> str:
    body = say_rest("a table", configuration={"blocking": True})
    return (await client.ok("POST", "/v1/message:send", body))["task"]["id"]


async def begin_1_0(client: Old) -> str:
    return (await client.result("SendMessage", say_1_0("a table")))["task"]["id"]


async def begin_rest_1_0(client: Old) -> str:
    return (await client.ok("POST", "/message:send", say_1_0("a table")))["task"]["id"]


async def go_on_0_1(client: Old, task_id: str) -> str:
    task = await client.result("tasks/send", say_0_1(task_id, "Monday"))
    return task["artifacts"][0]["parts"][0]["text"]


async def go_on_0_3(client: Old, task_id: str) -> str:
    events = await client.events("message/stream", say_0_3("Monday", taskId=task_id))
    return next(
        event["artifact"]["parts"][0]["text"]
        for event in events
        if event["kind"] == "artifact-update"
    )


async def go_on_rest_0_3(client: Old, task_id: str) -> str:
    events = await client.ok("POST", "/v1/message:stream", say_rest("Monday", taskId=task_id))
    return next(
        e["artifactUpdate"]["artifact"]["parts"][0]["text"] for e in events if "artifactUpdate" in e
    )


async def go_on_1_0(client: Old, task_id: str) -> str:
    task = (await client.result("SendMessage", say_1_0("Monday", taskId=task_id)))["task"]
    return task["artifacts"][0]["parts"][0]["text"]


async def go_on_rest_1_0(client: Old, task_id: str) -> str:
    task = (await client.ok("POST", "/message:send", say_1_0("Monday", taskId=task_id)))["task"]
    return task["artifacts"][0]["parts"][0]["text"]


BEGIN = [begin_0_1, begin_0_3, begin_rest_0_3, begin_1_0, begin_rest_1_0]
GO_ON = [go_on_0_1, go_on_0_3, go_on_rest_0_3, go_on_1_0, go_on_rest_1_0]


@pytest.mark.parametrize("go_on", GO_ON)
@pytest.mark.parametrize("begin", BEGIN)
async def test_a_task_of_one_version_is_finished_in_another(begin, go_on):
    """The store keeps the 1.0 model; every version is a view of it."""
    async with talking_to(book) as client:
        assert await go_on(client, await begin(client)) == "a table on Monday"


@pytest.mark.parametrize("begin", BEGIN)
async def test_a_task_is_read_in_every_version(begin):
    """The state, the question and the history are the same facts in every shape."""
    async with talking_to(book) as client:
        task_id = await begin(client)
        by_1_0 = await client.result("GetTask", {"id": task_id})
        by_0_3 = await client.result("tasks/get", {"id": task_id}, headers={"A2A-Version": "0.3"})
        by_0_1 = await client.result(
            "tasks/get", {"id": task_id, "historyLength": 9}, headers={"A2A-Version": "0.1"}
        )
        by_rest = await client.ok("GET", f"/v1/tasks/{task_id}")
        for task, state in (
            (by_1_0, "TASK_STATE_INPUT_REQUIRED"),
            (by_0_3, "input-required"),
            (by_0_1, "input-required"),
            (by_rest, "TASK_STATE_INPUT_REQUIRED"),
        ):
            assert task["status"]["state"] == state
            question = task["status"]["message"]
            assert question.get("content", question.get("parts"))[0]["text"] == "When?"
            said = task["history"][0]
            assert said.get("content", said.get("parts"))[0]["text"] == "a table"
        assert (
            by_0_1["sessionId"]
            == by_0_3["contextId"]
            == by_rest["contextId"]
            == by_1_0["contextId"]
        )


@pytest.mark.parametrize("begin", BEGIN)
@pytest.mark.parametrize("method", ["tasks/cancel", "CancelTask", "/v1"])
async def test_a_task_is_canceled_in_any_version(begin, method):
    """One cancel, three spellings of its outcome."""
    async with talking_to(book) as client:
        task_id = await begin(client)
        if method == "/v1":
            state = (await client.ok("POST", f"/v1/tasks/{task_id}:cancel"))["status"]["state"]
        else:
            state = (await client.result(method, {"id": task_id}))["status"]["state"]
        assert state in ("canceled", "TASK_STATE_CANCELED", "TASK_STATE_CANCELLED")
        assert (await client.result("GetTask", {"id": task_id}))["status"][
            "state"
        ] == "TASK_STATE_CANCELED"


async def test_a_shared_method_answers_in_the_version_the_task_was_made_in():
    """`tasks/get` is in 0.1 and 0.3; the task tells, unless the caller does."""
    async with talking_to(book) as client:
        old, new = await begin_0_1(client), await begin_0_3(client)
        assert "sessionId" in await client.result("tasks/get", {"id": old})
        assert (await client.result("tasks/get", {"id": new}))["kind"] == "task"
        assert (await client.result("tasks/get", {"id": old}, headers={"A2A-Version": "0.2"}))[
            "kind"
        ] == "task"
        assert "sessionId" in await client.result(
            "tasks/get", {"id": new}, headers={"A2A-Version": "0.1"}
        )
        assert (await client.result("tasks/get", {"id": await begin_1_0(client)}))["kind"] == "task"


async def test_the_origin_of_a_task_is_known_after_a_restart(lasting):
    """Who made a task is stored with it, so its client gets its shape from the next server too."""
    async with talking_to(book, store=lasting) as client:
        old = await begin_0_1(client)
    async with talking_to(book, store=lasting) as client:
        assert "sessionId" in await client.result("tasks/get", {"id": old})


async def test_readers_of_every_version_follow_one_run():
    """One run, one log: every version's stream shows all of it and ends with it."""
    gate = asyncio.Event()
    agent = Agent("Test agent")

    @agent.skill
    async def tell(request: str):
        await gate.wait()
        yield "one "
        yield "two"

    async with talking_to(agent) as client:
        task = await client.result("message/send", say_0_3(configuration={"blocking": False}))
        by_id = {"id": task["id"]}
        async with (
            client.open("tasks/resubscribe", by_id, headers={"A2A-Version": "0.1"}) as one,
            client.open("tasks/resubscribe", by_id) as three,
            client.open("SubscribeToTask", by_id) as now,
        ):
            for stream in (one, three, now):
                assert (await stream.next())["result"]
            gate.set()
            texts = []
            for stream in (one, three, now):
                events = [event["result"] for event in await stream.rest()]
                events = [event.get("artifactUpdate", event) for event in events]
                texts.append([e["artifact"]["parts"][0]["text"] for e in events if "artifact" in e])
        assert texts == [["one ", "two"]] * 3


async def test_metadata_of_any_version_is_kept_for_all():
    """What a client says beside its message is in the task whoever reads it."""
    async with talking_to(book) as client:
        message = say_0_1("t-1", "a table")["message"] | {
            "metadata": {"n": 1, "deep": {"list": [1, None]}}
        }
        await client.result("tasks/send", {"id": "t-1", "message": message})
        stored = (await client.result("GetTask", {"id": "t-1"}))["history"][0]["metadata"]
        assert stored == {"n": 1, "deep": {"list": [1, None]}}
        assert (await client.ok("GET", "/v1/tasks/t-1"))["history"][0]["metadata"] == stored
