"""Agents of pydantic-ai.

The history of a conversation is the model's own messages. A tool that needs an approval, or is done
elsewhere, pauses the run; the next message answers it.
"""

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

_HISTORY = "messages"
_DENIED = "The user said no."


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    output = obj.output_type
    is_data = isinstance(output, type) and output is not str
    add_ask_skill(agent, obj, run, options, returns=output if is_data else None, files=MEDIA)


async def run(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from pydantic_ai import BinaryContent, DeferredToolRequests
    from pydantic_ai import messages as m
    from pydantic_ai.run import AgentRunResultEvent

    prompt: Any = turn.text
    if turn.files:
        prompt = [
            BinaryContent(data=one.data, media_type=one.media_type)
            if isinstance(one, TurnFile)
            else one
            for one in turn.texts_and_files
        ]
    history = ctx.state.get(_HISTORY, [])
    given = {"output_type": _with_deferred(obj.output_type, DeferredToolRequests)} | turn.options
    if turn.paused is not None:
        prompt, history = None, turn.paused["messages"]
        given["deferred_tool_results"] = _results(turn.paused, turn.answer)
    is_text = obj.output_type is str
    result: Any = None
    async with obj.run_stream_events(
        prompt, message_history=m.ModelMessagesTypeAdapter.validate_python(history), **given
    ) as stream:
        async for event in stream:
            match event:
                case m.PartStartEvent(part=m.TextPart(content=text)) if is_text:
                    yield text
                case m.PartDeltaEvent(delta=m.TextPartDelta(content_delta=text)) if is_text:
                    yield text
                case m.FunctionToolCallEvent(part=part):
                    ctx.status(f"calls {part.tool_name}")
                case AgentRunResultEvent():
                    result = event.result
    messages = m.ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json")
    if isinstance(result.output, DeferredToolRequests):
        yield _pause(result.output, messages)
        return
    ctx.state[_HISTORY] = messages
    if not is_text:
        yield result.output


def _with_deferred(output: Any, deferred: type) -> list[Any]:
    """The output types of the agent, and the one that says what it waits for."""
    types = list(output) if isinstance(output, (list, tuple)) else [output]
    return types if deferred in types else [*types, deferred]


def _pause(requests: Any, messages: Any) -> HumanPause:
    approvals = [call.tool_call_id for call in requests.approvals]
    calls = [call.tool_call_id for call in requests.calls]
    state = {"messages": messages, "approvals": approvals, "calls": calls}
    shown = {
        call.tool_call_id: shown_call(call.tool_name, call.args)
        for call in (*requests.approvals, *requests.calls)
    }
    if not calls:
        return approval(list(shown.values()), state)
    if len(shown) == 1:
        return HumanPause(f"What is the result of {shown[calls[0]]}?", None, state)
    fields = {id_: {"title": f"Allow {shown[id_]}?", "type": "boolean"} for id_ in approvals}
    fields |= {id_: {"title": f"What is the result of {shown[id_]}?"} for id_ in calls}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return HumanPause("\n".join(field["title"] for field in fields.values()), schema, state)


def _results(paused: dict[str, Any], answer: Any) -> Any:
    from pydantic_ai import DeferredToolResults, ToolDenied

    ids = [*paused["approvals"], *paused["calls"]]
    is_each = bool(paused["calls"]) and len(ids) > 1
    answers = answer if is_each else dict.fromkeys(ids, answer)
    return DeferredToolResults(
        approvals={id_: answers[id_] or ToolDenied(_DENIED) for id_ in paused["approvals"]},
        calls={id_: answers[id_] for id_ in paused["calls"]},
    )
