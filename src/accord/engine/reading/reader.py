"""Reading tasks as they are: as our own log has them, or as the store does."""

from collections.abc import AsyncIterator, Callable

import msgspec

from ...model import Limits, Task
from ...observe import NO_TRACE, Trace
from ...protocol import Snapshot
from ...store import Namespace, Page, Query, Record, Store
from ..log import (
    EncodedParts,
    Event,
    Ids,
    Log,
    Numbered,
    about_of,
    are_whole,
    entries_of,
    events_of,
    read_snapshot,
    read_task,
)
from ..offloading import offload
from ..ownership import Directory
from .timeline import TimelineScan

__all__ = ["Reader"]


class Reader:
    """Returns tasks, pages of them, and their entries."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        stored_limits: Limits,
        check_open: Callable[[], None],
    ) -> None:
        self._store = store
        self._directory = directory
        self._stored_limits = stored_limits
        self._check_open = check_open

    async def entries(self, log: Log) -> list[Numbered]:
        """Return all stored entries of a task, from the first on."""
        rows = []
        pos = 0
        while piece := await self._store.read({log.key: pos}):
            rows += piece
            pos = piece[-1].end
        log.size = max(log.size, sum(len(row.data) for row in rows))
        return list(entries_of(rows, log.ids))

    async def peek(
        self, namespace: Namespace, task_id: str, history_length: int | None = None
    ) -> Snapshot | None:
        """Return a task once all of it is stored; None if there is no such task."""
        self._check_open()
        log = self._directory.log((namespace, task_id))
        # If the store is not sure, another process may have continued the task: ask the store.
        if log is not None and self._store.is_sure:
            made: Snapshot = await log.commits.stored(log.snapshot(history_length))
            return made
        record = await self._store.load(namespace, task_id)
        return await self.shown(record, history_length) if record is not None else None

    async def page(self, query: Query) -> Page:
        self._check_open()
        return await self._store.page(query)

    def are_whole(self, records: list[Record]) -> bool:
        """Return whether those of these tasks that have not gone on since their snapshot can be
        sent as they are stored, without decoding them.
        """
        return self._store.is_volatile or are_whole(
            [record.head for record in records if not record.is_stale]
        )

    async def shown(self, record: Record, history_length: int | None) -> Snapshot:
        """Return the snapshot of a stored task.

        Raises:
            ValueError: The stored task is damaged.
        """
        return await read_snapshot(
            record, history_length, self._stored_limits, is_trusted=self._store.is_volatile
        )

    async def origin(self, namespace: Namespace, task_id: str) -> str:
        """Return the protocol version that created a task; empty if there is no such task."""
        log = self._directory.log((namespace, task_id))
        if log is not None:
            return log.about.origin
        record = await self._store.load(namespace, task_id)
        return about_of(record.about).origin if record is not None else ""

    async def trace(self, namespace: Namespace, task_id: str) -> Trace:
        """Return the trace that the first message of a task belongs to."""
        log = self._directory.log((namespace, task_id))
        if log is not None:
            return log.about.sender.trace
        record = await self._store.load(namespace, task_id)
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
        record = await self._store.load(namespace, task_id)
        if record is None:
            return None
        return (await self.shown_at(record, pos, None)).task

    async def snapshot_after(self, namespace: Namespace, task_id: str, pos: int) -> Snapshot | None:
        """Return the snapshot of a task at a position of its log; None if there is no such task."""
        record = await self._store.load(namespace, task_id)
        return await self.shown_at(record, pos, None) if record is not None else None

    async def place(self, namespace: Namespace, task_id: str) -> tuple[int, int] | None:
        """Return a task's key and the number of its last stored event.

        Return None if there is no such task.
        """
        self._check_open()
        log = self._directory.log((namespace, task_id))
        if log is not None:
            await log.commits.stored()
            return log.key, log.commits.stored_seq
        record = await self._store.load(namespace, task_id)
        return (record.key, record.seq) if record is not None else None

    async def with_timeline(
        self,
        namespace: Namespace,
        task_id: str,
        snapshot: Snapshot,
        history_length: int | None,
    ) -> Snapshot:
        """Return a snapshot with how the task came about, if the log still says that."""
        record = await self._store.load(namespace, task_id)
        if record is None:
            return snapshot
        scan = TimelineScan(Ids(record.id, record.context_id), snapshot, history_length)
        pos = 0
        while not scan.is_done and (rows := await self._store.read({record.key: pos})):
            if not pos and rows[0].pos != 1:
                return snapshot  # purged
            await offload(sum(len(row.data) for row in rows), scan.take, rows)
            pos = rows[-1].end
        if not scan.is_whole:
            return snapshot  # purged, perhaps while it was read
        return msgspec.structs.replace(snapshot, timeline=await offload(scan.size, scan.timeline))

    async def events_after(
        self, key: int, task_id: str, context_id: str, seq: int
    ) -> AsyncIterator[Event]:
        """Yield the stored events of a task after number `seq`, to the end of its log."""
        pos = await self._store.locate(key, seq) if seq else 0
        while rows := await self._store.read({key: pos}):
            for event in events_of(rows, Ids(task_id, context_id)):
                if event.seq > seq:
                    yield event
            pos = rows[-1].end

    async def shown_at(self, record: Record, pos: int, history_length: int | None) -> Snapshot:
        """Return the snapshot of a stored task at a position of its log.

        If the log was deleted, return the current snapshot.
        """
        # The stored snapshot is newer than the position. Rebuild the task from its first entry.
        if record.pos > pos and record.snap > pos:
            rows = await self._store.read({record.key: 0})
            while rows and rows[-1].end < pos:
                more = await self._store.read({record.key: rows[-1].end})
                if not more:
                    break
                rows += more
            if rows and rows[0].pos == 1:
                record = msgspec.structs.replace(record, snap=0, head=b"", artifacts=b"", rows=rows)
        if record.pos <= pos or record.snap > pos:
            return await self.shown(record, history_length)
        fold, parts = await offload(record.size, read_task, record, self._stored_limits, pos)
        # Numbers have no gaps, and the rows after the snapshot may begin behind the position.
        events = events_of(record.rows, Ids(record.id, record.context_id))
        seq = next((event.seq - 1 for event in events if event.pos > pos), record.seq)
        return (parts or EncodedParts()).snapshot(fold.joined(), seq, history_length)

    async def stored_snapshot(
        self, of: Log | Record, history_length: int | None = None
    ) -> Snapshot:
        """Return the snapshot of a task once all of it is stored."""
        if not isinstance(of, Log):
            return await self.shown(of, history_length)
        made: Snapshot = await of.commits.stored(of.snapshot(history_length))
        return made
