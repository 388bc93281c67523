"""The official Python SDK's client against our server: every operation, over every binding, to the
same results.
"""

import asyncio
from contextlib import asynccontextmanager

import grpc
import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict

from accord import Agent, Context, File, Reply
from tests.drive import serving

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


def planner(gate: asyncio.Event) -> Agent:
    """An agent that does a bit of everything."""
    agent = Agent("Planner", description="Plans short trips.")

    @agent.skill
    async def plan(request: str, ctx: Context):
        days = await ctx.ask("How many days?", int) if request == "ask" else 2
        ctx.status("looking")
        yield f"{days} days "
        yield {"days": days, "city": "Rome"}
        yield File(b"%PDF", name="plan.pdf")

    @agent.skill
    async def wait(request: str):
        await gate.wait()
        return "waited"

    @agent.skill
    async def greet(request: str) -> Reply:
        return Reply("hello")

    return agent


class Sdk:
    """The SDK's client and the few words this file needs of it."""

    def __init__(self, blocking, streaming, gate):
        self.blocking = blocking
        self.streaming = streaming
        self.gate = gate

    async def send(self, text, *, skill="", task_id="", at_once=False):
        """Return the one answer of a send that is not streamed."""
        [answer] = [
            event
            async for event in self.blocking.send_message(message(text, skill, task_id, at_once))
        ]
        return answer

    async def stream(self, text, *, skill="", task_id=""):
        return [event async for event in self.streaming.send_message(message(text, skill, task_id))]

    async def subscribe(self, task_id):
        return [
            event async for event in self.streaming.subscribe(pb.SubscribeToTaskRequest(id=task_id))
        ]


def message(text, skill="", task_id="", at_once=False):
    request = pb.SendMessageRequest(
        message=pb.Message(
            message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)], task_id=task_id
        ),
        configuration=pb.SendMessageConfiguration(return_immediately=at_once),
    )
    if skill:
        request.message.metadata.update({"skill": skill})
    return request


@asynccontextmanager
async def connected(binding, **options):
    gate = asyncio.Event()
    app = planner(gate).app(grpc_port=0, **options)
    await app.open()
    async with serving(app, app.close) as url, httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        clients = [
            ClientFactory(
                ClientConfig(
                    httpx_client=http,
                    streaming=streaming,
                    supported_protocol_bindings=[binding],
                    grpc_channel_factory=grpc.aio.insecure_channel,
                )
            ).create(card)
            for streaming in (False, True)
        ]
        blocking, streaming = clients
        yield Sdk(blocking, streaming, gate)
        if binding == "GRPC":  # the others' connections are those of `http`
            for client in clients:
                await client.close()


@pytest.fixture(params=BINDINGS)
def binding(request):
    return request.param


@pytest.fixture(params=[(), ("1.1",)], ids=["", "with the preview"])
async def sdk(request, binding):
    """With the preview the card offers a version that the SDK does not know: nothing changes."""
    async with connected(binding, previews=request.param) as sdk:
        yield sdk


async def test_the_sdk_sends_and_waits(sdk):
    """A blocking send gives the finished task (SND-3)."""
    task = (await sdk.send("go")).task
    assert task.status.state == pb.TASK_STATE_COMPLETED
    text, data, file = task.artifacts[0].parts
    assert (text.text, file.raw, file.filename) == ("2 days ", b"%PDF", "plan.pdf")
    assert MessageToDict(data.data) == {"city": "Rome", "days": 2.0}


async def test_the_sdk_sends_and_does_not_wait(sdk):
    """With return_immediately the task is still at work (SND-4)."""
    task = (await sdk.send("go", skill="wait", at_once=True)).task
    assert task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)
    sdk.gate.set()


async def test_the_sdk_gets_a_bare_message(sdk):
    """A reply is a message on a send and the only frame of a stream (SND-2, STR-2)."""
    assert (await sdk.send("hi", skill="greet")).message.parts[0].text == "hello"
    [frame] = await sdk.stream("hi", skill="greet")
    assert frame.message.role == pb.ROLE_AGENT


async def test_the_sdk_streams(sdk):
    """Task first, then every update (STR-2)."""
    frames = await sdk.stream("go")
    assert [frame.WhichOneof("payload") for frame in frames] == [
        "task",
        *["status_update"] * 2,
        *["artifact_update"] * 3,
        "status_update",
    ]
    assert [frame.artifact_update.append for frame in frames[3:6]] == [False, True, True]


async def test_the_sdk_answers_a_question(sdk):
    """Multi-turn: input-required, then on with the same task (CTX-10)."""
    asked = (await sdk.send("ask")).task
    assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
    done = (await sdk.send("3", task_id=asked.id)).task
    assert done.artifacts[0].parts[0].text == "3 days "


async def test_the_sdk_gets_a_task(sdk):
    """Whole, and with its history cut (GET-1, HIS-3)."""
    task = (await sdk.send("go")).task
    assert await sdk.blocking.get_task(pb.GetTaskRequest(id=task.id)) == task
    short = await sdk.blocking.get_task(pb.GetTaskRequest(id=task.id, history_length=0))
    assert not short.history


