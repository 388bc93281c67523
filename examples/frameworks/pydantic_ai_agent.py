"""A pydantic-ai agent. Try it: accord serve examples/frameworks/pydantic_ai_agent.py"""

from pydantic_ai import Agent

agent = Agent("openai:gpt-5-mini", name="Booker", defer_model_check=True)


@agent.tool_plain(requires_approval=True)  # asked of the A2A client
def book(city: str) -> str:
    """Book a hotel."""
    return f"{city}: booked."
