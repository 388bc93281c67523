"""An MCP server whose tools are agents."""

import asyncio
import base64
import contextlib
import functools
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import mcp_types as mcp
import uvicorn
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import (
    InvalidRequestState,
    RequestStateBoundary,
    RequestStateSecurity,
)
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from ...auth import Keyring, KeyringError
from ...client import AgentFault, Client
from ...model import A2AError
from .calls import AgentCall, CallResult, failed
from .content import URI_TEMPLATE, load_files, read_artifact, split_uri
from .tasks import McpTasks, has_tasks, task_result
from .toolsets import AgentDirectory, EachSkill, KnownAgents, Searching, ToolSet

__all__ = ["MAX_TOOLS", "WAIT_S", "make_server", "serve_http", "serve_stdio"]

NAME = "accord"
MAX_TOOLS = 20  # more would fill the model's context: it searches instead
WAIT_S = 50.0  # many clients give up after a minute
TASK_AFTER_S = 2.0  # work that takes longer is a task, for clients that know them
_ANSWER_WITHIN_S = 24 * 3600.0  # how long a question that a client holds stays good

_INSTRUCTIONS = (
    "Each tool is a remote agent. If a result names a task_id, call the same tool again with it: "
    "to answer the agent's question, or to wait for its result."
)


class _Handlers:
    """Answers what a client asks for."""

    def __init__(self, tools: ToolSet, wait_s: float) -> None:
        self._tools = tools
        self._wait_s = wait_s

    async def list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListToolsResult:
        return mcp.ListToolsResult(tools=self._tools.listed())

    async def call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: mcp.CallToolRequestParams
    ) -> CallResult:
        arguments = params.arguments or {}
        served = await self._tools.called(params.name, arguments)
        if served is None:
            raise MCPError(code=mcp.INVALID_PARAMS, message=f"unknown tool {params.name!r:.80}")
        if isinstance(served, mcp.CallToolResult):
            return served
        missing = [
            name
            for name in served.tool.json_schema().get("required") or ()
            if name not in arguments and not arguments.get("task_id")
        ]
        if missing:
            return failed(f"{params.name} needs {', '.join(missing)}")
        if not has_tasks(ctx):
            return await AgentCall(served.client, served.tool, ctx, params, self._wait_s).run()
        on_long = functools.partial(task_result, served.tool.name)
        wait_s = min(self._wait_s, TASK_AFTER_S)
        return await AgentCall(served.client, served.tool, ctx, params, wait_s, on_long).run()

    async def list_resources(
        self, ctx: ServerRequestContext[Any, Any], params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourcesResult:
        return mcp.ListResourcesResult(resources=[])  # results name them

    async def list_templates(
        self, ctx: ServerRequestContext[Any, Any], params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourceTemplatesResult:
        template = mcp.ResourceTemplate(
            uri_template=URI_TEMPLATE,
            name="artifact",
            description="What an agent has made in a task.",
        )
        return mcp.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, ctx: ServerRequestContext[Any, Any], params: mcp.ReadResourceRequestParams
    ) -> mcp.ReadResourceResult:
        named = split_uri(params.uri)
        client = await self._tools.made_by(named[0]) if named is not None else None
        if named is not None and client is not None:
            with contextlib.suppress(A2AError, AgentFault):
                task = await client.get(named[1])
                await load_files(client, task)
                contents = read_artifact(task, named[2], params.uri)
                if contents is not None:
                    return mcp.ReadResourceResult(contents=contents)
        raise MCPError(code=mcp.INVALID_PARAMS, message=f"no resource {params.uri!r:.200}")


def _tools_of(agents: Sequence[Client] | AgentDirectory, searches: bool | None) -> ToolSet:
    if not isinstance(agents, Sequence):
        return Searching(agents)
    each = EachSkill(agents)
    if searches or (searches is None and len(each) > MAX_TOOLS):
        return Searching(KnownAgents(agents))
    return each


class _KeyringCodec:
    """Seals the state of a question with the keys of this server."""

    _CONTEXT = "mcp request state"

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def seal(self, payload: bytes) -> str:
        sealed = self._keyring.seal(payload, context=self._CONTEXT)
        return base64.urlsafe_b64encode(sealed).decode()

    def unseal(self, token: str) -> bytes:
        try:
            return self._keyring.unseal(base64.urlsafe_b64decode(token), context=self._CONTEXT)
        except (KeyringError, ValueError) as error:
            raise InvalidRequestState(str(error)) from None


def make_server(
    agents: Sequence[Client] | AgentDirectory,
    *,
    keyring: Keyring | None = None,
    wait_s: float = WAIT_S,
    searches: bool | None = None,
) -> Server[Any]:
    """Return an MCP server whose tools are these agents.

    Args:
        agents: Clients of agents, open for as long as the server runs; or where agents are found.
        keyring: What the state of a question is sealed with while the client holds it. Processes
          that serve the same clients need the same; without it, the keys end with this process.
        wait_s: How long an agent may work before the result says that it still does.
        searches: Offer `find_agents` and `ask_agent` instead of a tool per skill; by default if
          there are more than `MAX_TOOLS` tools.
    """
    tool_set = _tools_of(agents, searches)
    tools = _Handlers(tool_set, wait_s)
    server: Server[Any] = Server(
        NAME,
        version=version("accord"),
        title="Agents",
        instructions=_INSTRUCTIONS,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,  # type: ignore[arg-type]  # also gives tasks, for which the SDK has no type
        on_list_resources=tools.list_resources,
        on_list_resource_templates=tools.list_templates,
        on_read_resource=tools.read_resource,
    )
    McpTasks(tool_set).add_to(server)
    codec = _KeyringCodec(keyring or Keyring.in_memory())
    security = RequestStateSecurity(codec=codec, ttl=_ANSWER_WITHIN_S)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over stdin and stdout, until it closes them."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(
    server: Server[Any], port: int, *, on_start: Callable[[str], None] = lambda url: None
) -> None:
    """Serve Streamable HTTP at `/mcp` of this machine's loopback address, until told to stop."""
    app = server.streamable_http_app()
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3)
    with socket.create_server(("127.0.0.1", port)) as listener:
        on_start(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        await _HttpServer(config).serve(sockets=[listener])


class _HttpServer(uvicorn.Server):
    """Ends quietly when it is told to: uvicorn's own would die of the signal in the end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # where there are no such handlers
                loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):
                    loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.should_exit = True
