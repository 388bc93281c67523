"""Tools for models: remote agents and MCP servers as plain functions.

from accord.tools import from_agent

plan_trip = from_agent("https://trips.example.com")
agent = pydantic_ai.Agent("...", tools=[plan_trip])  # or any other framework
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from .client import AgentFault, Client, connect, connect_sync
from .engine.durable import RUN_POSITION, RunPosition
from .engine.skills import Fail, current
from .integrations import (
    RemoteTool,
    described_result,
    follow,
    make_function,
    remote_tool,
    remote_tools,
)
from .model import A2AError, AgentCard

if TYPE_CHECKING:
    from .integrations.mcp import McpTools

__all__ = ["from_agent", "from_mcp", "from_skills"]


def __dir__() -> list[str]:
    return __all__


T = TypeVar("T")
Function: TypeAlias = Callable[..., Coroutine[Any, Any, str]]


def from_agent(place: Any, *, skill: str = "", name: str = "", **options: Any) -> Function:
    """Return a remote agent as an async function, which every agent framework accepts as a tool.

    plan_trip = from_agent("https://trips.example.com", skill="plan")

    Its name, docstring and parameters come from the agent's card, which is fetched now. If the card
    has a schema for the skill, the parameters are typed; otherwise there is one, `message`. The
    function returns text, also if something fails: many frameworks end the whole run if a tool
    raises.

    - In a skill of an Accord agent it delegates: the other agent's progress is reported here, its
      questions are passed to the client of this task, and cancelling this task cancels the other
      one.
    - Elsewhere a question is returned as text that says how to answer it: call the function again
      with `task_id`.

    Args:
        place: The agent's URL, its card, or a client of it. Use a client for an agent of this
          process (`async with connect(agent) as client`), and in async code that serves the agent
          on its own event loop. The function then works as long as the client is open.
        skill: The id of one of its skills. Without it, the agent chooses; if it has one skill only,
          the function is typed as that one.
        name: The name of the function; by default made from the card.
        options: Options of `connect`, like `auth=`.

    Raises:
        ValueError: The agent has no such skill.
        AgentFault: The agent can't be reached, or its card can't be used.
    """
    agent = _RemoteAgent(place, options)
    return agent.function(remote_tool(agent.card, skill, name=name))


def from_skills(place: Any, **options: Any) -> list[Function]:
    """Return each skill of a remote agent as a function. See `from_agent`."""
    agent = _RemoteAgent(place, options)
    return [agent.function(tool) for tool in remote_tools(agent.card)]


def from_mcp(
    server: Any, *, headers: Mapping[str, str] | None = None, auth: Any = None, **options: Any
) -> "contextlib.AbstractAsyncContextManager[McpTools]":
    """Connect to an MCP server and return its tools as functions, by name.

    async with from_mcp("http://localhost:9000/mcp") as tools:
        found = await tools["search"](query="Rome")

    In a skill, the server's progress is reported as the task's, and its questions are passed to the
    client. A tool that fails raises `accord.integrations.mcp.ToolFailed`. Needs `accord[mcp]`.

    Args:
        server: The server's URL, a command as a list of words (which is started and used over stdin
          and stdout), or anything else that `mcp.Client` accepts, like a server in this process.
        headers: Headers for every request, if the server is a URL.
        auth: Credentials, if the server is a URL: a bearer token, or a provider of the MCP SDK like
          `mcp.client.auth.OAuthClientProvider`, which logs in and renews its tokens.
        options: Options of `mcp.Client`.
    """
    return _mcp_tools(server, {"headers": headers, "auth": auth, **options})


@contextlib.asynccontextmanager
async def _mcp_tools(server: Any, options: dict[str, Any]) -> AsyncIterator["McpTools"]:
    # The first import of the MCP SDK takes about a second, which would stop everything else here.
    module = await asyncio.to_thread(import_module, ".integrations.mcp.tools", __package__)
    async with module.McpTools.connected(server, options) as tools:
        yield tools


class _RemoteAgent:
    """An agent that functions are made of, and how it is reached when one is called."""

    def __init__(self, place: Any, options: dict[str, Any]) -> None:
        self._place = place
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None  # the client's, if we were given one
        if isinstance(place, Client):
            if options:
                raise ValueError(
                    f"the client was connected without {', '.join(options)}; "
                    "give such options to connect"
                )
            self._loop = asyncio.get_running_loop()
            self.card = place.card
        elif isinstance(place, AgentCard):
            self.card = place
        elif callable(place) or callable(getattr(place, "app", None)):
            raise TypeError(
                "an agent of this process has to stay open: use `async with connect(agent) as "
                "client`, and from_agent(client)"
            )
        else:
            with connect_sync(place, **options) as client:
                self.card = client.card

    def function(self, tool: RemoteTool) -> Function:
        async def call(arguments: dict[str, Any]) -> str:
            try:
                return await self._call(tool, arguments)
            except A2AError as error:
                return f"{tool.agent} answered with an error: {error}"
            except AgentFault as error:
                return f"{tool.agent} gave no answer: {error}"
            except Fail as error:
                return str(error)

        return make_function(tool.name, tool.description, tool.parameters, call)

    async def _call(self, tool: RemoteTool, arguments: dict[str, Any]) -> str:
        place = RUN_POSITION.get()
        if place is not None and not place.step and not arguments["task_id"]:
            loop = place.run.loop
            if self._loop in (None, loop):
                run, work = place.run, self._delegate(tool, arguments, place)
                said: str = await run.runs.home.here(work, run.task)
                return said
        if self._loop is not None:
            return await _on(self._loop, self._send(tool, arguments))
        return await self._send(tool, arguments)

    async def _delegate(
        self, tool: RemoteTool, arguments: dict[str, Any], place: RunPosition
    ) -> str:
        """Have it done as a part of the run we are in."""
        # A framework calls tools in tasks of its own, where a delegation needs a name.
        name = f"{tool.name}-{place.branch.next_step(tool.name)}"
        async with self._client() as client:
            reply = await current().delegate(
                client, tool.content(arguments), skill=tool.skill, name=name
            )
        return described_result(tool, reply)

    async def _send(self, tool: RemoteTool, arguments: dict[str, Any]) -> str:
        task_id, content = arguments["task_id"], tool.content(arguments)
        async with self._client() as client:
            if task_id and not content:
                return described_result(tool, await client.wait(task_id))
            stream = client.stream(content, skill="" if task_id else tool.skill, task_id=task_id)
            reply = await follow(client, stream, is_answer=bool(task_id))
            return described_result(tool, reply)

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        """The client we were given, or one for this call: a client belongs to one event loop, and
        frameworks call tools on any.
        """
        if isinstance(self._place, Client):
            yield self._place
            return
        async with connect(self._place, **self._options) as client:
            yield client


async def _on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the event loop it belongs to."""
    if asyncio.get_running_loop() is loop:
        return await work
    if not loop.is_running():
        work.close()
        raise RuntimeError("the event loop that this tool belongs to has ended")
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
