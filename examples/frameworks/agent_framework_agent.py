"""An agent of Agent Framework. Try it: accord serve examples/frameworks/agent_framework_agent.py"""

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatClient


@tool(approval_mode="always_require")  # asked of the A2A client
def book(city: str) -> str:
    """Book a hotel."""
    return f"{city}: booked."


agent = Agent(OpenAIChatClient(model="gpt-5-mini"), name="Booker", tools=[book])
