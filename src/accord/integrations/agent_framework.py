"""Agents of Microsoft's Agent Framework.

The session of a conversation is kept in `ctx.state`. A tool that always needs an approval pauses
the run; the next message approves or rejects it.
"""

from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from .turns import MEDIA, FrameworkTurn, Options, TurnFile, add_ask_skill, approval, shown_call

__all__ = ["add_skills"]

_SESSION = "session"


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    add_ask_skill(agent, obj, run, options, files=MEDIA)


async def run(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from agent_framework import AgentSession, Content, Message

    stored = ctx.state.get(_SESSION)
    contents: list[Any] = [
        Content.from_data(one.data, one.media_type, name=one.name or None)
        if isinstance(one, TurnFile)
        else one
        for one in turn.texts_and_files
    ]
    if turn.paused is not None:
        stored = turn.paused["session"]
        requests = [Content.from_dict(one) for one in turn.paused["requests"]]
        contents = [one.to_function_approval_response(turn.answer) for one in requests]
    session = (
        AgentSession.from_dict(stored)
        if stored is not None
        else obj.create_session(session_id=ctx.context_id)
    )
    is_data = _has_response_format(obj, turn.options)
    given = {"session": session} | turn.options
    stream = obj.run(Message(role="user", contents=contents), stream=True, **given)
    async for update in stream:
        for content in update.contents:
            if content.type == "text" and not is_data:
                yield content.text
            elif content.type == "function_call" and content.name:
                ctx.status(f"calls {content.name}")
    reply = await stream.get_final_response()
    if reply.user_input_requests:
        calls = [one.function_call for one in reply.user_input_requests]
        yield approval(
            [shown_call(call.name, call.arguments) for call in calls],
            {
                "session": session.to_dict(),
                "requests": [one.to_dict() for one in reply.user_input_requests],
            },
        )
        return
    ctx.state[_SESSION] = session.to_dict()
    if is_data:
        yield reply.value


def _has_response_format(obj: Any, options: dict[str, Any]) -> bool:
    """Whether the model answers with an object."""
    chosen = [getattr(obj, "default_options", None) or {}, options.get("options") or {}]
    return any(one.get("response_format") is not None for one in chosen)
