"""Whatever comes in an old shape, the answer is an old error: never a crash, never half a task."""

import contextlib
import copy
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.client.discovery.repair import read_card
from accord.model import InvalidParams
from accord.protocol import legacy
from accord.protocol.v01 import codec as v01
from accord.protocol.v03 import codec as v03
from accord.protocol.v03 import proto_json
from accord.protocol.v03 import rest as v03_rest
from tests.legacy.wire import echo, say_0_1, say_1_0, say_rest, talking_to

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)

PUSH = {
    "id": "t",
    "taskId": "t",
    "pushNotificationConfigId": "c",
    "pushNotificationConfig": {"url": "u"},
}
SENDS = ("SendMessage", "SendStreamingMessage")
READ = [
    *((v01.CODEC, operation, GOLDEN["0.1 send"]["params"]) for operation in SENDS),
    *((v03.CODEC, operation, GOLDEN["0.3 send"]["params"]) for operation in SENDS),
    *((v03_rest.PROTO, operation, GOLDEN["0.3 rest send"]) for operation in SENDS),
    *((v03_rest.PROSE, operation, GOLDEN["0.3 prose send"]) for operation in SENDS),
    (
        v03.CODEC,
        "ListTasks",
        {
            "status": "working",
            "lastUpdatedAfter": 1,
            "pageSize": 3,
            "includeArtifacts": True,
            "contextId": "c",
        },
    ),
    (
        v03_rest.PROTO,
        "ListTasks",
        {"status": "working", "lastUpdatedAfter": "1", "pageSize": "3", "includeArtifacts": "true"},
    ),
    *(
        (codec, op, {"id": "t", "historyLength": 1})
        for codec in (v01.CODEC, v03.CODEC)
        for op in ("GetTask", "CancelTask")
    ),
    (v03.CODEC, "SubscribeToTask", {"name": "tasks/t"}),
    (v01.CODEC, "CreateTaskPushNotificationConfig", GOLDEN["0.1 push set"]["params"]),
    (v03.CODEC, "CreateTaskPushNotificationConfig", GOLDEN["0.2 push set"]["params"]),
    (v03_rest.PROTO, "CreateTaskPushNotificationConfig", GOLDEN["0.3 rest push create"]),
    *(
        (v03.CODEC, op, PUSH)
        for op in ("GetTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig")
    ),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be put in a value."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at, *(place for key, item in inside for place in places(item, (*at, key)))]


@st.composite
def spoilt(draw: st.DrawFn, value: Any) -> Any:
    """A good value with something else in one place of it."""
    place = draw(st.sampled_from(places(value)))
    other = draw(anything)
    if not place:
        return other
    value = copy.deepcopy(value)
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = other
    return value


@given(st.data(), st.sampled_from(READ))
@settings(deadline=None, max_examples=600)
def test_spoilt_params_are_read_or_refused(data, case):
    """Every codec either understands what it gets or says what is wrong with it."""
    codec, operation, good = case
    params = json.dumps(data.draw(spoilt(good))).encode()
    with contextlib.suppress(InvalidParams):
        codec.decode(operation, params)


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_a_spoilt_body_has_a_dialect(data):
    """Finding out which dialect a body is in can't fail on it either."""
    name = data.draw(st.sampled_from(["0.3 rest send", "0.3 prose send"]))
    body = json.dumps(data.draw(spoilt(GOLDEN[name]))).encode()
    with contextlib.suppress(InvalidParams):
        v03_rest.REST_VARIANTS.codec_or_task_id("SendMessage", "", body)
        v03_rest.is_only_its_own(body)


RESULTS = [
    (v01.read_task, GOLDEN["0.1 send answer"]["result"]),
    *((v01.read_event, frame["result"]) for frame in GOLDEN["0.1 stream"]),
    (v03.read_event, GOLDEN["0.3 send answer"]["result"]),
    *((v03.read_event, frame["result"]) for frame in GOLDEN["0.2 stream"]),
    (proto_json.read_event, GOLDEN["0.3 rest send answer"]),
    *((proto_json.read_event, frame) for frame in GOLDEN["0.3 rest stream"]),
    *(
        (partial(read_card, url="", notes=[]), GOLDEN[f"{version} card"])
        for version in ("0.1", "0.2", "0.3")
    ),
]


@given(st.data(), st.sampled_from(RESULTS))
@settings(deadline=None, max_examples=600)
def test_spoilt_results_are_read_or_refused(data, case):
    """A client reads what servers send, and those are no better."""
    read, good = case
    with contextlib.suppress(InvalidParams):
        legacy.read(read, data.draw(spoilt(good)), "result")


@pytest.mark.parametrize("id_", [7, [], {}, True, "", "x" * 300, "a\nb"])
async def test_a_task_id_that_is_none_is_refused(id_):
    """The methods two versions share look at the id before they know their codec; that can't trip
    them.
    """
    async with talking_to(echo) as client:
        for method in ("tasks/get", "tasks/cancel", "tasks/resubscribe"):
            assert (await client.error(method, {"id": id_}))["code"] in (-32602, -32001)
        assert (await client.error("tasks/send", say_0_1("t") | {"id": id_}))["code"] == -32602
        assert (await client.result("ListTasks", {}))["totalSize"] == 0


@pytest.mark.parametrize("params", [[], "x", 7, None, {}])
async def test_params_of_the_wrong_kind_are_refused_on_every_old_method(params):
    """-32602, on streams too."""
    async with talking_to(echo) as client:
        for method in (
            "message/send",
            "message/stream",
            "tasks/send",
            "tasks/sendSubscribe",
            "tasks/get",
            "tasks/pushNotification/set",
        ):
            assert (await client.error(method, params))["code"] == -32602


async def test_bytes_that_are_no_json_get_each_bindings_parse_error():
    """Told in the shape of the path it was sent to."""
    headers = {"Content-Type": "application/json"}
    async with talking_to(echo) as client:
        async with client.http.post(
            client.url + "/v1/message:send", data=b"{", headers=headers
        ) as response:
            assert (response.status, (await response.json())["type"]) == (400, "JSONParseError")
        async with client.http.post(client.url, data=b"{", headers=headers) as response:
            assert (await response.json())["error"]["code"] == -32700
        async with client.http.post(
            client.url, data=b"{", headers=headers | {"A2A-Version": "0.3"}
        ) as response:
            assert set((await response.json())["error"]) == {"code", "message"}
        async with client.http.post(
            client.url + "/v1/message:send", data=b"{}", headers={"Content-Type": "text/plain"}
        ) as response:
            assert (response.status, (await response.json())["type"]) == (
                415,
                "ContentTypeNotSupportedError",
            )


async def test_a_task_of_another_caller_is_not_told_from_none():
    """Ids chosen by clients are guessable, so a tenant's task is no one else's, under any
    version.
    """
    async with talking_to(echo) as client:
        task_id = (await client.ok("POST", "/acme/message:send", say_1_0()))["task"]["id"]
        assert (await client.error("tasks/get", {"id": task_id}))["code"] == -32001
        assert (await client.rest("GET", f"/v1/tasks/{task_id}"))[0] == 404
        task = await client.result(
            "tasks/send", say_0_1(task_id)
        )  # 0.1 makes its own task of that name
        assert task["id"] == task_id
        assert (await client.ok("GET", f"/acme/tasks/{task_id}"))["contextId"] != task["sessionId"]
        assert (await client.rest("POST", "/v1/message:send", say_rest(taskId="nobody")))[0] == 404
