"""Agents of Google's Agent Development Kit, and its runners.

An agent's session is kept in `ctx.state`. A runner has a session service of its own, which stays:
its session is the conversation. A tool that wants a confirmation, or runs long, pauses the run; the
next message is its response.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from .turns import (
    MEDIA,
    FrameworkTurn,
    HumanPause,
    Options,
    TurnFile,
    add_ask_skill,
    approval,
    shown_call,
)

__all__ = ["add_skills"]

_SESSION = "session"
_CONFIRM = "adk_request_confirmation"


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    returns = getattr(obj, "output_schema", None)
    add_ask_skill(agent, obj, run, options, returns=returns, files=MEDIA)


async def run(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.genai import types

    user = ctx.caller.identity or "anonymous"
    stored = ctx.state.get(_SESSION) if turn.paused is None else turn.paused["session"]
    runner, session = await _runner(obj, user, ctx.context_id, stored)
    parts = [
        types.Part.from_bytes(data=one.data, mime_type=one.media_type)
        if isinstance(one, TurnFile)
        else types.Part(text=one)
        for one in turn.texts_and_files
    ]
    if turn.paused is not None:
        parts = [types.Part(function_response=one) for one in _responses(types, turn)]
    given = {"run_config": RunConfig(streaming_mode=StreamingMode.SSE)} | turn.options
    is_data = getattr(obj, "output_schema", None) is not None
    has_streamed, text, waiting = False, "", list[Any]()
    async for event in runner.run_async(
        user_id=user,
        session_id=ctx.context_id,
        new_message=types.Content(role="user", parts=parts),
        **given,
    ):
        for part in event.content.parts if event.content and event.content.parts else ():
            if part.function_call is not None and not event.partial:
                if part.function_call.id in (event.long_running_tool_ids or ()):
                    waiting.append(part.function_call)
                else:
                    ctx.status(f"calls {part.function_call.name}")
            elif part.text and not part.thought and (event.partial or not has_streamed):
                text += part.text
                if not is_data:
                    yield part.text
        has_streamed = bool(event.partial)  # the whole of what was streamed comes after it
    kept = session.model_dump(mode="json") if session is not None else None
    if waiting:
        yield _pause(waiting, kept)
        return
    if kept is not None:
        ctx.state[_SESSION] = kept
    if is_data:
        yield json.loads(text)


async def _runner(obj: Any, user: str, session_id: str, stored: Any) -> tuple[Any, Any]:
    """A runner, and the session that is ours to keep; None if the runner keeps it itself."""
    from google.adk.runners import Runner
    from google.adk.sessions import BaseSessionService, Session

    class OneSession(BaseSessionService):  # type: ignore[misc]  # it comes without types here
        """The session of this conversation. Events are added to the object itself."""

        async def create_session(self, **given: Any) -> Any:
            return session

        async def get_session(self, **given: Any) -> Any:
            return session

        async def list_sessions(self, **given: Any) -> Any:
            raise NotImplementedError("a wrapped agent has one session: that of its conversation")

        async def delete_session(self, **given: Any) -> None:
            session.events.clear()

    if isinstance(obj, Runner):
        name = obj.app_name
        place = {"app_name": name, "user_id": user, "session_id": session_id}
        if await obj.session_service.get_session(**place) is None:
            await obj.session_service.create_session(**place)
        return obj, None
    session = (
        Session.model_validate(stored)
        if stored is not None
        else Session(id=session_id, app_name=obj.name, user_id=user)
    )
    return Runner(app_name=obj.name, agent=obj, session_service=OneSession()), session


def _pause(waiting: list[Any], session: Any) -> HumanPause:
    calls = [{"id": call.id, "name": call.name} for call in waiting]
    state = {"session": session, "calls": calls}
    if all(call.name == _CONFIRM for call in waiting):
        originals = [(call.args or {}).get("originalFunctionCall", {}) for call in waiting]
        shown = [shown_call(one.get("name", "a tool"), one.get("args")) for one in originals]
        return approval(shown, state)
    shown = [shown_call(call.name, call.args) for call in waiting]
    return HumanPause("\n".join(f"What is the result of {call}?" for call in shown), None, state)


def _responses(types: Any, turn: FrameworkTurn) -> list[Any]:
    """What each call of a tool is answered with."""
    return [
        types.FunctionResponse(
            id=call["id"],
            name=call["name"],
            response={"confirmed" if call["name"] == _CONFIRM else "result": turn.answer},
        )
        for call in turn.paused["calls"]
    ]
