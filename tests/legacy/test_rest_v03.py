"""0.3 on HTTP+JSON: `/v1/...`, protobuf's JSON, and the two other dialects clients speak there."""

import asyncio
import base64

import pytest

from accord import Context, File
from tests.legacy.wire import echo, say_0_3, say_1_0, say_rest, talking_to

WAIT = {"configuration": {"blocking": True}}


async def test_a_send_answers_in_protobufs_json():
    """`content` in messages, `parts` in artifacts, names of enums, and no member its strict readers
    don't know.
    """
    async with talking_to(echo) as client:
        task = (
            await client.ok("POST", "/v1/message:send", say_rest("hi", messageId="m-1", **WAIT))
        )["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"] == [{"artifactId": "artifact-1", "parts": [{"text": "HI"}]}]
        message = {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "hi"}]}
        assert task["history"] == [message | {"taskId": task["id"], "contextId": task["contextId"]}]
        assert await client.ok("GET", f"/v1/tasks/{task['id']}") == task
        assert "history" not in await client.ok("GET", f"/v1/tasks/{task['id']}?historyLength=0")
        assert "history" not in await client.ok("GET", f"/v1/tasks/{task['id']}?history_length=0")


async def test_a_send_does_not_block_unless_told_to():
    """`blocking` is a bool of proto 3 there: to say nothing is to say false."""
    gate = asyncio.Event()

    async def slow(request: str):
        await gate.wait()
        return "done"

    async with talking_to(slow) as client:
        task = (await client.ok("POST", "/v1/message:send", say_rest()))["task"]
        assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
        asyncio.get_running_loop().call_soon(gate.set)
        done = (await client.ok("POST", "/v1/message:send", say_rest(**WAIT)))["task"]
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_snake_case_and_the_first_names_of_fields_are_taken():
    """Compat clients of 1.x send snake_case with `request`; proto parsers take both, so do we."""
    async with talking_to(echo) as client:
        body = {
            "request": {
                "message_id": "m-1",
                "role": 1,
                "context_id": "c-1",
                "content": [{"text": "hi"}],
            },
            "configuration": {"blocking": True, "history_length": 0},
        }
        task = (await client.ok("POST", "/v1/message:send", body))["task"]
        assert (task["contextId"], task["artifacts"][0]["parts"]) == ("c-1", [{"text": "HI"}])
        assert len(task["history"]) == 1  # 0 is absent in proto 3


async def test_a_stream_has_no_envelope_and_ends_with_final():
    """Each event is a StreamResponse; `final` is there only when it is true."""
    async with talking_to(echo) as client:
        events = await client.ok("POST", "/v1/message:stream", say_rest())
        assert [next(iter(event)) for event in events] == [
            "task",
            "statusUpdate",
            "artifactUpdate",
            "statusUpdate",
        ]
        assert [
            event["statusUpdate"].get("final") for event in events if "statusUpdate" in event
        ] == [None, True]


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_subscribing_works_with_both_verbs(verb):
    """The proto says GET, the prose POST. A finished task is given and the stream ends."""
    async with talking_to(echo) as client:
        task = (await client.ok("POST", "/v1/message:send", say_rest(**WAIT)))["task"]
        assert await client.ok(verb, f"/v1/tasks/{task['id']}:subscribe") == [{"task": task}]


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_subscribing_to_an_unknown_task_is_404(verb):
    """Never a broken stream: the status says it, and the body what every client of 0.3 looks
    for.
    """
    async with talking_to(echo) as client:
        status, error = await client.rest(verb, "/v1/tasks/nobody:subscribe")
        assert status == 404
        assert (error["code"], error["type"], error["error"]) == (
            -32001,
            "TaskNotFoundError",
            "TaskNotFoundError",
        )


