"""An MCP server whose tools are agents."""

import asyncio
import base64
import contextlib
import re
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import mcp_types as mcp
import msgspec
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
from ..functions import one_line
from ..remote import RemoteTool, remote_tool, remote_tools
from .calls import AgentCall, failed
from .content import URI_TEMPLATE, read_artifact, split_uri

__all__ = ["MAX_TOOLS", "WAIT_S", "make_server", "serve_http", "serve_stdio"]

NAME = "accord"
MAX_TOOLS = 20  # more would fill the model's context: it searches instead
WAIT_S = 50.0  # many clients give up after a minute
_ANSWER_WITHIN_S = 24 * 3600.0  # how long a question that a client holds stays good
_MAX_FOUND = 10
_MAX_LINE = 300

_INSTRUCTIONS = (
    "Each tool is a remote agent. If a result names a task_id, call the same tool again with it: "
    "to answer the agent's question, or to wait for its result."
)
_FIND = mcp.Tool(
    name="find_agents",
    description="Find remote agents that can do something. Returns their names, for ask_agent.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What is to be done, in a few words."}
        },
        "required": ["query"],
    },
)
_ASK = mcp.Tool(
    name="ask_agent",
    description="Have a remote agent do something. find_agents tells the names.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The agent, as find_agents names it."},
            "message": {
                "type": "string",
                "description": "What to ask the agent, in words or as the JSON it wants.",
            },
            "task_id": {
                "type": "string",
                "description": "Only to go on with an earlier call: the task_id that it named.",
            },
        },
        "required": ["name", "message"],
    },
)


class _Served(NamedTuple):
    tool: RemoteTool
    client: Client


class _AgentTools:
    """Lists the tools, and calls them."""

    def __init__(self, clients: Sequence[Client], wait_s: float, searches: bool | None) -> None:
        self._wait_s = wait_s
        served = [_Served(tool, client) for client in clients for tool in remote_tools(client.card)]
        self._tools = _by_name(served)
        # Asked by name, an agent takes a message, whatever its skills are.
        agents = [
            _Served(msgspec.structs.replace(remote_tool(client.card), schema=None), client)
            for client in clients
        ]
        self._agents = _by_name(agents)
        self._searches = len(self._tools) > MAX_TOOLS if searches is None else searches

    async def list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListToolsResult:
        if self._searches:
            return mcp.ListToolsResult(tools=[_FIND, _ASK])
        return mcp.ListToolsResult(
            tools=[
                mcp.Tool(
                    name=name,
                    title=served.tool.agent,
                    description=served.tool.description,
                    input_schema=served.tool.json_schema(),
                )
                for name, served in self._tools.items()
            ]
        )

    async def call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: mcp.CallToolRequestParams
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        arguments = params.arguments or {}
        if self._searches and params.name == _FIND.name:
            return self._found(str(arguments.get("query") or ""))
        if self._searches and params.name == _ASK.name:
            served = self._agents.get(str(arguments.get("name")))
            if served is None:
                return failed(f"there is no agent {arguments.get('name')!r:.80}; use find_agents")
            called = f'{_ASK.name} with name="{served.tool.name}"'
            served = served._replace(tool=msgspec.structs.replace(served.tool, called=called))
        else:
            served = None if self._searches else self._tools.get(params.name)
        if served is None:
            raise MCPError(code=mcp.INVALID_PARAMS, message=f"unknown tool {params.name!r:.80}")
        missing = [
            name
            for name in served.tool.json_schema().get("required") or ()
            if name not in arguments and not arguments.get("task_id")
        ]
        if missing:
            return failed(f"{params.name} needs {', '.join(missing)}")
        return await AgentCall(served.client, served.tool, ctx, params, self._wait_s).run()

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
        known = self._agents if self._searches else self._tools
        served = known.get(named[0]) if named is not None else None
        if named is not None and served is not None:
            with contextlib.suppress(A2AError, AgentFault):
                task = await served.client.get(named[1])
                contents = read_artifact(task, named[2], params.uri)
                if contents is not None:
                    return mcp.ReadResourceResult(contents=contents)
        raise MCPError(code=mcp.INVALID_PARAMS, message=f"no resource {params.uri!r:.200}")

    def _found(self, query: str) -> mcp.CallToolResult:
        """The agents that fit best, by the words of the query in what their cards say."""
        words = set(re.findall(r"\w{2,}", query.lower()))
        scored = []
        for name, served in self._agents.items():
            card = served.client.card
            said = " ".join(
                [card.name, card.description]
                + [f"{s.name} {s.description} {' '.join(s.tags)}" for s in card.skills]
            ).lower()
            score = sum(word in said for word in words)
            if score or not words:
                skills = ", ".join(skill.name for skill in card.skills)
                line = one_line(f"{card.description} Skills: {skills}", _MAX_LINE)
                scored.append((-score, name, line))
        shown = [f"{name}: {line}" for _, name, line in sorted(scored)[:_MAX_FOUND]]
        return mcp.CallToolResult(
            content=[mcp.TextContent(text="\n".join(shown) or "No agent fits.")]
        )


def _by_name(served: list[_Served]) -> dict[str, _Served]:
    """Tools by their names. Of two with one name, the second gets a number."""
    found: dict[str, _Served] = {}
    for one in served:
        name, n = one.tool.name, 1
        while name in found:
            n += 1
            name = f"{one.tool.name[:60]}_{n}"
        found[name] = one._replace(tool=msgspec.structs.replace(one.tool, name=name))
    return found


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
    clients: Sequence[Client],
    *,
    keyring: Keyring | None = None,
    wait_s: float = WAIT_S,
    searches: bool | None = None,
) -> Server[Any]:
    """Return an MCP server whose tools are these agents.

    Args:
        clients: One per agent, open for as long as the server runs.
        keyring: What the state of a question is sealed with while the client holds it. Processes
          that serve the same clients need the same; without it, the keys end with this process.
        wait_s: How long an agent may work before the result says that it still does.
        searches: Offer `find_agents` and `ask_agent` instead of a tool per skill; by default if
          there are more than `MAX_TOOLS` tools.
    """
    tools = _AgentTools(clients, wait_s, searches)
    server: Server[Any] = Server(
        NAME,
        version=version("accord"),
        title="Agents",
        instructions=_INSTRUCTIONS,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
        on_list_resources=tools.list_resources,
        on_list_resource_templates=tools.list_templates,
        on_read_resource=tools.read_resource,
    )
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
