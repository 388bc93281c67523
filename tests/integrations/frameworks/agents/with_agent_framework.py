"""Microsoft's Agent Framework."""

import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)
from pydantic import BaseModel

from . import script


class FakeClient(FunctionInvocationLayer, BaseChatClient):
    """Streams words, or a call of a tool."""

    def said(self, messages: Sequence[Message]) -> list[str]:
        contents = [one for message in messages for one in message.contents]
        script.seen += [
            base64.b64decode(one.uri.partition(",")[2]) for one in contents if one.type == "data"
        ]
        return [message.text for message in messages if message.role == "user" and message.text]

    async def reply(self, messages: Sequence[Message]) -> AsyncIterator[Content]:
        for word in script.answer(self.said(messages)):
            yield Content.from_text(word)

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Any, **kwargs: Any
    ) -> Any:
        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            await script.think()
            async for content in self.reply(messages):
                yield ChatResponseUpdate(contents=[content], role="assistant")

        def whole(given: Sequence[ChatResponseUpdate]) -> ChatResponse:
            return ChatResponse.from_updates(
                given, output_format_type=options.get("response_format")
            )

        return ResponseStream(updates(), finalizer=whole)


class BookClient(FakeClient):
    async def reply(self, messages: Sequence[Message]) -> AsyncIterator[Content]:
        last = messages[-1].contents[-1]
        if last.type == "function_result":
            yield Content.from_text(f"Done: {last.result}")
        elif "book" in str(last.text):
            yield Content.from_function_call(
                call_id="call-1", name="book", arguments='{"city": "Rome"}'
            )
        else:
            async for content in super().reply(messages):
                yield content


class SlowClient(FakeClient):
    async def reply(self, messages: Sequence[Message]) -> AsyncIterator[Content]:
        async for word in script.hang():
            yield Content.from_text(word)


class Trip(BaseModel):
    city: str
    days: int


class FillClient(FakeClient):
    async def reply(self, messages: Sequence[Message]) -> AsyncIterator[Content]:
        yield Content.from_text('{"city": "Rome", ')
        yield Content.from_text('"days": 3}')


talker = Agent(FakeClient(), name="Talker")
booker = Agent(
    BookClient(),
    name="Booker",
    tools=[tool(approval_mode="always_require")(script.book)],
)
slow = Agent(SlowClient(), name="Slow")
typed = Agent(FillClient(), name="Typed", default_options={"response_format": Trip})
