"""An agent that uses the tools of an MCP server."""

from accord import Agent
from accord.tools import from_mcp

from .mcp_library import server  # or its URL, or the command that starts it

agent = Agent("Reader")


@agent.skill
async def find(title: str) -> str:
    """Find a book."""
    async with from_mcp(server) as tools:
        return f"Found: {', '.join(await tools['search'](title=title))}"
