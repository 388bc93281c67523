"""A server object of FastMCP as an agent: its question, its progress, its result, its failure."""

import asyncio
import json
from typing import Any

from fastmcp import Context, FastMCP

from accord import Agent, connect
from accord.model import StatusUpdate


class Planner(FastMCP):
    """A class of the user's, as it may well be."""


server = Planner("Trip planner")


@server.tool
async def plan(city: str, ctx: Context) -> str:
    """Plan a trip."""
    days = await ctx.elicit("How many days?", int)
    await ctx.report_progress(1, 2, f"looking for {days.data} days")
    return f"{days.data} days in {city}"


@server.tool
def book(city: str) -> dict[str, str]:
    """Book a trip."""
    if city == "Atlantis":
        raise ValueError("it is gone")
    return {"booked": city}


async def main() -> dict[str, Any]:
    async with connect(Agent.wrap(server)) as client:
        asked = await client.send({"city": "Rome"}, skill="plan")
        said = []
        answered = client.stream(2, task_id=asked.task_id)
        async for event in answered:
            if isinstance(event, StatusUpdate) and event.status.message:
                said.append(event.status.message.text)
        booked = await client.send({"city": "Rome"}, skill="book")
        failed = await client.send({"city": "Atlantis"}, skill="book")
        return {
            "skills": [skill.id for skill in client.card.skills],
            "question": asked.question,
            "said": said,
            "text": answered.reply.text,
            "data": booked.data,
            "failed": [failed.state.word, failed.task.status.message.text],
        }


print(json.dumps(asyncio.run(main())))
