"""All samples of a2a-sdk 1.x on one port, each under a path of its own."""

import sys

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from executors1 import SAMPLES
from starlette.applications import Starlette
from starlette.routing import Mount


def routes_of(name, executor, port):
    interface = AgentInterface(
        url=f"http://127.0.0.1:{port}/{name}/", protocol_binding="JSONRPC", protocol_version="1.0"
    )
    card = AgentCard(
        name=name,
        description=executor.__doc__ or "",
        version="1.0.0",
        supported_interfaces=[interface],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id=name, name=name, description=name, tags=["sample"])],
    )
    handler = DefaultRequestHandler(
        agent_executor=executor(), task_store=InMemoryTaskStore(), agent_card=card
    )
    return [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")]


if __name__ == "__main__":
    port = int(sys.argv[1])
    mounts = [
        Mount(f"/{name}", routes=routes_of(name, made, port)) for name, made in SAMPLES.items()
    ]
    uvicorn.run(Starlette(routes=mounts), host="127.0.0.1", port=port)
