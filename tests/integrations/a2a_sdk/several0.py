"""Several agents on a2a-sdk 0.3 in one app, one below the other; the port is the argument."""

import sys

import uvicorn
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentSkill
from executors import Named
from starlette.applications import Starlette

if __name__ == "__main__":
    port = int(sys.argv[1])
    app = Starlette()
    for name, path in (("A", ""), ("B", "/b"), ("C", "/b/c")):
        card = AgentCard(
            name=name,
            description=name,
            url=f"http://127.0.0.1:{port}{path}/",
            version="1.0.0",
            defaultInputModes=["text"],
            defaultOutputModes=["text"],
            capabilities=AgentCapabilities(streaming=True),
            skills=[AgentSkill(id="name", name="Name", description="says its name", tags=["name"])],
        )
        handler = DefaultRequestHandler(agent_executor=Named(name), task_store=InMemoryTaskStore())
        A2AStarletteApplication(agent_card=card, http_handler=handler).add_routes_to_app(
            app, agent_card_url=f"{path}/.well-known/agent-card.json", rpc_url=path or "/"
        )
    uvicorn.run(app, host="127.0.0.1", port=port)
