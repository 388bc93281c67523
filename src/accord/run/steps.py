"""The steps of one run: each is done once, and found again in the run's later lives."""

import asyncio
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import adler32, crc32

import msgspec

from ..codec import v1
from ..store.failpoints import is_armed, point
from .replay import Differs, Past
from .step import Step, StepFailed, do_step, refuse, value_of

if TYPE_CHECKING:
    from .runner import Run

__all__ = ["Steps"]

_LOOKS, _LOOK_S = 50, 0.02  # how often and at what distance a replay looks for what is not in its place

T = TypeVar("T")


class Steps:
    """Does what a run is to do once, and notes it before the run goes on.

    A step is known by its name and what it was called with, and among the same ones by their order. Called with something that
    can't be told from one life to the next, it is known by its name and its n-th call.
    """

    def __init__(self, run: "Run", past: Past | None) -> None:
        self._run = run
        self._past = past
        self._calls: dict[str, int] = {}  # of each step by name, and of each delegation by what it is about
        self._stepper: asyncio.Task[Any] | None = None  # who called the first step
        self._is_parallel = False  # someone else called one too: in the next life steps may come in another order
        self.under_way: dict[Step, bool] = {}  # and whether the log knows of them

    async def do(self, function: Callable[..., Any], args: tuple[Any, ...], name: str, retries: int) -> Any:
        run = self._run
        done = self._new(name or getattr(function, "__name__", "") or type(function).__name__, _fingerprint(args))
        if self._past is not None and (known := await self._find(self._past, done)) is not None:
            return value_of(known, function)
        if run.is_leaving or run.is_over:
            await run.begin_nothing()
        self.under_way[done] = False
        try:
            if is_armed:
                point("step.begun")
            if self._is_parallel:
                self._note_begun()
            value = await do_step(done, function, args, retries, run.threads)
            if is_armed:
                point("step.done")
            await run.log.noted(self._line(done))  # in the log before anything is built on it
        finally:
            del self.under_way[done]
            if run.is_leaving:
                run.step_ended()
        if is_armed:
            point("step.stored")
        if run.is_over:
            await run.begin_nothing()
        if done.error:
            raise StepFailed(done.error)
        return value

    async def delegate(self, agent: Any, message: Any) -> Any:
        """Have another agent do something, once: a finished delegation is found again as a step is."""
        run = self._run
        about = _fingerprint((agent if isinstance(agent, str) else getattr(agent, "name", ""), message))
        step = self._new("delegate", f"{about}/{self._count(about)}")  # a name of its own, which the other agent knows
        known = await self._find(self._past, step) if self._past is not None else None
        if known is None:
            if run.is_leaving or run.is_over:
                await run.begin_nothing()
            step.value = await run.delegates.ask(run, agent, message, f"{run.log.task.id}/{step.args}")
            if run.is_over:
                await run.begin_nothing()
            await run.log.noted(self._line(step))
            known = step
        if known.error:
            raise StepFailed(known.error)
        return run.delegates.reply(agent, known.value)

    def _new(self, name: str, args: str) -> Step:
        """A step that is called now."""
        task = asyncio.current_task(self._run.loop)
        if self._stepper is not task:
            self._is_parallel = self._stepper is not None
            self._stepper = self._stepper or task
        n = self._calls[name] = self._calls.get(name, 0) + 1
        return Step(name, n, args=args)

    async def _find(self, past: Past, step: Step) -> Step | None:
        """Return the step as an earlier life left it; None if it has to be done."""
        is_in_order = not self._is_parallel and asyncio.current_task(self._run.loop) is self._run.task
        return await self.recall(past, lambda: past.step(step, is_in_order=is_in_order))

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
                self._run.log.note(b"s", v1.encode(Step(step.name, step.n, args=step.args)))
                self.under_way[step] = True

    async def recall(self, past: Past, look: Callable[[], T]) -> T:
        """Look something up in the record. If it is new, what runs beside it may only be on its way to what was done before:
        it gets a while, for as long as it gets on.
        """
        left, looks = past.left, 0
        while True:
            try:
                return look()
            except Differs:
                if past.left < left:
                    left, looks = past.left, 0
                if looks == _LOOKS:
                    raise
                looks += 1
                await asyncio.sleep(_LOOK_S)


def _fingerprint(args: tuple[Any, ...]) -> str:
    """What tells calls with different arguments apart, in every life alike; empty if these have no such thing."""
    if not args:
        return "-"
    try:
        data = _encode(args)
    except Exception:  # some are of classes of the user's, which may raise anything
        return ""
    return (crc32(data) << 32 | adler32(data)).to_bytes(8).hex()


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
