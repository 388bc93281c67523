"""Steps: pieces of a skill's work that are done once and remembered."""

import asyncio
import inspect
import logging
import sys
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import msgspec

from ..skills.schema import Shape
from ..threads import Threads
from .kept import IS_JSON, Unkept, annotation_of, keep, read_back, returned_by

__all__ = ["INSIDE", "Step", "StepFailed", "do_step", "failure", "refuse", "value_of"]

log_ = logging.getLogger("accord")

MOST_SAID = 10_000  # of what a step raised: the text of an exception may be as long as what it is about

_COROUTINE = inspect.CO_COROUTINE
_NAMES = {str: "str", int: "int", float: "float", bool: "bool", types.NoneType: "None"}


class StepFailed(Exception):
    """A step failed for good, now or in an earlier life of the run; says how.

    It is also of the class of what was raised, so that it can be caught as that, in every life; but has nothing of it but the text.
    """


class Step(msgspec.Struct, omit_defaults=True, eq=False):
    """Private log entry: the n-th call of this step began, or ended with a value or an error."""

    name: str
    n: int
    value: Any = msgspec.UNSET
    error: str = ""
    args: str = ""  # what tells it from others of its name
    form: str = ""  # how the value is to be read, see `kept`; empty: by the annotation if there is one, as earlier releases did
    has_tags: bool = False
    kind: str = ""  # the class of what was raised, as `module:name`
    is_beside: bool = False  # nothing tells it apart, and others ran beside it
    is_left: bool = False  # the function stopped waiting for it, as by a timeout
    # What it said while it was done, which does not come up again when it is not done again:
    said: list[str] | None = None  # the artifacts it was part of
    made: int = 0  # how many of them were given a number
    text: str = ""  # which of them has the chunks of the run
    words: int = 0  # of progress

    @property
    def is_done(self) -> bool:
        return self.value is not msgspec.UNSET or bool(self.error) or self.is_left

    def says(self, artifact_id: str, *, is_new: bool, is_chunk: bool) -> None:
        """Remember what is said within it."""
        self.said = self.said or []
        if artifact_id not in self.said:
            self.said.append(artifact_id)
        self.made += is_new
        if is_chunk:
            self.text = artifact_id


INSIDE: ContextVar[tuple[Any, Step] | None] = ContextVar("accord_step", default=None)  # the run and its step that is being done


async def do_step(step: Step, function: Callable[..., Any], args: tuple[Any, ...], retries: int, threads: Threads) -> Any:
    """Call the function, again if it fails, and put into the step what came of it. Return what it gave, as any later life does."""
    for attempt in range(retries + 1):
        try:
            if type(function) is types.FunctionType and function.__code__.co_flags & _COROUTINE:
                value = await function(*args)  # most of them, seen ten times as fast as the next
            elif inspect.iscoroutinefunction(function):
                value = await function(*args)
            else:
                value = await threads.run(lambda: function(*args), f"step {step.name}")
                if type(value) not in _NAMES and inspect.isawaitable(value):
                    value = await value  # as of a lambda that calls an async function
        except Exception as error:
            log_.warning("step %s failed, attempt %d of %d", step.name, attempt + 1, retries + 1, exc_info=True)
            if attempt == retries:
                step.error, step.kind = _said(error), f"{type(error).__module__}:{type(error).__qualname__}"
            else:
                await asyncio.sleep(min(0.1 * 2**attempt, 30))
        else:
            return _put(step, value, function)  # what can't be kept can't be kept next time either: it is not done again
    return None


def failure(step: Step) -> Exception:
    """What a step that has failed raises: the same in every life."""
    kind = _kind(step.kind) if step.kind else None
    if kind is not None:
        try:
            return kind(step.error.partition(": ")[2])
        except Exception:  # made in a way of its own
            log_.debug("step %s raised a %s, which can't be made anew", step.name, step.kind)
    return StepFailed(step.error)


def _kind(name: str) -> type[Exception] | None:
    """The class of what a step raised, as one of ours; None if it is not to be found, or stands for something else when raised."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Exception)) or issubclass(found, (StopIteration, StopAsyncIteration)):
        return None
    if issubclass(found, StepFailed):
        return found

    def init(self: Exception, text: str) -> None:
        self.args = (text,)

    def say(self: Exception) -> str:
        return str(self.args[0])

    members = {"__init__": init, "__str__": say, "__module__": found.__module__, "__qualname__": found.__qualname__}
    return type(found.__name__, (StepFailed, found), members)


def refuse(step: Step, size: int, most: int) -> Step:
    """Make a step with too large a result one that has failed, now and in any later life."""
    _fail(step, f"gave {size} bytes, and its task would hold more than the {most} it may (Limits.task_size)")
    return step


def value_of(step: Step, function: Callable[..., Any]) -> Any:
    """Return what a step gave in an earlier life.

    Raises:
        StepFailed: It ended with an error.
    """
    if step.error:
        raise failure(step)
    if step.form:
        try:
            return read_back(step.value, step.form, step.has_tags, function)
        except Exception as error:  # the classes are the user's
            what = f"step {step.name!r} gave in an earlier life what its annotation {returned_by(function)} does not fit: {error}"
            raise StepFailed(what) from error
    type_ = returned_by(function)
    if type_ is type(step.value) and type_ in _NAMES:
        return step.value
    type_ = annotation_of(function)
    return step.value if type_ is None else Shape(type_).read(step.value, step.name)


def _put(step: Step, value: Any, function: Callable[..., Any]) -> Any:
    try:
        if (
            type(function) is types.FunctionType
            and function.__annotations__.get("return") is type(value) is str
            and value.isascii()
        ):
            step.value = value  # most steps
            return value
    except NameError:  # of the annotation; since Python 3.14 names are looked up only now
        pass
    type_ = returned_by(function)
    if type(value) in _NAMES and type_ in (None, type(value), _NAMES[type(value)]) and IS_JSON[type(value)](value):
        step.value = value
        return value
    try:
        step.value, step.form, step.has_tags, value = keep(value, function)
    except Unkept as error:
        _fail(step, f"gave {error}")
    return value


def _fail(step: Step, what: str) -> None:
    step.value, step.form, step.has_tags = msgspec.UNSET, "", False
    step.error = _clean(f"step {step.name!r} was done, but {what}")
    log_.error("%s", step.error)


def _said(error: Exception) -> str:
    return _clean(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _clean(text: str) -> str:
    """What the log can hold: no endless text, no halves of characters."""
    return text[:MOST_SAID].encode(errors="replace").decode()
