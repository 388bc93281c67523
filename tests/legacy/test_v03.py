"""0.2 and 0.3 on JSON-RPC: `kind` on everything, states and roles as words."""

import asyncio

import pytest

from accord import Agent, Context, File, Message, Reply
from accord.model import now_ms
from tests.drive import PATIENCE_S
from tests.legacy.wire import echo, say_0_3, talking_to


async def test_a_send_answers_with_the_task_itself():
    """The task is the result, not wrapped, and `kind` says what it is."""
    async with talking_to(echo) as client:
        task = await client.result("message/send", say_0_3("hi", messageId="m-1"))
        message = {
            "kind": "message",
            "messageId": "m-1",
            "role": "user",
            "parts": [{"kind": "text", "text": "hi"}],
        }
        assert task["kind"] == "task"
        assert task["status"]["state"] == "completed"
        assert task["artifacts"] == [
            {"artifactId": "artifact-1", "parts": [{"kind": "text", "text": "HI"}]}
        ]
        assert task["history"] == [message | {"taskId": task["id"], "contextId": task["contextId"]}]
        assert await client.result("tasks/get", {"id": task["id"]}) == task


async def test_a_bare_reply_is_a_message():
    """A message without a task is told by its kind."""

    async def greet(name: str) -> Reply:
        return Reply(f"Hello, {name}")

    async with talking_to(greet) as client:
        message = await client.result("message/send", say_0_3("Ada"))
        assert (message["kind"], message["role"], message["parts"]) == (
            "message",
            "agent",
            [{"kind": "text", "text": "Hello, Ada"}],
        )
        assert await client.events("message/stream", say_0_3("Ada")) != []


@pytest.mark.parametrize(
    ("configuration", "state"),
    [({}, "completed"), ({"blocking": True}, "completed"), ({"blocking": False}, None)],
)
async def test_a_send_blocks_unless_told_otherwise(configuration, state):
    """Absent means blocking on JSON-RPC; only `blocking: false` returns at once."""
    gate = asyncio.Event()

    async def slow(request: str):
        await gate.wait()
        return "done"

    async with talking_to(slow) as client:
        sending = asyncio.ensure_future(
            client.result("message/send", say_0_3(configuration=configuration))
        )
        if configuration.get("blocking") is False:
            assert (await sending)["status"]["state"] in ("submitted", "working")
            gate.set()
        else:
            asyncio.get_running_loop().call_soon(gate.set)
            assert (await sending)["status"]["state"] == "completed"


async def test_a_stream_starts_with_the_task_and_ends_with_final():
    """The events of a stream are told apart by kind; the last one says so."""

    async def tell(request: str):
        yield "one "
        yield "two"

    async with talking_to(tell) as client:
        events = await client.events("message/stream", say_0_3())
        assert [event["kind"] for event in events] == [
            "task",
            "status-update",
            "artifact-update",
            "artifact-update",
            "status-update",
        ]
        assert [event["final"] for event in events if "final" in event] == [False, True]
        assert events[3]["append"] is True
        assert all(event["contextId"] == events[0]["contextId"] for event in events)


async def test_a_question_ends_the_stream_with_final():
    """The last event of an interaction is final even if the task is not."""

    async def book(request: str, ctx: Context):
        return await ctx.ask("When?")

    async with talking_to(book) as client:
        *_, last = await client.events("message/stream", say_0_3())
        assert (last["status"]["state"], last["final"]) == ("input-required", True)
        task = await client.result(
            "message/send", say_0_3("noon", taskId=last["taskId"], contextId=last["contextId"])
        )
        assert task["status"]["state"] == "completed"


async def test_resubscribing_opens_with_the_task_and_goes_on():
    """The task as it is, then what follows; also under the name drafts gave it."""
    gate = asyncio.Event()

    async def slow(request: str):
        await gate.wait()
        return "done"

    async with talking_to(slow) as client:
        task = await client.result("message/send", say_0_3(configuration={"blocking": False}))
        async with (
            client.open("tasks/resubscribe", {"id": task["id"]}) as one,
            client.open("tasks/subscribe", {"id": task["id"]}) as two,
        ):
            assert (
                (await one.next())["result"]["kind"]
                == (await two.next())["result"]["kind"]
                == "task"
            )
            gate.set()
            for stream in (one, two):
                assert (await stream.rest())[-1]["result"]["final"] is True


async def test_resubscribing_to_a_finished_task_gives_it_and_ends():
    """The proto says so, and clients that lost their stream at the end need it."""
    async with talking_to(echo) as client:
        task = await client.result("message/send", say_0_3())
        assert await client.events("tasks/resubscribe", {"id": task["id"]}) == [task]


