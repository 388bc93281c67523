"""The steps of one run: each is done once, and found again in the run's later lives."""

import asyncio
from collections.abc import Callable
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

_encode = msgspec.json.Encoder(order="deterministic").encode


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
        self.under_way: dict[tuple[str, int, str], bool] = {}  # and whether the log knows of them

    async def do(self, function: Callable[..., Any], args: tuple[Any, ...], name: str, retries: int) -> Any:
        run = self._run
        done = self._new(name or getattr(function, "__name__", type(function).__name__), _fingerprint(args))
        if self._past is not None and (known := await self._find(self._past, done)) is not None:
            return value_of(known, function)
        if run.is_leaving or run.is_over:
            await run.begin_nothing()
        place = (done.name, done.n, done.args)
        self.under_way[place] = False
        try:
            if is_armed:
                point("step.begun")
            if self._is_parallel:
                self._note_begun()
            value = await do_step(done, function, args, retries, run.threads)
            if is_armed:
                point("step.done")
            self._note(done)
            await run.log.stored()  # in the log before anything is built on it
        finally:
            del self.under_way[place]
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
            self._note(step)
            await run.log.stored()
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
        return Step(name, self._count(name), args=args)

    async def _find(self, past: Past, step: Step) -> Step | None:
        """Return the step as an earlier life left it; None if it has to be done."""
        is_in_order = not self._is_parallel and asyncio.current_task(self._run.loop) is self._run.task
        return await self.recall(past, lambda: past.step(step, is_in_order=is_in_order))

    def _count(self, what: str) -> int:
        n = self._calls[what] = self._calls.get(what, 0) + 1
        return n

    def _note(self, step: Step) -> None:
        log = self._run.log
        line, most = v1.encode(step), log.book.limits.task_size
        if log.size + len(line) > most and not step.error:
            line = v1.encode(refuse(step, len(line), most))
        log.note(b"s", line)

    def _note_begun(self) -> None:
        """Log the steps under way beside each other: called first in the next life, they are not new. One after the other
        they always come in their order, and need no line of their own.
        """
        for (name, n, args), is_noted in self.under_way.items():
            if not is_noted:
                self._run.log.note(b"s", v1.encode(Step(name, n, args=args)))
                self.under_way[name, n, args] = True

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
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""
    return f"{crc32(data):08x}{adler32(data):08x}"
