"""Every method, path and state in the documents the project began from, and what our server says to
it.
"""

import pytest

from accord import Context
from accord.model import InvalidParams
from accord.protocol import legacy
from tests.legacy.wire import echo, say_0_1, say_0_3, say_1_0, say_rest, talking_to

OK, NO_METHOD, NO_TASK, NO_PUSH, UNSUPPORTED = 0, -32601, -32001, -32003, -32004
ID = {"id": "nobody"}
HOOK = {"url": "https://example.net/hook"}

METHODS = {
    # the JSON-RPC methods of every version
    "tasks/send": (say_0_1("t"), OK),
    "tasks/sendSubscribe": (say_0_1("t"), OK),
    "tasks/get": (ID, NO_TASK),
    "tasks/cancel": (ID, NO_TASK),
    "tasks/resubscribe": (ID, NO_TASK),
    "tasks/pushNotification/set": ({"id": "t", "pushNotificationConfig": HOOK}, NO_PUSH),
    "tasks/pushNotification/get": (ID, NO_PUSH),
    "tasks/pushNotification/list": (ID, NO_METHOD),
    "message/send": (say_0_3(), OK),
    "message/stream": (say_0_3(), OK),
    "tasks/pushNotificationConfig/set": ({"taskId": "t", "pushNotificationConfig": HOOK}, NO_PUSH),
    "tasks/pushNotificationConfig/get": (ID, NO_PUSH),
    "tasks/pushNotificationConfig/list": (ID, NO_PUSH),
    "tasks/pushNotificationConfig/delete": (ID | {"pushNotificationConfigId": "c"}, NO_PUSH),
    "agent/getAuthenticatedExtendedCard": (None, UNSUPPORTED),
    "agent/authenticatedExtendedCard": (None, UNSUPPORTED),
    "tasks/list": (None, OK),
    "tasks/subscribe": (ID, NO_TASK),
    "sendStream": (say_0_3(), NO_METHOD),
    "subscribe": (ID, NO_METHOD),
    # 1.0's, with the spellings of drafts
    "SendMessage": (say_1_0(), OK),
    "SendStreamingMessage": (say_1_0(), OK),
    "GetTask": (ID, NO_TASK),
    "ListTasks": ({}, OK),
    "CancelTask": (ID, NO_TASK),
    "SubscribeToTask": (ID, NO_TASK),
    "CreateTaskPushNotificationConfig": ({"taskId": "t"} | HOOK, NO_PUSH),
    "SetTaskPushNotificationConfig": ({"taskId": "t"} | HOOK, NO_PUSH),
    "GetTaskPushNotificationConfig": ({"taskId": "t", "id": "c"}, NO_PUSH),
    "ListTaskPushNotificationConfigs": ({"taskId": "t"}, NO_PUSH),
    "ListTaskPushNotificationConfig": ({"taskId": "t"}, NO_PUSH),
    "DeleteTaskPushNotificationConfig": ({"taskId": "t", "id": "c"}, NO_PUSH),
    "GetExtendedAgentCard": ({}, UNSUPPORTED),
    # of gRPC only, never JSON-RPC's
    **dict.fromkeys(
        [
            "ListTask",
            "TaskSubscription",
            "GetAgentCard",
            "CreateTaskPushNotification",
            "GetTaskPushNotification",
            "ListTaskPushNotification",
            "DeleteTaskPushNotification",
        ],
        (ID, NO_METHOD),
    ),
    # no protocol at all
    **dict.fromkeys(
        ["createEmployee", "setupEmailAccount", "orderHardware", "assignDesk", "generateBadge"],
        ({}, NO_METHOD),
    ),
    **dict.fromkeys(
        ["SendTask", "SendTaskSubscribe", "Resubscribe", "SetTaskPushNotifications"],
        ({}, NO_METHOD),
    ),
    # exact and case-sensitive
    "Message/Send": (say_0_3(), NO_METHOD),
    "tasks/Get": (ID, NO_METHOD),
}

