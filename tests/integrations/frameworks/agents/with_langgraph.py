"""LangGraph and LangChain."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from pydantic import BaseModel

from . import script


class FakeModel(BaseChatModel):
    """Streams words, or a call of a tool."""

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "FakeModel":
        return self

    def reply(self, messages: list[BaseMessage]) -> Iterator[AIMessageChunk]:
        blocks = [block for m in messages if m.type == "human" for block in m.content_blocks]
        script.seen += [base64.b64decode(block["base64"]) for block in blocks if "base64" in block]
        for word in script.answer([str(m.text) for m in messages if m.type == "human"]):
            yield AIMessageChunk(word)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        script.think_in_thread()
        said = list(self.reply(messages))
        whole = sum(said[1:], said[0])
        message = AIMessage(str(whole.text), tool_calls=whole.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        await script.think()
        for chunk in self.reply(messages):
            yield ChatGenerationChunk(message=chunk)


def call(name: str, args: str) -> AIMessageChunk:
    return AIMessageChunk(
        "", tool_call_chunks=[{"name": name, "args": args, "id": "call-1", "index": 0}]
    )


class BookModel(FakeModel):
    def reply(self, messages: list[BaseMessage]) -> Iterator[AIMessageChunk]:
        if isinstance(messages[-1], ToolMessage):
            yield AIMessageChunk(f"Done: {messages[-1].text}")
        elif "book" in str(messages[-1].text):
            yield call("book", '{"city": "Rome"}')
        else:
            yield from super().reply(messages)


class SlowModel(FakeModel):
    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for word in script.hang():
            yield ChatGenerationChunk(message=AIMessageChunk(word))


class Trip(BaseModel):
    city: str
    days: int


class FillModel(FakeModel):
    def reply(self, messages: list[BaseMessage]) -> Iterator[AIMessageChunk]:
        yield call("Trip", '{"city": "Rome", "days": 3}')


talker = create_agent(FakeModel(), name="Talker")
booker = create_agent(
    BookModel(),
    [tool(script.book)],
    name="Booker",
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"book": True})],
)
slow = create_agent(SlowModel(), name="Slow")
typed = create_agent(FillModel(), response_format=ToolStrategy(Trip), name="Typed")
