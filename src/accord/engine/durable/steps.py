"""The steps of one run: each is done once, and found again in the run's later lives."""

import asyncio
import dis
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterator
from functools import lru_cache, partial
from pathlib import PurePath
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import adler32, crc32

import msgspec
from msgspec.structs import replace

from ...codec import v1
from ...model import Message, Unavailable
from ...store.failpoints import is_armed, point
from .parked import tasks_of
from .replay import Differs, Past, is_vague
from .step import INSIDE, Step, do_step, failure, refuse, value_of

if TYPE_CHECKING:
    from ..runs.run import Run

__all__ = ["Steps"]

log_ = logging.getLogger("accord")

_NESTED = inspect.CO_NESTED
_NEVER: dict[str, int] = {}
_LOOKS, _LOOK_S = 50, 0.02  # how often and at what distance a replay looks for what is not in its place

T = TypeVar("T")


class Steps:
    """Does what a run is to do once, and notes it before the run goes on.

    A step is known by its name and what it was called with, and among the same ones by their order. Called with something that
    can't be told from one life to the next, it is known by its name and its n-th call.
    """

    __slots__ = ("_calls", "_has_waited", "_others", "_past", "_run", "_stepper", "_vague", "_warned", "is_parallel", "under_way")

    def __init__(self, run: "Run", past: Past | None) -> None:
        self._run = run
        self._past = past
        self._calls: dict[str, int] = {}  # of each step by name, and of each delegation by what it is about
        self._stepper: asyncio.Task[Any] | None = None  # who called the first step
        self._others: set[asyncio.Task[Any] | None]  # who called one too, if anybody did
        self.is_parallel = False  # someone else called one too: in the next life steps may come in another order
        self.under_way: dict[Step, bool] = {}  # and whether the log knows of them
        self._vague = _NEVER  # how often it was looked what runs beside a step that nothing tells apart
        self._warned: frozenset[str] = frozenset()
        self._has_waited = False

    def do(self, function: Callable[..., Any], args: tuple[Any, ...], name: str, retries: int) -> Coroutine[Any, Any, Any]:
        """Do a step, or find it again. It has its number from here: what is called in order may be waited for in any."""
        name = name or getattr(function, "__name__", "") or type(function).__name__
        run = self._run
        if (inside := INSIDE.get()) is not None and inside[0] is run:
            return self._within(function, args, name, retries)
        task = asyncio.current_task(run.loop)
        done = self._new(name, _fingerprint(function, args), task)
        if task is not run.task and is_vague(done.args):
            done.is_beside = self._has_others(name, task)
        if self._past is None:
            return self._do(done, function, args, retries)
        return self._find_or_do(self._past, done, function, args, retries, is_main=task is run.task and not self.is_parallel)

    async def _find_or_do(
        self, past: Past, done: Step, function: Callable[..., Any], args: tuple[Any, ...], retries: int, *, is_main: bool
    ) -> Any:
        known = await self._find(past, done, is_main=is_main)
        return await self._do(done, function, args, retries) if known is None else value_of(known, function)

    async def _do(self, done: Step, function: Callable[..., Any], args: tuple[Any, ...], retries: int) -> Any:
        run = self._run
        if run.is_leaving or run.is_over:
            await run.begin_nothing()
        self.under_way[done] = False
        token = INSIDE.set((run, done))
        try:
            if is_armed:
                point("step.begun")
            if self.is_parallel or len(self.under_way) > 1:
                self._note_begun()
            value = await do_step(done, function, args, retries, run.threads)
            if is_armed:
                point("step.done")
            await run.log.noted(self._line(done))  # in the log before anything is built on it
        except asyncio.CancelledError:
            self._leave(done)
            raise
        except Unavailable:  # it could not be stored: another life does it again
            await run.begin_nothing()
            raise
        finally:
            INSIDE.reset(token)
            del self.under_way[done]
            if run.is_leaving:
                run.step_ended()
        if is_armed:
            point("step.stored")
        if run.is_over:
            await run.begin_nothing()
        if done.error:
            raise failure(done)
        return value

    @property
    def are_over(self) -> bool:
        """Now that the function has returned: of those who did steps beside each other, nobody is left who may do more."""
        return all(task is None or task is self._run.task or task.done() for task in {self._stepper, *self._others})

    async def _within(self, function: Callable[..., Any], args: tuple[Any, ...], name: str, retries: int) -> Any:
        """A step within a step is a part of that: done with it, again with it, and not known on its own."""
        part = Step(name, 0)
        value = await do_step(part, function, args, retries, self._run.threads)
        if part.error:
            raise failure(part)
        return value

    def _leave(self, step: Step) -> None:
        """The function has stopped waiting for a step. It does so again in a later life, whatever came of the step."""
        run = self._run
        if not (run.is_over or run.is_leaving or run.is_canceled):
            run.log.note(b"s", v1.encode(Step(step.name, step.n, args=step.args, is_left=True)))

    async def delegate(self, agent: Any, message: Any) -> Any:
        """Have another agent do something, once: a finished delegation is found again as a step is."""
        run = self._run
        if isinstance(message, Message):  # its id is another in every life; our own task is none of the other agent's
            message = replace(message, task_id="" if message.task_id == run.log.task.id else message.task_id)
            about = _fingerprint(None, (_name_of(agent), replace(message, message_id="")))
        else:
            about = _fingerprint(None, (_name_of(agent), message))
        task = asyncio.current_task(run.loop)
        step = self._new("delegate", f"{about}/{self._count(about)}", task)  # a name of its own, which the other agent knows
        is_main = task is run.task and not self.is_parallel
        known = await self._find(self._past, step, is_main=is_main) if self._past is not None else None
        if known is None:
            if run.is_leaving or run.is_over:
                await run.begin_nothing()
            token = INSIDE.set((run, step))
            try:
                step.value = await run.delegates.ask(run, agent, message, f"{run.log.task.id}/{step.args}")
            except asyncio.CancelledError:
                self._leave(step)
                raise
            finally:
                INSIDE.reset(token)
            if run.is_over:
                await run.begin_nothing()
            await run.log.noted(self._line(step))
            known = step
        if known.error:
            raise failure(known)
        return run.delegates.reply(agent, known.value)

    def _new(self, name: str, args: str, task: asyncio.Task[Any] | None) -> Step:
        """A step that is called now."""
        if self._stepper is not task:
            if self._stepper is None:
                self._stepper = task
            elif self.is_parallel:
                self._others.add(task)
            else:
                self.is_parallel, self._others = True, {task}
        n = self._calls[name] = self._calls.get(name, 0) + 1
        return Step(name, n, args=args)

    def _has_others(self, name: str, task: asyncio.Task[Any] | None) -> bool:
        """Whether others run beside this task of a run: then a step that nothing tells apart may come in another order."""
        if self._vague.get(name, 0) >= _LOOKS:
            return False  # called again and again, and never was there anything else: looking costs all tasks there are
        self._vague = {**self._vague, name: self._vague.get(name, 0) + 1}
        if not tasks_of(self._run) - {task, self._run.task}:
            return False
        if self._calls[name] > 1 and name not in self._warned:
            self._warned |= {name}
            log_.warning(
                "skill %s does step %r beside other work, and nothing tells it apart after a restart: its task might fail there; "
                "give each its own name: ctx.step(..., name=...)",
                self._run.skill.id,
                name,
            )
        return True

    async def _find(self, past: Past, step: Step, *, is_main: bool) -> Step | None:
        """Return the step as an earlier life left it; None if it has to be done."""
        run = self._run
        known = await self.recall(past, lambda: past.step(step, is_main=is_main))
        if known is not None:
            run.skip(known)
            if known.is_left:
                await run.loop.create_future()  # the function stopped waiting for it, and does so again
        return known

    def _count(self, what: str) -> int:
        n = self._calls[what] = self._calls.get(what, 0) + 1
        return n

    def _line(self, step: Step) -> bytes:
        """What the log is told of a step that has ended. One that gave too much has failed."""
        log = self._run.log
        data, most = v1.encode(step), log.book.limits.task_size
        if log.size + len(data) > most and not step.error:
            data = v1.encode(refuse(step, len(data), most))
        return b"s" + data

    def _note_begun(self) -> None:
        """Log the steps under way beside each other: called first in the next life, they are not new. One after the other
        they always come in their order, and need no line of their own.
        """
        for step, is_noted in self.under_way.items():
            if not is_noted:
                self._run.log.note(b"s", v1.encode(Step(step.name, step.n, args=step.args, is_beside=step.is_beside)))
                self.under_way[step] = True

    async def recall(self, past: Past, look: Callable[[], T | None]) -> T | None:
        """Look something up in the record. If it is new, what runs beside it may only be on its way to what was done before:
        it gets a while, for as long as it gets on. Where things were done beside each other that can't show that the function has
        changed: what it leaves out is seen at its end.
        """
        left, looks = past.left, 0
        while True:
            try:
                return look()
            except Differs as error:
                if past.left < left:
                    left, looks = past.left, 0
                if looks == _LOOKS or self._has_waited or error.is_certain:
                    if not past.is_parallel or error.is_certain:
                        self._run.differs = error
                        raise
                    self._has_waited = True
                    return None
                looks += 1
                await asyncio.sleep(_LOOK_S)


