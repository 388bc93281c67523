"""Google's Agent Development Kit."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import FunctionTool
from google.genai import types
from pydantic import BaseModel

from . import script


def content(**part: Any) -> types.Content:
    return types.Content(role="model", parts=[types.Part(**part)])


class FakeModel(BaseLlm):
    """Streams words, then the whole of them, as the kit wants it."""

    model: str = "fake"

    def said(self, request: LlmRequest) -> list[str]:
        parts = [part for c in request.contents if c.role == "user" for part in c.parts]
        script.seen += [part.inline_data.data for part in parts if part.inline_data]
        texts = [c.parts[0].text for c in request.contents if c.role == "user"]
        return [text for text in texts if text]

    async def words(self, request: LlmRequest) -> AsyncIterator[str]:
        for word in script.answer(self.said(request)):
            yield word

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        await script.think()
        whole = ""
        async for word in self.words(llm_request):
            whole += word
            yield LlmResponse(content=content(text=word), partial=True)
        yield LlmResponse(content=content(text=whole), partial=False)


class BookModel(FakeModel):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        await script.think()
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None:
            result = last.function_response.response
            said = str(result.get("result", result.get("error")))
            yield LlmResponse(content=content(text=f"Done: {said}"))
        elif "book" in str(last.text):
            call = types.FunctionCall(name="book", args={"city": "Rome"})
            yield LlmResponse(content=content(function_call=call))
        else:
            async for one in super().generate_content_async(llm_request, stream):
                yield one


class SlowModel(FakeModel):
    async def words(self, request: LlmRequest) -> AsyncIterator[str]:
        async for word in script.hang():
            yield word


class Trip(BaseModel):
    city: str
    days: int


class FillModel(FakeModel):
    async def words(self, request: LlmRequest) -> AsyncIterator[str]:
        yield '{"city": "Rome", '
        yield '"days": 3}'


talker = LlmAgent(name="Talker", model=FakeModel())
booker = LlmAgent(
    name="Booker",
    model=BookModel(),
    tools=[FunctionTool(script.book, require_confirmation=True)],
)
slow = LlmAgent(name="Slow", model=SlowModel())
typed = LlmAgent(name="Typed", model=FillModel(), output_schema=Trip)
