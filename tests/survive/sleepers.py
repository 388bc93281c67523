"""An agent whose tasks wait for a time: asleep, or with a question that nobody answers."""

import datetime
import time

from accord import Agent, Context

agent = Agent("Sleepers")


@agent.skill(durable=True)
async def nap(due: float, ctx: Context) -> str:
    """Sleep until then."""
    await ctx.sleep(until=datetime.datetime.fromtimestamp(due, datetime.UTC))
    return f"{await ctx.step(now) - due:.3f}"


@agent.skill(durable=True)
async def ask(due: float, ctx: Context) -> str:
    """Ask until then."""
    within = await ctx.step(left, due)
    await ctx.ask("Is anybody there?", within=within, default="")
    return f"{await ctx.step(now) - due:.3f}"


async def now() -> float:
    return time.time()


async def left(due: float) -> float:
    return due - time.time()
