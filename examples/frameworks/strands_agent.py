"""A Strands agent. Try it: accord serve examples/frameworks/strands_agent.py"""

from strands import Agent, ToolContext, tool


@tool(context=True)
def book(city: str, tool_context: ToolContext) -> str:
    """Book a hotel."""
    answer = tool_context.interrupt("book", reason=f"Book {city}?")  # asked of the A2A client
    return f"{city}: booked." if answer == "yes" else "The user said no."


agent = Agent(name="Booker", tools=[book], callback_handler=None)
