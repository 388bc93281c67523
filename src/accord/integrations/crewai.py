"""Agents and crews of CrewAI.

An agent's history is its messages, kept in `ctx.state`. A crew has none: each turn is a new run,
and the text of the message fills its one placeholder. Models are called in threads of CrewAI's: a
call under way when the task is cancelled ends by itself, and nobody hears of it.
"""

from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from ..model import InvalidParams
from .turns import FrameworkTurn, Options, add_ask_skill

__all__ = ["add_skills"]

_HISTORY = "messages"


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    """Raises TypeError for a crew that asks on the terminal."""
    tasks = getattr(obj, "tasks", None)
    if tasks is None:
        add_ask_skill(agent, obj, _run_agent, options)
        return
    if any(task.human_input for task in tasks):
        raise TypeError(
            "a task of this crew has human_input=True, which reads from the terminal; ask in a "
            "skill of your own that runs the crew"
        )
    last = tasks[-1] if tasks else None
    returns = (last.output_pydantic or last.output_json) if last is not None else None
    add_ask_skill(agent, obj, _run_crew, options, returns=returns)


async def _run_agent(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    said = [*ctx.state.get(_HISTORY, []), {"role": "user", "content": turn.text}]
    result = await obj.kickoff_async(said, **turn.options)
    ctx.state[_HISTORY] = [*said, {"role": "assistant", "content": result.raw}]
    yield result.pydantic if result.pydantic is not None else result.raw


async def _run_crew(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    crew = obj.copy()  # a crew remembers its last run
    for task in crew.tasks:
        task.callback = _chained(task.callback, ctx)
    given = {"inputs": _inputs(obj, turn)} | turn.options
    result = await crew.akickoff(**given)
    if result.pydantic is not None:
        yield result.pydantic
    else:
        yield result.json_dict if result.json_dict is not None else result.raw


def _chained(callback: Any, ctx: Context) -> Any:
    """Say when a task is done, beside what its own callback does."""

    def done(output: Any) -> None:
        ctx.status(f"{output.agent.strip()} is done with: {output.name or output.description}")
        if callback is not None:
            callback(output)

    return done


def _inputs(obj: Any, turn: FrameworkTurn) -> dict[str, Any]:
    """What fills the placeholders of a crew: the fields of a data part, or the text if there is
    one placeholder.

    Raises:
        InvalidParams: There are several, and the message has no data.
    """
    for part in turn.message.parts:
        if isinstance(part.data, dict):
            return part.data
    names = sorted(obj.fetch_inputs())
    if len(names) > 1:
        raise InvalidParams(f"send a data part with the fields {', '.join(names)}")
    return {names[0]: turn.text} if names else {}