PATHS = [
    # the HTTP paths of every version
    ("GET", "/.well-known/agent.json", None, 200),
    ("GET", "/.well-known/agent-card.json", None, 200),
    ("GET", "/agent/authenticatedExtendedCard", None, 404),
    ("GET", "/a2a/agent/authenticatedExtendedCard", None, 404),
    ("POST", "/v1/message:send", say_rest(), 200),
    ("POST", "/v1//message:send", say_rest(), 200),
    ("POST", "/v1/message:stream", say_rest(), 200),
    ("GET", "/v1/tasks/nobody", None, 404),
    ("GET", "/v1/tasks", None, 200),
    ("POST", "/v1/tasks/nobody:cancel", None, 404),
    ("POST", "/v1/tasks/nobody:subscribe", None, 404),
    ("GET", "/v1/tasks/nobody:subscribe", None, 404),
    (
        "POST",
        "/v1/tasks/t/pushNotificationConfigs",
        {"config": {"pushNotificationConfig": HOOK}},
        501,
    ),
    (
        "POST",
        "/v1/task/t/pushNotificationConfigs",
        {"config": {"pushNotificationConfig": HOOK}},
        501,
    ),
    ("POST", "/v1/task/t/pushNotifications", {"config": {"pushNotificationConfig": HOOK}}, 501),
    ("GET", "/v1/tasks/t/pushNotificationConfigs/c", None, 501),
    ("GET", "/v1/tasks/t/pushNotificationConfigs", None, 501),
    ("GET", "/v1/tasks/t/pushNotifications", None, 501),
    ("GET", "/v1/tasks/t/pushNotifications/c", None, 501),
    ("DELETE", "/v1/tasks/t/pushNotificationConfigs/c", None, 501),
    ("GET", "/v1/card", None, 501),
    ("GET", "/v1/extendedAgentCard", None, 501),
]

STATES = {
    # every word for a state there, and 1.0's
    "submitted": "SUBMITTED",
    "working": "WORKING",
    "input-required": "INPUT_REQUIRED",
    "completed": "COMPLETED",
    "canceled": "CANCELED",
    "failed": "FAILED",
    "unknown": "UNSPECIFIED",
    "rejected": "REJECTED",
    "auth-required": "AUTH_REQUIRED",
    "TASK_STATE_UNSPECIFIED": "UNSPECIFIED",
    "TASK_STATE_SUBMITTED": "SUBMITTED",
    "TASK_STATE_WORKING": "WORKING",
    "TASK_STATE_COMPLETED": "COMPLETED",
    "TASK_STATE_FAILED": "FAILED",
    "TASK_STATE_INPUT_REQUIRED": "INPUT_REQUIRED",
    "TASK_STATE_REJECTED": "REJECTED",
    "TASK_STATE_AUTH_REQUIRED": "AUTH_REQUIRED",
    "TASK_STATE_CANCELLED": "CANCELED",
    "TASK_STATE_CANCELED": "CANCELED",
    "SUBMITTED": "SUBMITTED",
    "WORKING": "WORKING",
    "INPUT_REQUIRED": "INPUT_REQUIRED",
    "AUTH_REQUIRED": "AUTH_REQUIRED",
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "CANCELLED": "CANCELED",
    "REJECTED": "REJECTED",
    "pending": "SUBMITTED",
    "processing": "WORKING",
}


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_is_answered_as_the_table_says(method):
    """Known names do their work, names of other things are -32601, none is taken for another."""
    params, code = METHODS[method]
    async with talking_to(echo, push=False) as client:
        request = {"jsonrpc": "2.0", "id": 1, "method": method} | (
            {"params": params} if params is not None else {}
        )
        async with client.http.post(client.url, json=request) as response:
            assert response.status == 200
            text = await response.text()
            assert ('"error"' in text) is (code != OK), text
            assert code == OK or f'"code":{code}' in text, text


@pytest.mark.parametrize(("verb", "path", "body", "status"), PATHS)
async def test_a_path_is_answered_as_the_table_says(verb, path, body, status):
    """Every path of the seeds, the slips of the pen among them."""
    async with talking_to(echo, push=False) as client:
        assert (await client.rest(verb, path, body))[0] == status


@pytest.mark.parametrize("word", STATES)
async def test_a_state_is_understood(word):
    """Every spelling ever used is taken; what is written is the one of the version."""
    assert legacy.read_state(word) == "TASK_STATE_" + STATES[word]
    async with talking_to(echo) as client:
        assert (await client.result("tasks/list", {"status": word}))["tasks"] == []
        assert (await client.ok("GET", f"/v1/tasks?status={word}"))["tasks"] == []


@pytest.mark.parametrize("word", ["StateUnknown", "StatePending", "done", "", 99, None, True])
def test_what_is_no_state_is_refused(word):
    """Names of constants in somebody's code are not on the wire."""
    with pytest.raises(InvalidParams):
        legacy.read_state(word)


