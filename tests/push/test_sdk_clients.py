"""Clients others wrote register webhooks, in every binding they have, and the webhooks get what
their version expects.
"""

import json
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb

from accord import Agent, Context
from tests import processes
from tests.drive import serving
from tests.legacy.test_clients import JS, PYTHON, needs_node, packages

from .webhook import Call, Webhook

HERE = Path(__file__).parent

pytestmark = pytest.mark.outside


def helper() -> Agent:
    agent = Agent("Helper")

    @agent.skill
    async def work(request: str, ctx: Context):
        return f"at {await ctx.ask('When?')}"

    return agent


async def run(hook: Webhook, *command: str | Path) -> dict[str, Any]:
    """Run a client against the agent; return what it printed."""
    app = helper().app(grpc_port=0, allow_hosts=["127.0.0.1"])
    async with serving(app, app.close) as url:
        await app.open()
        words = [{"URL": url, "HOOK": hook.url}.get(str(word), word) for word in command]
        done = await processes.run(*words, cwd=JS)
        assert done.code == 0, done.err
        await heard(hook)
        seen: dict[str, Any] = json.loads(done.out)
        return seen


async def heard(hook: Webhook) -> None:
    """Wait until both webhooks were told the end."""
    await hook.until(lambda calls: len(told(calls, "inline")) >= 5 and len(told(calls, "set")) >= 2)


def told(calls: list[Call], path: str) -> list[Call]:
    return [call for call in calls if call.path == f"/hook/{path}"]


def check_old(hook: Webhook) -> None:
    """0.3: a bare task with `kind`, at every event."""
    states = [call.json["status"]["state"] for call in told(hook.calls, "inline")]
    assert states == ["submitted", "working", "input-required", "working", "completed"]
    assert [c.json["status"]["state"] for c in told(hook.calls, "set")] == ["working", "completed"]
    assert {call.json["kind"] for call in hook.calls} == {"task"}
    last = told(hook.calls, "inline")[-1]
    assert last.json["artifacts"][0]["parts"][0]["text"] == "at noon"
    assert last.headers["x-a2a-notification-token"] == "t-inline"
    assert last.headers["content-type"] == "application/json"


def check_new(hook: Webhook) -> None:
    """1.0: what a stream shows."""
    kinds = [call.kind for call in told(hook.calls, "inline")]
    assert kinds == ["task", "working", "input_required", "working", "completed"]
    assert [call.kind for call in told(hook.calls, "set")] == ["working", "completed"]
    last = told(hook.calls, "inline")[-1]
    assert last.headers["x-a2a-notification-token"] == "t-inline"
    assert last.headers["content-type"] == "application/a2a+json"
    assert last.headers["a2a-version"] == "1.0"


@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_the_python_client_of_0_3(hook: Webhook, transport: str):
    assert PYTHON.exists(), "a2a-sdk 0.3 lives in .venv-03; `make test` makes it"
    seen = await run(hook, PYTHON, HERE / "sdk03.py", "URL", transport, "HOOK")
    assert seen == {"made": "set", "got": [True, "set"], "state": "completed"}
    check_old(hook)


@needs_node
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_javascript_client_of_0_3(hook: Webhook, transport: str):
    packages()
    seen = await run(hook, "node", "push_0_3.mjs", "URL", transport, "HOOK")
    assert seen == {"made": "set", "got": [True, "set"], "state": "completed"}
    check_old(hook)


@needs_node
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_javascript_client_of_1(hook: Webhook, transport: str):
    packages()
    seen = await run(hook, "node", "push_1.mjs", "URL", transport, "HOOK")
    assert seen == {"made": "set", "got": [True, "set"], "state": "TASK_STATE_COMPLETED"}
    check_new(hook)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_the_python_client_of_1(hook: Webhook, binding: str):
    app = helper().app(grpc_port=0, allow_hosts=["127.0.0.1"])
    async with serving(app, app.close) as url, httpx.AsyncClient(trust_env=False) as http:
        await app.open()
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(
            ClientConfig(
                httpx_client=http,
                streaming=False,
                supported_protocol_bindings=[binding],
                grpc_channel_factory=grpc.aio.insecure_channel,
            )
        ).create(card)

        async def send(text: str, **fields: Any) -> Any:
            configuration = fields.pop("configuration", None)
            message = pb.Message(
                message_id=text, role=pb.ROLE_USER, parts=[pb.Part(text=text)], **fields
            )
            request = pb.SendMessageRequest(message=message, configuration=configuration)
            async for event in client.send_message(request):
                return event.task
            raise AssertionError("no answer")

        inline = pb.TaskPushNotificationConfig(
            id="inline", url=hook.url + "/inline", token="t-inline"
        )
        task = await send(
            "ask", configuration=pb.SendMessageConfiguration(task_push_notification_config=inline)
        )
        made = await client.create_task_push_notification_config(
            pb.TaskPushNotificationConfig(task_id=task.id, id="set", url=hook.url + "/set")
        )
        got = await client.get_task_push_notification_config(
            pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="set")
        )
        assert (made.url, got.id) == (hook.url + "/set", "set")
        listed = await client.list_task_push_notification_configs(
            pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        assert [config.id for config in listed.configs] == ["inline", "set"]
        await send("noon", task_id=task.id, context_id=task.context_id)
        await heard(hook)
        await client.delete_task_push_notification_config(
            pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="set")
        )
        if binding == "GRPC":
            await client.close()
    check_new(hook)
