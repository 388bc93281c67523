"""A2A 0.3 over gRPC: the old package beside the new one, under every name it ever had."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.compat.v0_3.a2a_v0_3_pb2_grpc import A2AServiceStub
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict

from accord import Agent, Context, File
from accord.model import SecurityRequirement, SecurityScheme, StringList
from accord.model.card import HTTPAuthSecurityScheme
from tests.drive import PATIENCE_S, serving
from tests.legacy.test_clients import PYTHON, WORKS, helper
from tests.processes import run

SDK_03 = Path(__file__).parent.parent / "legacy" / "sdk03.py"
SERVICE = "/a2a.v1.A2AService/"


async def echo(request: str):
    return request


def a_send(text="hi", *, blocking=True, task_id=""):
    message = old.Message(
        message_id="m-1", role=old.ROLE_USER, content=[old.Part(text=text)], task_id=task_id
    )
    return old.SendMessageRequest(
        request=message, configuration=old.SendMessageConfiguration(blocking=blocking)
    )


async def refusal(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code().name, caught.value.details()


async def test_a_send_is_answered_in_the_old_shape(connect_grpc):
    """`content`, resource-free ids, `msg` or `task`."""
    async with connect_grpc(echo) as client:
        task = (await A2AServiceStub(client.channel).SendMessage(a_send(), timeout=PATIENCE_S)).task
        assert (task.status.state, task.artifacts[0].parts[0].text) == (
            old.TASK_STATE_COMPLETED,
            "hi",
        )
        assert [part.text for part in task.history[0].content] == ["hi"]


async def test_not_blocking_is_the_default(connect_grpc):
    """A bool without presence: nothing said is false."""
    gate = asyncio.Event()

    async def slow(request: str):
        await gate.wait()

    async with connect_grpc(slow) as client:
        request = a_send()
        request.ClearField("configuration")
        task = (await A2AServiceStub(client.channel).SendMessage(request, timeout=PATIENCE_S)).task
        assert task.status.state in (old.TASK_STATE_SUBMITTED, old.TASK_STATE_WORKING)
        gate.set()


async def test_a_stream_says_which_frame_is_final(connect_grpc):
    """And is numbered as the new one is."""

    async def ask(request: str, ctx: Context):
        return await ctx.ask("When?")

    async with connect_grpc(ask) as client:
        call = A2AServiceStub(client.channel).SendStreamingMessage(a_send(), timeout=PATIENCE_S)
        assert dict(await call.initial_metadata())["accord-seq"] == "1"
        frames = [frame async for frame in call]
        assert frames[0].task.id
        assert [f.status_update.final for f in frames if f.HasField("status_update")] == [
            False,
            True,
        ]
        assert frames[-1].status_update.status.update.content[0].text == "When?"


async def test_tasks_go_by_resource_name(connect_grpc):
    """`tasks/{id}`, and a bare id; anything else is refused."""
    async with connect_grpc(echo) as client:
        stub = A2AServiceStub(client.channel)
        task_id = (await stub.SendMessage(a_send())).task.id
        for name in (f"tasks/{task_id}", task_id):
            assert (await stub.GetTask(old.GetTaskRequest(name=name))).id == task_id
        code, text = await refusal(stub.GetTask(old.GetTaskRequest(name=f"jobs/{task_id}")))
        assert (code, text.partition(":")[0]) == ("INVALID_ARGUMENT", "InvalidParamsError")


async def test_a_message_to_an_unknown_task_is_told_in_words(connect_grpc):
    """Clients of 0.3 look for "not found" in the text, which begins with the error's name."""
    async with connect_grpc(echo) as client:
        stub = A2AServiceStub(client.channel)
        told = ("NOT_FOUND", "TaskNotFoundError: Task not found: nobody")
        assert await refusal(stub.SendMessage(a_send(task_id="nobody"))) == told
        assert await refusal(stub.SendStreamingMessage(a_send(task_id="nobody")).read()) == told


async def test_a_finished_task_can_be_subscribed_to(connect_grpc):
    """It is given, and the stream ends: 0.3 knew no error for it."""
    async with connect_grpc(echo) as client:
        stub = A2AServiceStub(client.channel)
        task_id = (await stub.SendMessage(a_send())).task.id
        [frame] = [
            f
            async for f in stub.TaskSubscription(
                old.TaskSubscriptionRequest(name=f"tasks/{task_id}"), timeout=PATIENCE_S
            )
        ]
        assert frame.task.status.state == old.TASK_STATE_COMPLETED


