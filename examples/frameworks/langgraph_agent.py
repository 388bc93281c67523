"""A LangGraph graph as an agent. Try it: accord serve examples/frameworks/langgraph_agent.py"""

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def book(state: MessagesState) -> dict:
    city = state["messages"][-1].text
    days = interrupt(f"How many days in {city}?")  # asked of the A2A client
    return {"messages": [{"role": "assistant", "content": f"{city} for {days} days: booked."}]}


graph = StateGraph(MessagesState).add_node(book).add_edge(START, "book").compile(name="Booker")
