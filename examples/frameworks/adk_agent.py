"""An agent of Google's ADK. Try it: accord serve examples/frameworks/adk_agent.py"""

from google.adk.agents import LlmAgent
from google.adk.tools import FunctionTool


def book(city: str) -> str:
    """Book a hotel."""
    return f"{city}: booked."


tool = FunctionTool(book, require_confirmation=True)  # asked of the A2A client
agent = LlmAgent(name="Booker", model="gemini-flash-latest", tools=[tool])
