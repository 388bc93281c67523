"""An event loop without a clock or a network: time passes when nothing else happens.

Every callback belongs to a machine, which is known from its context. The callbacks of one machine
run in the order asyncio promises; which machine runs next is drawn from a seed. A machine can be
paused, as SIGSTOP does, or killed: then nothing of it ever runs again.
"""

# mypy: disable-error-code="override"
# A loop of few methods, with looser types.

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from unittest import mock

__all__ = ["Machine", "SimulatedLoop"]

_MACHINE: contextvars.ContextVar["Machine"] = contextvars.ContextVar("machine")
_EPOCH_S = 1_800_000_000.0


class Machine:
    """Where callbacks run: a process with a clock of its own."""

    def __init__(self, name: str, skew_s: float = 0.0) -> None:
        self.name = name
        self.skew_s = skew_s
        self.is_paused = False
        self.is_dead = False
        self.ready: deque[_Handle] = deque()
        self.context = contextvars.copy_context()
        self.context.run(_MACHINE.set, self)

    def __repr__(self) -> str:
        return self.name


class _Handle:
    """What asyncio needs of a handle: to be cancelled."""

    __slots__ = ("_args", "_callback", "_is_cancelled", "context", "machine")

    def __init__(
        self, callback: Callable[..., Any], args: Any, context: contextvars.Context | None
    ) -> None:
        self._callback = callback
        self._args = args
        self._is_cancelled = False
        self.context = context if context is not None else contextvars.copy_context()
        self.machine = self.context[_MACHINE]

    def cancel(self) -> None:
        self._is_cancelled = True

    def cancelled(self) -> bool:
        return self._is_cancelled

    def run(self) -> None:
        if not self._is_cancelled:
            self.context.run(self._callback, *self._args)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs the callbacks of several machines in an order that the seed decides."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.machines: list[Machine] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.turns = 0
        self._now_s = 0.0
        self._timers: list[tuple[float, int, _Handle]] = []
        self._count = itertools.count()
        self._waiting: list[Machine] = []  # with callbacks that may run

    def machine(self, name: str, skew_s: float = 0.0) -> Machine:
        made = Machine(name, skew_s)
        self.machines.append(made)
        return made

    # What asyncio calls

    def time(self) -> float:
        return self._now_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.append(task)
        if len(self.tasks) > 1000:
            self.tasks = [task for task in self.tasks if not task.done()]
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Call it at once: there are no threads here."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        handle = _Handle(callback, args, context)
        self._make_ready(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        handle = _Handle(callback, args, context)
        heapq.heappush(self._timers, (when, next(self._count), handle))
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A future whose exception nobody looked at: whoever would have, was killed."""

    # Running

    def _make_ready(self, handle: _Handle) -> None:
        machine = handle.machine
        machine.ready.append(handle)
        if len(machine.ready) == 1 and not machine.is_paused and not machine.is_dead:
            self._waiting.append(machine)

    def pause(self, machine: Machine) -> None:
        machine.is_paused = True
        if machine in self._waiting:
            self._waiting.remove(machine)

    def resume(self, machine: Machine) -> None:
        machine.is_paused = False
        if machine.ready and not machine.is_dead and machine not in self._waiting:
            self._waiting.append(machine)

    def kill(self, machine: Machine) -> None:
        self.pause(machine)
        machine.is_dead = True

    def run(self, main: Coroutine[Any, Any, Any], machine: Machine, patience_s: float) -> Any:
        """Run until a coroutine of this machine has ended. Raises TimeoutError after so many
        seconds of simulated time.
        """
        asyncio.events._set_running_loop(self)
        until_s = self._now_s + patience_s
        try:
            with self._clocks():
                task = machine.context.run(self.create_task, main, context=machine.context)
                while not task.done():
                    if self._now_s > until_s:
                        raise TimeoutError(f"not over after {patience_s:g} simulated seconds")
                    self._turn()
                return task.result()
        finally:
            asyncio.events._set_running_loop(None)

    def end(self) -> None:
        """Let everything that is left end: nothing is torn apart by the garbage collector in the
        middle of another test.
        """
        asyncio.events._set_running_loop(self)
        try:
            with self._clocks():
                for machine in self.machines:
                    machine.is_dead = False
                    self.resume(machine)
                for _ in range(20):
                    left = [task for task in self.tasks if not task.done()]
                    if not left:
                        return
                    for task in left:
                        task.cancel()
                    until_s = self._now_s + 10
                    while (self._waiting or self._timers) and self._now_s < until_s:
                        self._turn()
        finally:
            asyncio.events._set_running_loop(None)

    def _turn(self) -> None:
        """Run one callback, or let time pass to the next."""
        if self._waiting:
            self.turns += 1
            i = self.random.randrange(len(self._waiting)) if len(self._waiting) > 1 else 0
            machine = self._waiting[i]
            handle = machine.ready.popleft()
            if not machine.ready:
                self._waiting[i] = self._waiting[-1]
                self._waiting.pop()
            handle.run()
            return
        if not self._timers:
            raise RuntimeError("nothing will ever happen again")
        self._now_s = max(self._timers[0][0], self._now_s)
        while self._timers and self._timers[0][0] <= self._now_s:
            handle = heapq.heappop(self._timers)[2]
            if not handle.cancelled():
                self._make_ready(handle)

    @contextlib.contextmanager
    def _clocks(self) -> Iterator[None]:
        """Time is the loop's; what a clock on the wall says is a matter of the machine."""

        def wall_s() -> float:
            machine = _MACHINE.get(None)
            return _EPOCH_S + self._now_s + (machine.skew_s if machine is not None else 0.0)

        def wall_ns() -> int:
            return int(wall_s() * 1e9)

        with (
            mock.patch.object(time, "monotonic", self.time),
            mock.patch.object(time, "time", wall_s),
            mock.patch.object(time, "time_ns", wall_ns),
        ):
            yield
