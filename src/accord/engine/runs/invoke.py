"""Calls a skill's function: its parameters filled, in the trace of its message, within the agent's
middleware. It is a coroutine, a stream, or a plain function in a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ...model import TaskState
from ...observe import NO_TRACE, is_unsampled, set_current
from ..skills import Ask, Context, Fail, SkillCall, call_around
from .lifecycle import State

if TYPE_CHECKING:
    from ...observe import Tracing
    from .run import Run

__all__ = ["call", "call_within_middleware", "fill", "in_trace"]


async def in_trace(run: "Run", spans: "Tracing | None") -> None:
    """Drive a run in the trace of its message."""
    is_left_out = is_unsampled() and run.sender.trace is NO_TRACE
    if not is_left_out:
        set_current(run.sender.trace)
    if spans is None or is_left_out:
        return await run.drive()
    name = run.log.namespace.agent
    agent = run.runs.agents.get(name)  # None: it was removed while this run was started
    version = agent.version if agent is not None else ""
    is_resumed = run.history is not None
    with spans.run(name, version, run.skill.id, *run.log.ids, is_resumed) as span:
        await run.drive()
        if span is not None:
            span.set_state(run.log.state.word)
            if run.log.state is TaskState.FAILED:
                span.fail(run.failure or "Fail")


def fill(run: "Run", values: dict[str, Any]) -> None:
    """Fill the parameters that don't come from the message."""
    binding = run.skill.binding
    if binding.context:
        values[binding.context] = Context(run, run.sender, run.log.ids.context_id)
    if binding.caller:
        values[binding.caller] = run.sender.caller
    if run.skill.takes_files:
        binding.open_files(values, run.runs.opener(run.log.namespace))
    if binding.resources:
        binding.put_resources(values, run.resources)


def call(run: "Run", values: dict[str, Any]) -> Awaitable[Any]:
    """Call the function of a run with these parameters. What it yields is written as it comes."""
    if run.skill.kind == "coroutine":
        called: Awaitable[Any] = run.skill.function(**values)
        return called
    return _CALL[run.skill.kind](run, values)


async def call_within_middleware(run: "Run", values: dict[str, Any]) -> Any:
    """Call the function of a run within the agent's middleware."""
    context = Context(run, run.sender, run.log.ids.context_id)
    skill_call = SkillCall(run.skill.id, run.message, context, values)
    run.output.rewrites = skill_call.rewrites

    async def work() -> Any:
        return await call(run, values)

    return await call_around(run.skill.middleware, skill_call, work)


async def _iterate(run: "Run", values: dict[str, Any]) -> Any:
    stream = run.skill.function(**values)
    try:
        async for item in stream:
            if isinstance(item, Ask):
                return item
            run.output.emit(item)
            if run.life.state is State.ENDED:
                break  # its first output was the answer
            await run.output.drain()
    finally:
        await stream.aclose()
    return run.output.last_message


def _await_thread(run: "Run", values: dict[str, Any]) -> Awaitable[Any]:
    return run.threads.run(lambda: run.skill.function(**values), run.skill.id)


async def _iterate_thread(run: "Run", values: dict[str, Any]) -> Any:
    async def pass_on(item: Any) -> None:
        if run.is_over:
            raise Fail("cancelled")  # ends the thread, which can't be stopped from outside
        run.output.emit(item)
        await run.output.drain()

    def work() -> Any:
        stream = run.skill.function(**values)
        while True:
            try:
                item = next(stream)
            except StopIteration as end:
                return end.value if end.value is not None else run.output.last_message
            if isinstance(item, Ask):
                return item
            asyncio.run_coroutine_threadsafe(pass_on(item), run.loop).result()

    return await run.threads.run(work, run.skill.id)


_CALL: dict[str, Callable[["Run", dict[str, Any]], Awaitable[Any]]] = {
    "stream": _iterate,
    "thread": _await_thread,
    "thread stream": _iterate_thread,
}
