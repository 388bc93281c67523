"""Steps: pieces of a skill's work that are done once and remembered."""

import asyncio
import inspect
import logging
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from .shape import Shape, to_builtins
from .threads import Threads

__all__ = ["Step", "StepFailed", "do_step", "value_of"]

log_ = logging.getLogger("accord")

_PLAIN = (str, int, float, bool)


class StepFailed(Exception):
    """A step failed for good, now or in an earlier life of the run; says how."""


class Step(msgspec.Struct, omit_defaults=True):
    """Private log entry: the n-th call of this step began, or ended with a value or an error."""

    name: str
    n: int
    value: Any = msgspec.UNSET
    error: str = ""

    @property
    def is_done(self) -> bool:
        return self.value is not msgspec.UNSET or bool(self.error)


async def do_step(step: Step, function: Callable[..., Any], args: tuple[Any, ...], retries: int, threads: Threads) -> Step:
    """Call the function, again if it fails, and return the step with what came of it."""
    for attempt in range(retries + 1):
        try:
            if _is_async(function):
                value = await function(*args)
            else:
                value = await threads.run(lambda: function(*args))
            step.value = value if type(value) in _PLAIN else to_builtins(value)
            return step
        except Exception as error:
            log_.warning("step %s failed, attempt %d of %d", step.name, attempt + 1, retries + 1, exc_info=True)
            step.error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if attempt < retries:
                step.error = ""
                await asyncio.sleep(min(0.1 * 2**attempt, 30))
    return step


def _is_async(function: Callable[..., Any]) -> bool:
    if isinstance(function, types.FunctionType) and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True  # seen ten times as fast as below
    return inspect.iscoroutinefunction(function)


def value_of(step: Step, function: Callable[..., Any]) -> Any:
    """Return what a step gave, as the function's annotation has it: the same in the first life as in any later one.

    Raises:
        StepFailed: It ended with an error.
    """
    if step.error:
        raise StepFailed(step.error)
    is_plain = isinstance(function, types.FunctionType) or inspect.isroutine(function)
    type_ = getattr(function, "__annotations__", {}).get("return") if is_plain else None
    if type_ is type(step.value) and type_ in _PLAIN:
        return step.value
    if isinstance(type_, str):  # written as text, as all are with `from __future__ import annotations`
        type_ = typing.get_type_hints(function).get("return")
    if type_ in (None, Any, types.NoneType):
        return step.value
    return Shape(type_).read(step.value, step.name)
