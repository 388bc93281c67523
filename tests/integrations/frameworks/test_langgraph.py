"""What only LangGraph and LangChain have."""

import asyncio
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed here")

from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send, interrupt

import accord
from accord import Agent, connect

DAYS = {"type": "integer", "minimum": 1}


def said(state: MessagesState) -> list[str]:
    return [str(message.text) for message in state["messages"] if message.type == "human"]


def reply(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": text}]}


def graph_of(node: Any, **compiled: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    return graph.compile(name="Graph", **compiled)


def schema_in(answer: Any) -> Any:
    return answer.task.status.message.parts[1].data


async def test_an_interrupt_with_a_schema_is_a_typed_question() -> None:
    def node(state: MessagesState) -> Any:
        return reply(f"{interrupt('How many days?', response_schema=DAYS)!r} days")

    async with connect(Agent.wrap(graph_of(node))) as client:
        asked = await client.send("Rome")
        assert (asked.question, schema_in(asked)) == ("How many days?", DAYS)
        asked = await asked.answer("0")
        assert asked.question.startswith("That does not fit: answer: 0 is less than the minimum")
        assert (await asked.answer("3")).text == "3 days"


async def test_two_interrupts_in_a_row_are_two_questions() -> None:
    def node(state: MessagesState) -> Any:
        return reply(f"{interrupt('Where?')} {interrupt('When?')}")

    async with connect(Agent.wrap(graph_of(node))) as client:
        asked = await client.send("book")
        assert asked.question == "Where?"
        asked = await asked.answer("Rome")
        assert asked.question == "When?"
        assert (await asked.answer("May")).text == "Rome May"


async def test_interrupts_at_the_same_time_are_one_question_with_a_field_for_each() -> None:
    class Trip(TypedDict):
        city: str
        answers: Annotated[list[str], lambda one, other: one + other]

    def ask(state: Any) -> Any:
        return {"answers": [f"{state['what']}={interrupt(state['what'] + '?')}"]}

    def both(state: Trip) -> list[Send]:
        return [Send("ask", {"what": what}) for what in ("hotel", "flight")]

    graph = StateGraph(Trip).add_node("ask", ask).add_edge("ask", END)
    graph = graph.add_conditional_edges(START, both, ["ask"]).compile(name="Graph")
    async with connect(Agent.wrap(graph)) as client:
        asked = await client.send({"city": "Rome", "answers": []})
        assert sorted(asked.question.splitlines()) == ["flight?", "hotel?"]
        fields = schema_in(asked)["properties"]
        answers = {id_: field["title"].strip("?").upper() for id_, field in fields.items()}
        done = await asked.answer(answers)
        assert sorted(done.data["answers"]) == ["flight=FLIGHT", "hotel=HOTEL"]


async def test_a_subgraph_that_asks_is_resumed_where_it_was() -> None:
    calls: list[str] = []

    def before(state: MessagesState) -> Any:
        calls.append("before")
        return {}

    def inner(state: MessagesState) -> Any:
        return reply(f"inner {interrupt('Which?')}")

    sub = StateGraph(MessagesState).add_node(before).add_node(inner)
    sub = sub.add_edge(START, "before").add_edge("before", "inner").compile()
    async with connect(Agent.wrap(graph_of(sub))) as client:
        asked = await client.send("go")
        assert asked.question == "Which?"
        assert (await asked.answer("this")).text == "inner this"
    assert calls == ["before"]


async def test_a_checkpointer_of_the_users_is_kept() -> None:
    """Its thread is the conversation, and nothing of it is in ctx.state."""
    saver = InMemorySaver()

    def node(state: MessagesState) -> Any:
        return reply(" ".join([*said(state), str(interrupt("More?"))]))

    async with connect(Agent.wrap(graph_of(node, checkpointer=saver))) as client:
        await (await client.send("a", context_id="c")).answer("x")
        asked = await client.send("b", context_id="c")
        assert (await asked.answer("y")).text == "a b y"
    assert {one.config["configurable"]["thread_id"] for one in saver.list(None)} == {"c"}


async def test_what_a_node_writes_is_status_and_its_result_is_data() -> None:
    class Trip(TypedDict, total=False):
        city: str
        price: int

    def plan(state: Trip) -> Trip:
        get_stream_writer()("looking for hotels")
        return {"price": 120}

    class In(TypedDict):
        city: str

    graph = StateGraph(Trip, input_schema=In).add_node(plan).add_edge(START, "plan")
    async with connect(Agent.wrap(graph.compile(name="Graph"))) as client:
        stream = client.stream("Rome")
        told = [
            event.status.message.text
            async for event in stream
            if getattr(event, "status", None) and event.status.message
        ]
        assert told == ["looking for hotels"]
        assert stream.reply.data == 120


async def test_a_runnable_without_state() -> None:
    async def shout(text: str) -> str:
        return text.upper()

    async with connect(Agent.wrap(RunnableLambda(shout), name="Shouter")) as client:
        assert (await client.send("hello")).text == "HELLO"


async def test_a_graph_with_several_fields_says_which_it_needs() -> None:
    class Trip(TypedDict):
        city: str
        days: int

    graph = StateGraph(Trip).add_node("plan", lambda state: {"days": state["days"] + 1})
    graph = graph.add_edge(START, "plan").compile(name="Graph")
    async with connect(Agent.wrap(graph)) as client:
        with pytest.raises(accord.A2AError, match="a data part with the fields city, days"):
            await client.send("Rome")
        assert (await client.send({"city": "Rome", "days": 2})).data == {"city": "Rome", "days": 3}


async def test_options_are_made_for_each_turn() -> None:
    class Context(TypedDict):
        user: str

    def node(state: MessagesState, runtime: Any) -> Any:
        return reply(f"hello {runtime.context['user']}")

    from langgraph.runtime import Runtime

    node.__annotations__["runtime"] = Runtime[Context]
    graph = StateGraph(MessagesState, context_schema=Context).add_node("node", node)
    graph = graph.add_edge(START, "node").compile(name="Graph")

    async def options(ctx: accord.Context) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"context": {"user": ctx.message.text}}

    async with connect(Agent.wrap(graph, options=options)) as client:
        assert (await client.send("Ada")).text == "hello Ada"
