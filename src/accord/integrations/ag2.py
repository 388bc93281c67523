"""Agents of AG2 1.x.

The history of a conversation is the events of its stream, kept in `ctx.state`. AG2 waits for a
person inside the run (its `hitl_hook`), so the question is asked there. After a restart the run
begins anew: the model is called again, and the answer is found.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from .turns import MEDIA, FrameworkTurn, Options, TurnFile, add_ask_skill

__all__ = ["add_skills"]

_HISTORY = "events"


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    add_ask_skill(agent, obj, run, options, files=MEDIA)


async def run(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from ag2 import MemoryStream
    from ag2.events import (
        BinaryInput,
        HumanInputRequest,
        ModelMessageChunk,
        ToolApprovalRequest,
        ToolCallEvent,
    )
    from ag2.events._serialization import deserialize_value, serialize_value

    stream = MemoryStream()
    await stream.history.replace([deserialize_value(one) for one in ctx.state.get(_HISTORY, [])])
    events: asyncio.Queue[Any] = asyncio.Queue()

    async def heard(event: Any) -> None:
        events.put_nowait(event)

    async def asked(event: HumanInputRequest) -> str:
        if isinstance(event, ToolApprovalRequest):
            return "yes" if await ctx.ask(event.content, bool) else "no"
        return await ctx.ask(event.content)

    # AG2 reads the types of parameters, which are names of this function.
    heard.__annotations__ = {"event": ModelMessageChunk | ToolCallEvent}
    asked.__annotations__ = {"event": HumanInputRequest, "return": str}
    stream.subscribe(heard, condition=None)
    given = {"stream": stream, "hitl_hook": asked} | turn.options
    has_text, is_data = False, obj._response_schema is not None
    inputs = [
        BinaryInput(
            one.data,
            media_type=one.media_type,
            kind="document" if one.kind == "file" else one.kind,
        )
        if isinstance(one, TurnFile)
        else one
        for one in turn.texts_and_files
    ]
    async with obj.run(*inputs, **given) as running:
        running.start()
        result = asyncio.ensure_future(running.result())
        result.add_done_callback(lambda done: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                if isinstance(event, ModelMessageChunk) and not is_data:
                    has_text = has_text or bool(event.content)
                    yield event.content
                elif isinstance(event, ToolCallEvent):
                    ctx.status(f"calls {event.name}")
            reply = await result
        finally:
            result.cancel()
    ctx.state[_HISTORY] = [serialize_value(event) for event in await stream.history.get_events()]
    if is_data:
        yield await reply.content()
    elif not has_text:
        yield reply.body or ""
