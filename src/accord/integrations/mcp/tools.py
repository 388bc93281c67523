"""The tools of an MCP server as functions."""

import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import mcp_types as mcp
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError

from ...engine.durable import RUN_POSITION
from ...engine.skills import Context, Fail, current
from ...model import Message, Part, Role, new_id
from ...schema import to_builtins
from ..functions import ToolParameter, identifier, make_function, parameters_of
from .content import value_of
from .forms import read_form

__all__ = ["McpTools", "ToolFailed", "mcp_target"]

_MAX_PAGES = 100  # of a list of tools: a server whose list never ends must not hold us up
_SCHEMA_PART = "application/schema+json"


class ToolFailed(Fail):
    """A tool of an MCP server failed; the text is what the server says of it.

    Left uncaught in a skill, the task fails with this reason.
    """


class McpTools(Mapping[str, Callable[..., Any]]):
    """The tools of a connected MCP server by name, each an async function.

    Made by `accord.tools.from_mcp`. `tools.specs` has what the server says of each.
    """

    def __init__(self, client: McpClient, specs: list[mcp.Tool]) -> None:
        self._client = client
        self.specs = {spec.name: spec for spec in specs}
        self._functions = {name: self._function(spec) for name, spec in self.specs.items()}

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, server: Any, options: dict[str, Any]) -> AsyncIterator["McpTools"]:
        """Give the tools of a server for as long as the connection is open."""
        options = {"elicitation_callback": _elicited} | options
        async with McpClient(mcp_target(server), **options) as client:
            yield cls(client, await _listed(client))

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            raise KeyError(f"no tool {name!r}; the server has {', '.join(self._functions)}")
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool and return what it gave: its structured content, else its text.

        Raises:
            ToolFailed: It did not work.
        """
        ctx = _context()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if ctx is not None and message:
                await ctx.status(message)

        try:
            result = await self._client.call_tool(
                name, to_builtins(arguments), progress_callback=on_progress
            )
        except MCPError as error:
            raise ToolFailed(f"{name}: {error}") from error
        if result.is_error:
            texts = [block.text for block in result.content if isinstance(block, mcp.TextContent)]
            raise ToolFailed("\n".join(texts) or f"{name} failed")
        return value_of(result)

    def _function(self, spec: mcp.Tool) -> Callable[..., Any]:
        parameters = parameters_of(spec.input_schema)
        is_loose = parameters is None  # a field can't be the name of a parameter

        async def call(arguments: dict[str, Any]) -> Any:
            given = arguments["arguments"] if is_loose else arguments
            return await self.call(
                spec.name, {key: value for key, value in given.items() if value is not None}
            )

        if parameters is None:
            what = "The fields that the tool takes."
            parameters = [ToolParameter("arguments", dict[str, Any], what)]
        name = identifier(spec.name, otherwise="tool")
        return make_function(name, spec.description or spec.name, parameters, call, returns=Any)


def mcp_target(server: Any) -> Any:
    """Return what `mcp.Client` takes for a server: a command as a list of words, a URL, ..."""
    if isinstance(server, str) and not server.startswith(("http://", "https://")):
        server = shlex.split(server)
    if isinstance(server, list | tuple):
        if not server:
            raise ValueError("the command of the MCP server is empty")
        return StdioServerParameters(command=server[0], args=list(server[1:]))
    return server


async def _listed(client: McpClient) -> list[mcp.Tool]:
    found: list[mcp.Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _context() -> Context | None:
    """The run we are in, if we are in one."""
    return current() if RUN_POSITION.get() is not None else None


async def _elicited(
    _: ClientRequestContext, params: mcp.ElicitRequestParams
) -> mcp.ElicitResult | mcp.ErrorData:
    """Ask our own client what the server asks us."""
    ctx = _context()
    if ctx is None:
        return mcp.ElicitResult(action="decline")
    if isinstance(params, mcp.ElicitRequestURLParams):
        await ctx.require_auth(f"{params.message}\n{params.url}")
        return mcp.ElicitResult(action="accept")
    schema = params.requested_schema
    said = params.message
    while True:
        question = Message(
            message_id=new_id(),
            role=Role.AGENT,
            parts=[Part(text=said), Part(data=schema, media_type=_SCHEMA_PART)],
        )
        answer = await ctx.ask(question, Message)
        try:
            return mcp.ElicitResult(action="accept", content=read_form(schema, answer))
        except ValueError as error:
            said = f"That does not fit: {error}\n{params.message}"
