"""A server on a2a-sdk 0.2 or 0.3, as its documentation shows one; the port is its argument, and the
address in its card may be another.
"""

import sys

import uvicorn
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentSkill
from executors import Everything

if __name__ == "__main__":
    port = int(sys.argv[1])
    url = sys.argv[2] if len(sys.argv) > 2 else f"http://0.0.0.0:{port}/"
    basic = AgentSkill(
        id="hello_world", name="Greeting", description="greets", tags=["hello"], examples=["hi"]
    )
    more = AgentSkill(
        id="super_hello_world", name="Great greeting", description="greets more", tags=["super"]
    )
    card = AgentCard(
        name="Hello World Agent",
        description="Just a hello world agent",
        url=url,
        version="1.0.0",
        defaultInputModes=["text"],
        defaultOutputModes=["text"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[basic],
        supportsAuthenticatedExtendedCard=True,
    )
    extended = card.model_copy(
        update={
            "name": "Hello World Agent - Extended Edition",
            "version": "1.0.1",
            "skills": [basic, more],
        }
    )
    handler = DefaultRequestHandler(agent_executor=Everything(), task_store=InMemoryTaskStore())
    server = A2AStarletteApplication(
        agent_card=card, http_handler=handler, extended_agent_card=extended
    )
    uvicorn.run(server.build(), host="0.0.0.0", port=port)
