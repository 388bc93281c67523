"""Agents of the OpenAI Agents SDK.

The history of a conversation is a session of the SDK, kept in `ctx.state`. A tool with
`needs_approval` pauses the run; the next message approves or rejects it.
"""

from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from .turns import FrameworkTurn, Options, TurnFile, add_ask_skill, approval, shown_call

__all__ = ["add_skills"]

_HISTORY = "items"
_FILES = ("image/*", "application/pdf")


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    output = obj.output_type
    is_data = isinstance(output, type) and output is not str
    add_ask_skill(agent, obj, run, options, returns=output if is_data else None, files=_FILES)


async def run(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from agents import Runner, RunState

    start: Any = turn.text
    if turn.files:
        start = [{"role": "user", "content": [_content(one) for one in turn.texts_and_files]}]
    items = ctx.state.get(_HISTORY, [])
    if turn.paused is not None:
        items = turn.paused["items"]
        start = await RunState.from_string(obj, turn.paused["run"])
        for item in start.get_interruptions():
            start.approve(item) if turn.answer else start.reject(item)
    session = _Session(ctx.context_id, list(items))
    result = Runner.run_streamed(obj, start, **({"session": session} | turn.options))
    is_text = obj.output_type in (None, str)
    try:
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                if is_text and event.data.type == "response.output_text.delta":
                    yield event.data.delta
            elif event.type == "agent_updated_stream_event":
                if event.new_agent is not obj:
                    ctx.status(f"hands over to {event.new_agent.name}")
            elif event.name == "tool_called":
                ctx.status(f"calls {getattr(event.item.raw_item, 'name', 'a tool')}")
    finally:
        if not result.is_complete:
            result.cancel()
    if result.interruptions:
        calls = [shown_call(item.name, item.arguments) for item in result.interruptions]
        yield approval(calls, {"run": result.to_state().to_string(), "items": session.items})
        return
    ctx.state[_HISTORY] = session.items
    if not is_text:
        yield result.final_output


def _content(one: str | TurnFile) -> dict[str, Any]:
    if isinstance(one, str):
        return {"type": "input_text", "text": one}
    if one.kind == "image":
        return {"type": "input_image", "image_url": one.data_url, "detail": "auto"}
    return {"type": "input_file", "file_data": one.data_url, "filename": one.name or "file"}


class _Session:
    """The items of a conversation, as the SDK's protocol for sessions wants them."""

    session_settings = None

    def __init__(self, session_id: str, items: list[Any]) -> None:
        self.session_id = session_id
        self.items = items

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return list(self.items if limit is None else self.items[len(self.items) - limit :])

    async def add_items(self, items: list[Any]) -> None:
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()