@pytest.mark.parametrize("body", [None, {}, {"name": "tasks/whatever"}])
async def test_a_cancel_needs_no_body_and_a_second_one_fails(body):
    """The path names the task; a canceled one is spelt with two l and cannot be canceled again."""

    async def wait(request: str, ctx: Context):
        await ctx.ask("?")

    async with talking_to(wait) as client:
        task = (await client.ok("POST", "/v1/message:send", say_rest(**WAIT)))["task"]
        canceled = await client.ok("POST", f"/v1/tasks/{task['id']}:cancel", body)
        assert canceled["status"]["state"] == "TASK_STATE_CANCELLED"
        status, error = await client.rest("POST", f"/v1/tasks/{task['id']}:cancel", body)
        assert (status, error["type"]) == (409, "TaskNotCancelableError")


@pytest.mark.parametrize(
    ("agent", "encoded", "returned"),
    [
        ("curl/8.5.0", "aGVsbG8=", "aGVsbG8="),
        ("curl/8.5.0", "aGVsbG8", "aGVsbG8="),
        ("curl/8.5.0", "YUdWc2JHOD0=", "YUdWc2JHOD0="),  # looks like base64 twice, and is not
        ("python-httpx/0.28.1", "YUdWc2JHOD0=", "YUdWc2JHOD0="),
        ("my-app/1.0 python-httpx/0.28.1", "YUdWc2JHOD0", "YUdWc2JHOD0="),
    ],
)
async def test_file_bytes_come_back_in_the_form_of_their_sender(agent, encoded, returned):
    """a2a-sdk for Python encodes twice, everyone else once; the user agent tells."""
    seen = []

    async def back(file: File):
        seen.append(file.data)
        return file

    async with talking_to(back) as client:
        part = {
            "file": {
                "fileWithBytes": encoded,
                "mimeType": "application/octet-stream",
                "name": "a.bin",
            }
        }
        body = say_rest(content=[part], **WAIT)
        task = (await client.ok("POST", "/v1/message:send", body, headers={"User-Agent": agent}))[
            "task"
        ]
        assert task["artifacts"][0]["parts"][0]["file"]["fileWithBytes"] == returned
        once = base64.b64decode(returned)
        assert seen == [base64.b64decode(once) if "python-httpx" in agent else once]
        # A task is nobody's: whoever asks for it gets it in their own form.
        other = await client.ok("GET", f"/v1/tasks/{task['id']}", headers={"User-Agent": "node"})
        assert (
            other["artifacts"][0]["parts"][0]["file"]["fileWithBytes"]
            == base64.b64encode(seen[0]).decode()
        )


async def test_text_that_is_none_is_refused():
    """Who is known to send base64 text, and does not, is told so: nothing is guessed."""
    async with talking_to(echo) as client:
        body = say_rest(content=[{"file": {"fileWithBytes": "/wA="}}])
        status, error = await client.rest(
            "POST", "/v1/message:send", body, headers={"User-Agent": "python-httpx/0.28.1"}
        )
        assert status == 400
        assert "does not hold base64 text" in error["message"]


async def test_data_is_nested_twice_and_whole_numbers_stay_whole():
    """A Struct has only doubles, and 1.0 was 1."""

    async def back(value: dict):
        return value

    async with talking_to(back) as client:
        body = say_rest(content=[{"data": {"data": {"n": 1.0}}}], **WAIT)
        task = (await client.ok("POST", "/v1/message:send", body))["task"]
        assert task["artifacts"][0]["parts"] == [{"data": {"data": {"n": 1}}}]
        assert '"n": 1}' in str(await client.result("GetTask", {"id": task["id"]})).replace(
            "'", '"'
        )


async def test_the_prose_dialect_is_answered_in_kind_and_remembered():
    """A client that read the prose sends JSON-RPC's objects, and gets them, also where its request
    has no body.
    """
    async with talking_to(echo) as client:
        task = (await client.ok("POST", "/v1/message:send", say_0_3("hi")))["task"]
        assert (task["kind"], task["status"]["state"]) == ("task", "completed")
        assert await client.ok("GET", f"/v1/tasks/{task['id']}") == task
        events = await client.ok("POST", "/v1/message:stream", say_0_3("hi"))
        assert events[0]["task"]["kind"] == "task"
        assert events[-1]["statusUpdate"]["final"] is True


