"""Agents that clients of other protocols and frameworks talk to in these tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from accord import Agent, Context, File

__all__ = ["PNG", "WAV", "served", "trip_planner", "workshop"]

PNG, WAV = b"\x89PNG\r\n\x1a\n", b"RIFF0000WAVE"


@dataclass
class _Person:
    name: str
    age: int


@asynccontextmanager
async def served(agent: Agent) -> AsyncIterator[str]:
    """Serve an agent in this loop; give its URL."""
    async with agent.app().serving() as url:
        yield url


def trip_planner() -> Agent:
    """One skill, which asks for a number."""
    agent = Agent("Trip planner", description="Plans short trips.")

    @agent.skill
    async def plan(request: str, ctx: Context) -> AsyncIterator[str]:
        """Plan a trip, asking for what is missing."""
        days = await ctx.ask("How many days do you have?", int)
        ctx.status(f"looking for {days} days")
        for day in range(days):
            yield f"Day {day + 1}. "
        yield f"That is {request}."

    return agent


def workshop() -> tuple[Agent, dict[str, asyncio.Event]]:
    """Several skills: typed parameters, files, failures, an authorization, and work that lasts
    until an event is set.
    """
    agent = Agent("Workshop", description="Makes things.")
    events = {name: asyncio.Event() for name in ("begun", "may_end", "canceled")}

    @agent.skill
    async def order(thing: str, count: int = 1, colour: str = "red") -> dict:
        """Order things."""
        return {"thing": thing, "count": count, "colour": colour}

    @agent.skill
    async def double(value: int) -> int:
        """Twice the number."""
        return value * 2

    @agent.skill
    async def paint(request: str, ctx: Context) -> None:
        """Make files of every kind."""
        ctx.artifact("two ", "words", name="text")
        ctx.artifact(File(PNG, name="a.png"), name="picture")
        ctx.artifact(File(WAV, name="a.wav", media_type="audio/wav"), name="sound")
        ctx.artifact(File(b"%PDF", name="a.pdf"), name="paper")
        ctx.artifact(File(bytes(2 << 20), name="large.bin"), name="large")
        ctx.artifact(File(url="https://files.example.com/b.pdf", name="b.pdf"), name="elsewhere")

    @agent.skill
    async def build(request: str, ctx: Context) -> str:
        """Work until it may end."""
        try:
            ctx.status("begun")
            events["begun"].set()
            await events["may_end"].wait()
        except asyncio.CancelledError:
            events["canceled"].set()
            raise
        return f"built {request}"

    @agent.skill
    async def refuse(request: str, ctx: Context) -> None:
        """Say no."""
        ctx.reject("we are closed")

    @agent.skill
    async def pay(request: str, ctx: Context) -> str:
        """Needs an authorization."""
        await ctx.require_auth("Log in at https://bank.example.com/login?id=7 first.")
        return "paid"

    @agent.skill
    async def register(request: str, ctx: Context) -> str:
        """Asks twice, once with a form of several fields."""
        person = await ctx.ask("Who are you?", _Person)
        is_sure = await ctx.ask(f"Is {person.name} right?", bool)
        return f"{person.name}, {person.age}: {is_sure}"

    return agent, events
