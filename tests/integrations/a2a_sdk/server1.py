"""A server on a2a-sdk 1.x, as its documentation shows one; the port is its argument, and the
address in its card may be another.
"""

import sys

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from executors import Everything
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

if __name__ == "__main__":
    port = int(sys.argv[1])
    url = sys.argv[2] if len(sys.argv) > 2 else f"http://127.0.0.1:{port}/"
    skill = AgentSkill(id="hello_world", name="Greeting", description="greets", tags=["hello"])
    card = AgentCard(
        name="Hello World Agent",
        description="Just a hello world agent",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0"),
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[skill],
    )
    handler = DefaultRequestHandler(
        agent_executor=Everything(), task_store=InMemoryTaskStore(), agent_card=card
    )
    app = Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler),
            Route("/mine", lambda request: PlainTextResponse("the program's own")),
        ]
    )
    uvicorn.run(app, host="127.0.0.1", port=port)
