"""An agent and a relay in front of it, both served in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from accord import Agent, Context, File, Reply
from accord.client import Client, Retry, connect
from accord.engine.skills import definition_of
from accord.model import RESUME, InvalidParams
from accord.relay import fetch_card
from accord.server.http1 import HttpServer
from tests.client.conftest import DOORS
from tests.drive import serving
from tests.processes import free_port

__all__ = ["DOORS", "Gate", "clerk", "proxied", "relayed", "served", "switched"]


class Gate:
    """Lets an agent go on."""

    def __init__(self) -> None:
        self.event = asyncio.Event()


def clerk(gate: Gate | None = None, *, cursors: bool = True) -> Agent:
    """An agent that does a bit of everything, by the first word of its message."""
    agent = Agent("Clerk", description="Does a bit of everything.", version="7")

    @agent.skill
    async def work(message: str, ctx: Context):
        word, _, rest = message.partition(" ")
        match word:
            case "count":
                for i in range(int(rest)):
                    yield f"{i} "
            case "ask":
                days = await ctx.ask("How many days?")
                yield f"heard {days}"
            case "auth":
                await ctx.require_auth("Sign in", until=gate.event.wait())
                yield "signed in"
            case "wait":
                yield "begun"
                await gate.event.wait()
                yield " done"
            case "file":
                yield File(rest.encode() * 3, name="a.bin", media_type="application/x-a")
            case "refuse":
                raise InvalidParams("not that")
            case "reject":
                ctx.reject("never")
            case "context":
                yield ctx.context_id
            case "meta":
                await ctx.status("half", metadata={"percent": 50})
                await ctx.artifact("x", name="n", description="d", id="own", metadata={"k": 1})
                yield str(ctx.message.metadata)
            case _:
                yield message.upper()

    @agent.skill
    async def reply(message: str) -> Reply:
        return Reply(f"bare {message}")

    @agent.skill
    async def size(file: File) -> str:
        return f"{file.name} {len(file.data)}"

    @agent.card
    def edit(card: Any) -> None:
        if not cursors:
            offered = card.capabilities.extensions
            card.capabilities.extensions = [e for e in offered if e.uri != RESUME]

    return agent


class Switch:
    """The server of an agent, which can be away while the agent itself goes on."""

    def __init__(self, app: Any) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._app = app
        self._server: HttpServer | None = None

    async def on(self, app: Any = None) -> None:
        app = app or self._app
        await app.open()
        app.reached_at(self.url)
        self._server = HttpServer(app.answer, "127.0.0.1", self.port, app.limits)
        await self._server.start()

    async def off(self) -> None:
        if self._server is not None:
            await self._server.stop()
            self._server = None


@asynccontextmanager
async def switched(agent: Agent) -> AsyncIterator[Switch]:
    """Serve an agent at a place where it can be away."""
    app = agent.app()
    switch = Switch(app)
    await switch.on()
    try:
        yield switch
    finally:
        await switch.off()
        await app.close()


@asynccontextmanager
async def served(agent: Agent, **options: Any) -> AsyncIterator[str]:
    """Serve an agent over HTTP and gRPC; yield its address."""
    app = agent.app(grpc_port=0, **options)
    async with serving(app, app.close) as url:
        await app.open()
        app.reached_at(url)
        yield url


async def proxied(url: str, door: str = "jsonrpc-1.0", **options: Any) -> Agent:
    """A relay that calls the agent over one door."""
    binding, version = DOORS[door]
    made: list[Client] = []

    async def call(context: Any) -> Client:
        if not made:
            brief = Retry(max_time_s=1.0, first_max_time_s=1.0)
            made.append(connect(url, binding=binding, version=version, retry=brief))
        return made[0]

    async def close() -> None:
        while made:
            await made.pop().close()

    card = await asyncio.to_thread(fetch_card, url)
    agent = Agent.proxy(card, connect=call, **options)
    definition_of(agent).on_close.append(close)
    return agent


@asynccontextmanager
async def relayed(
    agent: Agent, way_in: str = "jsonrpc-1.0", way_out: str = "jsonrpc-1.0", **options: Any
) -> AsyncIterator[Client]:
    """A client of a relay of an agent."""
    async with served(agent) as url:
        relay = await proxied(url, way_out, **options)
        async with served(relay) as address:
            binding, version = DOORS[way_in]
            async with connect(address, binding=binding, version=version) as client:
                yield client
