"""All tasks, live or stored, to whoever looks for one or reads along."""

import sys
from collections import Counter, deque

import msgspec

from ...codec import v1
from ...codec.contract import Snapshot
from ...model import FINAL, A2AError, Limits, Task, TooManyRequests, Unavailable
from ...store import Page, Query, Record, Scope, Store
from ..offload import LARGE
from .entry import About, Entry, entries_of, event_of, state_of
from .log import Book, Log, going_on, not_stored, stopping
from .picture import Texts
from .stored import check_whole, read, shortened, size_of, snapshot_of, task_of

__all__ = ["Feed"]

MAX_PARKED = 10_000  # functions in memory that wait for their client

_decode_about = msgspec.json.Decoder(About).decode


class Feed(Book):
    """The book with its readers: a live task is read from memory, any other from the store.

    Every reader of a task sees the same events in the same order; a slow one falls behind alone.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        super().__init__(store, limits)
        # What is stored was allowed when it was said: a lower limit of today does not make it unreadable.
        self._stored_limits = msgspec.structs.replace(limits, artifacts=sys.maxsize)
        self._readers = 0
        self._readers_of: Counter[str] = Counter()

    # Finding tasks

    async def find(self, scope: Scope, task_id: str) -> Log | None:
        """Return the live log of a task, brought back from the store if need be."""
        self.check_open()
        place = (scope, task_id)
        while (log := self.logs.get(place) or self._waken(scope, task_id)) is None:
            loading = object()
            self._loading.setdefault(place, set()).add(loading)
            try:
                record = await self.store.load(scope, task_id)
                is_large = record is not None and size_of(record) > LARGE
                found = await read(record, self._stored_limits) if record is not None and is_large else None
            finally:
                # Someone else may have been faster, and even have written and let go meanwhile: then the record is an old one.
                is_current = self._is_current(place, loading)
            if is_current and place not in self.logs:
                return self.revive(record, found) if record is not None else None
        return log

    def _is_current(self, place: tuple[Scope, str], loading: object) -> bool:
        """Whether what was loaded is still what the store has: nobody has let go of that task since."""
        under_way = self._loading.get(place, set())
        is_current = loading in under_way
        under_way.discard(loading)
        if is_current and not under_way:
            del self._loading[place]
        return is_current

    def revive(self, record: Record, found: tuple[Task, Texts] | None = None) -> Log:
        """Return the log of a stored task, which may have been read already; live from now on, unless the task has ended."""
        task, texts = found if found is not None else (task_of(record, self._stored_limits), None)
        log = Log(
            self,
            record.key,
            record.scope,
            task,
            _decode_about(record.about),
            at_ms=record.at_ms,
            seq=record.seq,
            pos=record.pos,
            size=size_of(record),
            is_begun=record.is_begun,
            texts=texts,
        )
        if log.task.status.state not in FINAL:
            self.logs[record.scope, record.id] = log
        return log

    def reopen(self, log: Log) -> None:
        """Have a log that has ended live again."""
        self.logs[log.scope, log.task.id] = log

    async def origin(self, scope: Scope, task_id: str) -> str:
        """Return what a task was made by; empty if there is no such task."""
        log = self.logs.get((scope, task_id))
        if log is not None:
            return log.about.origin
        record = await self.store.load(scope, task_id)
        return _decode_about(record.about).origin if record is not None else ""

    async def peek(self, scope: Scope, task_id: str, history_length: int | None = None) -> Snapshot | None:
        """Return the task as it stands, everything in it stored; None if there is no such task."""
        self.check_open()
        log = self.logs.get((scope, task_id))
        if log is not None:
            return await log.snapshot(history_length)
        record = await self.store.load(scope, task_id)
        if record is None:
            return None
        if not record.is_stale:
            if not self.store.is_volatile:
                check_whole(record)
            head = record.head if history_length is None else shortened(record.head, history_length)
            return Snapshot(record.seq, state_of(record.state), head, record.artifacts)
        if size_of(record) > LARGE:
            task, texts = await read(record, self._stored_limits)
            return texts.picture(task, record.seq, history_length)
        return snapshot_of(record, history_length, self._stored_limits)

    async def page(self, query: Query) -> Page:
        """Return a page of stored tasks."""
        self.check_open()
        return await self.store.page(query)

    def _waken(self, scope: Scope, task_id: str) -> Log | None:
        log = self._resting.pop((scope, task_id), None)
        if log is not None:
            self._resting_bytes -= log.size
            self.logs[scope, task_id] = log
        return log

    # Room for more

    @property
    def trouble(self) -> str:
        """Why no new work should come here; empty if it may."""
        if self.is_draining:
            return "stopping"
        if self.is_fenced:
            return "another process has taken over the store"
        return "the store can't be written" if self.fault else ""

    def parting(self, task: Task) -> A2AError:
        """What someone is told who waits for a task that does not end here: get it from the next process, if that will know it."""
        return stopping() if self.store.is_volatile else going_on(task)

    def refusal(self) -> A2AError:
        """What a sender is told whose message is not even looked at."""
        if self.is_draining:
            return stopping()
        if self.is_fenced:
            return Unavailable("another server has taken over from this one; send it there", retry_after_s=5)
        return not_stored()

    def check_room(self, *, is_answer: bool = False) -> None:
        """Raise TooManyRequests if as much is being worked on as may be.

        What waits for its client is not work, and its answer is taken by a full server too: else one full of questions would stay
        so. Only as many as may wait in memory are taken beyond the limit: what is worked on ends without anyone's help.
        """
        count = len(self.working)
        if count >= self.limits.tasks + (MAX_PARKED if is_answer else 0):
            raise TooManyRequests(f"{count} tasks are being worked on, the most this server does at once", retry_after_s=1)

    # Readers

    def check_readers(self, scope: Scope, task_id: str) -> None:
        """Raise TooManyRequests if one more stream would be too many; before anything is done for it."""
        log = self.logs.get((scope, task_id))
        counts = (
            (log.readers if log is not None else 0, self.limits.streams_per_task, "this task"),
            (self._readers_of[scope.owner] if scope.owner else 0, self.limits.streams_per_caller, "you"),
            (self._readers, self.limits.streams, "this server"),
        )
        if self.is_fenced:
            raise self.refusal()  # nothing would ever be told of it here
        for count, most, whose in counts:
            if count >= most:
                raise TooManyRequests(f"{count} streams of {whose} are open, the most allowed", retry_after_s=5)

    def count_reader(self, log: Log, change: int) -> None:
        log.readers += change
        self._readers += change
        if log.scope.owner:
            self._readers_of[log.scope.owner] += change

    async def context(self, scope: Scope, context_id: str, limit: int) -> list[Snapshot]:
        """Return the newest tasks of a conversation, newest first."""
        page = await self.page(Query(scope=scope, limit=limit, context_id=context_id))
        found = [await self.peek(scope, record.id) for record in page.tasks]
        return [snapshot for snapshot in found if snapshot is not None]

    async def earlier(self, scope: Scope, task_id: str, seq: int) -> Task | None:
        """Return a task as it stood at event number `seq`, or if its log is gone as it is; None if there is no such task."""
        snapshot = await self.peek(scope, task_id)
        record = await self.store.load(scope, task_id)
        if snapshot is None or record is None or snapshot.seq <= seq:
            return snapshot.task if snapshot is not None else None
        task: Task | None = None
        for line in (line for _, lines in await self._rows(record.key) for line in lines.split(b"\n")):
            if line.startswith(b"m") and task is not None:
                task.add(v1.decode_message(line[1:]), self._stored_limits)
            elif line.startswith(b"v"):
                event = event_of(line[1:])
                if isinstance(event, Task):
                    task = event
                elif task is not None:
                    task.apply(event, self._stored_limits)
                seq -= 1
                if seq == 0:
                    break
        return task or snapshot.task

    # Reading the store

    async def whole(self, log: Log) -> list[bytes]:
        """Return the lines of a task's whole log, row by row. The private ones count for its size too, in every life alike."""
        notes = deque(await self.store.notes(log.key))
        rows: list[bytes] = []
        for row, lines in await self._rows(log.key):
            while notes and notes[0][0] < row:
                rows.append(notes.popleft()[1])
            rows.append(lines)
        rows += [lines for _, lines in notes]
        log.size = max(log.size, sum(len(lines) - lines.count(b"\n") for lines in rows))
        return rows

    async def _rows(self, key: int) -> list[tuple[int, bytes]]:
        rows: list[tuple[int, bytes]] = []
        last = -1
        while piece := [(row, lines) for row, lines in await self.store.rows(key, max(last, 0)) if row > last]:
            rows += piece
            last = piece[-1][0]
        return rows

    async def stored(self, key: int, after: int) -> list[Entry]:
        """Return stored entries after number `after`, a bounded piece; empty if there are none."""
        rows = await self.store.rows(key, after)
        return [entry for row, lines in rows for entry in entries_of(row, lines) if entry.seq > after]
