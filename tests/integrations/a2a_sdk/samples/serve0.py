"""All samples of a2a-sdk 0.2 and 0.3 on one port, each under a path of its own."""

import sys

import uvicorn
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentSkill
from executors0 import SAMPLES
from starlette.applications import Starlette
from starlette.routing import Mount


def agent_of(name, executor, port):
    card = AgentCard(
        name=name,
        description=executor.__doc__ or "",
        url=f"http://127.0.0.1:{port}/{name}/",
        version="1.0.0",
        defaultInputModes=["text", "text/plain"],
        defaultOutputModes=["text", "text/plain"],
        capabilities=AgentCapabilities(
            streaming=True, extensions=[AgentExtension(uri="https://example.com/trace")]
        ),
        skills=[AgentSkill(id=name, name=name, description=name, tags=["sample"])],
    )
    handler = DefaultRequestHandler(agent_executor=executor(), task_store=InMemoryTaskStore())
    return A2AStarletteApplication(agent_card=card, http_handler=handler)


if __name__ == "__main__":
    port = int(sys.argv[1])
    agents = {name: agent_of(name, made, port) for name, made in SAMPLES.items()}
    beside = {name: agents.pop(name) for name in ("greeter", "planner")}
    app = Starlette(routes=[Mount(f"/{name}", made.build()) for name, made in agents.items()])
    for name, made in beside.items():  # these are not mounted
        made.add_routes_to_app(
            app, agent_card_url=f"/{name}/.well-known/agent-card.json", rpc_url=f"/{name}/"
        )
    uvicorn.run(app, host="127.0.0.1", port=port)
