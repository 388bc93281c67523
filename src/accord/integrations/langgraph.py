"""Graphs of LangGraph, agents of LangChain, and other runnables of LangChain.

A graph that was compiled without a checkpointer gets one that keeps its newest checkpoint in
`ctx.state`. A graph with one keeps it: its thread is the conversation. `interrupt(...)`, and the
middleware that has people approve tools, pause the run; the next message resumes it.
"""

import copy
import json
import typing
from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from ..model import InvalidParams
from ..schema import json_schema, to_builtins
from .turns import (
    MEDIA,
    YES_OR_NO,
    FrameworkTurn,
    HumanPause,
    Options,
    TurnFile,
    add_ask_skill,
    shown_call,
)

__all__ = ["add_skills"]

_CHECKPOINTS = "checkpoints"
_STRUCTURED = "structured_response"


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    is_graph = hasattr(obj, "checkpointer")
    files = MEDIA if "messages" in _fields(obj) else ()  # other fields take text and data
    add_ask_skill(agent, obj, _run_graph if is_graph else _run_runnable, options, files=files)


async def _run_runnable(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    """A runnable without state: text in, text or data out."""
    given = turn.options
    async for chunk in obj.astream(_input(obj, turn), **given):
        text = getattr(chunk, "text", None)
        yield str(text) if isinstance(text, str) else chunk


async def _run_graph(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from langgraph.types import Command

    from .langgraph_saver import StateSaver

    checkpoints = ctx.state.get(_CHECKPOINTS, {})
    start: Any
    if turn.paused is not None:
        start = Command(resume=_resumes(turn.paused["interrupts"], turn.answer))
        checkpoints = turn.paused["checkpoints"]
    else:
        start = _input(obj, turn)
    saver = None
    if obj.checkpointer in (None, False):
        saver = StateSaver(copy.deepcopy(checkpoints))  # kept only if the turn ends well
        obj = obj.copy(update={"checkpointer": saver})
    given = {"config": {}} | turn.options
    thread = "/".join(part for part in (ctx.caller.identity, ctx.context_id) if part)
    configurable = {"thread_id": thread} | given["config"].get("configurable", {})
    given["config"] = given["config"] | {"configurable": configurable}
    shown = _Shown(obj, ctx)
    modes = ["messages", "updates", "custom", "values"]
    async for mode, event in obj.astream(start, stream_mode=modes, **given):
        if mode == "messages":
            yield shown.text(event[0])
        elif mode == "custom":
            ctx.status(event if isinstance(event, str) else json.dumps(to_builtins(event)))
        elif mode == "values":
            shown.values = event
        elif "__interrupt__" in event:
            shown.interrupts += event["__interrupt__"]
    if shown.interrupts:
        yield _pause(shown.interrupts, saver.checkpoints if saver is not None else {})
        return
    if saver is not None:
        ctx.state[_CHECKPOINTS] = saver.checkpoints
    yield shown.result()


class _Shown:
    """What a graph has said so far."""

    def __init__(self, graph: Any, ctx: Context) -> None:
        self._ctx = ctx
        self._inputs = _fields(graph)
        self._streamed: set[str] = set()
        self._has_text = False
        self._held = (
            ""  # text that looks like JSON: a structured result may follow that is the same
        )
        self.values: Any = None
        self.interrupts: list[Any] = []

    def text(self, message: Any) -> str:
        """The text of a message or a chunk of one, if a model said it."""
        if message.type not in ("ai", "AIMessageChunk"):
            return ""
        is_chunk = message.type == "AIMessageChunk"
        if not is_chunk and message.id in self._streamed:
            return ""  # the whole of what was streamed
        self._streamed.add(message.id)
        for call in message.tool_call_chunks if is_chunk else message.tool_calls:
            if call.get("name"):
                self._ctx.status(f"calls {call['name']}")
        text = str(message.text)
        if self._held or (not self._has_text and text.lstrip()[:1] in ("{", "[")):
            self._held += text
            return ""
        self._has_text = self._has_text or bool(text)
        return text

    def result(self) -> Any:
        """What is left to say at the end: data, or a result that no model said."""
        values = self.values
        if isinstance(values, dict) and values.get(_STRUCTURED) is not None:
            return values[_STRUCTURED]
        if self._held:
            return self._held
        if self._has_text or values is None:
            return ""
        if not isinstance(values, dict):
            return values
        if messages := values.get("messages"):
            return str(messages[-1].text)
        new = {name: value for name, value in values.items() if name not in self._inputs} or values
        return next(iter(new.values())) if len(new) == 1 else new


def _input(obj: Any, turn: FrameworkTurn) -> Any:
    """The input of a graph or runnable: its messages, the fields of a data part, or its one field.

    Raises:
        InvalidParams: It needs several fields, and the message has no data.
    """
    fields = _fields(obj)
    data = next((part.data for part in turn.message.parts if isinstance(part.data, dict)), None)
    if "messages" in fields:
        content = [_block(one) for one in turn.texts_and_files] if turn.files else turn.text
        return {"messages": [{"role": "user", "content": content}]}
    if data is not None:
        return data
    if len(fields) > 1:
        names = ", ".join(fields)
        raise InvalidParams(
            f"send a data part with the fields {names}",
            violations=(("message.parts", f"no data part with the fields {names}"),),
        )
    return {fields[0]: turn.text} if fields else turn.text


def _block(one: str | TurnFile) -> dict[str, Any]:
    """Return a content block of LangChain, the same for all models."""
    if isinstance(one, str):
        return {"type": "text", "text": one}
    block = {"type": one.kind, "base64": one.base64, "mime_type": one.media_type}
    return block | {"extras": {"filename": one.name}} if one.name else block


def _fields(obj: Any) -> list[str]:
    """The names of the fields of an input; none if it is not an object."""
    schema = getattr(getattr(obj, "builder", None), "input_schema", None)
    if schema is not None:  # its JSON Schema can't be made of every TypedDict
        return list(typing.get_type_hints(schema))
    return list(obj.get_input_jsonschema().get("properties", {}))


# Questions


def _pause(interrupts: list[Any], checkpoints: Any) -> HumanPause:
    """One question for all that the graph waits for."""
    kept = []
    questions: dict[str, tuple[str, dict[str, Any] | None]] = {}
    for one in interrupts:
        actions = one.value.get("action_requests") if isinstance(one.value, dict) else None
        kept.append({"id": one.id, "actions": len(actions or ())})
        questions[one.id] = _approval(actions) if actions else (_text(one.value), _schema(one))
    state = {"interrupts": kept, "checkpoints": checkpoints}
    if len(questions) == 1:
        ((question, schema),) = questions.values()
        return HumanPause(question, schema, state)
    fields = {
        id_: {"title": question, **(schema or {"type": "string"})}
        for id_, (question, schema) in questions.items()
    }
    text = "\n".join(question for question, _ in questions.values())
    return HumanPause(
        text, {"type": "object", "properties": fields, "required": list(fields)}, state
    )


def _approval(actions: list[Any]) -> tuple[str, dict[str, Any]]:
    calls = [shown_call(action["name"], action.get("args")) for action in actions]
    return "\n".join(f"Allow {call}?" for call in calls), YES_OR_NO


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for name in ("question", "message", "prompt", "query"):
            if isinstance(value.get(name), str):
                return str(value[name])
    return json.dumps(to_builtins(value), ensure_ascii=False)


def _schema(interrupt: Any) -> dict[str, Any] | None:
    schema = getattr(interrupt, "response_schema", None)
    return schema if schema is None or isinstance(schema, dict) else json_schema(schema)


def _resumes(interrupts: list[dict[str, Any]], answer: Any) -> dict[str, Any]:
    """What each interrupt is resumed with."""
    resumes = {}
    for one in interrupts:
        value = answer[one["id"]] if len(interrupts) > 1 else answer
        if one["actions"]:
            decision = {"type": "approve"} if value else {"type": "reject"}
            value = {"decisions": [decision] * one["actions"]}
        resumes[one["id"]] = value
    return resumes