def _name_of(agent: Any) -> str:
    return agent if isinstance(agent, str) else getattr(agent, "name", "")


def _fingerprint(function: Any, args: tuple[Any, ...]) -> str:
    """What tells calls with different arguments apart, in every life alike. Ends in `?` if there is more that can't be told."""
    bound: list[Any] = []
    if type(function) is not FunctionType or (not args and function.__code__.co_flags & _NESTED):
        bound = list(_bound(function, is_alone=not args))
    if not args and not bound:
        return "-"
    vague = ""
    try:
        data = _encode((args, bound) if bound else args)
    except Exception:  # some are of classes of the user's, which may raise anything
        data, vague = b",".join(filter(None, map(_one, (*args, *bound)))), "?"
    return (crc32(data) << 32 | adler32(data)).to_bytes(8).hex() + vague


def _one(value: Any) -> bytes:
    try:
        return _encode(value)
    except Exception:
        return b""


def _bound(function: Any, *, is_alone: bool) -> Iterator[Any]:
    """What a function carries along beside its arguments: those of a partial, the object of a method, or what it was made with.

    Of variables around it only plain values count, and of an object that is no JSON its texts, if there is nothing else: what can
    be changed, or called, is what a function works with and not what it is about.
    """
    if isinstance(function, partial):
        yield from (function.args, function.keywords)
        if isinstance(function.func, MethodType):
            yield function.func.__self__
    elif isinstance(function, MethodType):
        own = function.__self__
        texts = {key: text for key, text in getattr(own, "__dict__", {}).items() if isinstance(text, str)} if is_alone else {}
        yield own if not texts or _one(own) else [type(own).__qualname__, texts]
    elif isinstance(function, FunctionType):
        around = [cell.cell_contents for cell in function.__closure__ or () if cell != _UNSET]
        written = _written(function.__code__) if function.__name__ == "<lambda>" else ()
        yield from (value for value in (*(function.__defaults__ or ()), *around, *written) if isinstance(value, _PLAIN))


