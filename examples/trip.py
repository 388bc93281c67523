"""Plans a weekend: asks back for what is missing, then streams the plan line by line."""

import asyncio

from accord import Agent, Context

agent = Agent("Trip planner", description="Plans short trips.")


@agent.skill(tags=["travel"], examples=["A weekend in Rome"])
async def plan(request: str, ctx: Context):
    """Plan a trip, asking for what is missing."""
    days = await ctx.ask("How many days do you have?", int)
    ctx.status(f"Looking for the best of {days} days")
    for day in range(1, days + 1):
        await asyncio.sleep(0.2)
        yield f"Day {day}: {SIGHTS[(day - 1) % len(SIGHTS)]}\n"
    yield f"That is the plan for: {request}"


SIGHTS = [
    "arrive, walk the old town, dinner outside",
    "museums in the morning, the river in the evening",
    "the market, then home",
]

if __name__ == "__main__":
    agent.run()