async def test_an_unknown_task_is_an_error_event_of_its_stream():
    """Clients of 0.3 read nothing but events from a stream, so the error is one; who takes only
    JSON gets JSON.
    """
    async with talking_to(echo) as client:
        async with client.open("tasks/resubscribe", {"id": "nobody"}) as stream:
            [event] = await stream.rest()
            assert event["error"]["code"] == -32001
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tasks/resubscribe",
            "params": {"id": "nobody"},
        }
        async with client.http.post(
            client.url, json=request, headers={"Accept": "application/json"}
        ) as response:
            assert response.content_type == "application/json"
            assert (await response.json())["error"]["code"] == -32001


async def test_a_second_cancel_fails():
    """1.0 returns a canceled task again; 0.3 says it is not cancelable."""

    async def wait(request: str, ctx: Context):
        await ctx.ask("?")

    async with talking_to(wait) as client:
        task = await client.result("message/send", say_0_3())
        assert (await client.result("tasks/cancel", {"id": task["id"]}))["status"][
            "state"
        ] == "canceled"
        assert (await client.error("tasks/cancel", {"id": task["id"]}))["code"] == -32002
        assert (await client.result("CancelTask", {"id": task["id"]}))["status"][
            "state"
        ] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize(
    "part",
    [
        {"kind": "file", "file": {"name": "a.txt", "mimeType": "text/plain", "bytes": "aGVsbG8="}},
        {"kind": "file", "file": {"bytes": "aGVsbG8"}},  # unpadded
        {"kind": "file", "file": {"data": "aGVsbG8="}},  # as in the examples of 0.2
        {"type": "file", "file": {"fileWithBytes": "aGVsbG8="}},  # as in notes on migration
        {"file": {"bytes": "aGVsbG8="}},
    ],
)
async def test_file_bytes_are_taken_in_every_form_in_use(part):
    """The content is the same however the member is called and whether the part says what it is."""

    async def size(file: File):
        return str(len(file.data))

    async with talking_to(size) as client:
        task = await client.result("message/send", say_0_3(parts=[part]))
        assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "5"}]
        assert task["history"][0]["parts"][0]["file"]["bytes"] == "aGVsbG8="


async def test_what_0_3_has_no_place_for_is_marked_and_kept():
    """A data part that is no object, a media type where there is none: written so that reading
    restores them.
    """
    agent = Agent("Test agent")

    @agent.skill
    async def answer(request: str, ctx: Context):
        return await ctx.ask("How many?", int)

    async with talking_to(agent) as client:
        task = await client.result("message/send", say_0_3())
        schema = task["status"]["message"]["parts"][1]
        assert schema["metadata"] == {"a2a_compat": {"mediaType": "application/schema+json"}}
        parts = [{"kind": "data", "data": {"value": 3}, "metadata": {"data_part_compat": True}}]
        task = await client.result("message/send", say_0_3(taskId=task["id"], parts=parts))
        assert task["artifacts"][0]["parts"] == [
            {"kind": "data", "data": {"value": 3}, "metadata": {"data_part_compat": True}}
        ]
        stored = await client.result("GetTask", {"id": task["id"]})
        assert stored["artifacts"][0]["parts"][0]["data"] == 3


async def test_a_stray_message_id_beside_the_message_is_found():
    """Seed 003 shows it there."""
    async with talking_to(echo) as client:
        params = {
            "messageId": "m-1",
            "message": {"role": "user", "parts": [{"type": "text", "text": "hi"}]},
        }
        assert (await client.result("message/send", params))["history"][0]["messageId"] == "m-1"


async def test_tasks_are_listed_as_the_draft_says():
    """Newest first, without history and artifacts unless asked, filtered by words and
    milliseconds.
    """
    async with talking_to(echo) as client:
        one = await client.result("message/send", say_0_3("one", contextId="c-1"))
        two = await client.result("message/send", say_0_3("two"))
        page = await client.result("tasks/list")
        assert [task["id"] for task in page["tasks"]] == [two["id"], one["id"]]
        assert page["totalSize"] == 2
        assert page["pageSize"] == 50
        assert page["nextPageToken"] == ""
        assert {"history", "artifacts"}.isdisjoint(page["tasks"][0])
        assert page["tasks"][0]["kind"] == "task"
        whole = await client.result(
            "tasks/list", {"contextId": "c-1", "includeArtifacts": True, "historyLength": 5}
        )
        assert whole["tasks"] == [one]
        assert (await client.result("tasks/list", {"status": "working"}))["tasks"] == []
        soon = {"lastUpdatedAfter": now_ms() + 30_000}  # by a clock that is fast
        assert (await client.result("tasks/list", soon))["tasks"] == []
        for wrong in (
            {"pageSize": 0},
            {"pageToken": "%"},
            {"historyLength": -1},
            {"lastUpdatedAfter": "then"},
            {"lastUpdatedAfter": 4102444800000},  # in the future
            {"status": "odd"},
        ):
            assert (await client.error("tasks/list", wrong))["code"] == -32602


