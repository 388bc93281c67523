"""The tasks of an agent: the logs that this process owns, and reading of every task."""

import asyncio
import contextlib
import logging
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator
from typing import Any

import msgspec

from ...model import FINAL, A2AError, Fold, Limits, Task, TaskState, TooManyRequests, Unavailable
from ...observe import NO_TRACE, Trace
from ...protocol import Snapshot
from ...store import Idempotency, Namespace, Owned, Page, Post, PostKind, Query, Record, Store
from ..offloading import offload
from .entries import (
    FORMAT,
    About,
    Created,
    Event,
    Ids,
    Numbered,
    about_of,
    entries_of,
    events_of,
)
from .log import Log, Owner, Ownership, Turn
from .receipt import Accepted, Receipt
from .snapshot import EncodedParts, is_whole, read_snapshot, read_task
from .watching import Views
from .writer import Writer, not_stored

__all__ = ["MAX_WAITING", "Tasks", "going_on", "stopping"]

log_ = logging.getLogger("accord")

MAX_WAITING = 10_000  # runs in memory that wait for input
# Logs of open tasks without a run, cached for their next message.
RESTING = 1_000
RESTING_BYTES = 64 << 20


def stopping() -> Unavailable:
    return Unavailable("the server is stopping; try again in a moment", retry_after_s=1)


def going_on(ids: Ids) -> Unavailable:
    """Return the error for a caller that waits for an unfinished task when the server stops.

    It names the task, because sending the message again without an idempotency key would do the
    work twice.
    """
    return Unavailable(
        f"the server is stopping, and task {ids.task_id} goes on when it is back: get it "
        "by its id, "
        "or send again with the same idempotency key",
        retry_after_s=1,
        taskId=ids.task_id,
        contextId=ids.context_id,
    )


class Working:
    """The runs that are not waiting for input, counted in total and per caller."""

    def __init__(self) -> None:
        self._runs: dict[Owner, str] = {}
        self._of_caller: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: Owner, caller: str) -> None:
        if run not in self._runs:
            self._runs[run] = caller
            if caller:
                self._of_caller[caller] += 1

    def discard(self, run: Owner) -> None:
        caller = self._runs.pop(run, "")
        if caller:
            self._of_caller[caller] -= 1
            if not self._of_caller[caller]:
                del self._of_caller[caller]

    def of_caller(self, caller: str) -> int:
        return self._of_caller[caller] if caller else 0


