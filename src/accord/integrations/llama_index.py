"""Agents and workflows of LlamaIndex.

The history of an agent is its chat messages, kept in `ctx.state`. A workflow that waits for a
person (`InputRequiredEvent`) is stored with its context; the next message is the response.
"""

import warnings
from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from ..model import InvalidParams
from .turns import MEDIA, FrameworkTurn, HumanPause, Options, TurnFile, add_ask_skill

__all__ = ["add_skills"]

_HISTORY = "messages"


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    is_agent = hasattr(obj, "output_cls")  # a workflow has fields
    returns = getattr(obj, "output_cls", None)
    add_ask_skill(agent, obj, run, options, returns=returns, files=MEDIA if is_agent else ())


async def run(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from workflows import Context as WorkflowContext
    from workflows.events import HumanResponseEvent, InputRequiredEvent

    is_agent = hasattr(obj, "output_cls")
    if turn.paused is not None:
        context = WorkflowContext.from_dict(obj, turn.paused["context"])
        handler = obj.run(ctx=context, **turn.options)
        if is_agent:  # a context with a memory can't be run: it would be copied as JSON
            await handler.ctx.store.set("memory", _memory(turn.paused["messages"]))
        handler.ctx.send_event(HumanResponseEvent(response=turn.answer))
    elif is_agent:
        memory = _memory(ctx.state.get(_HISTORY, []))
        handler = obj.run(**({"user_msg": _message(turn), "memory": memory} | turn.options))
    else:
        handler = obj.run(**(_start(obj, turn) | turn.options))
    is_text = getattr(obj, "output_cls", None) is None
    has_text = False
    try:
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                yield await _pause(handler.ctx, event, is_agent=is_agent)
                return
            if is_text and isinstance(delta := getattr(event, "delta", None), str):
                has_text = has_text or bool(delta)
                yield delta
            elif type(event).__name__ == "ToolCall":
                ctx.status(f"calls {event.tool_name}")
        result = await handler
    finally:
        if not handler.is_done():
            await handler.cancel_run()
    if is_agent:
        ctx.state[_HISTORY] = await _messages(handler.ctx)
    if not is_text:
        yield result.structured_response
    elif not has_text:
        response = getattr(result, "response", None)  # of an agent whose model does not stream
        yield str(response.content or "") if response is not None else result


def _message(turn: FrameworkTurn) -> Any:
    from llama_index.core.llms import ChatMessage

    if not turn.files:
        return turn.text
    return ChatMessage(role="user", blocks=[_block(one) for one in turn.texts_and_files])


def _block(one: str | TurnFile) -> Any:
    from llama_index.core.llms import (
        AudioBlock,
        DocumentBlock,
        ImageBlock,
        TextBlock,
        VideoBlock,
    )

    if isinstance(one, str):
        return TextBlock(text=one)
    match one.kind:
        case "image":
            return ImageBlock(image=one.data, image_mimetype=one.media_type)
        case "audio":
            return AudioBlock(audio=one.data, format=one.media_type.partition("/")[2])
        case "video":
            return VideoBlock(video=one.data, video_mimetype=one.media_type)
    return DocumentBlock(data=one.data, document_mimetype=one.media_type, title=one.name or "file")


def _memory(messages: list[Any]) -> Any:
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer

    known = [ChatMessage.model_validate(message) for message in messages]
    return ChatMemoryBuffer.from_defaults(chat_history=known)


async def _messages(context: Any) -> list[Any]:
    memory = await context.store.get("memory")
    return [message.model_dump(mode="json") for message in await memory.aget_all()]


async def _pause(context: Any, event: Any, *, is_agent: bool) -> HumanPause:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the memory is not in it, which is stored beside it
        state = {"context": context.to_dict()}
    if is_agent:
        state["messages"] = await _messages(context)
    return HumanPause(str(event.get("prefix", "") or "The agent needs an answer."), None, state)


def _start(obj: Any, turn: FrameworkTurn) -> dict[str, Any]:
    """The fields a workflow starts with: those of a data part, or its one field."""
    fields = list(obj.start_event_class.model_fields)
    for part in turn.message.parts:
        if isinstance(part.data, dict):
            return part.data
    if len(fields) > 1:
        names = ", ".join(fields)
        raise InvalidParams(f"send a data part with the fields {names}")
    return {fields[0] if fields else "input": turn.text}