@pytest.mark.parametrize(
    "change",
    [
        {"messageId": None},
        {"role": None},
        {"role": "robot"},
        {"parts": None},
        {"parts": []},
        {"parts": ["hi"]},
        {"parts": [{"kind": "odd"}]},
        {"parts": [{"kind": "file", "file": {}}]},
        {"parts": [{"kind": "file", "file": {"bytes": "%%"}}]},
        {"parts": [{"kind": "text", "text": 7}]},
        {"taskId": 7},
        {"configuration": {"blocking": "yes"}},
        {"configuration": {"historyLength": -1}},
        {"configuration": []},
        {"metadata": "no"},
    ],
)
async def test_bad_params_get_an_old_error_and_make_nothing(change):
    """-32602 without typed details, and no task is left behind."""
    async with talking_to(echo) as client:
        error = await client.error("message/send", say_0_3(**change))
        assert error["code"] == -32602
        assert "data" not in error
        assert (await client.result("ListTasks", {}))["totalSize"] == 0


async def test_an_unknown_task_and_a_finished_one_take_no_messages():
    """A task id the server did not give is not found; a finished task is not restarted (legacy
    3.5).
    """
    async with talking_to(echo) as client:
        error = await client.error("message/send", say_0_3(taskId="nobody"))
        assert (error["code"], error["message"]) == (-32001, "Task not found: nobody")
        async with client.open("message/stream", say_0_3(taskId="nobody")) as stream:
            [event] = await stream.rest()
            assert event["error"]["message"] == "Task not found: nobody"
        task = await client.result("message/send", say_0_3())
        assert (await client.error("message/send", say_0_3(taskId=task["id"])))["code"] == -32004


async def test_push_operations_are_refused_in_the_old_shape():
    """The card says there is no push; every form of asking for it is answered so."""
    config = {"taskId": "t", "pushNotificationConfig": {"url": "https://example.net/hook"}}
    async with talking_to(echo, push=False) as client:
        for method, params in (
            ("tasks/pushNotificationConfig/set", config),
            ("tasks/pushNotificationConfig/get", {"id": "t"}),
            ("tasks/pushNotificationConfig/get", {"taskId": "t", "configId": "c"}),
            ("tasks/pushNotificationConfig/list", {"id": "t"}),
            ("tasks/pushNotificationConfig/delete", {"id": "t", "pushNotificationConfigId": "c"}),
        ):
            assert (await client.error(method, params))["code"] == -32003
        assert (await client.error("tasks/pushNotificationConfig/set", {"taskId": "t"}))[
            "code"
        ] == -32602


async def test_the_old_name_of_the_extensions_header_is_answered_with_the_old_name():
    """The header lost its X in 1.0; a client looks for the one it knows."""
    uri = "urn:accord:resume:1"
    async with talking_to(echo) as client:
        for name in ("X-A2A-Extensions", "A2A-Extensions"):
            request = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": say_0_3()}
            async with client.http.post(client.url, json=request, headers={name: uri}) as response:
                assert response.headers[name] == uri


async def test_the_skill_sees_the_same_message_whatever_the_version():
    """The model inside is 1.0's: an agent never learns how it was asked."""
    seen: list[Message] = []

    async def look(request: Message):
        seen.append(request)

    async with talking_to(look) as client:
        parts = [
            {"kind": "text", "text": "a"},
            {"kind": "data", "data": {"n": 1}},
            {"kind": "file", "file": {"uri": "https://x.y/z"}},
        ]
        await asyncio.wait_for(
            client.result("message/send", say_0_3(parts=parts, messageId="m", metadata={"t": 1})),
            PATIENCE_S,
        )
        new = [{"text": "a"}, {"data": {"n": 1}}, {"url": "https://x.y/z"}]
        await client.result(
            "SendMessage",
            {
                "message": {"messageId": "m", "role": "ROLE_USER", "parts": new},
                "metadata": {"t": 1},
            },
        )
        assert seen[0].parts == seen[1].parts
        assert seen[0].role == seen[1].role
