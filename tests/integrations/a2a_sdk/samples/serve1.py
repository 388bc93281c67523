"""All samples of a2a-sdk 1.x on one port, each under a path of its own."""

import sys

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from executors1 import SAMPLES
from starlette.applications import Starlette
from starlette.routing import Mount


def routes_of(name, executor, port, path=""):
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
    rpc = [
        *create_agent_card_routes(card, card_url=f"{path}/.well-known/agent-card.json"),
        *create_jsonrpc_routes(handler, f"{path}/"),
    ]
    return rpc, create_rest_routes(handler, path_prefix=f"{path}/rest")


if __name__ == "__main__":
    port = int(sys.argv[1])
    routes, last = [], []
    for name, executor in SAMPLES.items():
        if name == "governed":
            rpc, rest = routes_of(name, executor, port)
            routes.append(Mount(f"/{name}", routes=[*rpc, *rest]))
        else:  # these are not mounted
            rpc, rest = routes_of(name, executor, port, f"/{name}")
            routes += rpc
            last += rest  # a2a-sdk takes the first segment of other paths for a tenant
    uvicorn.run(Starlette(routes=[*routes, *last]), host="127.0.0.1", port=port)
