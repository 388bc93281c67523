"""LlamaIndex."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage, ChatResponse
from llama_index.core.llms.mock import MockFunctionCallingLLM
from pydantic import BaseModel
from workflows import Context
from workflows.events import HumanResponseEvent, InputRequiredEvent

from . import script

SCHEMA = None  # a workflow takes any response


class FakeModel(MockFunctionCallingLLM):
    """Streams words, or a call of a tool."""

    def said(self, messages: Sequence[ChatMessage]) -> list[str]:
        blocks = [block for message in messages for block in message.blocks]
        for block in blocks:
            if block.block_type in ("image", "audio", "video", "document"):
                script.seen.append(getattr(block, f"resolve_{block.block_type}")().read())
        return [str(message.content) for message in messages if message.role == "user"]

    async def words(self, messages: Sequence[ChatMessage]) -> AsyncIterator[str]:
        for word in script.answer(self.said(messages)):
            yield word

    def call(self, messages: Sequence[ChatMessage]) -> ToolCallBlock | None:
        """The tool to call now."""
        return None

    async def astream_chat_with_tools(self, *args: Any, **kwargs: Any) -> Any:
        messages = kwargs["chat_history"]

        async def stream() -> AsyncGenerator[ChatResponse, None]:
            await script.think()
            call, whole = self.call(messages), ""
            if call is not None:
                yield ChatResponse(message=ChatMessage(role="assistant", blocks=[call]), delta="")
                return
            async for word in self.words(messages):
                whole += word
                yield ChatResponse(message=ChatMessage(whole, role="assistant"), delta=word)

        return stream()


class BookModel(FakeModel):
    def call(self, messages: Sequence[ChatMessage]) -> ToolCallBlock | None:
        last = messages[-1]
        if last.role == "tool" or "book" not in str(last.content):
            return None
        return ToolCallBlock(tool_call_id="1", tool_name="book", tool_kwargs={"city": "Rome"})

    async def words(self, messages: Sequence[ChatMessage]) -> AsyncIterator[str]:
        if messages[-1].role == "tool":
            yield f"Done: {messages[-1].content}"
        else:
            async for word in super().words(messages):
                yield word


class SlowModel(FakeModel):
    async def words(self, messages: Sequence[ChatMessage]) -> AsyncIterator[str]:
        async for word in script.hang():
            yield word


class Trip(BaseModel):
    city: str
    days: int


class FillModel(FakeModel):
    async def words(self, messages: Sequence[ChatMessage]) -> AsyncIterator[str]:
        yield "a trip"

    async def astructured_predict(self, *args: Any, **kwargs: Any) -> Any:
        await script.think()
        return Trip(city="Rome", days=3)

    async def achat(self, *args: Any, **kwargs: Any) -> ChatResponse:
        await script.think()
        return ChatResponse(message=ChatMessage('{"city": "Rome", "days": 3}', role="assistant"))


async def book(ctx: Context, city: str) -> str:
    """Book a hotel."""
    asked = InputRequiredEvent(prefix=f'Allow book(city="{city}")?')
    answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=asked)
    return script.book(city) if answer.response in ("yes", "true") else "not allowed"


def made(name: str, model: FakeModel, **more: Any) -> FunctionAgent:
    return FunctionAgent(name=name, description="", llm=model, **{"tools": []} | more)


talker = made("Talker", FakeModel())
booker = made("Booker", BookModel(), tools=[book])
slow = made("Slow", SlowModel())
typed = made("Typed", FillModel(), output_cls=Trip)
