"""One skill: a user's function and what is known of it before it is called."""

import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any

from ...model import AgentSkill
from .context import Context
from .signature import Parameters, bind
from .values import Reply

__all__ = ["Skill"]


class Skill:
    """A function an agent can be asked to run.

    `kind` says how it is called: `coroutine`, `stream` (async generator), `thread` or `thread
    stream`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        card: AgentSkill,
        *,
        is_default: bool = False,
        is_durable: bool = False,
        run_s: float = 24 * 3600,
        idle_s: float | None = None,
        scopes: Iterable[str] = (),
        names: dict[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.card = card
        self.id = card.id
        self.is_default = is_default
        self.is_durable = is_durable
        self.run_s = run_s
        self.idle_s = idle_s
        self.scopes = frozenset(scopes)  # its callers need
        self._names = names or {}
        self.kind = _kind(function)
        self.binding = Parameters((), "", "")
        self.makes_task = True

    def resolve(self) -> None:
        """Read the signature, once every name it uses exists. Raises TypeError for one that can't
        be filled.
        """
        hints = typing.get_type_hints(self.function, localns=self._names, include_extras=True)
        self.binding = bind(self.function, hints, Context)
        self.makes_task = hints.get("return") is not Reply
        if self.is_durable and self.kind in ("thread", "thread stream"):
            raise TypeError(
                f"{self.function.__qualname__}: a durable skill has to be async def, since "
                "ctx.step is awaited; "
                "its steps may be plain functions"
            )
        if not self.makes_task and self.kind in ("stream", "thread stream"):
            raise TypeError(
                f"{self.function.__qualname__}: a skill that answers with a Reply returns "
                "it, it can't yield"
            )


def _kind(function: Callable[..., Any]) -> str:
    if inspect.isasyncgenfunction(function):
        return "stream"
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isgeneratorfunction(function):
        return "thread stream"
    return "thread"