async def test_a_method_of_a_known_version_is_answered_whatever_version_the_header_names():
    """The method decides: a stray header does not turn an old client away."""
    async with talking_to(echo) as client:
        for version in ("1.0", "0.3", "0.2", "0.1", "1.0.1"):
            headers = {"A2A-Version": version}
            assert (await client.result("message/send", say_0_3(), headers=headers))[
                "kind"
            ] == "task"
            assert "task" in await client.result("SendMessage", say_1_0(), headers=headers)
            assert "sessionId" in await client.result(
                "tasks/send", say_0_1(f"t-{version}"), headers=headers
            )


@pytest.mark.parametrize("version", ["2.0", "0.9", "banana", "1"])
async def test_an_unknown_version_is_refused_before_anything_else(version):
    """VersionNotSupported in 1.0's form, on both bindings."""
    async with talking_to(echo) as client:
        error = await client.error("message/send", say_0_3(), headers={"A2A-Version": version})
        assert (error["code"], error["data"][0]["reason"]) == (-32009, "VERSION_NOT_SUPPORTED")
        status, body = await client.rest(
            "POST", "/v1/message:send", say_rest(), headers={"A2A-Version": version}
        )
        assert (status, body["error"]["code"]) == (400, 400)


async def test_an_unknown_method_is_told_in_the_shape_of_who_asks():
    """Without a header the caller is taken for old and gets a plain error; who says 1.0 gets typed
    details.
    """
    async with talking_to(echo) as client:
        assert set(await client.error("nothing", {})) == {"code", "message"}
        assert "data" in await client.error("nothing", {}, headers={"A2A-Version": "1.0"})


async def test_only_0_1_may_leave_out_the_envelope():
    """0.2 on, `jsonrpc` has to be 2.0."""
    async with talking_to(echo) as client:
        assert "result" in await client.rpc("tasks/send", say_0_1("t"), jsonrpc=None)
        for method in ("tasks/get", "tasks/resubscribe"):
            said = await client.text(method, {"id": "t"}, jsonrpc=None)
            assert '"result"' in said, said
        new = await client.text("tasks/sendSubscribe", say_0_1("u"), jsonrpc=None)
        assert '"result"' in new, new
        said = await client.text("tasks/cancel", {"id": "t"}, jsonrpc=None)
        assert "-32002" in said, said  # read, and it has ended
        for method, params in (
            ("message/send", say_0_3()),
            ("tasks/get", ID),
            ("SendMessage", say_1_0()),
        ):
            assert (await client.rpc(method, params, jsonrpc=None))["error"]["code"] == -32600
        assert (await client.rpc("tasks/send", say_0_1("t"), jsonrpc="1.0"))["error"][
            "code"
        ] == -32600


async def test_every_state_is_written_as_its_version_writes_it():
    """rejected and canceled are the ones that differ."""

    async def refuse(request: str, ctx: Context):
        ctx.reject("no")

    async with talking_to(refuse) as client:
        task = await client.result("message/send", say_0_3())
        assert task["status"]["state"] == "rejected"
        assert (await client.ok("GET", f"/v1/tasks/{task['id']}"))["status"][
            "state"
        ] == "TASK_STATE_REJECTED"
        by_0_1 = await client.result(
            "tasks/get", {"id": task["id"]}, headers={"A2A-Version": "0.1"}
        )
        assert by_0_1["status"]["state"] == "failed"


@pytest.mark.parametrize(
    ("word", "role"),
    [
        ("user", "USER"),
        ("agent", "AGENT"),
        ("ROLE_USER", "USER"),
        ("ROLE_AGENT", "AGENT"),
        (1, "USER"),
    ],
)
def test_a_role_is_understood(word, role):
    """Words in JSON, names and numbers of the proto."""
    assert legacy.read_role(word, "role") == "ROLE_" + role


@pytest.mark.parametrize("word", ["ROLE_UNSPECIFIED", "User", "robot", 0, None, True])
def test_what_is_no_role_is_refused(word):
    """A request of 0.3 without a role is wrong; 0.1 gives one that is missing a default (legacy
    10.2).
    """
    with pytest.raises(InvalidParams):
        legacy.read_role(word, "role")
    assert legacy.read_role(None, "role", "ROLE_USER") == "ROLE_USER"
