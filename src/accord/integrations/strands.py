"""Agents of Strands.

An agent object of Strands holds one conversation, so every turn has a copy of it, and its snapshot
is kept in `ctx.state`. An interrupt of a tool or a hook pauses the run; the next message is its
response.
"""

import copy
import json
from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from ..schema import to_builtins
from .turns import FrameworkTurn, HumanPause, Options, add_ask_skill

__all__ = ["add_skills"]

_SNAPSHOT = "snapshot"


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    add_ask_skill(agent, obj, run, options)


async def run(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from strands.types._snapshot import Snapshot

    agent = _copy(obj)
    stored = ctx.state.get(_SNAPSHOT)
    prompt: Any = turn.text
    if turn.paused is not None:
        stored = turn.paused["snapshot"]
        prompt = [
            {"interruptResponse": {"interruptId": id_, "response": turn.answer}}
            for id_ in turn.paused["interrupts"]
        ]
    if stored is not None:
        agent.load_snapshot(Snapshot.from_dict(stored))
    result: Any = None
    called: set[str] = set()
    async for event in agent.stream_async(prompt, **turn.options):
        if "data" in event:
            yield event["data"]
        elif "current_tool_use" in event:
            use = event["current_tool_use"]
            if use["toolUseId"] not in called:  # it is told again with each piece of its arguments
                called.add(use["toolUseId"])
                ctx.status(f"calls {use['name']}")
        elif "result" in event:
            result = event["result"]
    snapshot = agent.take_snapshot(preset="session").to_dict()
    if result.stop_reason == "interrupt":
        texts = [_question(one) for one in result.interrupts]
        ids = [one.id for one in result.interrupts]
        yield HumanPause("\n".join(texts), None, {"snapshot": snapshot, "interrupts": ids})
        return
    ctx.state[_SNAPSHOT] = snapshot
    if result.structured_output is not None:
        yield result.structured_output


def _copy(obj: Any) -> Any:
    """The agent with a conversation of its own."""
    agent = copy.copy(obj)
    for name in ("messages", "state", "_interrupt_state", "conversation_manager", "_model_state"):
        if hasattr(obj, name):
            setattr(agent, name, copy.deepcopy(getattr(obj, name)))
    if hasattr(obj, "_invocation_lock"):
        agent._invocation_lock = type(obj._invocation_lock)()
    return agent


def _question(interrupt: Any) -> str:
    reason = interrupt.reason
    if reason is None:
        return str(interrupt.name)
    return reason if isinstance(reason, str) else json.dumps(to_builtins(reason))
