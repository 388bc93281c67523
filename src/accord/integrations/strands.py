"""Agents of Strands.

An agent object of Strands holds one conversation, so every turn has a copy of it, and its snapshot
is kept in `ctx.state`. An interrupt of a tool or a hook pauses the run; the next message is its
response.
"""

import copy
import dataclasses
import json
import re
from collections.abc import AsyncGenerator, Callable
from types import MethodType
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from ..model import ContentTypeNotSupported
from ..schema import to_builtins
from .turns import FrameworkTurn, HumanPause, Options, TurnFile, add_ask_skill

__all__ = ["add_skills"]

_SNAPSHOT = "snapshot"

# The block and the format of each media type that Strands has a word for.
_FORMATS = {
    **{f"image/{name}": ("image", name) for name in ("png", "jpeg", "gif", "webp")},
    "audio/mpeg": ("audio", "mp3"),
    "audio/wav": ("audio", "wav"),
    "audio/x-wav": ("audio", "wav"),
    "audio/ogg": ("audio", "ogg"),
    "audio/flac": ("audio", "flac"),
    "audio/mp4": ("audio", "mp4"),
    "video/mp4": ("video", "mp4"),
    "video/mpeg": ("video", "mpeg"),
    "video/webm": ("video", "webm"),
    "video/quicktime": ("video", "mov"),
    "video/x-matroska": ("video", "mkv"),
    "application/pdf": ("document", "pdf"),
    "application/msword": ("document", "doc"),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": (
        "document",
        "docx",
    ),
    "application/vnd.ms-excel": ("document", "xls"),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ("document", "xlsx"),
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9 ()\[\]-]")  # Bedrock refuses these in document names


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    """Add the skill. Raises TypeError for an agent with a session: all callers would share it."""
    if getattr(obj, "_session_manager", None) is not None:
        raise TypeError(
            "this agent has a session_manager, whose one session all callers would share; leave it "
            "out: the history of each conversation is kept in ctx.state"
        )
    add_ask_skill(agent, obj, run, options, files=tuple(_FORMATS))


async def run(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from strands.types._snapshot import Snapshot
    from strands.types.session import decode_bytes_values, encode_bytes_values

    agent = _copy(obj)
    stored = ctx.state.get(_SNAPSHOT)
    prompt: Any = [_block(one) for one in turn.texts_and_files] if turn.files else turn.text
    if turn.paused is not None:
        stored = turn.paused["snapshot"]
        prompt = [
            {"interruptResponse": {"interruptId": id_, "response": turn.answer}}
            for id_ in turn.paused["interrupts"]
        ]
    if stored is not None:
        agent.load_snapshot(Snapshot.from_dict(decode_bytes_values(stored)))
    result: Any = None
    called: set[str] = set()
    async for event in agent.stream_async(prompt, **turn.options):
        if "data" in event:
            yield event["data"]
        elif "current_tool_use" in event:
            use = event["current_tool_use"]
            if use["toolUseId"] not in called:  # it comes again with each piece of its arguments
                called.add(use["toolUseId"])
                ctx.status(f"calls {use['name']}")
        elif "result" in event:
            result = event["result"]
    snapshot = encode_bytes_values(agent.take_snapshot(preset="session").to_dict())
    if result.stop_reason == "interrupt":
        texts = [_question(one) for one in result.interrupts]
        ids = [one.id for one in result.interrupts]
        yield HumanPause("\n".join(texts), None, {"snapshot": snapshot, "interrupts": ids})
        return
    ctx.state[_SNAPSHOT] = snapshot
    if result.structured_output is not None:
        yield result.structured_output


def _block(one: str | TurnFile) -> dict[str, Any]:
    """Return a content block of Strands. Raises ContentTypeNotSupported if it has none."""
    if isinstance(one, str):
        return {"text": one}
    if one.media_type not in _FORMATS:
        raise ContentTypeNotSupported(
            f"{one.name or 'a file'} is {one.media_type}; Strands takes {', '.join(_FORMATS)}",
            parameter="message.parts",
        )
    kind, format_ = _FORMATS[one.media_type]
    block: dict[str, Any] = {"format": format_, "source": {"bytes": one.data}}
    if kind == "document":
        block["name"] = _NOT_IN_NAMES.sub(" ", one.name.rpartition(".")[0]).strip() or "document"
    return {kind: block}


def _copy(obj: Any) -> Any:
    """Return the agent with a conversation of its own.

    A run changes its agent in many places. The copy has its own of each: concurrent turns would
    fail at each other's lock, or lose their tools.
    """
    agent = copy.copy(obj)
    for name, copied in _OWN.items():
        if hasattr(obj, name):
            setattr(agent, name, copied(getattr(obj, name)))
    agent.tool_caller = type(obj.tool_caller)(agent)
    agent.hooks = _hooks(obj, agent)
    return agent


def _tools(registry: Any) -> Any:
    """Return a registry of its own with the same tools: a run registers the tool of its structured
    result there. It has no tool providers: an agent that is deleted closes those (MCP clients), and
    a copy must not.
    """
    own = copy.copy(registry)
    own.registry = dict(registry.registry)
    own.dynamic_tools = dict(registry.dynamic_tools)
    own._tool_providers = []
    return own


def _hooks(obj: Any, agent: Any) -> Any:
    """Return the hooks of an agent for its copy. Hooks of parts that were copied are bound to the
    copies.
    """
    parts = {
        id(getattr(obj, name)): getattr(agent, name)
        for name in ("conversation_manager", "_retry_strategy")
        if hasattr(obj, name)
    }

    def of_copy(entry: Any) -> Any:
        part = parts.get(id(getattr(entry.callback, "__self__", None)))
        if part is None:
            return entry
        return dataclasses.replace(entry, callback=MethodType(entry.callback.__func__, part))

    hooks = copy.copy(obj.hooks)
    hooks._registered_callbacks = {
        event: [of_copy(entry) for entry in entries]
        for event, entries in obj.hooks._registered_callbacks.items()
    }
    return hooks


# What a run changes in its agent, and how a copy gets its own.
_OWN: dict[str, Callable[[Any], Any]] = {
    "messages": copy.deepcopy,
    "state": copy.deepcopy,
    "_interrupt_state": copy.deepcopy,
    "_model_state": copy.deepcopy,
    "conversation_manager": copy.copy,
    "_retry_strategy": copy.copy,
    "event_loop_metrics": lambda metrics: type(metrics)(),
    "tool_registry": _tools,
    "_cancel_signal": lambda signal: type(signal)(),
    "_concurrency": lambda lock: type(lock)(lock.mode),
}


def _question(interrupt: Any) -> str:
    reason = interrupt.reason
    if reason is None:
        return str(interrupt.name)
    return reason if isinstance(reason, str) else json.dumps(to_builtins(reason))
