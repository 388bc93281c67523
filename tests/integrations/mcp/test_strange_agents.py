"""Agents that others wrote: any schema makes a form or a tool, and none ends a call."""

from typing import Any

import mcp_types
import pytest
from mcp import Client as McpClient
from mcp.shared.exceptions import MCPError

from accord import connect
from accord.client import NO_RETRY
from accord.integrations.mcp import make_server
from accord.model import FILES, SCHEMA
from tests.client.peers import answer, card, scripted, task
from tests.integrations.mcp.test_tasks import Tasks
from tests.integrations.mcp.test_tasks import _ask as ask

# What is in the form for a question; its fields, or None for JSON as text.
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "may be null": ({"type": ["string", "null"]}, {"answer": {"type": "string"}}),
    "a field may be null": (
        {"type": "object", "properties": {"age": {"type": ["integer", "null"]}}},
        {"age": {"type": "integer"}},
    ),
    "several types": ({"type": ["string", "integer"]}, None),
    "a field of several types": (
        {"type": "object", "properties": {"age": {"type": ["integer", "string"]}}},
        None,
    ),
    "a type that is none": ({"type": {"of": "x"}}, None),
    "properties that are none": ({"type": "object", "properties": ["x"]}, None),
    "definitions that are none": ({"$ref": "#/$defs/a", "$defs": ["a"]}, None),
    "branches that are none": ({"anyOf": 7}, None),
    "a format that is none": (
        {"type": "integer", "format": ["x"]},
        {"answer": {"type": "integer"}},
    ),
    "required names that are none": (
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": [["a"], 7]},
        {"a": {"type": "integer"}},
    ),
}


@pytest.mark.parametrize("name", ASKED)
async def test_a_question_of_any_schema_is_a_form(name):
    schema, expected = ASKED[name]
    asks = {
        "messageId": "m",
        "role": "ROLE_AGENT",
        "parts": [{"text": "Well?"}, {"data": schema, "mediaType": "application/schema+json"}],
    }
    forms = []

    def handle(request: Any) -> bytes:
        if request.verb == "GET":
            plain = card(f"http://{request.headers['host']}/", capabilities={"streaming": False})
            return answer(plain)
        is_answer = bool(request.json["params"].get("message", {}).get("taskId"))
        found = task() if is_answer else task("INPUT_REQUIRED", "")
        if not is_answer:
            found["status"]["message"] = asks
        result = found if request.json["method"] == "GetTask" else {"task": found}
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": result})

    async def asked(context: Any, params: Any) -> Any:
        forms.append(params.requested_schema["properties"])
        content: Any = {
            key: 1 if one["type"] == "integer" else "x" for key, one in forms[-1].items()
        }
        return mcp_types.ElicitResult(action="accept", content=content)

    async with (
        scripted(handle) as peer,
        connect(peer.url) as agent,
        McpClient(make_server([agent]), elicitation_callback=asked) as client,
    ):
        result = await client.call_tool("dock_clerk", {"message": "go"})
        assert not result.is_error
    assert len(forms) == 1
    if expected is None:
        assert "JSON that fits" in forms[0]["answer"]["description"]
    else:
        assert forms[0] == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {}}, "required": 7},
        {"type": "object", "properties": {"a": {}}, "required": [["a"], "a"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": "x"},
        {"type": ["object"], "properties": 7, "$ref": "#", "$defs": "x"},
    ],
)
async def test_a_skill_of_any_schema_is_a_tool(schema):
    params = {"skills": {"count": {"input": schema}}}
    extensions = [{"uri": SCHEMA, "params": params}]
    given = card("http://127.0.0.1:9/", capabilities={"extensions": extensions})
    async with connect(given) as agent, McpClient(make_server([agent])) as client:
        [tool] = (await client.list_tools()).tools
        result = await client.call_tool(tool.name, {})
        assert result.is_error  # it needs something, or the agent is away


async def test_a_task_whose_file_is_away_is_asked_for_again():
    """The agent is there, and its file is not: that is an error of now, in its words."""

    def handle(request: Any) -> bytes:
        url = f"http://{request.headers['host']}/"
        if request.path == "/files/x":
            return answer("", 503)
        if request.verb == "GET":
            files = {"uri": FILES, "params": {"url": f"{url}files", "limit": 1 << 20}}
            return answer(card(url, capabilities={"extensions": [files]}))
        found = task(artifacts=[{"artifactId": "a", "parts": [{"url": f"{url}files/x"}]}])
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": found})

    async with (
        scripted(handle) as peer,
        connect(peer.url, retry=NO_RETRY) as agent,
        McpClient(make_server([agent]), mode="2026-07-28", extensions=[Tasks()]) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await ask(client, "get", "dock_clerk/1/t-1")
        assert caught.value.error.code == mcp_types.INTERNAL_ERROR
        assert "files/x" in caught.value.error.message
