"""An MCP server as an agent: one skill per tool."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mcp_types as mcp

from ...agent import Agent
from ...engine.skills import current
from ...model import File, InvalidParams, Message, Part
from ..turns import Options
from .tools import McpTools, tool_function

__all__ = ["add_skills", "agent_of_mcp"]

_MAX_TITLE = 80


def agent_of_mcp(server: Any, *, name: str = "", options: Mapping[str, Any] | None = None) -> Agent:
    """Return an agent whose skills are the tools of an MCP server. The server is asked for its
    tools now.

    Args:
        server: As for `accord.tools.from_mcp`.
        name: What people call the agent; by default, what the server calls itself.
        options: As for `from_mcp`: `auth`, `headers` and others.

    Raises:
        ToolFailed: The server gave no answer.
    """
    tools, info = _inspect(server, options)
    title = info.title or info.name if info is not None else ""
    agent = Agent(
        (name or title or "MCP server")[:_MAX_TITLE],
        description=(info.description if info is not None else None)
        or "The tools of an MCP server.",
    )
    _add(agent, server, tools, options)
    return agent


def add_skills(agent: Agent, server: Any, options: Options = None) -> None:
    """Give an agent the tools of an MCP server as skills.

    Args:
        agent: To get them.
        server: Whose tools they are.
        options: As for `from_mcp`, or a function of the Context that returns them.
    """
    known = None if callable(options) else options
    _add(agent, server, _inspect(server, known)[0], options)


def _inspect(
    server: Any, options: Mapping[str, Any] | None
) -> tuple[list[mcp.Tool], mcp.Implementation | None]:
    async def ask() -> tuple[list[mcp.Tool], mcp.Implementation | None]:
        async with McpTools.connected(server, dict(options or {})) as tools:
            return list(tools.specs.values()), tools.server_info

    with ThreadPoolExecutor(1) as thread:  # the caller may be on an event loop
        return thread.submit(asyncio.run, ask()).result()


def _add(
    agent: Agent,
    server: Any,
    tools: list[mcp.Tool],
    options: Options,
) -> None:
    if not tools:
        raise ValueError("the MCP server has no tools, so there is nothing to serve")
    for tool in tools:
        agent.skill(
            _function(server, tool, options),
            id=tool.name,
            name=tool.title or "",
            description=tool.description or "",
            # A tool takes arguments: a file beside them would be lost silently.
            input_modes=["text/plain", "application/json"],
        )
    if len(tools) > 1:
        agent.route(_refuse([tool.name for tool in tools]))


def _function(server: Any, tool: mcp.Tool, options: Options) -> Callable[..., Any]:
    async def call(arguments: dict[str, Any]) -> Any:
        # A connection per run: what the server asks in the middle of a call is asked of this
        # run's client.
        async with McpTools.connected(server, await _given(options)) as tools:
            return _parts(await tools.call(tool.name, arguments))

    return tool_function(tool, call)


async def _given(options: Options) -> dict[str, Any]:
    given = options(current()) if callable(options) else options
    return dict(await given if inspect.isawaitable(given) else given or {})


def _parts(found: Any) -> Any:
    """Texts and files side by side are parts; everything else is the value it is."""
    if isinstance(found, list) and any(isinstance(one, File) for one in found):
        return [Part(text=one) if isinstance(one, str) else one for one in found]
    return found


def _refuse(names: list[str]) -> Callable[[Message], str]:
    """There is no model that could choose a tool by the words of a message."""

    def route(message: Message) -> str:
        what = f"say which skill is meant: metadata.skill is one of {', '.join(names)}"
        raise InvalidParams(what, violations=(("message.metadata.skill", what),))

    return route