async def test_the_draft_dialect_is_answered_in_kind_and_remembered():
    """The drafts after 0.3 said `parts` in messages but had 0.3's states and `final`."""

    async def wait(request: str, ctx: Context):
        await ctx.ask("?")

    async with talking_to(wait) as client:
        body = say_1_0("hi", configuration={"blocking": True})
        task = (await client.ok("POST", "/v1/message:send", body))["task"]
        assert task["history"][0]["parts"] == [{"text": "hi"}]
        canceled = await client.ok("POST", f"/v1/tasks/{task['id']}:cancel")
        assert (canceled["status"]["state"], canceled["history"][0]["parts"]) == (
            "TASK_STATE_CANCELLED",
            [{"text": "hi"}],
        )


async def test_a_1_0_client_that_forgot_its_header_is_recognised_by_its_parts():
    """`raw` and `mediaType` on a part are 1.0's alone."""
    async with talking_to(echo) as client:
        body = say_1_0(parts=[{"text": "hi", "mediaType": "text/plain"}])
        task = (await client.ok("POST", "/v1/message:send", body))["task"]
        assert task["history"][0]["parts"] == [{"text": "hi", "mediaType": "text/plain"}]


async def test_v1_is_a_tenant_to_those_who_say_1_0():
    """1.0 has `/{tenant}/message:send`; the header tells, except for a body only 0.3 can have
    sent.
    """
    new = {"A2A-Version": "1.0"}
    async with talking_to(echo) as client:
        task = (await client.ok("POST", "/v1/message:send", say_1_0(), headers=new))["task"]
        assert (await client.ok("GET", "/v1/tasks", headers=new))["totalSize"] == 1
        assert (await client.ok("GET", f"/v1/tasks/{task['id']}", headers=new))["id"] == task["id"]
        assert (await client.rest("GET", f"/tasks/{task['id']}", headers=new))[0] == 404
        old = (await client.ok("POST", "/v1/message:send", say_rest(**WAIT), headers=new))["task"]
        assert "content" in old["history"][0]
        assert (await client.rest("GET", "/v1/card", headers=new))[1][
            "type"
        ] == "UnsupportedOperationError"


async def test_paths_without_v1_speak_0_3_to_those_who_say_so():
    """The header decides where a path is in two versions."""
    async with talking_to(echo) as client:
        task = (
            await client.ok(
                "POST", "/message:send", say_rest(**WAIT), headers={"A2A-Version": "0.3"}
            )
        )["task"]
        assert "content" in task["history"][0]
        assert (
            "content"
            in (await client.ok("GET", f"/tasks/{task['id']}", headers={"A2A-Version": "0.3.0"}))[
                "history"
            ][0]
        )
        assert "parts" in (await client.ok("GET", f"/tasks/{task['id']}"))["history"][0]


async def test_tasks_are_listed_as_an_object():
    """Numbers and flags of a query string are text; snake_case is taken."""
    async with talking_to(echo) as client:
        task = (await client.ok("POST", "/v1/message:send", say_rest(contextId="c-1", **WAIT)))[
            "task"
        ]
        page = await client.ok(
            "GET", "/v1/tasks?context_id=c-1&pageSize=5&includeArtifacts=true&historyLength=3"
        )
        assert page == {"tasks": [task], "totalSize": 1, "pageSize": 5, "nextPageToken": ""}
        for future in ("2100-01-01T00:00:00Z", "4102444800000"):
            assert (await client.rest("GET", f"/v1/tasks?lastUpdatedAfter={future}"))[0] == 400
        assert (await client.ok("GET", "/v1/tasks?lastUpdatedAfter=2026-01-01T00:00:00Z"))[
            "totalSize"
        ] == 1
        assert (await client.ok("GET", "/v1/tasks?lastUpdatedAfter=0&status=completed"))[
            "totalSize"
        ] == 1
        assert (await client.rest("GET", "/v1/tasks?pageSize=many"))[0] == 400


