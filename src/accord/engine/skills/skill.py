"""One skill: a user's function and what is known of it before it is called."""

import inspect
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from typing import TYPE_CHECKING, Any, NamedTuple

from ...model import AgentSkill, Message, Part, Task
from ...schema import json_schema
from .context import Context
from .lifespan import Lifespan
from .middleware import Middleware
from .signature import Parameters, bind
from .values import Ask, File, Reply, StatusMessage

if TYPE_CHECKING:
    import asyncio

    from ..log import Sender

__all__ = ["Cancellation", "Skill"]


class Cancellation(NamedTuple):
    """A task that its client wants to cancel."""

    task_id: str
    private: str  # the skill's own record of it, JSON
    sender: "Sender"  # of its first message
    tenant: str
    running: "asyncio.Task[None] | None"  # the call of the function, if it is at work here
    task: Task  # as it stands, a copy


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
        is_alone: bool = False,
        has_first_word: bool = False,
        run_s: float = 24 * 3600,
        idle_s: float | None = None,
        scopes: Iterable[str] = (),
        names: dict[str, Any] | None = None,
        on_cancel: "Callable[[Cancellation], Awaitable[Message | None]] | None" = None,
        middleware: Sequence[Middleware] = (),
        no_fork: str = "",
    ) -> None:
        self.function = function
        self.card = card
        self.id = card.id
        self.is_default = is_default
        self.is_durable = is_durable
        self.is_alone = is_alone  # given up before another process may begin with its task
        self.has_first_word = has_first_word  # its first output decides whether there is a task
        self.run_s = run_s
        self.idle_s = idle_s
        self.scopes = frozenset(scopes)  # its callers need
        # asked before a task is cancelled; an error it raises is the answer, and the task goes on
        self.on_cancel = on_cancel
        self.middleware = middleware  # the agent's, which may grow
        self.no_fork = no_fork  # why its tasks can't be forked; empty if they can
        self._names = names or {}
        self.kind = _kind(function)
        self.binding = Parameters((), "", "")
        self.makes_task = True
        self.takes_files = False
        self.lifespan: Lifespan | None = None  # of its agent
        self.hints: dict[str, Any] = {}  # the annotations of the function

    def resolve(self, lifespan: Lifespan | None = None) -> None:
        """Read the signature, once every name it uses exists. Raises TypeError for one that can't
        be filled: by a message, or by what the lifespan of the agent yields.
        """
        hints = typing.get_type_hints(self.function, localns=self._names, include_extras=True)
        self.lifespan, self.hints = lifespan, hints
        self.binding = bind(self.function, hints, Context, lifespan).for_skill(self.id)
        self.makes_task = hints.get("return") is not Reply
        self.takes_files = any(slot.kind in ("file", "files") for slot in self.binding.slots)
        if self.is_durable and self.kind in ("thread", "thread stream"):
            raise TypeError(
                f"{self.function.__qualname__}: a durable skill has to be async def, since "
                "ctx.step is awaited; "
                "its steps may be plain functions"
            )
        if self.is_alone and self.kind in ("thread", "thread stream"):
            raise TypeError(
                f"{self.function.__qualname__}: a skill with alone=True has to be async def, since "
                "a thread can't be stopped"
            )
        if self.has_first_word and not self.makes_task:
            raise TypeError(
                f"{self.function.__qualname__}: a skill annotated -> Reply never has a task; drop "
                "the annotation, or first_word=True"
            )
        if not self.makes_task and self.kind in ("stream", "thread stream"):
            raise TypeError(
                f"{self.function.__qualname__}: a skill that answers with a Reply returns "
                "it, it can't yield"
            )

    def schemas(self) -> dict[str, Any]:
        """The JSON Schemas of what it takes and gives, as far as they are known: `input` and
        `output`.
        """
        found = {"input": self.binding.schema(), "output": _output_schema(self.hints.get("return"))}
        return {name: schema for name, schema in found.items() if schema is not None}


def _output_schema(type_: Any) -> dict[str, Any] | None:
    """The schema of what a function returns, or of a piece of what it yields."""
    if typing.get_origin(type_) in _STREAMS:
        type_ = typing.get_args(type_)[0]
    if typing.get_origin(type_) in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(type_) if one not in (Ask, types.NoneType)]
        type_ = rest[0] if len(rest) == 1 else None
    if type_ is None or type_ in _NO_VALUES:
        return None
    try:
        return json_schema(type_)
    except TypeError:  # a type of the user's own that only `to_parts` knows
        return None


_STREAMS = (AsyncIterator, AsyncGenerator, Iterator, Generator, AsyncIterable, Iterable)
_NO_VALUES = (Any, types.NoneType, Reply, StatusMessage, Ask, Message, Part, File, bytes)


def _kind(function: Callable[..., Any]) -> str:
    if inspect.isasyncgenfunction(function):
        return "stream"
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isgeneratorfunction(function):
        return "thread stream"
    return "thread"
