"""A server process of these tests: `serve.py agent|relay|hub PORT DATABASE [AGENT_URL]`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from accord import Agent, Context
from accord.hub import Hub, HubSettings
from accord.model import RESUME, AgentCard
from accord.model.card import AgentCapabilities, AgentInterface
from accord.server.process import serve


def counting_agent() -> Agent:
    """One that goes on after a crash, but has no cursors: its readers have to compare."""
    agent = Agent("Counter")

    @agent.skill(durable=True)
    async def count(request: str, ctx: Context) -> None:
        chunks, pause_ms = map(int, request.split())
        for i in range(chunks):
            await ctx.step(asyncio.sleep, pause_ms / 1000, name="pause")
            await ctx.write(f"{i} ")

    @agent.skill
    async def plain(request: str) -> AsyncIterator[str]:
        for i in range(int(request)):
            yield f"{i} "
            await asyncio.sleep(0)

    @agent.card
    def edit(card: AgentCard) -> None:
        offered = card.capabilities.extensions
        card.capabilities.extensions = [e for e in offered if e.uri != RESUME]

    return agent


def relay_of(url: str) -> Agent:
    interface = AgentInterface(url=url + "/", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="Counter",
        description="Counts.",
        version="1",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[],
    )
    return Agent.proxy(card)


def run_hub(port: str, database: str) -> None:
    settings = HubSettings(
        store=f"sqlite:///{database}", folder=str(Path(database).parent), tick_s=0.0, open_s=0.2
    )
    app = Hub(settings).app
    serve(app, host="127.0.0.1", port=int(port), limits=app.limits, grace_s=0.2)


def main(kind: str, port: str, database: str, url: str = "") -> None:
    if kind == "hub":
        return run_hub(port, database)
    agent = counting_agent() if kind == "agent" else relay_of(url)
    agent.run(
        port=int(port),
        store=f"sqlite:///{database}",
        grace_s=0.2,
        console=False,
        on_start=lambda _: print("ready", flush=True),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
