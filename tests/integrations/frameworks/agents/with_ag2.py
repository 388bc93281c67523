"""AG2."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from ag2 import Agent, tool
from ag2.config import LLMClient
from ag2.events import (
    BinaryInput,
    ModelMessage,
    ModelMessageChunk,
    ModelRequest,
    ModelResponse,
    TextInput,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultsEvent,
)
from ag2.middleware import approval_required
from ag2.testing import TestConfig
from pydantic import BaseModel

from . import script

ASKS_INSIDE = True


class FakeModel(LLMClient, TestConfig):
    """Streams words, or a call of a tool."""

    def create(self) -> Any:
        return self

    def said(self, events: Sequence[Any]) -> list[str]:
        parts = [part for e in events if isinstance(e, ModelRequest) for part in e.parts]
        script.seen += [part.data for part in parts if isinstance(part, BinaryInput)]
        return [part.content for part in parts if isinstance(part, TextInput)]

    async def words(self, events: Sequence[Any]) -> AsyncIterator[str]:
        for word in script.answer(self.said(events)):
            yield word

    def call(self, events: Sequence[Any]) -> ToolCallEvent | None:
        """The tool to call now."""
        return None

    async def __call__(self, messages: Sequence[Any], context: Any, **kwargs: Any) -> ModelResponse:
        await script.think()
        if (call := self.call(messages)) is not None:
            return ModelResponse(tool_calls=ToolCallsEvent([call]))
        whole = ""
        async for word in self.words(messages):
            whole += word
            await context.send(ModelMessageChunk(word))
        message = ModelMessage(whole)
        await context.send(message)
        return ModelResponse(message)


class BookModel(FakeModel):
    def call(self, events: Sequence[Any]) -> ToolCallEvent | None:
        is_asked = isinstance(events[-1], ModelRequest) and "book" in self.said(events)[-1]
        return ToolCallEvent("book", arguments='{"city": "Rome"}') if is_asked else None

    async def words(self, events: Sequence[Any]) -> AsyncIterator[str]:
        if isinstance(events[-1], ToolResultsEvent):
            yield f"Done: {events[-1].results[0].result.parts[0].content}"
        else:
            async for word in super().words(events):
                yield word


class SlowModel(FakeModel):
    async def words(self, events: Sequence[Any]) -> AsyncIterator[str]:
        async for word in script.hang():
            yield word


class Trip(BaseModel):
    city: str
    days: int


class FillModel(FakeModel):
    async def words(self, events: Sequence[Any]) -> AsyncIterator[str]:
        yield '{"city": "Rome", "days": 3}'


allowed = approval_required('Allow {tool_name}(city="Rome")?', allow_always=False)
talker = Agent("Talker", config=FakeModel())
booker = Agent("Booker", config=BookModel(), tools=[tool(script.book, middleware=[allowed])])
slow = Agent("Slow", config=SlowModel())
typed = Agent("Typed", config=FillModel(), response_schema=Trip)
