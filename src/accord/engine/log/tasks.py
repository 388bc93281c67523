"""All tasks: the logs this process owns, and views of every task."""

import asyncio
import contextlib
import logging
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from typing import Any

import msgspec

from ...model import FINAL, A2AError, Fold, Limits, Task, TaskState, TooManyRequests, Unavailable
from ...protocol import Snapshot
from ...store import Idempotency, Namespace, Page, Post, PostKind, Query, Record, Store
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
from .snapshot import EncodedParts, is_whole, read_snapshot, read_task
from .watching import Views
from .writer import Writer, not_stored

__all__ = ["MAX_WAITING", "Tasks", "going_on", "stopping"]

log_ = logging.getLogger("accord")

MAX_WAITING = 10_000  # functions in memory that wait for their client
RESTING = 1_000
RESTING_BYTES = 64 << 20
WATCH_RETRY_S = 1.0


def stopping() -> Unavailable:
    return Unavailable("the server is stopping; try again in a moment", retry_after_s=1)


def going_on(ids: Ids) -> Unavailable:
    """The server is stopping, and this task is not over: sent again without a key, its work would
    be done twice.
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
    """Runs that do not wait for their client, and how many of them each caller has."""

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
    """The directory of live logs, over one store."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.writer = Writer(store, limits)
        self.writer.on_fenced = self._drop_all
        self.writer.on_rejoined = self._rejoined
        self.writer.on_idle = self.release
        self.writer.on_lost = self._lost
        self.on_posts: Callable[[Collection[int] | None], None] = lambda tasks: (
            None
        )  # called when there may be posts for us
        # What is stored was allowed when it was said: a lower limit of today does not make it
        # unreadable.
        self._stored_limits = msgspec.structs.replace(limits, artifacts=sys.maxsize)
        self.logs: dict[tuple[Namespace, str], Log] = {}
        self._by_key: dict[int, Log] = {}  # the same
        self.working = Working()
        self.is_draining = False
        self.is_closing = False
        self._claiming: dict[tuple[Namespace, str], asyncio.Future[None]] = {}
        # a claim failed, and may have been made: tasks may be ours that we do not hold
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
        """From now on, readers of tasks nobody works on here are told to go elsewhere."""
        self.is_draining = True
        self.loop.call_soon(self.views.wake_all)

    async def close(self) -> None:
        """Store what has gathered, then stop."""
        self.is_closing = True
        self.views.wake_all()
        await self.writer.close()
        self.views.wake_all()
        self.views.close()
        await self.store.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.writer.loop

    def live(self) -> list[Log]:
        return list(self.logs.values())

    async def flush(self) -> None:
        """Return when everything appended so far is stored."""
        await asyncio.gather(*(log.stored() for log in self.live()))

    # Tasks we own

    def create(
        self,
        namespace: Namespace,
        task: Task,
        skill: str,
        about: About,
        at_ms: int,
        modes: tuple[str, ...] = (),
    ) -> tuple[Log, Turn]:
        """Return the log of a new task, which is its first entry, and the turn of its message."""
        log = Log(
            self.writer, self.writer.new_key(), namespace, Fold(task), skill, about, at_ms=at_ms
        )
        self._hold(log)
        return log, Turn(log.append(Created(task, modes)), task.history[0], modes)

    async def own(
        self, namespace: Namespace, task_id: str, *, reopen: bool = False
    ) -> Log | Record | None:
        """Return the log of a task if it is ours now; else the task as it stands: ended, or
        another's; None if there is none.
        """
        place = (namespace, task_id)
        while True:
            self._check_open()
            log = self._live(place)
            if log is not None and (log.is_resting or (reopen and log.state in FINAL)):
                if not log.is_stored:
                    await log.stored()
                    continue  # its owner has left with that commit: it has to be claimed again
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
                    if (
                        record.pos == known
                    ):  # it came without what we thought to have: it was put aside meanwhile
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
        """Return the log of an orphan that is ours now; None if a message for it was faster.

        Raises:
            ValueError: It is not what was written.
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
        """Have others who claim this task wait: it gets one log here."""
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
        """Return the log of a stored task that is ours. Raises ValueError if it is not what was
        written.
        """
        fold, parts = await offload(record.size, read_task, record, self._stored_limits)
        log = self._log_of(record, fold, parts)
        self._hold(log)
        self._expect_posts(log, record)
        return log

    def _expect_posts(self, log: Log, record: Record) -> None:
        """Posts that its last owner has not read are for us."""
        log.posts = record.posts
        if log.posts_read < log.posts:
            self.on_posts({log.key})

    def _hold(self, log: Log) -> None:
        """Something happens to this task here."""
        self.logs[log.namespace, log.ids.task_id] = self._by_key[log.key] = log
        self.views.attach(log)

    def _live(self, place: tuple[Namespace, str]) -> Log | None:
        """The log of a task that is ours. One that was lost to another process is no longer what
        the task is.
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
        """Another process owns this task."""
        tail = log.tail
        if self._by_key.get(log.key) is log:
            self._drop(log)
        else:
            self.views.detach(log)
        if tail is not None:
            self.views.lost(tail)

    def live_log(self, key: int) -> Log | None:
        """The log of a task to which something happens here."""
        return self._by_key.get(key)

    def by_key(self, key: int) -> Log | None:
        """The log of a task that is ours, also if it was put aside."""
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
        """Forget a log nothing happens to any more: the store knows all there is."""
        if log.run is not None or log.holds or log.inbox or not (log.is_stored or log.is_lost):
            return
        if log.posts_read < log.posts and not log.is_lost:
            return  # its last owner left posts, which are being read
        if self.logs.get((log.namespace, log.ids.task_id)) is not log:
            return
        self._drop(log)
        # Nothing came of it: whoever comes next may have it. What is being worked on must have an
        # owner, for others to see that it is dead.
        if log.ownership is Ownership.CLAIMED and log.state not in (
            TaskState.SUBMITTED,
            TaskState.WORKING,
        ):
            log.rest()
            self._unclaim(log)
        if log.state not in FINAL and not log.is_lost:
            self._rest(log)

    def _rest(self, log: Log) -> None:
        """Keep an open task that nothing happens to for its next message, while there is room:
        loading it costs its length.
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
        """A log that was put aside, or that somebody still holds, is used again."""
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
        """Return all entries of a task we own, from the first on."""
        rows = []
        pos = 0
        while piece := await self.store.read({log.key: pos}):
            rows += piece
            pos = piece[-1].pos + piece[-1].data.count(b"\n")
        log.size = max(log.size, sum(len(row.data) for row in rows))
        return list(entries_of(rows, log.ids))

    # Looking at tasks

    async def peek(
        self, namespace: Namespace, task_id: str, history_length: int | None = None
    ) -> Snapshot | None:
        """Return the task as it stands, everything in it stored; None if there is no such task."""
        self._check_open()
        log = self._live((namespace, task_id))
        if log is not None and self.store.is_sure:  # else another process may have gone on with it
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
        """Whether a task of a page can be passed on as it is stored."""
        return not record.is_stale and (self.store.is_volatile or is_whole(record))

    async def shown(self, record: Record, history_length: int | None) -> Snapshot:
        """Return a task of a page. Raises ValueError if it is not what was written."""
        return await read_snapshot(
            record, history_length, self._stored_limits, is_trusted=self.store.is_volatile
        )

    async def origin(self, namespace: Namespace, task_id: str) -> str:
        """Return the version a task was made by; empty if there is no such task."""
        log = self.logs.get((namespace, task_id))
        if log is not None:
            return log.about.origin
        record = await self.store.load(namespace, task_id)
        return about_of(record.about).origin if record is not None else ""

    async def conversation(
        self, namespace: Namespace, context_id: str, limit: int
    ) -> list[tuple[Task, int]]:
        """Return the newest tasks of a conversation, newest first, each with its position."""
        page = await self.page(Query(namespace, limit, context_id=context_id))
        return [((await self.shown(record, None)).task, record.pos) for record in page.tasks]

    async def at(self, namespace: Namespace, task_id: str, pos: int) -> Task | None:
        """Return a task as it stood at a position, or if its log is gone as it is; None if there is
        no such task.
        """
        record = await self.store.load(namespace, task_id)
        if record is None:
            return None
        return (await self.shown_at(record, pos, None)).task

    async def snapshot_after(self, namespace: Namespace, task_id: str, pos: int) -> Snapshot | None:
        """Return a task as it stood at a position, encoded; None if there is no such task."""
        record = await self.store.load(namespace, task_id)
        return await self.shown_at(record, pos, None) if record is not None else None

    async def place(self, namespace: Namespace, task_id: str) -> tuple[int, int] | None:
        """Return the key of a stored task and the number of its last event; None if there is no
        such task.
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
        """Read the stored events of a task after this number, to the end of its log."""
        pos = await self.store.locate(key, seq) if seq else 0
        while rows := await self.store.read({key: pos}):
            for event in events_of(rows, Ids(task_id, context_id)):
                if event.seq > seq:
                    yield event
            pos = rows[-1].pos + rows[-1].data.count(b"\n")

    async def shown_at(self, record: Record, pos: int, history_length: int | None) -> Snapshot:
        """Return a task as it stood at a position."""
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
        """Return a task as it is, everything in it stored."""
        if not isinstance(of, Log):
            return await self.shown(of, history_length)
        made: Snapshot = await of.stored(of.snapshot(history_length))
        return made

    async def find(self, namespace: Namespace, task_id: str) -> Log | Record | None:
        """Return a task to look at: its log if it is live here, else as it is stored, and
        watched.
        """
        self._check_open()
        log = self._live((namespace, task_id))
        if log is not None and self.store.is_sure:
            return log
        return await self.views.watch(namespace, task_id)

    def _unclaim(self, log: Log) -> None:
        """Give a task back. Who claims it meanwhile waits: else it would be taken from them."""
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
        """Send something to the owner of a task. Return the id of the post, and whether it was
        stored.
        """
        post_id = self.writer.new_key()
        if idempotency is not None:
            idempotency.post = post_id
        return post_id, self.writer.submit(Post(record.key, post_id, kind, body, idempotency))

    def wake(self, tasks: Collection[int] | None) -> None:
        """The store says: these tasks may have grown, or have posts for us; None for all."""
        self.views.wake(tasks)
        self.on_posts(tasks)

    # Room for more

    @property
    def is_out(self) -> bool:
        """Another process has the store for itself. Of one that is shared we take a new number, and
        views go on: they are cursors, and the new owner writes what they show.
        """
        return self.writer.is_fenced and not self.store.is_shared

    @property
    def trouble(self) -> str:
        """Why no new work should come here; empty if it may."""
        if self.is_draining:
            return "stopping"
        if self.is_out:
            return "another process has taken over the store"
        if self.writer.is_fenced:
            return "others took this server for dead; it starts anew"
        if self.writer.fault or not self.store.is_sure:
            return "the store can't be written"
        return ""

    def parting(self, ids: Ids) -> A2AError:
        """What someone is told who waits for a task that does not end here: get it from the next
        process, if that will know it.
        """
        return stopping() if self.store.is_volatile and not self.store.is_shared else going_on(ids)

    def refusal(self) -> A2AError:
        """What a sender is told whose message is not even looked at."""
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
        """Raise TooManyRequests if as much is being worked on as may be, in all or for one caller.

        What waits for its client is not work, and its answer is taken by a full server too: else
        one full of questions would stay so. Only as many as may wait in memory are taken beyond the
        limit: what is worked on ends without anyone's help.
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
        """Raise Unavailable if the server is stopping: nothing new is begun that could not be
        stored any more.
        """
        if self.is_closing:
            raise stopping()

    def _drop_all(self) -> None:
        """Other processes go on with our tasks: what is in memory here is no longer what
        they are.
        """
        for log in self.live():
            log.lose(self.refusal())
        self.logs.clear()
        self._by_key.clear()
        self._resting.clear()
        self._resting_bytes = 0
        self.views.wake_all()

    def _rejoined(self) -> None:
        """We have a new number, which owns and watches nothing yet."""
        self.views.watch_again()
        self.wake(None)
