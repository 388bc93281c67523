"""Errors: one table, three bindings, the same meaning."""

import pytest

from accord import Agent, Reply
from accord.engine.skills import definition_of
from accord.model import AgentExtension, errors
from tests.drive import refusal_of, say

TABLE = {  # reason: JSON-RPC code, HTTP status, gRPC name
    "TASK_NOT_FOUND": (-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": (-32002, 400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (-32004, 400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 400, "INVALID_ARGUMENT"),
    "EXTENSION_SUPPORT_REQUIRED": (-32008, 400, "FAILED_PRECONDITION"),
    "VERSION_NOT_SUPPORTED": (-32009, 400, "FAILED_PRECONDITION"),
    "INVALID_PARAMS": (-32602, 400, "INVALID_ARGUMENT"),
    "INTERNAL_ERROR": (-32603, 500, "INTERNAL"),
}


async def provoke(client, reason):
    """Make the server answer with an error of this reason."""
    task = (await client.send("hi"))["task"] if reason != "EXTENSION_SUPPORT_REQUIRED" else {}
    return await refusal_of(
        {
            "TASK_NOT_FOUND": lambda: client.get("nowhere"),
            "TASK_NOT_CANCELABLE": lambda: client.cancel(task["id"]),
            "PUSH_NOTIFICATION_NOT_SUPPORTED": lambda: client.list_push_configs(task["id"]),
            "UNSUPPORTED_OPERATION": lambda: client.subscribe(task["id"]),
            "CONTENT_TYPE_NOT_SUPPORTED": lambda: client.send(say([{"data": 1}])),
            "EXTENSION_SUPPORT_REQUIRED": lambda: client.send("hi"),
            "VERSION_NOT_SUPPORTED": lambda: client.list(headers={"A2A-Version": "99.0"}),
            "INVALID_PARAMS": lambda: client.list(pageSize=0),
            "INTERNAL_ERROR": lambda: client.send(say(metadata={"skill": "fail"})),
        }[reason]()
    )


def agent_for(reason):
    agent = Agent("Troubled")
    if reason == "EXTENSION_SUPPORT_REQUIRED":
        definition_of(agent).extensions.append(
            AgentExtension(uri="https://ext.example/v1", required=True)
        )

    @agent.skill
    async def echo(request: str):
        return request

    @agent.skill
    async def fail(request: str) -> Reply:
        raise RuntimeError("inside")

    return agent


@pytest.mark.parametrize("reason", TABLE)
async def test_an_error_means_the_same_on_every_binding(connect, reason):
    """Codes, statuses and names of the table; ErrorInfo with reason and domain (ERR-1, ERR-4,
    ERR-5, BND-1).
    """
    code, status, grpc = TABLE[reason]
    async with connect(agent_for(reason), push=False) as client:
        refused = await provoke(client, reason)
        assert (refused.reason, bool(refused.message)) == (reason, True)
        if client.binding == "JSONRPC":
            assert (refused.status, refused.code) == (200, code)
        elif client.binding == "GRPC":
            assert refused.error["status"] == grpc
        else:
            assert (refused.status, refused.code, refused.error["status"]) == (status, status, grpc)


@pytest.mark.parametrize("reason", TABLE)
async def test_every_detail_says_what_it_is(connect, reason):
    """@type, the protocol's domain, and metadata that is text to text (ERR-2, ERR-3, ERR-6,
    ERR-7).
    """
    async with connect(agent_for(reason), push=False) as client:
        refused = await provoke(client, reason)
        info, *more = refused.error.get("data") or refused.error["details"]
        assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        assert info["domain"] == "a2a-protocol.org"
        assert all(isinstance(value, str) for value in info.get("metadata", {}).values())
        assert [detail["@type"] for detail in more] == [
            "type.googleapis.com/google.rpc.BadRequest"
        ] * bool(refused.violations)


def test_no_two_errors_share_a_reason_or_an_a2a_code():
    """A client can tell them apart by either (ERR-4)."""
    kinds = [getattr(errors, name) for name in errors.__all__]
    own = [
        kind
        for kind in kinds
        if -32099 <= kind.code <= -32001 and kind is not errors.UnsupportedMediaType
    ]
    assert len({kind.code for kind in own}) == len({kind.reason for kind in own}) == len(own) == 10


async def test_a_refused_request_leaves_no_trace(connect, store):
    """Everything is checked before anything is done (GEN-2)."""
    async with connect(agent_for(""), store=store) as client:
        for wrong in (
            say([]),
            say(role=0),
            say([{"data": 1}]),
            say(metadata={"skill": "x"}),
            say(taskId="x"),
        ):
            await refusal_of(client.send(wrong))
        assert (await client.list())["totalSize"] == 0


async def test_the_first_thing_wrong_is_what_is_told(connect):
    """Version, extensions, fields, task, context, state: in this order (SND-12)."""
    agent = agent_for("EXTENSION_SUPPORT_REQUIRED")
    async with connect(agent) as client:
        active = {"A2A-Extensions": "https://ext.example/v1"}
        done = (await client.send("hi", headers=active))["task"]
        asked = [
            (
                say(messageId="m" * 300, taskId="x"),
                {"A2A-Version": "99.0"},
                "VERSION_NOT_SUPPORTED",
            ),
            (say(messageId="m" * 300, taskId="x"), None, "EXTENSION_SUPPORT_REQUIRED"),
            (say(messageId="m" * 300, taskId="x"), active, "INVALID_PARAMS"),
            (say([{"data": 1}], taskId="x", contextId="y"), active, "TASK_NOT_FOUND"),
            (say([{"data": 1}], taskId=done["id"], contextId="y"), active, "INVALID_PARAMS"),
            (say([{"data": 1}], taskId=done["id"]), active, "UNSUPPORTED_OPERATION"),
        ]
        for request, headers, reason in asked:
            assert (await refusal_of(client.send(request, headers=headers))).reason == reason
