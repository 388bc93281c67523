"""pydantic-ai."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, Tool
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from .script import answer, book, hang, seen, think


def said(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    prompts = [part.content for part in parts if isinstance(part, UserPromptPart)]
    given = [one for prompt in prompts if not isinstance(prompt, str) for one in prompt]
    seen.extend(one.data for one in given if isinstance(one, BinaryContent))
    return [prompt if isinstance(prompt, str) else str(prompt[0]) for prompt in prompts]


async def talk(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    await think()
    for word in answer(said(messages)):
        yield word


async def call_book(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    await think()
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        yield f"Done: {last.content}"
    elif "book" in said(messages)[-1]:
        yield {0: DeltaToolCall("book", '{"city": "Rome"}', tool_call_id="call-1")}
    else:
        for word in answer(said(messages)):
            yield word


async def wait(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    async for word in hang():
        yield word


class Trip(BaseModel):
    city: str
    days: int


async def fill(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    await think()
    name = info.output_tools[0].name
    yield {0: DeltaToolCall(name, '{"city": "Rome", "days": 3}', tool_call_id="call-1")}


talker = Agent(FunctionModel(stream_function=talk), name="Talker")
booker = Agent(
    FunctionModel(stream_function=call_book),
    name="Booker",
    tools=[Tool(book, requires_approval=True)],
)
slow = Agent(FunctionModel(stream_function=wait), name="Slow")
typed = Agent(FunctionModel(stream_function=fill), name="Typed", output_type=Trip)
