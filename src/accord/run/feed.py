"""All live tasks: group commit on one side, readers on the other."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict

import msgspec

from ..codec import v1
from ..codec.contract import Snapshot
from ..model import FINAL, Limits, Message, Task, TooManyRequests, Unavailable
from ..store import CommitFailed, Fenced, Keep, Page, Query, Record, Scope, Store, Write
from ..store.failpoints import point
from .entry import About, Entry, entries_of, state_of
from .fold import add_message, apply
from .log import Log

__all__ = ["Feed", "check_whole", "not_stored", "snapshot_of", "stopping", "task_of"]

log_ = logging.getLogger("accord")

GIVE_UP_S = 10.0
RESTING = 1_000
RESTING_BYTES = 64 << 20

_decode_about = msgspec.json.Decoder(About).decode
_skim = msgspec.json.Decoder(msgspec.Raw).decode


class Feed:
    """The live end of every task's event log.

    - Nothing is shown that is not stored: readers and senders are woken after the commit, never before.
    - What happens on the loop in one turn, to however many tasks, is one commit.
    - Every reader of a task sees the same events in the same order; a slow one falls behind alone.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.is_failing = False
        self._live: dict[tuple[Scope, str], Log] = {}
        self._loading: dict[tuple[Scope, str], set[object]] = {}  # who waits for a task from the store
        self._dirty: list[Log] = []
        self.given_up: set[tuple[Scope, str]] = set()  # tasks the store failed, to be looked at when it works again
        self._resting: OrderedDict[tuple[Scope, str], Log] = OrderedDict()
        self._resting_bytes = 0
        self._readers = 0
        self._readers_of: Counter[str] = Counter()
        self._keeps: list[tuple[Keep, asyncio.Future[None] | None]] = []
        self._unstored: dict[tuple[Scope, str], Keep] = {}  # the keys among them, until their commit is made
        self._wake: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self.is_closing = False
        self.is_draining = False

    async def open(self) -> None:
        await self.store.open()
        self._writer = asyncio.get_running_loop().create_task(self._write(), name="accord-writer")

    def drain(self) -> None:
        """From now on, readers of tasks nobody works on here are told to go elsewhere."""
        self.is_draining = True
        asyncio.get_running_loop().call_soon(self._wake_readers)

    def _wake_readers(self) -> None:
        for log in self.live():
            log.wake()

    async def close(self) -> None:
        """Store what has gathered, then stop."""
        self.is_closing = True
        self._wake_readers()
        self._stir()
        if self._writer is not None:
            await self._writer
        await self.store.close()

    # Live tasks

    def create(self, scope: Scope, task: Task, about: About, at_ms: int) -> Log:
        """Return the log of a new task. Its first event is the task itself, appended by the caller."""
        log = Log(self, self.store.new_key(), scope, task, about, at_ms=at_ms)
        self._live[scope, task.id] = log
        return log

    async def find(self, scope: Scope, task_id: str) -> Log | None:
        """Return the live log of a task, brought back from the store if need be."""
        self._check_open()
        place = (scope, task_id)
        while (log := self._live.get(place) or self._waken(scope, task_id)) is None:
            loading = object()
            self._loading.setdefault(place, set()).add(loading)
            try:
                record = await self.store.load(scope, task_id)
            finally:
                # Someone else may have been faster, and even have written and let go meanwhile: then the record is an old one.
                is_current = self._is_current(place, loading)
            if is_current and place not in self._live:
                return self.revive(record) if record is not None else None
        return log

    def _is_current(self, place: tuple[Scope, str], loading: object) -> bool:
        """Whether what was loaded is still what the store has: nobody has let go of that task since."""
        under_way = self._loading.get(place, set())
        is_current = loading in under_way
        under_way.discard(loading)
        if is_current and not under_way:
            del self._loading[place]
        return is_current

    def revive(self, record: Record) -> Log:
        """Return the log of a stored task; live from now on, unless the task has ended."""
        size = len(record.head) + len(record.artifacts) + sum(map(len, record.tail))
        place = {"at_ms": record.at_ms, "seq": record.seq, "pos": record.pos, "size": size}
        log = Log(self, record.key, record.scope, task_of(record), _decode_about(record.about), **place)
        if log.task.status.state not in FINAL:
            self._live[record.scope, record.id] = log
        return log

    def reopen(self, log: Log) -> None:
        """Have a log that has ended live again."""
        self._live[log.scope, log.task.id] = log

    async def origin(self, scope: Scope, task_id: str) -> str:
        """Return what a task was made by; empty if there is no such task."""
        log = self._live.get((scope, task_id))
        if log is not None:
            return log.about.origin
        record = await self.store.load(scope, task_id)
        return _decode_about(record.about).origin if record is not None else ""

    async def peek(self, scope: Scope, task_id: str, history_length: int | None = None) -> Snapshot | None:
        """Return the task as it stands, everything in it stored; None if there is no such task."""
        self._check_open()
        log = self._live.get((scope, task_id))
        if log is not None:
            return await log.snapshot(history_length)
        record = await self.store.load(scope, task_id)
        if record is None:
            return None
        if history_length is None and not record.is_stale:
            if not self.store.is_volatile:
                check_whole(record)
            return Snapshot(record.seq, state_of(record.state), record.head, record.artifacts)
        return snapshot_of(record, history_length)

    async def page(self, query: Query) -> Page:
        """Return a page of stored tasks."""
        self._check_open()
        return await self.store.page(query)

    def _check_open(self) -> None:
        """Raise Unavailable if the server is stopping: nothing new is begun that could not be stored any more."""
        if self.is_closing:
            raise stopping()

    @property
    def count(self) -> int:
        """How many tasks are live."""
        return len(self._live)

    def live(self) -> list[Log]:
        return list(self._live.values())

    def let_go(self, log: Log) -> None:
        """Forget a log nothing happens to; the store has it."""
        if log.run is not None:
            return
        place = (log.scope, log.task.id)
        if log.is_idle and self._live.get(place) is log:
            del self._live[place]
            if log.task.status.state not in FINAL:
                self._rest(log)
            self._loading.pop(place, None)  # what is being loaded was read before the last commit

    def _rest(self, log: Log) -> None:
        """Keep an open task that nothing happens to for its next message, while there is room: loading it costs its length."""
        self._resting[log.scope, log.task.id] = log
        self._resting_bytes += log.size
        while len(self._resting) > RESTING or self._resting_bytes > RESTING_BYTES:
            _, oldest = self._resting.popitem(last=False)
            self._resting_bytes -= oldest.size

    def _waken(self, scope: Scope, task_id: str) -> Log | None:
        log = self._resting.pop((scope, task_id), None)
        if log is not None:
            self._resting_bytes -= log.size
            self._live[scope, task_id] = log
        return log

    def check_readers(self, scope: Scope, task_id: str) -> None:
        """Raise TooManyRequests if one more stream would be too many; before anything is done for it."""
        log = self._live.get((scope, task_id))
        counts = (
            (log.readers if log is not None else 0, self.limits.streams_per_task, "this task"),
            (self._readers_of[scope.owner] if scope.owner else 0, self.limits.streams_per_caller, "you"),
            (self._readers, self.limits.streams, "this server"),
        )
        for count, most, whose in counts:
            if count >= most:
                raise TooManyRequests(f"{count} streams of {whose} are open, the most allowed", retry_after_s=5)

    def count_reader(self, log: Log, change: int) -> None:
        log.readers += change
        self._readers += change
        if log.scope.owner:
            self._readers_of[log.scope.owner] += change

    async def context(self, scope: Scope, context_id: str, limit: int) -> list[Task]:
        """Return the newest tasks of a conversation, newest first."""
        page = await self.page(Query(scope=scope, limit=limit, context_id=context_id))
        found = [await self.peek(scope, record.id) for record in page.tasks]
        return [snapshot.task for snapshot in found if snapshot is not None]

    # Group commit

    def changed(self, log: Log) -> None:
        """Called by a log with its first uncommitted line."""
        self._dirty.append(log)
        self._stir()

    def keep(self, keep: Keep) -> None:
        """Store an idempotency key with the next commit, the one that stores what it stands for."""
        self._keeps.append((keep, None))
        self._unstored[keep.scope, keep.key] = keep
        self._stir()

    async def keep_reply(self, keep: Keep) -> None:
        """Store an idempotency key that stands for a reply without a task; return when it is stored."""
        self._check_open()
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeps.append((keep, stored))
        self._stir()
        await stored

    async def kept(self, scope: Scope, key: str, since_ms: int) -> Keep | None:
        """Return what a key stands for, stored or about to be; None if it was not used since `since_ms`."""
        self._check_open()
        return self._unstored.get((scope, key)) or await self.store.kept(scope, key, since_ms)

    def _stir(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _write(self) -> None:
        """Commit what has gathered, tell who waits, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._dirty and not self._keeps:
                if self.is_closing:
                    return
                self._wake = loop.create_future()
                await self._wake
                await asyncio.sleep(0)  # a run started in this turn of the loop may end in it: then one commit holds all of it
                continue
            logs, self._dirty = [log for log in self._dirty if log.has_news], []
            keeps, self._keeps = self._keeps, []
            writes = [log.take() for log in logs]
            try:
                await self._commit(writes, [keep for keep, _ in keeps])
            except CommitFailed as error:
                self._abandon(logs, error)
                told: Exception | None = not_stored()
            else:
                told = None
                for log in logs:
                    log.publish()
                    if log.run is None:
                        self.let_go(log)
                point("publish.after")
            for keep, stored in keeps:
                if self._unstored.get((keep.scope, keep.key)) is keep:
                    del self._unstored[keep.scope, keep.key]
                if stored is not None and not stored.done():
                    stored.set_exception(told) if told else stored.set_result(None)

    async def flush(self) -> None:
        """Return when everything appended so far is stored."""
        await asyncio.gather(*(log.stored() for log in self.live()))

    async def _commit(self, writes: list[Write], keeps: list[Keep]) -> None:
        """Commit, trying again for a while: a full disk may get room, a locked file may be let go."""
        give_up = time.monotonic() + GIVE_UP_S
        pause_s = 0.05
        while True:
            try:
                await self.store.commit(writes, keeps)
                if self.is_failing:
                    self._recovered()
                return
            except CommitFailed as error:
                log_.error("commit failed, trying again: %s", error, extra={"tasks": len(writes)})
                if time.monotonic() + pause_s > give_up or self.is_closing or isinstance(error, Fenced):
                    self._recovered()
                    raise
                self.is_failing = True
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 1.0)

    def _recovered(self) -> None:
        """Runs held back by a failing store may go on."""
        self.is_failing = False
        self._wake_readers()

    def _abandon(self, logs: list[Log], error: CommitFailed) -> None:
        log_.error("commit given up: %s", error, extra={"tasks": [log.task.id for log in logs]})
        for log in logs:
            self.given_up.add((log.scope, log.task.id))
            self._live.pop((log.scope, log.task.id), None)
            log.abandon(not_stored())

    # Reading the store

    async def whole(self, key: int) -> list[bytes]:
        """Return the lines of a task's whole log, row by row."""
        rows: list[bytes] = []
        last = -1
        while True:
            piece = [(row, lines) for row, lines in await self.store.rows(key, max(last, 0)) if row > last]
            if not piece:
                return rows
            rows += [lines for _, lines in piece]
            last = piece[-1][0]

    async def stored(self, key: int, after: int) -> list[Entry]:
        """Return stored entries after number `after`, a bounded piece; empty if there are none."""
        rows = await self.store.rows(key, after)
        return [entry for row, lines in rows for entry in entries_of(row, lines) if entry.seq > after]


def check_whole(record: Record) -> None:
    """Raise ValueError for a snapshot that is no JSON of a task: it is sent without being decoded, beside others."""
    if not (record.head.startswith(b'{"id":"') and record.artifacts.startswith(b"[")):
        raise ValueError("the snapshot is broken")
    for piece in (record.head, record.artifacts):
        _skim(piece)  # a look at the text alone, at several GB a second
        if not piece.isascii():
            piece.decode()


def task_of(record: Record) -> Task:
    """Return a stored task: its snapshot, brought up to date by the lines after it."""
    task = v1.decode_task(record.head)
    task.artifacts = v1.decode_artifacts(record.artifacts)
    for line in record.tail:
        if line.startswith(b"v"):
            event = v1.decode_event(line[1:])
            assert not isinstance(event, Message)  # a message never enters a task's log as an event
            apply(task, event)
        elif line.startswith(b"m"):
            add_message(task, v1.decode_message(line[1:]))
    return task


def snapshot_of(record: Record, history_length: int | None) -> Snapshot:
    task = task_of(record)
    if history_length is not None:
        task.history = task.history[max(len(task.history) - history_length, 0) :]
    artifacts, task.artifacts = task.artifacts, []
    return Snapshot(record.seq, task.status.state, v1.encode(task), v1.encode(artifacts))


def stopping() -> Unavailable:
    return Unavailable("the server is stopping; try again in a moment", retry_after_s=1)


def not_stored() -> Unavailable:
    return Unavailable("the server could not store this; try again later", retry_after_s=5)
