"""The store under test, with a way to have its process die, and items for it."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, NamedTuple, Protocol

from ...store import Append, Create, Idempotency, Leaves, Namespace, Post, PostKind, Query, Store

__all__ = [
    "AUTH_REQUIRED",
    "CANCELED",
    "CHECKS",
    "COMPLETED",
    "FAILED",
    "HOUR_MS",
    "INPUT_REQUIRED",
    "ME",
    "OTHER",
    "REJECTED",
    "SUBMITTED",
    "WORKING",
    "Box",
    "Processes",
    "StoreCheck",
    "check",
    "checks_with",
    "key",
    "opened",
    "raises",
]

SUBMITTED, WORKING, COMPLETED, FAILED, CANCELED, INPUT_REQUIRED, REJECTED, AUTH_REQUIRED = range(
    1, 9
)
HOUR_MS = 3_600_000
A_MOMENT_MS = 60_000
ME, OTHER = Namespace("agent", "", "me"), Namespace("agent", "", "other")


class Processes(Protocol):
    """How the kit gets processes that use one and the same empty place."""

    is_shared: bool  # several may use it at once: else the checks that need a second are skipped

    def make(self) -> Store:
        """Return a store on that place, not yet open."""
        ...

    async def kill(self, store: Store) -> None:
        """Have the process of this store die where it stands: it says nothing more, and from now
        on the others know that it is dead. The kit still calls it, to see that it is fenced.
        """
        ...

    def outage(self, store: Store) -> AbstractAsyncContextManager[None] | None:
        """Return a block in which the place can't be read or written, and this process stays alive;
        None if that can't happen to it, as to a place in memory.
        """
        ...

    async def close(self) -> None:
        """Give back what the place and its dead hold. Every living store was closed before."""
        ...


class Box:
    """A store; after a crash, the same tasks as the next process finds them."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.store: Any = processes.make()
        self.woken: list[Collection[int]] = []
        self._others: list[Store] = []
        self._numbers = itertools.count(1)

    async def open(self) -> None:
        await self.store.open(self._wake)

    def _wake(self, tasks: Collection[int] | None) -> None:
        if tasks is not None:  # for all: any time, for any reason
            self.woken.append(tasks)

    @property
    def is_shared(self) -> bool:
        """Several processes may use it, so that a check can have a second."""
        return self.processes.is_shared

    async def another(self, wake: Any = lambda tasks: None) -> Any:
        """Another process on the same tasks."""
        other = self.processes.make()
        await other.open(wake)
        self._others.append(other)
        return other

    def key(self) -> int:
        """A new key, made as the engine makes them."""
        return int(self.store.replica) << 32 | next(self._numbers)

    async def crash(self) -> Any:
        """Have the process die where it stands, and the next one start. Returns the dead one's
        store.
        """
        dead, self.store = self.store, self.processes.make()
        await self.processes.kill(dead)
        await self.open()
        return dead

    def outage(self) -> AbstractAsyncContextManager[None] | None:
        """A block in which the place is away; None if it never is."""
        return self.processes.outage(self.store)

    async def restart(self) -> None:
        """Stop in good order, and start again."""
        await self.store.close()
        self.store = self.processes.make()
        await self.open()

    async def close(self) -> None:
        await self.store.close()
        for other in self._others:
            await other.close()
        await self.processes.close()

    # Time

    def age(self, at_ms: int) -> int:
        """How old something of that time is now, in milliseconds."""
        return int(self.store.now_ms()) - at_ms

    def is_now(self, at_ms: int) -> bool:
        """Whether that is the time of a moment ago, by the store's clock."""
        return abs(self.age(at_ms)) < A_MOMENT_MS

    async def later(self, ms: int = 20) -> None:
        """Return when so much time has passed for the store."""
        await self.store.clock.sleep_until(self.store.now_ms() + ms)

    # Items, with what a check does not care about filled in

    def create(self, id: str = "t1", **more: Any) -> Create:
        state = more.pop("state", WORKING)
        is_ended = state in (COMPLETED, FAILED, CANCELED, REJECTED)
        usual: dict[str, Any] = {
            "key": self.key(),
            "namespace": ME,
            "id": id,
            "context_id": more.pop("context", "c1"),
            "skill": "echo",
            "about": b"{}",
            "state": state,
            "at_ms": more.pop("at", 1_000),
            "pos": 1,
            "seq": 1,
            "format": 1,
            "data": b"c{}",
            "leaves": Leaves.END if is_ended else Leaves.STAY,
            "head": b"{}" if is_ended else None,
            "artifacts": b"[]" if is_ended else b"",
        }
        return Create(**(usual | more))

    def append(self, after: Create | Append, **more: Any) -> Append:
        state = more.pop("state", after.state)
        usual: dict[str, Any] = {
            "key": after.key,
            "namespace": after.namespace,
            "before": after.pos,
            "pos": after.pos + 1,
            "seq": after.seq + 1,
            "was": after.state,
            "state": state,
            "at_ms": more.pop("at", after.at_ms),
            "format": 1,
            "data": b"w%d" % (after.pos + 1),
        }
        return Append(**(usual | more))

    def post(self, task: int, **more: Any) -> Post:
        usual: dict[str, Any] = {"task": task, "id": self.key(), "kind": PostKind.MESSAGE}
        usual["body"] = b"hello"
        return Post(**(usual | more))

    async def commit(self, *items: Any) -> list[bool]:
        stored: list[bool] = await self.store.commit(items)
        return stored

    async def ids(self, **more: Any) -> list[str]:
        """The ids of a whole list, page by page."""
        found, before = list[str](), None
        while True:
            usual: dict[str, Any] = {"namespace": ME, "limit": 50, "before": before}
            page = await self.store.page(Query(**(usual | more)))
            found += [record.id for record in page.tasks]
            before = page.next
            if before is None:
                return found


def key(name: str, **more: Any) -> Idempotency:
    """An idempotency key."""
    usual: dict[str, Any] = {"namespace": ME, "key": name, "digest": b"d"}
    return Idempotency(**(usual | more))


@asynccontextmanager
async def opened(processes: Processes) -> AsyncIterator[Box]:
    """An open store in a box, closed at the end of the block."""
    box = Box(processes)
    await box.open()
    try:
        yield box
    finally:
        await box.close()


@contextmanager
def raises(error: type[Exception]) -> Iterator[None]:
    """Fail if the block does not raise this error."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


class StoreCheck(NamedTuple):
    """One promise of the contract: `run` raises AssertionError if a store does not keep it."""

    name: str
    run: Callable[[Box], Awaitable[None]]


CHECKS: list[StoreCheck] = []

Function = Callable[..., Awaitable[None]]


def check(function: Function) -> Function:
    """Make a function a check of the kit."""
    CHECKS.append(StoreCheck(function.__name__, function))
    return function


def checks_with(name: str, values: Sequence[Any]) -> Callable[[Function], Function]:
    """Make a function several checks, each with another value of one of its parameters."""

    def add(function: Function) -> Function:
        for value in values:

            async def run(box: Box, value: Any = value) -> None:
                await function(box, **{name: value})

            CHECKS.append(StoreCheck(f"{function.__name__}-{value}", run))
        return function

    return add
