"""An agent of OpenAI Agents. Try it: accord serve examples/frameworks/openai_agents_agent.py"""

from agents import Agent, function_tool


@function_tool(needs_approval=True)  # asked of the A2A client
def book(city: str) -> str:
    """Book a hotel."""
    return f"{city}: booked."


agent = Agent("Booker", tools=[book])
