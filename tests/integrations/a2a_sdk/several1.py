"""Several agents on a2a-sdk 1.x in one app, one below the other; the port is the argument."""

import copy
import sys

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from executors import Named
from starlette.applications import Starlette


def card_of(name, url):
    return AgentCard(
        name=name,
        description=name,
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="name", name="Name", description="says its name", tags=["name"])],
    )


if __name__ == "__main__":
    port = int(sys.argv[1])
    routes = []
    for name, path in (("A", ""), ("B", "/b"), ("C", "/b/c")):
        card = card_of(name, f"http://127.0.0.1:{port}{path}/")
        handler = DefaultRequestHandler(
            agent_executor=Named(name),
            task_store=InMemoryTaskStore(),
            agent_card=copy.deepcopy(card),
        )
        routes += create_jsonrpc_routes(handler, path or "/")
        routes += create_agent_card_routes(card, card_url=f"{path}/.well-known/agent-card.json")
        routes += create_agent_card_routes(card, card_url=f"/cards/{name}.json")
    elsewhere = card_of("D", "https://d.example.com/")
    routes += create_agent_card_routes(elsewhere, card_url="/cards/D.json")
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port)
