"""MCP both ways: agents as tools of an MCP server, and the tools of MCP servers in agents.

Needs `accord[mcp]`.
"""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .agent import add_skills as add_skills
    from .agent import agent_of_mcp as agent_of_mcp
    from .server import MAX_TOOLS as MAX_TOOLS
    from .server import WAIT_S as WAIT_S
    from .server import make_server as make_server
    from .server import serve_http as serve_http
    from .server import serve_stdio as serve_stdio
    from .tools import McpTools as McpTools
    from .tools import ToolFailed as ToolFailed
    from .toolsets import AgentDirectory as AgentDirectory
    from .toolsets import DirectoryFailed as DirectoryFailed

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
