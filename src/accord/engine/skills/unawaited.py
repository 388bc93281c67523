"""Refuse plain functions that call what only an `async def` can await."""

import dis
import inspect
import typing
from collections.abc import Callable, Coroutine
from typing import Any

from .context import Context

__all__ = ["refuse_unawaited"]


def refuse_unawaited(function: Callable[..., Any]) -> None:
    """Raise TypeError if a plain `def` uses a method of its Context that has to be awaited.

    Only what stands in the function itself is seen, not what functions do that it calls.
    """
    if not inspect.isfunction(function) or function.__code__.co_flags & _ASYNC:
        return
    contexts = {name for name, hint in function.__annotations__.items() if _is_context(hint)}
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(function):
        if before is not None and before.argval in contexts and _is_awaited(instruction.argval):
            raise TypeError(
                f"{function.__qualname__} calls {before.argval}.{instruction.argval}, which has to "
                "be awaited: write `async def` instead of `def`, and `await "
                f"{before.argval}.{instruction.argval}(...)`"
            )
        before = instruction


_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _is_context(hint: Any) -> bool:
    # A text under `from __future__ import annotations`.
    return hint is Context or (isinstance(hint, str) and hint.rpartition(".")[2] == "Context")


def _is_awaited(name: Any) -> bool:
    method = getattr(Context, name, None) if isinstance(name, str) else None
    if not inspect.isfunction(method):
        return False
    returned = typing.get_origin(method.__annotations__.get("return"))
    return inspect.iscoroutinefunction(method) or returned is Coroutine