async def test_the_sdk_pages_through_a_list(sdk):
    """Token by token to the end (LST-2, LST-4, LST-8)."""
    made = [(await sdk.send("go")).task.id for _ in range(5)]
    found, token = [], None
    while token != "":
        page = await sdk.blocking.list_tasks(
            pb.ListTasksRequest(page_size=2, page_token=token or "", include_artifacts=True)
        )
        assert (page.page_size, page.total_size) == (2, 5)
        found += [task.id for task in page.tasks]
        token = page.next_page_token
    assert found == made[::-1]


async def test_the_sdk_filters_a_list(sdk):
    """By state, by context and by time (LST-7)."""
    asked = (await sdk.send("ask")).task
    await sdk.send("go")
    by_state = await sdk.blocking.list_tasks(
        pb.ListTasksRequest(status=pb.TASK_STATE_INPUT_REQUIRED)
    )
    by_context = await sdk.blocking.list_tasks(pb.ListTasksRequest(context_id=asked.context_id))
    by_time = await sdk.blocking.list_tasks(
        pb.ListTasksRequest(status_timestamp_after=asked.status.timestamp)
    )
    assert [t.id for t in by_state.tasks] == [t.id for t in by_context.tasks] == [asked.id]
    assert by_time.total_size == 2


async def test_the_sdk_cancels(sdk):
    """A parked task is canceled; a finished one is not cancelable (CAN-1, CAN-2)."""
    asked = (await sdk.send("ask")).task
    assert (
        await sdk.blocking.cancel_task(pb.CancelTaskRequest(id=asked.id))
    ).status.state == pb.TASK_STATE_CANCELED
    done = (await sdk.send("go")).task
    with pytest.raises(errors.TaskNotCancelableError):
        await sdk.blocking.cancel_task(pb.CancelTaskRequest(id=done.id))


async def test_the_sdk_subscribes(sdk):
    """The task as it is, then what follows (SUB-1, SUB-2)."""
    task = (await sdk.send("go", skill="wait", at_once=True)).task
    events = sdk.streaming.subscribe(pb.SubscribeToTaskRequest(id=task.id))
    assert (await anext(events)).task.id == task.id
    sdk.gate.set()
    frames = [event async for event in events]
    assert frames[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_the_sdk_understands_our_errors(sdk):
    """Each arrives as the class the SDK has for it (ERR-4)."""
    done = (await sdk.send("go")).task
    with pytest.raises(errors.TaskNotFoundError):
        await sdk.blocking.get_task(pb.GetTaskRequest(id="nowhere"))
    with pytest.raises(errors.UnsupportedOperationError):
        await sdk.send("more", task_id=done.id)
    with pytest.raises(errors.UnsupportedOperationError):
        await sdk.subscribe(done.id)
    with pytest.raises(errors.InvalidParamsError):
        await sdk.blocking.list_tasks(pb.ListTasksRequest(page_size=1000))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_sdk_learns_that_there_is_no_push(binding):
    """All four operations say so (GEN-7)."""
    async with connected(binding, push=False) as sdk:
        calls = [
            sdk.blocking.create_task_push_notification_config(
                pb.TaskPushNotificationConfig(task_id="t", url="https://hooks.example")
            ),
            sdk.blocking.get_task_push_notification_config(
                pb.GetTaskPushNotificationConfigRequest(task_id="t", id="c")
            ),
            sdk.blocking.list_task_push_notification_configs(
                pb.ListTaskPushNotificationConfigsRequest(task_id="t")
            ),
            sdk.blocking.delete_task_push_notification_config(
                pb.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c")
            ),
        ]
        for call in calls:
            with pytest.raises(errors.PushNotificationNotSupportedError):
                await call


async def test_the_server_refuses_an_extended_card(request):
    """The SDK reads the card and doesn't even ask; told otherwise, it gets the error (GEN-7,
    GEN-8).
    """
    for binding in BINDINGS:
        async with connected(binding) as sdk:
            own = await sdk.blocking.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
            assert own.name == "Planner"
            sdk.blocking._card.capabilities.extended_agent_card = True
            with pytest.raises(errors.UnsupportedOperationError):
                await sdk.blocking.get_extended_agent_card(pb.GetExtendedAgentCardRequest())


async def everything(binding):
    """What the SDK sees of one agent, without what differs from run to run."""
    async with connected(binding) as sdk:
        asked = (await sdk.send("ask")).task
        done = (await sdk.send("3", task_id=asked.id)).task
        seen = [asked, done, await sdk.send("hi", skill="greet"), *await sdk.stream("go")]
        seen.append(await sdk.blocking.get_task(pb.GetTaskRequest(id=done.id, history_length=2)))
        seen.append(await sdk.blocking.list_tasks(pb.ListTasksRequest(include_artifacts=True)))
        parked = (await sdk.send("ask")).task
        seen.append(await sdk.blocking.cancel_task(pb.CancelTaskRequest(id=parked.id)))
        return [scrubbed(MessageToDict(value)) for value in seen]


def scrubbed(value):
    changing = {"id", "taskId", "contextId", "messageId", "timestamp"}
    if isinstance(value, dict):
        return {name: "..." if name in changing else scrubbed(item) for name, item in value.items()}
    return [scrubbed(item) for item in value] if isinstance(value, list) else value


async def test_all_bindings_show_the_sdk_the_same():
    """Functionally equivalent representations of one agent (BND-1, BND-3)."""
    one, two, three = [await everything(binding) for binding in BINDINGS]
    assert one == two == three
