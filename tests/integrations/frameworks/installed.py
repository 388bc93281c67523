"""Which frameworks are here. `make test` has some in one environment, `make test-framework` each of
the others in one of its own: tests of those that are not here are not collected.
"""

from importlib.util import find_spec

__all__ = ["FRAMEWORKS", "INSTALLED", "is_installed"]

# a file in agents/ for each, and a package that is there if the framework is
FRAMEWORKS = {
    "adk": "google.adk",
    "ag2": "ag2",
    "agent_framework": "agent_framework",
    "llama_index": "workflows",
    "strands": "strands",
    "crewai": "crewai",
    "langgraph": "langchain",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even what it is a part of
        return False


INSTALLED = [name for name, package in FRAMEWORKS.items() if is_installed(package)]
