"""An agent on a2a-sdk 1.x, served over every version and binding it has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import uvicorn
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import get_message_text, new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    TaskState,
    a2a_pb2_grpc,
)
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

__all__ = ["DOORS", "serving_sdk"]

DOORS = [
    ("JSONRPC", "1.0"),
    ("HTTP+JSON", "1.0"),
    ("GRPC", "1.0"),
    ("JSONRPC", "0.3"),
    ("HTTP+JSON", "0.3"),
    ("GRPC", "0.3"),
]


class Clerk(AgentExecutor):
    """`ask` asks, `wait` waits to be cancelled, a number counts in chunks, `forget` forgets the ids
    of its messages, everything else is echoed.
    """

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        text = get_message_text(context.message)
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text == "ask":
            await updater.requires_input(updater.new_agent_message([Part(text="How many days?")]))
            return
        if text == "forget":
            for word in ("on it", "on it", "nearly"):
                said = Message(role=Role.ROLE_AGENT, parts=[Part(text=word)])
                await updater.update_status(TaskState.TASK_STATE_WORKING, said)
            await updater.add_artifact([Part(text="done")])
            await updater.complete(Message(role=Role.ROLE_AGENT, parts=[Part(text="that is all")]))
            return
        if text == "wait":
            await asyncio.Event().wait()
        for i in range(int(text)) if text.isdigit() else ():
            await updater.add_artifact([Part(text=f"{i} ")], artifact_id="a", append=i > 0)
            await asyncio.sleep(0.002)
        if not text.isdigit():
            await updater.add_artifact([Part(text=f"heard {text}")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


@asynccontextmanager
async def serving_sdk() -> AsyncIterator[str]:
    """Serve the agent on free loopback ports; yield its URL."""
    others = asyncio.all_tasks()
    rpc = grpc.aio.server()
    rpc_port = rpc.add_insecure_port("127.0.0.1:0")
    loop = asyncio.get_running_loop()
    state = ServerState()
    config = uvicorn.Config(
        _starting, lifespan="off", ws="none", access_log=False, log_config=None, proxy_headers=False
    )
    config.load()
    listener = await loop.create_server(
        lambda: HttpToolsProtocol(config=config, server_state=state, app_state={}),
        "127.0.0.1",
        0,
        start_serving=False,
    )
    url = "http://127.0.0.1:%d" % listener.sockets[0].getsockname()[1]
    card = _card(url, f"127.0.0.1:{rpc_port}")
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Clerk(),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=configs,
    )
    config.loaded_app = Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
            *create_rest_routes(handler, enable_v0_3_compat=True),
        ]
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), rpc)
    a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), rpc)
    await rpc.start()
    await listener.start_serving()
    try:
        yield url
    finally:
        listener.close()
        for connection in list(state.connections):
            connection.shutdown()
        await rpc.stop(0)
        # The SDK leaves the producers of open tasks behind.
        left = asyncio.all_tasks() - others - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _starting(scope, receive, send) -> None:
    raise RuntimeError("not started yet")


def _card(url: str, address: str) -> AgentCard:
    places = {"JSONRPC": url + "/rpc", "HTTP+JSON": url, "GRPC": address}
    return AgentCard(
        name="Clerk",
        description="Counts.",
        version="0.1.0",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        supported_interfaces=[
            AgentInterface(url=places[binding], protocol_binding=binding, protocol_version=version)
            for binding, version in DOORS
        ],
        skills=[AgentSkill(id="count", name="Count", description="Counts.", tags=["count"])],
    )
