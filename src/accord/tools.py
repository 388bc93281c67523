"""Tools for models: remote agents and MCP servers as plain functions.

from accord.tools import from_agent

plan_trip = from_agent("https://trips.example.com")
agent = pydantic_ai.Agent("...", tools=[plan_trip])  # or any other framework
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
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
    """Return a remote agent as an async function that every agent framework takes as a tool.

    plan_trip = from_agent("https://trips.example.com", skill="plan")

    Its name, docstring and parameters come from the agent's card, which is fetched now. A skill
    whose card tells a schema has typed parameters; every other takes a `message`. The function
    returns text, also when something fails: many frameworks end the whole run if a tool raises.

    - In a run of an Accord agent it delegates: the other agent's progress becomes ours, what it
      asks is asked of our own user, and cancelling our task cancels its.
    - Elsewhere a question comes back as text that says how to answer it: call again with `task_id`.

    Args:
        place: The agent's URL, its card, or a client of it. Use a client for an agent of this
          process (`async with connect(agent) as client`), and in async code that serves the agent
          on its own event loop. The function then works as long as the client is open.
        skill: The id of one of its skills. Without it, the agent chooses; if it has one skill only,
          the function is typed as that one.
        name: What the function is called; made from the card by default.
        options: Those of `connect`, as `auth=`.

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
    """Connect to an MCP server and give its tools as functions, by name.

    async with from_mcp("http://localhost:9000/mcp") as tools:
        found = await tools["search"](query="Rome")

    Opened in a skill, the server's progress becomes ours, and what it asks is asked of our client.
    A tool that fails raises `accord.integrations.mcp.ToolFailed`. Needs `accord[mcp]`.

    Args:
        server: The server's URL, a command as a list of words (started, and spoken to over stdin
          and stdout), or whatever else `mcp.Client` takes, as a server of this process.
        headers: Of every request to a URL.
        auth: For a URL: a text (a bearer token), or a provider of the MCP SDK, as
          `mcp.client.auth.OAuthClientProvider`, which logs in and renews its tokens.
        options: Those of `mcp.Client`.
    """
    from .integrations.mcp import McpTools  # the MCP SDK, which from_agent does not need

    return McpTools.connected(server, {"headers": headers, "auth": auth, **options})


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
                said: str = await place.run.here(self._delegate(tool, arguments, place))
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
