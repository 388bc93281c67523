"""Functions of the user's around the calls of skills."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...model import A2AError, Message, Part
from .context import Context, Fail, Reject

__all__ = ["Middleware", "Next", "Rewrite", "SkillCall", "call_around", "rewritten"]

log_ = logging.getLogger("accord")

Next: TypeAlias = Callable[[], Awaitable[Any]]


class Middleware(NamedTuple):
    """A function around skills, and whether nothing is done if it fails."""

    function: Callable[["SkillCall", Next], Awaitable[Any]]
    is_required: bool

    @property
    def name(self) -> str:
        return _name(self.function)

    @staticmethod
    def of(function: Callable[..., Any], is_required: bool) -> "Middleware":
        """Return it, checked. Raises TypeError for a function that can't be one."""
        if not inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{_name(function)}: middleware is an async def that takes the call and the "
                "next function, as in async def timing(call, next)"
            )
        return Middleware(function, is_required)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


class Rewrite(NamedTuple):
    """A function that changes what a skill says."""

    function: Callable[[Part], Part]
    by: Middleware


class SkillCall:
    """One call of a skill, as middleware sees it.

    Attributes:
        skill: The id of the skill.
        message: The message it is called with.
        ctx: The context of the run, with the caller (`ctx.caller`) and the task.
        values: The arguments of the function by name. They may be changed.
    """

    __slots__ = ("_middleware", "ctx", "message", "rewrites", "skill", "values")

    def __init__(self, skill: str, message: Message, ctx: Context, values: dict[str, Any]) -> None:
        self.skill = skill
        self.message = message
        self.ctx = ctx
        self.values = values
        self.rewrites: list[Rewrite] = []
        self._middleware: Middleware | None = None

    def rewrite(self, function: Callable[[Part], Part]) -> None:
        """Pass every part that the skill says from now on through a function: of artifacts, chunks,
        status messages, questions and replies. It gets a part and returns one.
        """
        assert self._middleware is not None  # who calls this is one
        self.rewrites.append(Rewrite(function, self._middleware))


async def call_around(middleware: Sequence[Middleware], call: SkillCall, work: Next) -> Any:
    """Call a skill within its middleware, the first one outermost."""
    if not middleware:
        return await work()
    first, *rest = middleware
    inner = _Inner(lambda: call_around(rest, call, work))
    call._middleware = first
    try:
        found = await first.function(call, inner)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        is_meant = isinstance(error, (Reject, Fail, A2AError)) or error is inner.error
        if is_meant or first.is_required:
            raise
        log_.exception("middleware %s failed; skill %s goes on", first.name, call.skill)
        return await inner.outcome()
    return inner.value if found is None and inner.is_done else found


class _Inner:
    """What a middleware calls next. What came of it is kept, should the middleware fail."""

    def __init__(self, work: Next) -> None:
        self._work = work
        self._is_begun = False
        self.is_done = False
        self.value: Any = None
        self.error: BaseException | None = None

    async def __call__(self) -> Any:
        if self._is_begun:
            raise RuntimeError("next() was called a second time; a skill is called once")
        self._is_begun = True
        try:
            self.value = await self._work()
        except BaseException as error:
            self.error = error
            raise
        self.is_done = True
        return self.value

    async def outcome(self) -> Any:
        """How the skill ended; called now, if it was not yet."""
        if self.error is not None:
            raise self.error
        return self.value if self._is_begun else await self()


def rewritten(parts: list[Part], rewrites: Sequence[Rewrite]) -> list[Part]:
    """Return parts as middleware wants them to be."""
    for function, by in rewrites:
        try:
            parts = [function(part) for part in parts]
        except (Exception, SystemExit, KeyboardInterrupt):
            if by.is_required:
                raise
            log_.exception("a rewrite of middleware %s failed; the output stays as it is", by.name)
    return parts
