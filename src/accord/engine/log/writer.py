"""The group-commit writer: whatever has gathered in all logs is stored by one commit, again and
again.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ...model import A2AError, Limits, Unavailable
from ...store import (
    Append,
    CommitFailed,
    Create,
    Fenced,
    Idempotency,
    Item,
    Post,
    Store,
    is_armed,
    point,
)

if TYPE_CHECKING:
    from ...observe import Metrics
    from .entries import Event
    from .log import StoredBatch

__all__ = ["Lost", "Writer", "not_stored"]

log_ = logging.getLogger("accord")

OUTAGE_S = 10.0  # an outage of the store: after that, who waits is told, and nothing new is taken
RETRY_S, LONGEST_RETRY_S = 0.02, 1.0
TURNS = 4  # of the loop that a commit waits for more to come along, while it does
_COUNT_BITS = 32


def not_stored() -> Unavailable:
    return Unavailable(
        "the server can't store anything right now, and whether this was stored is not known yet; "
        "get the task by its id, or send again with the same idempotency key",
        retry_after_s=5,
    )


class Lost(Unavailable):
    """Another process goes on with a task."""

    def __init__(self) -> None:
        super().__init__(
            "another process has taken over this task; try again in a moment", retry_after_s=1
        )


class WentBack(Unavailable):
    """The store has lost what it had stored last of a task, with a failover for example."""

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"the store went back to an earlier state, and lost what it had stored last of task "
            f"{task_id}; get the task, or send the message again",
            retry_after_s=1,
            taskId=task_id,
        )


class Writable(Protocol):
    """A log, as far as the writer knows it."""

    @property
    def is_lost(self) -> bool: ...
    def take(self) -> Create | Append: ...
    def publish(self) -> "StoredBatch | None": ...
    def fail(self, error: A2AError) -> None: ...
    def lose(self, error: A2AError | None = None) -> None: ...


class Writer:
    """Stores what logs hand over, and then tells them so.

    What happens on the loop in one turn, to however many tasks, is one commit. While the store
    fails nothing is given up: the same commit is tried again until it works, and runs are held
    meanwhile.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.fault = ""  # what the store said when it began to fail; empty while it works
        self.summary = ""  # the same for anybody, as far as the store could say
        self.is_failing = False  # a commit has failed, and is being tried again
        self.is_fenced = False  # this replica was taken for dead, and has no new number yet
        self.is_closing = False
        self.on_fenced: Callable[[], None] = lambda: None
        self.on_rejoined: Callable[[], None] = lambda: None
        # Called with a log that was refused, or is another process's.
        self.on_lost: Callable[[Any], None] = lambda log: None
        # Called with a log and what of it is stored now.
        self.on_stored: Callable[[Any, StoredBatch], None] = lambda log, batch: None
        self.on_outage: Callable[[], None] = lambda: None  # called with every try after PATIENCE_S
        self.metrics: Metrics | None = None
        # called with a log and what of it is stored now; None: nobody wants to know
        self.on_events: Callable[[Any, list[Event]], None] | None = None
        self._queued_s = 0.0  # since when the oldest entry waits; only for metrics
        self._failed_s = 0.0
        self._logs: list[Writable] = []
        self._items: list[tuple[Post | Idempotency, asyncio.Future[bool]]] = []
        self._keys = 0
        self._wake: asyncio.Future[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._rejoining: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._writing = self.loop.create_task(self._write(), name="accord-writer")

    async def close(self) -> None:
        """Store what has gathered, then stop."""
        self.is_closing = True
        self._stir()
        if self._writing is not None:
            await self._writing
        if self._rejoining is not None:
            self._rejoining.cancel()
            await asyncio.wait({self._rejoining})

    def new_key(self) -> int:
        """Return a number no task and no post has had: our own, and a count."""
        self._keys += 1
        return self.store.replica << _COUNT_BITS | self._keys

    @property
    def outage_s(self) -> float:
        """How long the store has been failing."""
        return time.monotonic() - self._failed_s if self.fault else 0.0

    @property
    def is_out(self) -> bool:
        """Whether the store has been failing for so long that nobody is to wait for it."""
        return self.outage_s >= OUTAGE_S

    # What is to be stored

    def add(self, log: Writable) -> None:
        """This log has something to store. It is not added again before that was taken."""
        if self.metrics is not None and not self._logs:
            self._queued_s = time.monotonic()
        self._logs.append(log)
        self._stir()

    def submit(self, item: Post | Idempotency) -> asyncio.Future[bool]:
        """Store something beside the logs; gives whether it was accepted."""
        stored: asyncio.Future[bool] = self.loop.create_future()
        self._items.append((item, stored))
        self._stir()
        return stored

    def _stir(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # Storing it

    async def _write(self) -> None:
        while True:
            if not self._logs and not self._items:
                if self.is_closing:
                    return
                self._wake = self.loop.create_future()
                await self._wake
            logs = await self._gather()
            items, self._items = self._items, []
            logs, batch = self._taken(logs)
            batch += [item for item, _ in items]
            queued_s, begun_s = self._queued_s, time.monotonic()
            try:
                stored = await self._commit(batch, logs, [waiter for _, waiter in items])
                if self.metrics is not None:
                    took_s = time.monotonic() - begun_s
                    self.metrics.committed(len(batch), max(begun_s - queued_s, 0.0), took_s)
            except CommitFailed:
                error = not_stored()
                for log in logs:
                    log.lose(error)
                for _, waiter in items:
                    if not waiter.done():
                        waiter.set_exception(error)
                continue
            for log, is_stored in zip(logs, stored, strict=False):
                try:
                    if not is_stored:
                        log.lose()
                    elif (published := log.publish()) is not None:
                        if published.events and self.on_events is not None:
                            self.on_events(log, published.events)
                        self.on_stored(log, published)
                except Exception:  # whatever it is, it must not keep others from being told
                    log_.exception("a commit was stored, but publishing it failed")
            for (_, waiter), is_stored in zip(items, stored[len(logs) :], strict=True):
                if not waiter.done():
                    waiter.set_result(is_stored)
            if is_armed:
                point("publish.after")

    def _taken(self, logs: list[Writable]) -> tuple[list[Writable], list[Item]]:
        """What the logs hand over. One that can't be written is given up, lest it stop the
        others.
        """
        taken: list[Writable] = []
        batch: list[Item] = []
        for log in logs:
            if log.is_lost:
                continue  # while it waited here: it has nothing to store any more
            try:
                batch.append(log.take())
                taken.append(log)
            except Exception:
                log_.exception("a task can't be written and is dropped")
                log.lose()
        return taken, batch

    async def _gather(self) -> list[Writable]:
        """What has come, and what comes in the next turns of the loop: fewer commits, each
        of more.
        """
        logs, self._logs = self._logs, []
        await asyncio.sleep(
            0
            # a run that was started with these entries may end in this turn: then one commit holds
            # it all
        )
        for _ in range(TURNS):
            if not self._logs:
                break
            logs += self._logs
            self._logs = []
            await asyncio.sleep(0)
        return logs

    async def _store(self, batch: list[Item]) -> list[bool]:
        """One try. Whatever a store raises, the next batch must be written."""
        try:
            return await self.store.commit(batch)
        except CommitFailed:
            raise
        except Exception as error:
            log_.exception("a store failed in a way it should not")
            raise CommitFailed(str(error) or type(error).__name__) from error

    async def _commit(
        self, batch: list[Item], logs: list[Writable], waiters: list[asyncio.Future[bool]]
    ) -> list[bool]:
        """Store a batch, however long that takes; only a process that stops gives up.

        Raises:
            CommitFailed: This replica was fenced, or stops and can't store it.
        """
        pause_s = RETRY_S
        replica = self.store.replica
        while True:
            try:
                stored = await self._store(batch)
            except CommitFailed as error:
                self.fails(error)
                # Under a new number the tasks of this batch are not ours any more, or ours anew.
                is_other = self.store.replica != replica
                if self.is_fenced or self.is_closing or is_other:
                    self.is_failing = False
                    raise
                self.is_failing = True
            else:
                if self.fault:
                    self._works()
                return stored
            if self.is_out:
                for log in (*logs, *self._logs):
                    log.fail(not_stored())
                for waiter in (*waiters, *(waiter for _, waiter in self._items)):
                    if not waiter.done():
                        waiter.set_exception(not_stored())
                self.on_outage()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_RETRY_S)

    # How the store does

    def fails(self, error: CommitFailed) -> None:
        """The store has not taken something. Said once for each outage."""
        if isinstance(error, Fenced) and not self.is_fenced:
            self.is_fenced = True
            if self.store.is_shared:
                log_.error("%s: others go on with its tasks, and it takes a new number", error)
            else:
                log_.critical(
                    "%s: this process can store nothing any more and takes no work; stop it",
                    error,
                )
            self.on_fenced()
            if self.store.is_shared and not self.is_closing:
                self._rejoining = self.loop.create_task(self._rejoin(), name="accord-rejoin")
        if not self.fault:
            self.fault, self._failed_s = str(error) or type(error).__name__, time.monotonic()
            self.summary = error.summary
            if not self.is_fenced:
                log_.error("the store can't be written; trying again: %s", error)

    async def _rejoin(self) -> None:
        """Take a new number, however long that takes, and go on."""
        pause_s = RETRY_S
        while True:
            try:
                await self.store.rejoin()
                break
            except Exception as error:  # whatever it is: without a number nothing works here
                if pause_s == RETRY_S:  # once for each outage
                    log_.warning("taking a new number failed, and is tried again: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_RETRY_S)
        log_.warning("this replica has number %d now", self.store.replica)
        self.is_fenced, self.is_failing, self.fault = False, False, ""
        self.on_rejoined()

    def has_beaten(self) -> None:
        """A heartbeat was stored. Of a commit that failed only a commit can say that it works
        again.
        """
        if self.fault and not self.is_failing:
            self._works()

    def _works(self) -> None:
        if not self.is_fenced:
            log_.warning(
                "the store works again; it had failed for %.1f s: %s", self.outage_s, self.fault
            )
            self.fault, self.is_failing = "", False