async def test_files_and_data_survive_the_old_shape(connect_grpc):
    """Bytes in the old libraries' double wrapping, data in an object."""

    async def give(request: str):
        yield {"days": 3, "names": ["a", None]}
        yield File(b"\x00\x01\xff", name="x.bin")

    async with connect_grpc(give) as client:
        task = (await A2AServiceStub(client.channel).SendMessage(a_send())).task
        data, file = task.artifacts[0].parts
        assert MessageToDict(data.data.data) == {"days": 3.0, "names": ["a", None]}
        assert (file.file.file_with_bytes, file.file.name) == (b"AAH/", "x.bin")


async def test_the_card_is_there_without_http(connect_grpc):
    """GetAgentCard: the public card, in 0.3's shape, with security as its proto has it."""
    agent = Agent("Guarded")
    agent.skill(echo)

    @agent.card
    def guard(card):
        card.security_schemes = {
            "bearer": SecurityScheme(
                http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer")
            )
        }
        card.security_requirements = [SecurityRequirement(schemes={"bearer": StringList()})]

    async with connect_grpc(agent, url="https://agent.example") as client:
        for method in ("GetAgentCard", "GetExtendedAgentCard"):
            data = await client.channel.unary_unary(SERVICE + method)(b"", timeout=PATIENCE_S)
            card = old.AgentCard.FromString(data)
            assert (card.name, card.protocol_version, card.url) == (
                "Guarded",
                "0.3.0",
                "https://agent.example/",
            )
            assert card.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
            assert list(card.security[0].schemes) == ["bearer"]
            assert "GRPC" in [place.transport for place in card.additional_interfaces]


LISTS = ("ListTask", "ListTasks")
SUBSCRIPTIONS = ("TaskSubscription", "SubscribeToTask")
CONFIGS = {
    old.CreateTaskPushNotificationConfigRequest(
        parent="tasks/t",
        config_id="c",
        config=old.TaskPushNotificationConfig(
            push_notification_config=old.PushNotificationConfig(url="https://hooks.example")
        ),
    ).SerializeToString(): (
        "CreateTaskPushNotificationConfig",
        "CreateTaskPushNotification",
        "SetTaskPushNotificationConfig",
    ),
    old.GetTaskPushNotificationConfigRequest(
        name="tasks/t/pushNotificationConfigs/c"
    ).SerializeToString(): (
        "GetTaskPushNotificationConfig",
        "GetTaskPushNotification",
        "DeleteTaskPushNotificationConfig",
        "DeleteTaskPushNotification",
    ),
    old.GetTaskPushNotificationConfigRequest(
        name="tasks/t/pushNotifications/c"
    ).SerializeToString(): ("GetTaskPushNotification",),
    old.ListTaskPushNotificationConfigRequest(parent="tasks/t").SerializeToString(): (
        "ListTaskPushNotificationConfig",
        "ListTaskPushNotification",
    ),
}


async def test_lists_answer_to_both_names(connect_grpc):
    """`ListTask` stood in the prose only, `ListTasks` in the drafts."""
    async with connect_grpc(echo) as client:
        task_id = (await A2AServiceStub(client.channel).SendMessage(a_send())).task.id
        for method in LISTS:
            data = await client.channel.unary_unary(SERVICE + method)(b"", timeout=PATIENCE_S)
            # The draft's answer has the numbers of 1.0: tasks are field 1, the total is field 4.
            assert task_id.encode() in data
            assert pb.ListTasksResponse.FromString(data).total_size == 1


async def test_subscriptions_answer_to_both_names(connect_grpc):
    """One wire message, two names."""
    async with connect_grpc(echo) as client:
        task_id = (await A2AServiceStub(client.channel).SendMessage(a_send())).task.id
        request = old.TaskSubscriptionRequest(name=f"tasks/{task_id}").SerializeToString()
        for method in SUBSCRIPTIONS:
            frames = [
                f
                async for f in client.channel.unary_stream(SERVICE + method)(
                    request, timeout=PATIENCE_S
                )
            ]
            assert old.StreamResponse.FromString(frames[0]).task.id == task_id


@pytest.mark.parametrize(
    ("request_", "method"),
    [(data, method) for data, methods in CONFIGS.items() for method in methods],
)
async def test_push_configs_answer_to_every_name(connect_grpc, request_, method):
    """They reach the operation: about a task that is not there, or of an agent without push, it
    says so in 0.3's words.
    """
    async with connect_grpc(echo) as client:
        _, text = await refusal(
            client.channel.unary_unary(SERVICE + method)(request_, timeout=PATIENCE_S)
        )
        assert text.partition(":")[0] in ("TaskNotFoundError", "PushNotificationNotSupportedError")


