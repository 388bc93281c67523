"""Strands."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel
from strands import Agent, ToolContext, tool
from strands.models import Model

from . import script

SCHEMA = None  # an interrupt takes any response


class FakeModel(Model):
    """Streams words, or a call of a tool."""

    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def said(self, messages: list[Any]) -> list[str]:
        parts = [part for m in messages if m["role"] == "user" for part in m["content"]]
        blocks = [block for part in parts for block in part.values() if "source" in block]
        script.seen += [block["source"]["bytes"] for block in blocks]
        return [part["text"] for part in parts if "text" in part]

    async def words(self, messages: list[Any]) -> AsyncIterator[str]:
        for word in script.answer(self.said(messages)):
            yield word

    def call(self, messages: list[Any]) -> tuple[str, str] | None:
        """The tool to call now, and its arguments."""
        return None

    async def stream(self, messages: list[Any], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        await script.think()
        yield {"messageStart": {"role": "assistant"}}
        call = self.call(messages)
        if call is not None:
            use = {"toolUse": {"name": call[0], "toolUseId": "call-1"}}
            yield {"contentBlockStart": {"start": use}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call[1]}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            async for word in self.words(messages):
                yield {"contentBlockDelta": {"delta": {"text": word}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if call is not None else "end_turn"}}


class BookModel(FakeModel):
    def call(self, messages: list[Any]) -> tuple[str, str] | None:
        last = messages[-1]["content"][-1]
        is_asked = "book" in last.get("text", "")
        return ("book", '{"city": "Rome"}') if is_asked else None

    async def words(self, messages: list[Any]) -> AsyncIterator[str]:
        last = messages[-1]["content"][-1]
        if "toolResult" in last:
            yield f"Done: {last['toolResult']['content'][0]['text']}"
        else:
            async for word in super().words(messages):
                yield word


class SlowModel(FakeModel):
    async def words(self, messages: list[Any]) -> AsyncIterator[str]:
        async for word in script.hang():
            yield word


class Trip(BaseModel):
    city: str
    days: int


class FillModel(FakeModel):
    def call(self, messages: list[Any]) -> tuple[str, str] | None:
        return "Trip", '{"city": "Rome", "days": 3}'


@tool(context=True)
def book(city: str, tool_context: ToolContext) -> str:
    """Book a hotel."""
    allowed = tool_context.interrupt("book", reason=f'Allow book(city="{city}")?')
    return script.book(city) if str(allowed).lower() in ("yes", "true") else "not allowed"


def made(name: str, model: Model, **more: Any) -> Agent:
    return Agent(model, name=name, callback_handler=None, **more)


talker = made("Talker", FakeModel())
booker = made("Booker", BookModel(), tools=[book])
slow = made("Slow", SlowModel())
typed = made("Typed", FillModel(), structured_output_model=Trip)
