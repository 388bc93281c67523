"""OpenAI Agents SDK."""

import base64
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic import BaseModel

from . import script

TAKES = ("image/png", "application/pdf")
set_tracing_disabled(True)


class FakeModel(ScriptedModel):
    """Answers every call, its text word by word."""

    def reply(self, items: list[Any]) -> Any:
        return assistant_message("".join(script.answer(self.said(items))))

    def said(self, items: list[Any]) -> list[str]:
        contents = [item["content"] for item in items if item.get("role") == "user"]
        parts = [part for one in contents if isinstance(one, list) for part in one]
        urls = [part.get("image_url") or part.get("file_data") for part in parts]
        script.seen += [base64.b64decode(url.partition(",")[2]) for url in urls if url]
        return [one if isinstance(one, str) else one[0]["text"] for one in contents]

    async def stream_response(
        self, instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> Any:
        await script.think()
        items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        self.enqueue([self.reply(items)])
        async for event in super().stream_response(instructions, input, *args, **kwargs):
            if event.type != "response.output_text.delta":
                yield event
                continue
            async for word in self.words(event.delta):
                yield event.model_copy(update={"delta": word})

    async def words(self, text: str) -> AsyncIterator[str]:
        for word in text.split(" "):
            yield word + " "


class BookModel(FakeModel):
    def reply(self, items: list[Any]) -> Any:
        if items[-1].get("type") == "function_call_output":
            return assistant_message(f"Done: {items[-1]['output']}")
        if "book" in self.said(items)[-1]:
            return function_call("book", {"city": "Rome"}, call_id="call-1")
        return super().reply(items)


class SlowModel(FakeModel):
    def words(self, text: str) -> AsyncIterator[str]:
        return script.hang()


class Trip(BaseModel):
    city: str
    days: int


class FillModel(FakeModel):
    def reply(self, items: list[Any]) -> Any:
        return assistant_message('{"city": "Rome", "days": 3}')


talker = Agent("Talker", model=FakeModel())
booker = Agent("Booker", model=BookModel(), tools=[function_tool(script.book, needs_approval=True)])
slow = Agent("Slow", model=SlowModel())
typed = Agent("Typed", model=FillModel(), output_type=Trip)
