"""An AG2 agent. Try it: accord serve examples/frameworks/ag2_agent.py"""

from ag2 import Agent, tool
from ag2.config import OpenAIConfig
from ag2.middleware import approval_required


@tool(middleware=[approval_required()])  # asked of the A2A client
def book(city: str) -> str:
    """Book a hotel."""
    return f"{city}: booked."


agent = Agent("Booker", config=OpenAIConfig(model="gpt-5-mini"), tools=[book])
