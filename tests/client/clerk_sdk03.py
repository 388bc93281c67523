"""An agent on a2a-sdk 0.3, served over the three bindings it has. Prints its URL when it can be
called.

Run by the interpreter of an environment of its own: a2a-sdk 0.3 and 1.x are the same package.
"""

import asyncio
import base64
import socket

import grpc
import uvicorn
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    FilePart,
    Part,
    TextPart,
)
from a2a.utils import new_task


class Clerk(AgentExecutor):
    """`ask` asks, `wait` waits to be cancelled, a number counts in chunks, everything else is
    echoed. Files are given back.
    """

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        text = context.get_user_input()
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text == "ask":
            await updater.requires_input(
                updater.new_agent_message(say("How many days?")), final=True
            )
            return
        if text == "wait":
            await asyncio.Event().wait()
        for part in context.message.parts:
            if isinstance(part.root, FilePart):  # says what came, and gives it back
                await updater.add_artifact(
                    [*say(base64.b64decode(part.root.file.bytes).hex()), part]
                )
        for i in range(int(text)) if text.isdigit() else ():
            await updater.add_artifact(say(f"{i} "), artifact_id="a", append=i > 0)
        if not text.isdigit():
            await updater.add_artifact(say(f"heard {text}"))
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def say(text: str) -> list[Part]:
    return [Part(root=TextPart(text=text))]


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    rpc = grpc.aio.server()
    url = "http://127.0.0.1:%d" % listener.getsockname()[1]
    card = card_of(url, "127.0.0.1:%d" % rpc.add_insecure_port("127.0.0.1:0"))
    handler = DefaultRequestHandler(
        Clerk(), InMemoryTaskStore(), push_config_store=InMemoryPushNotificationConfigStore()
    )
    app = A2ARESTFastAPIApplication(card, handler).build()
    A2AStarletteApplication(card, handler).add_routes_to_app(app, rpc_url="/rpc")
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card, handler), rpc)
    await rpc.start()
    print(url, flush=True)  # who connects from now on waits in the listener's queue
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([listener])


def card_of(url: str, address: str) -> AgentCard:
    return AgentCard(
        name="Clerk",
        description="Counts.",
        version="0.1.0",
        url=url + "/rpc",
        preferred_transport="JSONRPC",
        additional_interfaces=[
            AgentInterface(transport="JSONRPC", url=url + "/rpc"),
            AgentInterface(transport="HTTP+JSON", url=url),
            AgentInterface(transport="GRPC", url=address),
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        skills=[AgentSkill(id="count", name="Count", description="Counts.", tags=["count"])],
    )


if __name__ == "__main__":
    asyncio.run(main())