@pytest.mark.parametrize(
    "message",
    [
        None,
        {"role": "ROLE_USER", "content": [{"text": "hi"}]},
        {"messageId": "m", "content": [{"text": "hi"}]},
        {"messageId": "m", "role": "ROLE_USER"},
        {"messageId": "m", "role": "ROLE_USER", "content": []},
        {"messageId": "m", "role": "ROLE_USER", "content": [{}]},
        {"messageId": "m", "role": "ROLE_USER", "content": [{"file": {"fileWithBytes": "%"}}]},
        {"messageId": "m", "role": "ROLE_ODD", "content": [{"text": "hi"}]},
    ],
)
async def test_bad_bodies_get_400_and_make_nothing(message):
    """-32602 in the body, whichever binding (issue text)."""
    async with talking_to(echo) as client:
        for path in ("/v1/message:send", "/v1/message:stream"):
            status, error = await client.rest("POST", path, {"message": message})
            assert (status, error["code"], error["type"]) == (400, -32602, "InvalidParamsError")
        assert (await client.result("ListTasks", {}))["totalSize"] == 0


@pytest.mark.parametrize("path", ["/v1/message:send", "/v1/message:stream"])
async def test_a_message_to_an_unknown_task_is_told_in_words(path):
    """Clients of 0.3 look for "not found" in the text."""
    async with talking_to(echo) as client:
        status, error = await client.rest("POST", path, say_rest(taskId="nobody"))
        assert (status, error["message"]) == (404, "Task not found: nobody")


async def test_errors_have_the_statuses_of_0_3():
    """404, 409, 501, 400: as its reference library gave them."""
    config = {"url": "https://example.net/hook"}
    whole = {
        "parent": "tasks/t",
        "configId": "c",
        "config": {"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": config},
    }
    async with talking_to(echo, push=False) as client:
        done = (await client.ok("POST", "/v1/message:send", say_rest(**WAIT)))["task"]
        for verb, path, body, status, name in (
            ("GET", "/v1/tasks/nobody", None, 404, "TaskNotFoundError"),
            ("POST", "/v1/tasks/nobody:cancel", None, 404, "TaskNotFoundError"),
            ("POST", f"/v1/tasks/{done['id']}:cancel", None, 409, "TaskNotCancelableError"),
            (
                "POST",
                "/v1/message:send",
                say_rest(taskId=done["id"]),
                400,
                "UnsupportedOperationError",
            ),
            (
                "POST",
                "/v1/tasks/t/pushNotificationConfigs",
                whole,
                501,
                "PushNotificationNotSupportedError",
            ),
            (
                "POST",
                "/v1/tasks/t/pushNotificationConfigs",
                {"config": whole["config"]},
                501,
                "PushNotificationNotSupportedError",
            ),
            (
                "POST",
                "/v1/tasks/t/pushNotificationConfigs",
                whole["config"],
                501,
                "PushNotificationNotSupportedError",
            ),
            (
                "POST",
                "/v1/tasks/t/pushNotificationConfigs",
                {"config": {}},
                400,
                "InvalidParamsError",
            ),
            (
                "GET",
                "/v1/tasks/t/pushNotificationConfigs",
                None,
                501,
                "PushNotificationNotSupportedError",
            ),
            (
                "GET",
                "/v1/tasks/t/pushNotificationConfigs/c",
                None,
                501,
                "PushNotificationNotSupportedError",
            ),
            (
                "DELETE",
                "/v1/tasks/t/pushNotificationConfigs/c",
                None,
                501,
                "PushNotificationNotSupportedError",
            ),
            ("GET", "/v1/card", None, 501, "UnsupportedOperationError"),
            ("GET", "/v1/nothing", None, 404, "MethodNotFoundError"),
            ("PUT", "/v1/message:send", {}, 405, "MethodNotFoundError"),
        ):
            found, error = await client.rest(verb, path, body)
            assert (found, error["type"], error["error"]) == (status, name, name), path
