"""An agent from an object of another framework, known by its class. Nothing of a framework is
imported before an object of it turns up.
"""

from importlib import import_module
from typing import Any, TypeVar

from ..agent import Agent
from .turns import Options

__all__ = ["kind_of", "wrap"]

A = TypeVar("A", bound=Agent)

# A class anywhere among the bases of an object's class, as the package or module it is in and its
# name; and the file here that has `add_skills(agent, obj, options)` for it. The class nearest to
# the object's own decides.
KINDS = {
    "a2a.server.agent_execution:AgentExecutor": "a2a_sdk",
    "agent_framework:BaseAgent": "agent_framework",
    "ag2:Agent": "ag2",
    "agents.agent:Agent": "openai_agents",  # the whole module: many packages are called agents
    "crewai.agent:Agent": "crewai",
    "crewai.crew:Crew": "crewai",
    "crewai.flow:Flow": "crewai",
    "fastmcp:FastMCP": "mcp",
    "google.adk.agents:BaseAgent": "adk",
    "google.adk.runners:Runner": "adk",
    "langchain_core.runnables:Runnable": "langgraph",
    "langgraph:Pregel": "langgraph",
    "mcp.server:MCPServer": "mcp",
    "mcp.server:Server": "mcp",
    "pydantic_ai:AbstractAgent": "pydantic_ai",
    "strands:Agent": "strands",
    "workflows:Workflow": "llama_index",
}
_TAKEN = (
    "LangGraph, LangChain, pydantic-ai, OpenAI Agents, ADK, Agent Framework, LlamaIndex, CrewAI, "
    "Strands or AG2, an AgentExecutor of a2a-sdk, or an MCP server"
)


def kind_of(obj: Any) -> str:
    """Return the file that knows an object; empty if none does."""
    for class_ in type(obj).__mro__:
        for known, file in KINDS.items():
            package, _, name = known.partition(":")
            if class_.__name__ == name and f"{class_.__module__}.".startswith(f"{package}."):
                return file
    return ""


def wrap(
    class_: type[A],
    obj: Any,
    name: str = "",
    description: str = "",
    options: Options = None,
    **card: Any,
) -> A:
    """Return an agent whose turns the object makes.

    Raises:
        TypeError: The object is not from a framework that Accord knows.
    """
    file = kind_of(obj)
    if not file:
        raise TypeError(
            f"Agent.wrap takes an agent of {_TAKEN}, not a {type(obj).__module__}."
            f"{type(obj).__name__}; for anything else write a skill that calls it"
        )
    agent = class_(
        name or _text(obj, "name", "role") or type(obj).__name__,
        description=description or _text(obj, "description"),
        **card,
    )
    import_module(f".{file}", __package__).add_skills(agent, obj, options)
    return agent


def _text(obj: Any, *attributes: str) -> str:
    """The first of these attributes that is a text and not empty. Instructions are none of them:
    prompts are secrets, and a card is public.
    """
    values = (getattr(obj, attribute, None) for attribute in attributes)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")
