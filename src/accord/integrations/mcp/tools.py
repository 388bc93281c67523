"""The tools of an MCP server as functions."""

import contextlib
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import mcp_types as mcp
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from ...engine.durable import RUN_POSITION
from ...engine.skills import Context, Fail, current
from ...model import PROGRESS, Progress
from ...schema import to_builtins
from ..functions import ToolParameter, identifier, make_function, parameters_of
from .content import value_of
from .fastmcp import FastMcpClient, is_fastmcp

__all__ = ["McpTools", "ToolFailed", "mcp_target", "tool_function"]

_MAX_PAGES = 100  # of a list of tools: a server whose list never ends must not hold us up


class ToolFailed(Fail):
    """A tool of an MCP server failed; the text is what the server says of it.

    Left uncaught in a skill, the task fails with this reason.
    """


class McpTools(Mapping[str, Callable[..., Any]]):
    """The tools of a connected MCP server by name, each an async function.

    Made by `accord.tools.from_mcp`. `tools.specs` has what the server says of each.
    """

    def __init__(self, client: McpClient | FastMcpClient, specs: list[mcp.Tool]) -> None:
        self._client = client
        self.specs = {spec.name: spec for spec in specs}
        self._functions = {name: self._function(spec) for name, spec in self.specs.items()}

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, server: Any, options: dict[str, Any]) -> AsyncIterator["McpTools"]:
        """Give the tools of a server for as long as the connection is open."""
        class_: Any = FastMcpClient if is_fastmcp(server) else McpClient
        options = {"elicitation_callback": _elicited} | options
        headers, auth = options.pop("headers", None), options.pop("auth", None)
        target = mcp_target(server)
        if (headers or auth) and not isinstance(target, str):
            raise TypeError("headers and auth are for an MCP server with a URL")
        failure: Exception | None = None
        async with contextlib.AsyncExitStack() as opened:
            try:
                if headers or auth:
                    target = await _with_credentials(opened, target, headers, auth)
                client = await opened.enter_async_context(class_(target, **options))
                tools = cls(client, await _listed(client))
            except (MCPError, OSError, ExceptionGroup) as error:
                raise ToolFailed(f"the MCP server gave no answer: {_leaf(error)}") from error
            # The SDK would wrap what the caller raises in a group.
            try:
                yield tools
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure

    @property
    def server_info(self) -> mcp.Implementation | None:
        """What the server calls itself."""
        return self._client.server_info

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
            if ctx is not None and (message or total):
                known = Progress.read({PROGRESS: {"done": progress, "total": total}})
                metadata = known.metadata if known is not None and known.total else None
                await ctx.status(message or str(known), metadata=metadata)

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
        async def call(arguments: dict[str, Any]) -> Any:
            return await self.call(spec.name, arguments)

        return tool_function(spec, call)


def tool_function(
    spec: mcp.Tool, call: Callable[[dict[str, Any]], Awaitable[Any]]
) -> Callable[..., Any]:
    """Return a tool as a function; `call` gets its arguments, those left out excepted."""
    parameters = parameters_of(spec.input_schema)
    is_loose = parameters is None  # a field can't be the name of a parameter
    if parameters is None:
        what = "The fields that the tool takes."
        parameters = [ToolParameter("arguments", dict[str, Any], what)]

    async def given(arguments: dict[str, Any]) -> Any:
        fields = arguments["arguments"] if is_loose else arguments
        return await call({key: value for key, value in fields.items() if value is not None})

    name = identifier(spec.name, otherwise="tool")
    return make_function(name, spec.description or spec.name, parameters, given, returns=Any)


def mcp_target(server: Any) -> Any:
    """Return what `mcp.Client` takes for a server: a command as a list of words, a URL, ..."""
    if isinstance(server, str) and not server.startswith(("http://", "https://")):
        server = shlex.split(server)
    if isinstance(server, list | tuple):
        if not server:
            raise ValueError("the command of the MCP server is empty")
        return StdioServerParameters(command=server[0], args=list(server[1:]))
    return server


async def _with_credentials(
    opened: contextlib.AsyncExitStack, url: str, headers: Mapping[str, str] | None, auth: Any
) -> Any:
    """Return what `mcp.Client` takes for a URL whose requests carry credentials."""
    import httpx2  # which the MCP SDK comes with

    headers = dict(headers or {})
    if isinstance(auth, str):
        headers["Authorization"], auth = f"Bearer {auth}", None
    timeout = httpx2.Timeout(30, read=300)  # as the SDK has them: a stream may be silent for long
    client = httpx2.AsyncClient(headers=headers, auth=auth, timeout=timeout)
    http = await opened.enter_async_context(client)
    return streamable_http_client(url, http_client=http)


def _leaf(error: BaseException) -> BaseException:
    """The first error in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _listed(client: McpClient | FastMcpClient) -> list[mcp.Tool]:
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
    return mcp.ElicitResult(action="accept", content=await _filled(ctx, params))


async def _filled(ctx: Context, params: mcp.ElicitRequestFormParams) -> dict[str, Any]:
    """Ask for what a form asks for. One field alone is asked for without the object around it."""
    schema = params.requested_schema
    fields = schema.get("properties") or {}
    if len(fields) == 1:
        [(name, field)] = fields.items()
        return {name: await ctx.ask(params.message, dict(field))}
    filled: dict[str, Any] = await ctx.ask(params.message, dict(schema))
    return filled
