"""Real clients of the old versions, unchanged, in environments of their own: made by `make
test`.
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a import types
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError

from accord import Agent, Context, File, Reply
from tests.legacy.wire import talking_to
from tests.processes import run

HERE = Path(__file__).parent
PYTHON = HERE.parent.parent / ".venv-03" / "bin" / "python"
JS = HERE / "js"


def helper() -> Agent:
    """An agent that does whatever the clients try."""
    agent = Agent("Helper")

    @agent.skill
    async def talk(request: str, ctx: Context, file: File | None = None):
        if request == "ask":
            yield "at " + await ctx.ask("When?")
        elif request == "wait":
            await asyncio.Event().wait()
        elif request == "size":
            assert file is not None
            yield f"{len(file.data)} bytes"
        else:
            yield request.upper()
            yield "!"

    @agent.skill
    async def greet(request: str) -> Reply:
        return Reply("Hello.")

    return agent


async def report(*command: str | Path, versions: list[str] | None = None) -> dict[str, Any]:
    """Run a client against the agent; return what it saw."""
    async with talking_to(helper(), versions=versions, push=False) as server:
        words = [server.url if word == "URL" else word for word in command]
        done = await run(*words, cwd=JS)
        assert done.code == 0, done.err
        seen: dict[str, Any] = json.loads(done.out)
        return seen


# What a2a-sdk 0.3 sees of the agent, over every binding alike.
WORKS = {
    "card": ["Helper", "0.3.0", True],
    "send": ["completed", "HELLO!"],
    "reply": ["message", "Hello."],
    "stream": ["task", "status-update", "artifact-update", "artifact-update", "status-update"],
    "final": [False, True],
    "get": ["completed", "HELLO!", "hello"],
    "ask": ["input-required", "completed", "at noon"],
    "resubscribe": [True, "canceled"],
    "cancel": "canceled",
    "file": ["5 bytes", True],
}
ERRORS = {
    "JSONRPC": {
        "cancel twice": -32002,
        "unknown": -32001,
        "send to nobody": -32001,
        "push set": -32003,
        "push get": -32003,
    },
    "HTTP+JSON": {
        "cancel twice": 409,
        "unknown": 404,
        "send to nobody": 404,
        "push set": 501,
        "push get": 501,
    },
}


@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_python_client_of_0_3_does_everything(transport):
    """a2a-sdk 0.3 finds the card, sends, streams, reads, follows, cancels, and understands every
    refusal.
    """
    assert PYTHON.exists(), (
        "a2a-sdk 0.3 lives in .venv-03; `make .venv-03/.done` makes it, `make test` too"
    )
    seen = await report(PYTHON, HERE / "sdk03.py", "URL", transport)
    follow = seen.pop("follow nobody")  # this client takes any refusal of a stream for a broken one
    assert follow not in ("answered", "StopAsyncIteration")
    assert seen == WORKS | ERRORS[transport]


needs_node = pytest.mark.skipif(
    shutil.which("node") is None,
    reason="the JavaScript clients need Node.js, which is not installed",
)


def packages() -> None:
    assert (JS / "node_modules").is_dir(), (
        "the JavaScript clients are not installed; `make test` does it"
    )


@needs_node
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_javascript_client_of_0_3_works(transport):
    """@a2a-js/sdk 0.3 sends, streams, reads, follows and cancels, and sends file bytes its
    own way.
    """
    packages()
    seen = await report("node", "client_0_3.mjs", "URL", transport)
    assert seen == {
        "send": ["task", "completed", "HELLO!"],
        "stream": [
            "task",
            "status-update",
            "artifact-update",
            "artifact-update",
            "status-update final",
        ],
        "get": [True, "completed", "HELLO!", "hello"],
        "ask": ["input-required", "completed", "at noon"],
        "resubscribe": ["task", "status-update", "canceled"],
        "cancel": "canceled",
        "cancelTwice": "TaskNotCancelableError",
        "unknown": "TaskNotFoundError",
        "push": "PushNotificationNotSupportedError",
        "file": "5 bytes",
    }


@needs_node
@pytest.mark.parametrize(
    ("compat", "served", "spoken"),
    [("plain", None, "1.0"), ("compat", None, "1.0"), ("compat", ["0.3"], "0.3")],
)
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_javascript_client_of_1_x_works(transport, compat, served, spoken):
    """@a2a-js/sdk 1.x speaks 1.0 with the union card, whether or not it expects old agents; with a
    server of 0.3 alone, 0.3.
    """
    packages()
    seen = await report("node", "client_1.mjs", "URL", transport, compat, versions=served)
    assert seen == {
        "version": spoken,
        "send": ["TASK_STATE_COMPLETED", "HELLO!"],
        "stream": ["task", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"],
        "get": [True, "TASK_STATE_COMPLETED", "HELLO!", "hello"],
        "ask": ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED", "at noon"],
        "resubscribe": ["task", "statusUpdate", "TASK_STATE_CANCELED"],
        "cancel": "TASK_STATE_CANCELED",
        "unknown": "TaskNotFoundError",
    }


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_python_client_of_1_x_speaks_0_3_to_a_server_of_0_3(transport, streaming):
    """Its compatibility layer writes 0.3 in its own way (snake_case on HTTP+JSON), and recovers
    every error by name.
    """
    async with (
        talking_to(helper(), versions=["0.3"]) as server,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        card = await A2ACardResolver(http, server.url).get_agent_card()
        config = ClientConfig(
            httpx_client=http, streaming=streaming, supported_protocol_bindings=[transport]
        )
        client = ClientFactory(config).create(card)
        parts = [
            types.Part(text="size"),
            types.Part(raw=b"hello", filename="a.bin", media_type="application/octet-stream"),
        ]
        message = types.Message(message_id="m", role=types.Role.ROLE_USER, parts=parts)
        first, *_ = [
            event async for event in client.send_message(types.SendMessageRequest(message=message))
        ]
        task = await client.get_task(types.GetTaskRequest(id=first.task.id))
        assert (task.status.state, task.artifacts[0].parts[0].text) == (
            types.TaskState.TASK_STATE_COMPLETED,
            "5 bytes",
        )
        assert task.history[0].parts[1].raw == b"hello"
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(types.CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await client.get_task(types.GetTaskRequest(id="nobody"))
        if streaming:
            [event] = [
                event async for event in client.subscribe(types.SubscribeToTaskRequest(id=task.id))
            ]
            assert event.task.id == task.id
