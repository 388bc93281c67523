"""The codecs by themselves: answers no operation gives yet, and every error in every version's
words.
"""

import json

import pytest

from accord.model import (
    A2AError,
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AuthenticationInfo,
    ContentTypeNotSupported,
    DeletePushConfigRequest,
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    GetPushConfigRequest,
    InvalidAgentResponse,
    InvalidParams,
    InvalidRequest,
    ListPushConfigsResponse,
    MethodNotFound,
    ParseError,
    PushNotificationNotSupported,
    TaskNotCancelable,
    TaskNotFound,
    TaskPushNotificationConfig,
    UnsupportedOperation,
)
from accord.protocol.v01 import codec as v01
from accord.protocol.v03 import codec as v03
from accord.protocol.v03 import rest as v03_rest

CONFIG = TaskPushNotificationConfig(
    task_id="t",
    id="c",
    url="https://x.y/z",
    token="n",
    authentication=AuthenticationInfo(scheme="Bearer", credentials="s"),
)
WEBHOOK = {
    "id": "c",
    "url": "https://x.y/z",
    "token": "n",
    "authentication": {"schemes": ["Bearer"], "credentials": "s"},
}
CREATE, LIST = "CreateTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"
GET, DELETE = "GetTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"


def test_a_push_config_is_written_in_every_version():
    """One inside the other, by name, or the task's only one."""
    assert json.loads(v03.CODEC.result(CREATE, CONFIG)) == {
        "taskId": "t",
        "pushNotificationConfig": WEBHOOK,
    }
    named = {"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": WEBHOOK}
    assert json.loads(v03_rest.PROTO.result(CREATE, CONFIG)) == named
    without_id = {name: value for name, value in WEBHOOK.items() if name != "id"}
    assert json.loads(v01.CODEC.result(CREATE, CONFIG)) == {
        "id": "t",
        "pushNotificationConfig": without_id,
    }


def test_push_configs_are_listed_in_each_bindings_form():
    """A bare array on JSON-RPC, an object on HTTP+JSON."""
    configs = ListPushConfigsResponse(configs=[CONFIG])
    assert json.loads(v03.CODEC.result(LIST, configs)) == [
        {"taskId": "t", "pushNotificationConfig": WEBHOOK}
    ]
    assert [
        config["name"] for config in json.loads(v03_rest.PROTO.result(LIST, configs))["configs"]
    ] == ["tasks/t/pushNotificationConfigs/c"]


def test_a_deleted_push_config_is_null_or_nothing():
    """JSON-RPC must have a result, HTTP+JSON says 204."""
    assert v03.CODEC.result(DELETE, None) == b"null"
    assert v03_rest.PROTO.result(DELETE, None) == b""


@pytest.mark.parametrize(
    ("params", "request_"),
    [
        ({"id": "t"}, GetPushConfigRequest(task_id="t", id="")),  # the task's first
        ({"id": "t", "pushNotificationConfigId": "c"}, GetPushConfigRequest(task_id="t", id="c")),
        ({"taskId": "t", "configId": "c"}, GetPushConfigRequest(task_id="t", id="c")),  # seed 002
        ({"taskId": "t", "id": "c"}, GetPushConfigRequest(task_id="t", id="c")),
    ],
)
def test_push_params_are_read_under_every_name(params, request_):
    """`id` is the task's unless `taskId` is there too."""
    assert v03.CODEC.decode(GET, json.dumps(params).encode())[0] == request_


def test_a_push_config_without_id_gets_the_tasks():
    """There was one per task, so a second replaces the first."""
    for params in (
        {"taskId": "t", "pushNotificationConfig": {"url": "u"}},
        {"taskId": "t", "url": "u"},
        {"id": "t", "url": "u"},
    ):
        config, _ = v03.CODEC.decode(CREATE, json.dumps(params).encode())
        assert (config.task_id, config.id, config.url) == ("t", "t", "u")


def test_the_ids_of_a_path_win_over_those_of_a_body():
    """A body repeats the ids, and may be wrong."""
    body = json.dumps(
        {"parent": "tasks/other", "config": {"pushNotificationConfig": {"url": "u", "id": "c"}}}
    ).encode()
    params = v03_rest.PROTO.join(CREATE, {"taskId": "t"}, {}, body)
    config, _ = v03_rest.PROTO.decode(CREATE, params)
    assert (config.task_id, config.id) == ("t", "c")
    request, _ = v03_rest.PROTO.decode(
        DELETE, v03_rest.PROTO.join(DELETE, {"taskId": "t", "id": "c"}, {}, b"")
    )
    assert request == DeletePushConfigRequest(task_id="t", id="c")