async def test_the_python_client_of_0_3_does_everything():
    """a2a-sdk 0.3, unchanged, from an environment of its own: 0.3 and 1.x are the same package."""
    assert PYTHON.exists(), "a2a-sdk 0.3 lives in .venv-03; `make test` makes it"
    app = helper().app(grpc_port=0, push=False)
    async with serving(app, app.close) as url:
        await app.open()
        done = await run(PYTHON, SDK_03, url, "GRPC")
    assert done.code == 0, done.err
    assert json.loads(done.out) == WORKS | {
        "cancel twice": "TaskNotCancelableError",
        "unknown": "TaskNotFoundError",
        "send to nobody": "TaskNotFoundError",
        "follow nobody": "TaskNotFoundError",
        "push set": "PushNotificationNotSupportedError",
        "push get": "PushNotificationNotSupportedError",
    }


# The reference library's own client of 0.3, from its 1.x release


@pytest.fixture
async def compat(connect_grpc):
    gate = asyncio.Event()
    agent = Agent("Old friend")

    @agent.skill
    async def work(request: str, ctx: Context):
        if request == "ask":
            return await ctx.ask("What?")
        if request == "wait":
            await gate.wait()
        return {"said": request}

    async with connect_grpc(agent) as client:
        transport: Any = CompatGrpcTransport(client.channel, None)
        transport.gate = gate
        yield transport


def request(text, *, task_id="", at_once=False):
    message = pb.Message(
        message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)], task_id=task_id
    )
    return pb.SendMessageRequest(
        message=message, configuration=pb.SendMessageConfiguration(return_immediately=at_once)
    )


async def test_the_old_client_talks(compat):
    """Send, answer a question, get, cancel."""
    asked = (await compat.send_message(request("ask"))).task
    assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
    done = (await compat.send_message(request("that", task_id=asked.id))).task
    assert done.status.state == pb.TASK_STATE_COMPLETED
    assert (await compat.get_task(pb.GetTaskRequest(id=done.id))).artifacts == done.artifacts
    parked = (await compat.send_message(request("ask"))).task
    assert (
        await compat.cancel_task(pb.CancelTaskRequest(id=parked.id))
    ).status.state == pb.TASK_STATE_CANCELED


async def test_the_old_client_streams_and_subscribes(compat):
    """Frame for frame what a new client sees."""
    kinds = [
        frame.WhichOneof("payload") async for frame in compat.send_message_streaming(request("go"))
    ]
    assert kinds == ["task", "status_update", "artifact_update", "status_update"]
    task = (await compat.send_message(request("wait", at_once=True))).task
    events = compat.subscribe(pb.SubscribeToTaskRequest(id=task.id))
    assert (await anext(events)).task.id == task.id
    compat.gate.set()
    assert [e async for e in events][-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_the_old_client_understands_our_errors(compat):
    """By the name in front of the text."""
    done = (await compat.send_message(request("go"))).task
    with pytest.raises(errors.TaskNotFoundError):
        await compat.get_task(pb.GetTaskRequest(id="nowhere"))
    with pytest.raises(errors.TaskNotCancelableError):
        await compat.cancel_task(pb.CancelTaskRequest(id=done.id))
    with pytest.raises(errors.UnsupportedOperationError):
        await compat.send_message(request("more", task_id=done.id))


async def test_the_old_client_gets_the_card(compat):
    """Over gRPC, where 0.3 has it."""
    assert (
        await compat.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
    ).name == "Old friend"


async def test_an_empty_authentication_of_a_push_config_is_none(connect_grpc):
    """The message is there, and says nothing: kits of 0.3 send it so."""

    async def ask(request: str, ctx: Context):
        return await ctx.ask("When?")

    hook = old.PushNotificationConfig(
        id="c", url="https://hooks.example/a2a", authentication=old.AuthenticationInfo()
    )
    async with connect_grpc(ask) as client:
        stub = A2AServiceStub(client.channel)
        task = (await stub.SendMessage(a_send(), timeout=PATIENCE_S)).task
        request = old.CreateTaskPushNotificationConfigRequest(
            parent=f"tasks/{task.id}",
            config_id="c",
            config=old.TaskPushNotificationConfig(push_notification_config=hook),
        )
        made = await stub.CreateTaskPushNotificationConfig(request, timeout=PATIENCE_S)
    assert made.push_notification_config.url == "https://hooks.example/a2a"
    assert not made.push_notification_config.HasField("authentication")
