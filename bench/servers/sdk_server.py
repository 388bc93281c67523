"""The agent on a2a-sdk, set up as its own samples are: `sdk_server.py PORT [GRPC_PORT]`.

Executor, default request handler, in-memory store, Starlette routes, uvicorn. uvicorn's access log
is off, as it is in ours.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from uuid import uuid4

import uvicorn
import uvloop
from a2a.helpers import get_message_text, new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
store = InMemoryTaskStore()


class Echo(AgentExecutor):
    """Says what it hears; other skills by `metadata.skill`."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        metadata = context.message.metadata
        skill = metadata["skill"] if "skill" in metadata else "echo"  # noqa: SIM401  a protobuf Struct has no get
        await SKILLS[skill](updater, context.message)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def echo(updater: TaskUpdater, message: Message) -> None:
    await updater.add_artifact([Part(text=get_message_text(message))], last_chunk=True)
    await updater.complete()


async def count(updater: TaskUpdater, message: Message) -> None:
    await _chunks(updater, int(get_message_text(message)))
    await updater.complete()


async def tell(updater: TaskUpdater, message: Message) -> None:
    await gates[get_message_text(message)].wait()
    await _chunks(updater, 50)
    await updater.complete()


async def go(updater: TaskUpdater, message: Message) -> None:
    gates.pop(get_message_text(message)).set()
    await echo(updater, message)


async def talk(updater: TaskUpdater, message: Message) -> None:
    question = updater.new_agent_message([Part(text=get_message_text(message) + "?")])
    await updater.requires_input(question)


async def weigh(updater: TaskUpdater, message: Message) -> None:
    await updater.add_artifact([Part(text=f"{len(message.parts[0].raw)} bytes")], last_chunk=True)
    await updater.complete()


async def _chunks(updater: TaskUpdater, n: int) -> None:
    for i in range(n):
        await updater.add_artifact(
            [Part(text=f"chunk {i} ")], artifact_id="artifact-1", append=i > 0
        )
        await asyncio.sleep(0)


SKILLS: dict[str, Callable[[TaskUpdater, Message], Awaitable[None]]] = {
    "echo": echo,
    "count": count,
    "tell": tell,
    "go": go,
    "talk": talk,
    "weigh": weigh,
}


async def fill(request: Request) -> PlainTextResponse:
    """Put finished tasks straight into the store: sending 100,000 would take minutes."""
    for i in range(int(request.query_params["tasks"])):
        task_id, context_id = str(uuid4()), str(uuid4())
        said = Message(
            message_id=f"m{i}",
            role=Role.ROLE_USER,
            task_id=task_id,
            context_id=context_id,
            parts=[Part(text="hello")],
        )
        task = Task(
            id=task_id,
            context_id=context_id,
            status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED),
            history=[said],
            artifacts=[Artifact(artifact_id=str(uuid4()), parts=[Part(text="hello")])],
        )
        task.status.timestamp.GetCurrentTime()
        await store.save(task, ServerCallContext())
    return PlainTextResponse("filled")


async def converse(request: Request) -> PlainTextResponse:
    """Put an open task with a long history straight into the store; answer with its ids."""
    task_id, context_id, n = str(uuid4()), str(uuid4()), int(request.query_params["messages"])
    history = []
    for i in range(n // 2):
        said = new_text_message(
            "hello", role=Role.ROLE_USER, task_id=task_id, context_id=context_id
        )
        said.metadata.update({"skill": "talk"})
        history += [said, new_text_message(f"hello {i}?", task_id=task_id, context_id=context_id)]
    status = TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED, message=history[-1])
    status.timestamp.GetCurrentTime()
    await store.save(
        Task(id=task_id, context_id=context_id, status=status, history=history[:-1]),
        ServerCallContext(),
    )
    return PlainTextResponse(f"{task_id} {context_id}")


def handler_of(port: int) -> tuple[DefaultRequestHandler, AgentCard]:
    skill = AgentSkill(id="echo", name="Echo", description="Repeat the text.", tags=["echo"])
    card = AgentCard(
        name="Echo",
        description="Says what it hears.",
        version="0.1.0",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[
            AgentInterface(
                url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0"
            )
        ],
        skills=[skill],
    )
    return DefaultRequestHandler(agent_executor=Echo(), task_store=store, agent_card=card), card


def app(port: int) -> Starlette:
    handler, card = handler_of(port)
    ours = [Route("/fill", fill, methods=["POST"]), Route("/converse", converse, methods=["POST"])]
    return Starlette(
        routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/"), *ours]
    )


async def both(port: int, grpc_port: int) -> None:
    """HTTP and, as the SDK's samples set it up, gRPC on one loop."""
    import grpc
    from a2a.server.request_handlers import GrpcHandler
    from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server

    server = grpc.aio.server()
    add_A2AServiceServicer_to_server(GrpcHandler(handler_of(port)[0]), server)
    server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    await server.start()
    await uvicorn.Server(
        uvicorn.Config(app(port), port=port, log_level="warning", access_log=False)
    ).serve()
    await server.stop(None)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        uvloop.run(both(int(sys.argv[1]), int(sys.argv[2])))
    else:
        uvicorn.run(
            app(int(sys.argv[1])),
            host="127.0.0.1",
            port=int(sys.argv[1]),
            log_level="warning",
            access_log=False,
        )
