"""The group-commit writer: whatever has gathered in all logs is stored by one commit, again and
again.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ...model import A2AError, Limits, Unavailable
from ...net import backoff_s
from ...pump import Pump
from ...store import (
    Append,
    CommitFailed,
    Create,
    Fenced,
    Idempotency,
    Item,
    Post,
    Replaced,
    Store,
    is_armed,
    point,
)

if TYPE_CHECKING:
    from ...observe import Metrics
    from .batch import LogBatch
    from .commits import Commits
    from .entries import Event

__all__ = ["Lost", "Writer", "not_stored"]

log_ = logging.getLogger("accord")

# After an outage of so long those who wait get an error, and nothing new is taken.
OUTAGE_S = 10.0
RETRY_S, LONGEST_RETRY_S = 0.02, 1.0
TURNS = 4  # of the loop that a commit waits for other logs, while they come
# The same while tasks stream: turns, and seconds that nobody sees.
CHUNK_TURNS, CHUNK_S = 16, 0.005
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
    def commits(self) -> "Commits": ...
    def take(self) -> Create | Append | None: ...
    def lose(self, error: A2AError | None = None) -> None: ...


_Submitted: TypeAlias = list[tuple[Post | Idempotency, "asyncio.Future[bool]"]]


class Writer:
    """Stores what logs hand over, and reports to them when it is stored.

    What happens on the loop in a few turns, to however many tasks, is one commit. While the store
    fails nothing is given up: the same commit is tried again until it works, and runs wait
    meanwhile.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.fault = ""  # what the store said when it began to fail; empty while it works
        self.summary = ""  # the same for anybody, as far as the store could say
        self.is_failing = False  # a commit has failed, and is being tried again
        self.is_fenced = False  # this replica was taken for dead, and has no new number yet
        self.is_replaced = False  # it was, and another process has the store for itself
        self.is_closing = False
        self.on_fenced: Callable[[], None] = lambda: None
        self.on_rejoined: Callable[[], None] = lambda: None
        # Called with a log that was refused, or is another process's.
        self.on_lost: Callable[[Any], None] = lambda log: None
        # Called with a log and what of it is stored now.
        self.on_stored: Callable[[Any, LogBatch], None] = lambda log, batch: None
        self.on_outage: Callable[[], None] = lambda: None  # called with every try after OUTAGE_S
        self.metrics: Metrics | None = None
        # called with a log and what of it is stored now; None: nobody wants to know
        self.on_events: Callable[[Any, list[Event]], None] | None = None
        # Whether the last event that a log was given in this turn of the loop is a piece of output.
        self.ends_with_chunk = False
        self._queued_s = 0.0  # since when the oldest entry waits; only for metrics
        self._failed_s = 0.0
        self._logs: list[Writable] = []
        self._items: _Submitted = []
        self._keys = 0
        self._pump = Pump("accord-writer", self._write, log=log_, stays=True)
        self._rejoin_tries = 0
        self._rejoiner = Pump(
            "taking a new replica number",
            self._rejoin,
            log=log_,
            retry_s=lambda: backoff_s(self._rejoin_tries, first_s=RETRY_S, most_s=LONGEST_RETRY_S),
        )
        self._storing_files: set[asyncio.Task[None]] = set()  # files that logs wait for

    async def open(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Store what has gathered, then stop."""
        self.is_closing = True
        while self._storing_files:
            await asyncio.wait(self._storing_files)
        await self._pump.stop(None)
        await self._rejoiner.stop()

    def new_key(self) -> int:
        """Return a number no task and no post has had: our own, and a count."""
        self._keys += 1
        return self.store.replica << _COUNT_BITS | self._keys

    @property
    def outage_s(self) -> float:
        """Return how long the store has been failing."""
        return time.monotonic() - self._failed_s if self.fault else 0.0

    @property
    def is_out(self) -> bool:
        """Return whether the store has been failing for so long that nobody is to wait for it."""
        return self.outage_s >= OUTAGE_S

    # What is to be stored

    def add(self, log: Writable) -> None:
        """Take a log that has something to store. It is not added again before that was taken."""
        if self.metrics is not None and not self._logs:
            self._queued_s = time.monotonic()
        self._logs.append(log)
        self._pump.wake()

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Have a file stored that a log waits for. `close` waits for it."""
        task = self.loop.create_task(work)
        self._storing_files.add(task)
        task.add_done_callback(self._storing_files.discard)

    async def store_file(
        self, flush: Callable[[], Awaitable[None]], is_given_up: Callable[[], bool]
    ) -> None:
        """Store a file, however long that takes, as commits are. Runs wait meanwhile."""
        fault = ""
        for tries in itertools.count():
            if is_given_up():
                return
            try:
                await flush()
                if fault:
                    log_.warning("the file store works again; it had failed: %s", fault)
                return
            except Exception as error:  # whatever it is: the log refers to the file
                if not fault:
                    fault = str(error) or type(error).__name__
                    log_.error("a file can't be stored; trying again: %s", fault)
                if self.is_closing:
                    raise
            await asyncio.sleep(backoff_s(tries, first_s=RETRY_S, most_s=LONGEST_RETRY_S))

    def submit(self, item: Post | Idempotency) -> asyncio.Future[bool]:
        """Store something beside the logs; gives whether it was accepted."""
        stored: asyncio.Future[bool] = self.loop.create_future()
        self._items.append((item, stored))
        self._pump.wake()
        return stored

    # Storing it

    async def _write(self) -> bool:
        """Store what has gathered. Return whether more has come meanwhile."""
        logs = await self._gather()
        items, self._items = self._items, []
        logs, batch = self._taken(logs)
        batch += [item for item, _ in items]
        queued_s, begun_s = self._queued_s, time.monotonic()
        try:
            stored = await self._commit(batch, logs, [waiter for _, waiter in items])
        except CommitFailed:
            error = not_stored()
            for log in logs:
                log.lose(error)
            for _, waiter in items:
                if not waiter.done():
                    waiter.set_exception(error)
        else:
            if self.metrics is not None:
                took_s = time.monotonic() - begun_s
                self.metrics.committed(len(batch), max(begun_s - queued_s, 0.0), took_s)
            self._report(logs, items, stored)
        return bool(self._logs or self._items)

    def _report(self, logs: list[Writable], items: _Submitted, stored: list[bool]) -> None:
        """Report to everybody what became of what they handed over."""
        for log, is_stored in zip(logs, stored, strict=False):
            try:
                if not is_stored:
                    log.lose()
                elif (published := log.commits.publish()) is not None:
                    if published.events and self.on_events is not None:
                        self.on_events(log, published.events)
                    self.on_stored(log, published)
            except Exception:  # whatever it is, it must not keep others from their reports
                log_.exception("a commit was stored, but publishing it failed")
        for (_, waiter), is_stored in zip(items, stored[len(logs) :], strict=True):
            if not waiter.done():
                waiter.set_result(is_stored)
        if is_armed:
            point("publish.after")

    def _taken(self, logs: list[Writable]) -> tuple[list[Writable], list[Item]]:
        """Return the logs that hand something over, and what they do. One that can't be written is
        lost, so that it does not stop the others.
        """
        taken: list[Writable] = []
        batch: list[Item] = []
        for log in logs:
            if log.commits.is_lost:
                continue  # while it waited here: it has nothing to store any more
            try:
                if (item := log.take()) is not None:
                    batch.append(item)
                    taken.append(log)
            except Exception:
                log_.exception("a task can't be written and is dropped")
                log.lose()
        return taken, batch

    async def _gather(self) -> list[Writable]:
        """Return the logs that have come, and that come in the next turns of the loop: fewer
        commits, each of more.

        A log that streams is here already. It is waited for while every turn ends with a chunk.
        """
        logs, self._logs = self._logs, []
        until_s = self.loop.time() + CHUNK_S
        for turn in range(CHUNK_TURNS):
            self.ends_with_chunk = False
            # A run that was started with these entries may end in this turn: then one commit has
            # all.
            await asyncio.sleep(0)
            come, self._logs = self._logs, []
            logs += come
            if come and turn < TURNS:
                continue
            if not self.ends_with_chunk or self.loop.time() >= until_s:
                break
        return logs

    async def _store(self, batch: list[Item]) -> list[bool]:
        """Try once to store a batch. Whatever a store raises, the next batch must be written."""
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
        tries = 0
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
                    log.commits.fail(not_stored())
                for waiter in (*waiters, *(waiter for _, waiter in self._items)):
                    if not waiter.done():
                        waiter.set_exception(not_stored())
                self.on_outage()
            await asyncio.sleep(backoff_s(tries, first_s=RETRY_S, most_s=LONGEST_RETRY_S))
            tries += 1

    # How the store does

    def fails(self, error: CommitFailed) -> None:
        """Note that the store has refused a write. Logged once for each outage."""
        if isinstance(error, Fenced) and not self.is_fenced:
            self.is_fenced = True
            if isinstance(error, Replaced):
                self._replace(error)
            else:
                log_.error("%s: others go on with its tasks", error)
            self.on_fenced()
            if not self.is_closing and not self.is_replaced:
                self._rejoin_tries = 0
                self._rejoiner.wake()
        if not self.fault:
            self.fault, self._failed_s = str(error) or type(error).__name__, time.monotonic()
            self.summary = error.summary
            if not self.is_fenced:
                log_.error("the store can't be written; trying again: %s", error)

    async def _rejoin(self) -> bool:
        """Take a new number and go on, unless the store says that this process is not to use it any
        more. The pump tries again until it works: without a number nothing can be stored.
        """
        if not self.is_fenced:
            return False
        try:
            await self.store.rejoin()
        except Replaced as error:
            self._replace(error)
            return False
        except Exception:
            self._rejoin_tries += 1
            raise
        log_.warning("this replica has number %d now", self.store.replica)
        self.is_fenced, self.is_failing, self.fault = False, False, ""
        self.on_rejoined()
        return False

    def _replace(self, error: Replaced) -> None:
        self.is_replaced = True
        log_.critical(
            "%s: this process can store nothing any more and takes no work; stop it", error
        )

    def has_beaten(self) -> None:
        """Note that a heartbeat was stored. If a commit has failed, only a commit shows that the
        store works again.
        """
        if self.fault and not self.is_failing:
            self._works()

    def _works(self) -> None:
        if not self.is_fenced:
            log_.warning(
                "the store works again; it had failed for %.1f s: %s", self.outage_s, self.fault
            )
            self.fault, self.is_failing = "", False