_UNSET = CellType()
_PLAIN = (str, int, float, bytes)


@lru_cache(1024)
def _written(code: CodeType) -> tuple[Any, ...]:
    """What is written in a lambda. A task may be taken up by another Python, and each has its own places for that."""
    values = (value for value in _constants(code) if isinstance(value, _PLAIN))
    return tuple({(type(value), value): value for value in values if value or isinstance(value, (int, float))}.values())


def _constants(code: CodeType) -> Iterator[Any]:
    """Constants in the order they are used, with those of comprehensions: since Python 3.12 these are no functions of their own.

    Formatting leaves empty texts among them, or not.
    """
    loops: list[CodeType] = []  # made, and called once it is known what they go through
    for instruction in dis.get_instructions(code):
        value = instruction.argval
        if instruction.opcode in dis.hasconst:  # not all are in `co_consts`: since Python 3.14 small numbers are in the instruction
            if not isinstance(value, CodeType):
                yield value
            elif value.co_name in _LOOPS:
                loops.append(value)
        elif instruction.opname == "GET_ITER" and loops and (loop := loops.pop()).co_name != "<genexpr>":
            yield from _constants(loop)


_LOOPS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def _told(value: Any) -> Any:
    """What tells a value from others that the encoder does not know. Raises TypeError if that is only where it lies in memory."""
    type_: Any = type(value)
    if hasattr(type_, "model_dump"):  # of pydantic, which may not be installed; sets stay sets here, and are put in order later
        return {type_.__qualname__: value.model_dump(by_alias=False, round_trip=True, warnings=False)}
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    is_text = isinstance(value, PurePath) or (type_.__module__.startswith("pydantic") and type_.__str__ is not object.__str__)
    if not is_text:
        raise TypeError
    return str(value)  # an address; a secret shows nothing, and is then told by its order


_encode = msgspec.json.Encoder(order="deterministic", enc_hook=_told).encode