def test_0_1_takes_a_config_away_with_null():
    """Null clears it, and is what is shown when there is none."""
    cleared, _ = v01.CODEC.decode(CREATE, b'{"id":"t","pushNotificationConfig":null}')
    assert (cleared.task_id, cleared.id, cleared.url) == ("t", "t", "")
    assert json.loads(v01.CODEC.result(CREATE, cleared)) == {
        "id": "t",
        "pushNotificationConfig": None,
    }


def test_all_schemes_of_a_webhook_can_be_written_again():
    """1.0 keeps the first; who kept the list gives it back."""
    written = v03.write_push(
        {"taskId": "t", "id": "c", "url": "u", "authentication": {"scheme": "Bearer"}},
        ["Bearer", "Basic"],
    )
    assert written["pushNotificationConfig"]["authentication"]["schemes"] == ["Bearer", "Basic"]


def test_the_extended_card_is_the_union():
    """Whichever of its entry points is used, its reader finds its own members."""
    place = AgentInterface(url="https://x.y/", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="A",
        description="a",
        supported_interfaces=[place],
        version="1",
        capabilities=AgentCapabilities(extended_agent_card=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[],
    )
    for codec in (v03.CODEC, v03_rest.PROTO, v03_rest.CARD):
        shown = json.loads(codec.result("GetExtendedAgentCard", card))
        assert (shown["url"], shown["supportsAuthenticatedExtendedCard"]) == ("https://x.y/", True)


# The code in 0.1, the code in 0.3, the status and the name on 0.3's HTTP+JSON
ERRORS = [
    (TaskNotFound(), -32001, -32001, 404, "TaskNotFoundError"),
    (TaskNotCancelable(), -32002, -32002, 409, "TaskNotCancelableError"),
    (PushNotificationNotSupported(), -32003, -32003, 501, "PushNotificationNotSupportedError"),
    (UnsupportedOperation(), -32004, -32004, 501, "UnsupportedOperationError"),
    (UnsupportedOperation("over", taskId="t"), -32004, -32004, 400, "UnsupportedOperationError"),
    (ContentTypeNotSupported(), -32005, -32005, 415, "ContentTypeNotSupportedError"),
    (InvalidAgentResponse(), -32603, -32006, 502, "InvalidAgentResponseError"),
    (
        ExtendedAgentCardNotConfigured(),
        -32004,
        -32007,
        404,
        "AuthenticatedExtendedCardNotConfiguredError",
    ),
    (
        ExtensionSupportRequired("activate x", extensions="x, y"),
        -32600,
        -32600,
        400,
        "InvalidRequestError",
    ),
    (InvalidParams(), -32602, -32602, 400, "InvalidParamsError"),
    (InvalidRequest(), -32600, -32600, 400, "InvalidRequestError"),
    (MethodNotFound(), -32601, -32601, 404, "MethodNotFoundError"),
    (ParseError(), -32700, -32700, 400, "JSONParseError"),
    (A2AError(), -32603, -32603, 500, "InternalError"),
]


@pytest.mark.parametrize(
    ("error", "in_0_1", "in_0_3", "status", "name"), ERRORS, ids=lambda value: type(value).__name__
)
def test_an_error_has_the_code_its_version_knows(error, in_0_1, in_0_3, status, name):
    """A code of 1.0 that means something else in 0.1 is never sent there."""
    assert v01.CODEC.error(error)["code"] == in_0_1
    assert v03.CODEC.error(error)["code"] == in_0_3
    found, body = v03_rest.PROTO.failure(error)
    assert (found, json.loads(body)["type"], json.loads(body)["code"]) == (status, name, in_0_3)


def test_details_of_an_error_are_a_plain_object():
    """Typed details are 1.0's; older clients get what they say, or nothing."""
    assert v03.CODEC.error(TaskNotFound("no", taskId="t"))["data"] == {"taskId": "t"}
    assert v01.CODEC.error(TaskNotFound("no", taskId="t"))["data"] == {"taskId": "t"}
    assert v03.CODEC.error(ExtensionSupportRequired("no", extensions="x, y"))["data"] == {
        "extensions": ["x", "y"]
    }
    assert "data" not in v03.CODEC.error(TaskNotFound("no"))
