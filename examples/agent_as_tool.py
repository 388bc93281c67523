"""An agent that has another agent as a tool. What that one asks is asked of whoever talks to us."""

import os

from accord import Agent
from accord.tools import from_agent

plan_trip = from_agent(os.environ.get("TRIPS", "http://localhost:8000"))  # examples/trip.py
agent = Agent("Concierge", description="Helps the guests of a hotel.")


@agent.skill
async def assist(wish: str) -> str:
    """Fulfil a wish."""
    return await plan_trip(message=wish)  # or give it to a model: tools=[plan_trip]
