"""Books a trip in three steps, with a question in between, and is not put off by `kill -9` in the
middle of it.

The skill is durable: if the server dies, the next one calls the function again from the top. Steps
that were done are not done again, the answer is not asked for again, and what was shown is not
shown twice. Only a step that was under way when the process died is repeated, so each hands on
`ctx.step_key`, the same in every attempt, and the other side does it once.
"""

import os
from pathlib import Path

from accord import Agent, Context

agent = Agent("Durable trip", description="Books trips that survive a crash.")

BOOKINGS = Path(
    os.environ.get("BOOKINGS", "bookings.txt")
)  # the world outside: an airline, a hotel, a bank


@agent.skill(durable=True, tags=["travel"], examples=["Rome"])
async def book(place: str, ctx: Context):
    """Book a flight and a hotel, and pay for both."""
    flight = await ctx.step(reserve, "flight", place, ctx)
    yield f"{flight}\n"
    nights = await ctx.ask("How many nights?", int)
    hotel = await ctx.step(reserve, "hotel", f"{place}, {nights} nights", ctx)
    yield f"{hotel}\n"
    receipt = await ctx.step(reserve, "payment", f"{100 + 80 * nights} EUR", ctx)
    yield f"{receipt}\n"


def reserve(what: str, detail: str, ctx: Context) -> str:
    """Ask the world for something, once: it knows a key it has seen."""
    booking = f"{what} {ctx.step_key}: {detail}"
    known = BOOKINGS.read_text().splitlines() if BOOKINGS.exists() else []
    if booking not in known:
        with BOOKINGS.open("a") as file:
            file.write(booking + "\n")
    return f"{what} booked: {detail}"


if __name__ == "__main__":
    agent.run()