class Tasks:
    """The directory of the logs in this process, on top of one store.

    A log is live while something happens to its task here. Then it is in `logs`.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.writer = Writer(store, limits)
        self.writer.on_fenced = self._drop_all
        self.writer.on_rejoined = self._rejoined
        self.writer.on_idle = self.release
        self.writer.on_lost = self._lost
        # Called when there may be posts for these tasks, or for any (None).
        self.on_posts: Callable[[Collection[int] | None], None] = lambda tasks: None
        # A stored task may have more artifacts than today's limit, if the limit was lowered since.
        # It must stay readable.
        self._stored_limits = msgspec.structs.replace(limits, artifacts=sys.maxsize)
        self.logs: dict[tuple[Namespace, str], Log] = {}
        self._by_key: dict[int, Log] = {}  # the same logs by the store's key
        self.working = Working()
        self.is_draining = False
        self.is_closing = False
        self._claiming: dict[tuple[Namespace, str], asyncio.Future[None]] = {}
        # A claim failed, but the store may have made it. Then this process owns a task without
        # having its log.
        self.may_own_more = False
        self._resting: OrderedDict[tuple[Namespace, str], Log] = OrderedDict()
        self._resting_bytes = 0
        self.views = Views(self)
        self.writer.on_outage = self.views.wake_all
        self._background: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        await self.store.open(self.wake)
        await self.writer.open()

    def drain(self) -> None:
        """From now on, send away readers of tasks that have no run in this process."""
        self.is_draining = True
        self.loop.call_soon(self.views.wake_all)

    async def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Store all pending entries, then close the store. Before that, `last` may read it."""
        self.is_closing = True
        self.views.wake_all()
        await self.writer.close()
        self.views.wake_all()
        self.views.close()
        if last is not None:
            await last()
        await self.store.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.writer.loop

    def live(self) -> list[Log]:
        return list(self.logs.values())

    async def flush(self) -> None:
        """Return when everything appended so far is stored."""
        await asyncio.gather(*(log.stored() for log in self.live()))

    # Tasks that this process owns

    def create(
        self,
        namespace: Namespace,
        task: Task,
        skill: str,
        about: About,
        at_ms: int,
        modes: tuple[str, ...] = (),
        *,
        is_withheld: bool = False,
    ) -> tuple[Log, Turn]:
        """Create a task. Return its log, and the turn of its first message.

        If it is withheld, nobody finds it and nothing of it is stored before `admit`.
        """
        log = Log(
            self.writer, self.writer.new_key(), namespace, Fold(task), skill, about, at_ms=at_ms
        )
        log.is_withheld = is_withheld
        if not is_withheld:
            self._hold(log)
        return log, Turn(log.append(Created(task, modes)), task.history[0], modes)

    def admit(self, log: Log) -> None:
        """Make a withheld task one like all others."""
        self._hold(log)
        log.admit()

    def receipt(self, accepted: Accepted, *, is_new: bool = False) -> Receipt:
        """Return the receipt of a message that was accepted a moment ago, or long ago."""
        return Receipt(self.views, accepted, is_new=is_new)

    async def own(
        self, namespace: Namespace, task_id: str, *, reopen: bool = False
    ) -> Log | Record | None:
        """Claim a task, unless this process owns it already.

        Return its log if this process owns it now. Return its record if it has ended or another
        process owns it. Return None if there is no such task.
        """
        place = (namespace, task_id)
        while True:
            self._check_open()
            log = self._live(place)
            if log is not None and (log.is_resting or (reopen and log.state in FINAL)):
                if not log.is_stored:
                    await log.stored()
                    continue  # that commit gave up the ownership, so claim the task again
            elif log is not None:
                return log
            if (other := self._claiming.get(place)) is not None:
                await asyncio.wait({other})
                continue
            with self._claim(place):
                resting = self._resting.get(place) or self.logs.get(place)
                known = (
                    resting.pos
                    if resting is not None and resting.state not in FINAL and not resting.is_lost
                    else 0
                )
                record = await self.store.claim(
                    namespace, task_id, reopen=reopen, known=known, format=FORMAT
                )
                if record is None or record.owner != self.store.replica:
                    return record
                log = self._wake_log(place)
                if log is None or log.pos != record.pos:
                    # The record came without the task, since we said that we have it. But the
                    # resting log was evicted meanwhile. Claim again to get the whole record.
                    if record.pos == known:
                        again = await self.store.claim(
                            namespace, task_id, reopen=reopen, format=FORMAT
                        )
                        record = again or record
                    log = await self._adopt(record)
                else:
                    self._expect_posts(log, record)
                log.claim()
                return log

    async def take(self, record: Record) -> Log | None:
        """Return the log of an orphaned task that this process has claimed.

        Return None if a message claimed the task meanwhile: then it has a log already.

        Raises:
            ValueError: The stored task is damaged.
        """
        place = (record.namespace, record.id)
        while (other := self._claiming.get(place)) is not None:
            await asyncio.wait({other})
        if self._live(place) is not None:
            return None
        with self._claim(place):
            return await self._adopt(record)

    @contextlib.contextmanager
    def _claim(self, place: tuple[Namespace, str]) -> Iterator[None]:
        """Make other claims of this task wait, so that it gets only one log in this process."""
        claiming = self._claiming[place] = self.loop.create_future()
        try:
            yield
        except BaseException:
            self.may_own_more = True
            raise
        finally:
            del self._claiming[place]
            claiming.set_result(None)

    async def _adopt(self, record: Record) -> Log:
        """Return the log of a stored task that this process owns.

        Raises:
            ValueError: The stored task is damaged.
        """
        fold, parts = await offload(record.size, read_task, record, self._stored_limits)
        log = self._log_of(record, fold, parts)
        self._hold(log)
        self._expect_posts(log, record)
        return log

    def _expect_posts(self, log: Log, record: Record) -> None:
        """Have posts read that the task's last owner left unread."""
        log.posts = record.posts
        if log.posts_read < log.posts:
            self.on_posts({log.key})

    def _hold(self, log: Log) -> None:
        """Make a log live."""
        self.logs[log.namespace, log.ids.task_id] = self._by_key[log.key] = log
        self.views.attach(log)

    def _live(self, place: tuple[Namespace, str]) -> Log | None:
        """Return the live log of a task, or None.

        Drops the log if another process has taken over the task: then the log is out of date.
        """
        log = self.logs.get(place)
        if log is None or not log.is_lost:
            return log
        self._drop(log)
        return None

    def _drop(self, log: Log) -> None:
        del self.logs[log.namespace, log.ids.task_id]
        self._by_key.pop(log.key, None)
        self.views.detach(log)

    def _lost(self, log: Log) -> None:
        """Drop a log because another process owns its task now."""
        tail = log.tail
        if self._by_key.get(log.key) is log:
            self._drop(log)
        else:
            self.views.detach(log)
        if tail is not None:
            self.views.lost(tail)

    def knows(self, task: Owned) -> bool:
        """Whether this process has the log of a task, or is about to claim or give it up."""
        return task.key in self._by_key or (task.namespace, task.id) in self._claiming

    def live_log(self, key: int) -> Log | None:
        """Return the live log of a task, or None."""
        return self._by_key.get(key)

    def by_key(self, key: int) -> Log | None:
        """Return the log of a task, or None. A resting log becomes live again."""
        log = self._by_key.get(key)
        if log is None:
            rested = next((place for place, log in self._resting.items() if log.key == key), None)
            log = self._wake_log(rested) if rested is not None else None
        return log

    def _log_of(self, record: Record, fold: Fold, parts: EncodedParts | None) -> Log:
        return Log(
            self.writer,
            record.key,
            record.namespace,
            fold,
            record.skill,
            about_of(record.about),
            at_ms=record.at_ms,
            seq=record.seq,
            pos=record.pos,
            posts_read=record.posts_read,
            size=record.size,
            parts=parts,
        )

    def release(self, log: Log) -> None:
        """Drop a log that is no longer used, if all of it is stored."""
        if log.run is not None or log.holds or log.inbox or not (log.is_stored or log.is_lost):
            return
        if log.posts_read < log.posts and not log.is_lost:
            return  # the last owner left posts, and they are still being read
        if self.logs.get((log.namespace, log.ids.task_id)) is not log:
            return
        self._drop(log)
        # Nothing was stored since the claim, so let other processes claim the task. A submitted or
        # working task keeps its owner, so that other processes notice when the owner dies.
        if log.ownership is Ownership.CLAIMED and log.state not in (
            TaskState.SUBMITTED,
            TaskState.WORKING,
        ):
            log.rest()
            self._unclaim(log)
        if log.state not in FINAL and not log.is_lost:
            self._rest(log)

    def _rest(self, log: Log) -> None:
        """Cache the log of an open task for its next message, and evict the oldest logs.

        Without the cache, each message would read the whole task from the store.
        """
        before = self._resting.pop((log.namespace, log.ids.task_id), None)
        self._resting[log.namespace, log.ids.task_id] = log
        self._resting_bytes += log.size - (before.size if before is not None else 0)
        while self._resting and (
            len(self._resting) > RESTING or self._resting_bytes > RESTING_BYTES
        ):
            _, oldest = self._resting.popitem(last=False)
            self._resting_bytes -= oldest.size

    def _wake_log(self, place: tuple[Namespace, str]) -> Log | None:
        """Make a resting log live again and return it. None if there is no usable log."""
        log = self._resting.pop(place, None)
        if log is not None:
            self._resting_bytes -= log.size
        else:
            log = self.logs.get(place)
        if log is None or log.is_lost or log.state in FINAL:
            return None
        log.wake()
        self._hold(log)
        return log

    async def entries(self, log: Log) -> list[Numbered]:
        """Return all stored entries of a task, from the first on."""
        rows = []
        pos = 0
        while piece := await self.store.read({log.key: pos}):
            rows += piece
            pos = piece[-1].pos + piece[-1].data.count(b"\n")
        log.size = max(log.size, sum(len(row.data) for row in rows))
        return list(entries_of(rows, log.ids))

    # Reading tasks

    async def peek(
        self, namespace: Namespace, task_id: str, history_length: int | None = None
    ) -> Snapshot | None:
        """Return a task once all of it is stored; None if there is no such task."""
        self._check_open()
        log = self._live((namespace, task_id))
        # If the store is not sure, another process may have continued the task: ask the store.
        if log is not None and self.store.is_sure:
            made: Snapshot = await log.stored(log.snapshot(history_length))
            return made
        record = await self.store.load(namespace, task_id)
        return (
            await read_snapshot(
                record, history_length, self._stored_limits, is_trusted=self.store.is_volatile
            )
            if record is not None
            else None
        )

    async def page(self, query: Query) -> Page:
        self._check_open()
        return await self.store.page(query)

    def is_whole(self, record: Record) -> bool:
        """Whether the record of a task can be sent as it is stored, without decoding it."""
        return not record.is_stale and (self.store.is_volatile or is_whole(record))

    async def shown(self, record: Record, history_length: int | None) -> Snapshot:
        """Return the snapshot of a stored task.

        Raises:
            ValueError: The stored task is damaged.
        """
        return await read_snapshot(
            record, history_length, self._stored_limits, is_trusted=self.store.is_volatile
        )

    async def origin(self, namespace: Namespace, task_id: str) -> str:
        """Return the protocol version that created a task; empty if there is no such task."""
        log = self.logs.get((namespace, task_id))
        if log is not None:
            return log.about.origin
        record = await self.store.load(namespace, task_id)
        return about_of(record.about).origin if record is not None else ""

    async def trace(self, namespace: Namespace, task_id: str) -> Trace:
        """Return the trace that the first message of a task belongs to."""
        log = self.logs.get((namespace, task_id))
        if log is not None:
            return log.about.sender.trace
        record = await self.store.load(namespace, task_id)
        return about_of(record.about).sender.trace if record is not None else NO_TRACE

    async def conversation(
        self, namespace: Namespace, context_id: str, limit: int
    ) -> list[tuple[Task, int]]:
        """Return the newest tasks of a conversation, newest first, each with its position."""
        page = await self.page(Query(namespace, limit, context_id=context_id))
        return [((await self.shown(record, None)).task, record.pos) for record in page.tasks]

    async def at(self, namespace: Namespace, task_id: str, pos: int) -> Task | None:
        """Return a task as it stood at a position of its log; None if there is no such task.

        If the log was deleted, return the task as it is now.
        """
        record = await self.store.load(namespace, task_id)
        if record is None:
            return None
        return (await self.shown_at(record, pos, None)).task

    async def snapshot_after(self, namespace: Namespace, task_id: str, pos: int) -> Snapshot | None:
        """Return the snapshot of a task at a position of its log; None if there is no such task."""
        record = await self.store.load(namespace, task_id)
        return await self.shown_at(record, pos, None) if record is not None else None

    async def place(self, namespace: Namespace, task_id: str) -> tuple[int, int] | None:
        """Return a task's key and the number of its last stored event.

        Return None if there is no such task.
        """
        self._check_open()
        log = self._live((namespace, task_id))
        if log is not None:
            await log.stored()
            return log.key, log.stored_at[1]
        record = await self.store.load(namespace, task_id)
        return (record.key, record.seq) if record is not None else None

    async def events_after(
        self, key: int, task_id: str, context_id: str, seq: int
    ) -> AsyncIterator[Event]:
        """Yield the stored events of a task after number `seq`, to the end of its log."""
        pos = await self.store.locate(key, seq) if seq else 0
        while rows := await self.store.read({key: pos}):
            for event in events_of(rows, Ids(task_id, context_id)):
                if event.seq > seq:
                    yield event
            pos = rows[-1].pos + rows[-1].data.count(b"\n")

    async def shown_at(self, record: Record, pos: int, history_length: int | None) -> Snapshot:
        """Return the snapshot of a stored task at a position of its log.

        If the log was deleted, return the current snapshot.
        """
        # The stored snapshot is newer than the position. Rebuild the task from its first entry.
        if record.pos > pos and record.snap > pos:
            rows = await self.store.read({record.key: 0})
            while rows and rows[-1].pos + rows[-1].data.count(b"\n") < pos:
                more = await self.store.read(
                    {record.key: rows[-1].pos + rows[-1].data.count(b"\n")}
                )
                if not more:
                    break
                rows += more
            if rows and rows[0].pos == 1:
                record = msgspec.structs.replace(record, snap=0, head=b"", artifacts=b"", rows=rows)
        if record.pos <= pos or record.snap > pos:
            return await read_snapshot(
                record, history_length, self._stored_limits, is_trusted=self.store.is_volatile
            )
        fold, parts = await offload(record.size, read_task, record, self._stored_limits, pos)
        seq = max(
            (
                event.seq
                for event in events_of(record.rows, Ids(record.id, record.context_id))
                if event.pos <= pos
            ),
            default=record.seq,
        )
        return (parts or EncodedParts()).snapshot(fold.joined(), seq, history_length)

    async def stored_snapshot(
        self, of: Log | Record, history_length: int | None = None
    ) -> Snapshot:
        """Return the snapshot of a task once all of it is stored."""
        if not isinstance(of, Log):
            return await self.shown(of, history_length)
        made: Snapshot = await of.stored(of.snapshot(history_length))
        return made

    async def find(self, namespace: Namespace, task_id: str) -> Log | Record | None:
        """Return a task for reading; None if there is no such task.

        Return its log if that is live in this process. Else return its record, and watch the store
        for changes of it.
        """
        self._check_open()
        log = self._live((namespace, task_id))
        if log is not None and self.store.is_sure:
            return log
        return await self.views.watch(namespace, task_id)

    def _unclaim(self, log: Log) -> None:
        """Give up the ownership of a task, in the background.

        Claims of it wait until that is done. Else it could undo a claim made meanwhile.
        """
        place = (log.namespace, log.ids.task_id)
        if place in self._claiming:
            return
        claiming = self._claiming[place] = self.loop.create_future()

        async def unclaim() -> None:
            try:
                await self.store.unclaim(log.key, log.pos)
            except A2AError:
                self.may_own_more = True
            finally:
                del self._claiming[place]
                claiming.set_result(None)

        self._in_background(unclaim())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        doing = asyncio.ensure_future(work)
        self._background.add(doing)
        doing.add_done_callback(self._background.discard)

    # Other processes

    def post(
        self, record: Record, kind: PostKind, body: bytes, idempotency: Idempotency | None = None
    ) -> tuple[int, asyncio.Future[bool]]:
        """Send a post to the process that owns a task.

        Return the id of the post, and a future that says whether it was stored.
        """
        post_id = self.writer.new_key()
        if idempotency is not None:
            idempotency.post = post_id
        return post_id, self.writer.submit(Post(record.key, post_id, kind, body, idempotency))

    def wake(self, tasks: Collection[int] | None) -> None:
        """Read the changes of these tasks, and posts for them. None means all tasks.

        The store calls this when there may be some.
        """
        self.views.wake(tasks)
        self.on_posts(tasks)

    # Whether new work is accepted

    @property
    def is_out(self) -> bool:
        """Whether another process has taken over a store that only one process can use.

        A shared store is different: this process registers again with a new replica number. Views
        stay open, because they read from the store what the new owner writes.
        """
        return self.writer.is_fenced and not self.store.is_shared

    @property
    def trouble(self) -> str:
        """Why this process should get no new work; empty if it can take some."""
        if self.is_draining:
            return "stopping"
        if self.is_out:
            return "another process has taken over the store"
        if self.writer.is_fenced:
            return "others took this server for dead; it starts anew"
        if self.writer.fault or not self.store.is_sure:
            why = self.writer.summary if self.writer.fault else ""
            return "the store can't be written" + (f": {why}" if why else "")
        return ""

    def parting(self, ids: Ids) -> A2AError:
        """Return the error for a caller that waits for a task when this process stops.

        If the next process will have the task, the error says how to get it there.
        """
        return stopping() if self.store.is_volatile and not self.store.is_shared else going_on(ids)

    def refusal(self) -> A2AError:
        """Return the error for a message that this process doesn't accept."""
        if self.is_draining:
            return stopping()
        if self.is_out:
            return Unavailable(
                "another server has taken over from this one; send it there", retry_after_s=5
            )
        if self.writer.is_fenced:
            return Unavailable(
                "this server was away for too long, and others go on with its tasks; get the task "
                "by its id, or send again with the same idempotency key",
                retry_after_s=1,
            )
        return not_stored()

    def check_capacity(self, *, caller: str = "", is_answer: bool = False) -> None:
        """Raise TooManyRequests if the limit of running tasks is reached, in total or per caller.

        Tasks that wait for input don't count. An answer to such a task (`is_answer`) is accepted
        beyond the limit, so that tasks waiting for input can go on. At most MAX_WAITING tasks run
        beyond the limit.
        """
        count = self.working.of_caller(caller)
        if count >= self.limits.tasks_per_caller and not is_answer:
            raise TooManyRequests(
                f"{count} of your tasks are running, the limit for one caller",
                retry_after_s=1,
                limit="tasks_per_caller",
            )
        count = len(self.working)
        if count >= self.limits.tasks + (MAX_WAITING if is_answer else 0):
            raise TooManyRequests(
                f"{count} tasks are running, the limit of this server",
                retry_after_s=1,
            )

    def _check_open(self) -> None:
        """Raise Unavailable if the store is being closed, since nothing more can be stored."""
        if self.is_closing:
            raise stopping()

    def _drop_all(self) -> None:
        """Drop all logs because other processes have taken over the tasks."""
        for log in self.live():
            log.lose(self.refusal())
        self.logs.clear()
        self._by_key.clear()
        self._resting.clear()
        self._resting_bytes = 0
        self.views.wake_all()

    def _rejoined(self) -> None:
        """Watch tasks again: this process has a new replica number, which watches nothing yet."""
        self.views.watch_again()
        self.wake(None)
