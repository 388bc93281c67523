"""All views of this process: opened here, and counted."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ...model import FINAL, TooManyRequests, Unavailable, error_of
from ...protocol import Snapshot
from ...store import Idempotency, Namespace, Record
from ..log import (
    Event,
    Ids,
    Log,
    Lost,
    MessageAdded,
    PostRefused,
    WentBack,
    entries_of,
    events_of,
    state_of,
)
from ..ownership import LIVE, TaskSlot
from .remote import RemoteTails
from .tail import Tail
from .view import View, unread

if TYPE_CHECKING:
    from ..tasks import Tasks

__all__ = ["Views"]


class Views:
    """Opens views of tasks, and is where they get what is not in their tail."""

    def __init__(self, tasks: "Tasks") -> None:
        self._tasks = tasks
        self._store = tasks.store
        self._reader = tasks.reader
        self._directory = tasks.directory
        self.limits = tasks.limits
        self.open = 0
        self._of_caller: Counter[str] = Counter()
        # Called with the tail and the turn of each view that is for one: tests look at them.
        self.on_turn: Callable[[Tail, int], None] | None = None
        self.remote = RemoteTails(tasks.store, tasks.directory)
        tasks.directory.on_unowned = self._unowned

    def close(self) -> None:
        self.remote.close()

    # Opening

    async def after(self, of: Log | Record, seq: int, *, pos: int | None = None) -> View:
        """Return a cursor on a task, after event `seq`, to the end of the task."""
        if pos is None:
            pos = await self._store.locate(of.key, seq) if seq else 0
        return View(self, self.tail(of), seq=seq, pos=pos)

    async def latest(self, of: Log | Record) -> View:
        """Return a cursor on a task, behind what is stored of it."""
        if isinstance(of, Log):
            return await self.after(of, of.commits.stored_seq, pos=of.commits.stored_pos)
        return await self.after(of, of.seq, pos=of.pos)

    async def now(
        self, of: Log | Record, *, turn: int = 0, history_length: int | None = None
    ) -> View:
        """Return a cursor on a task that begins with the task as it is. With a turn, it ends where
        that is answered.
        """
        if isinstance(of, Log):
            pos = of.pos
            is_answered = turn not in of.turns and all(
                waiting.number != turn for waiting in of.inbox
            )
            with of.slot.pinned():  # while its commit is awaited
                snapshot: Snapshot = await of.commits.stored(of.snapshot(history_length))
        else:
            pos, snapshot = of.pos, await self._reader.shown(of, history_length)
            is_answered = bool(turn) and await self._is_answered(of, turn)
        answers = (turn,) if turn and is_answered else ()
        first = Event(snapshot.seq, pos, b'{"task":%b}' % snapshot.data, snapshot.state, answers)
        return View(self, self.tail(of), seq=snapshot.seq, pos=pos, turn=turn, first=first)

    async def at(self, tail: Tail, event: Event, turn: int, history_length: int | None) -> View:
        """Return a cursor on a task that begins with the task as it was after an event, and ends
        where the turn is answered.
        """
        snapshot = await self.snapshot_at(tail, event.pos, history_length)
        first = msgspec.structs.replace(event, data=b'{"task":%b}' % snapshot.data)
        return View(self, tail, seq=event.seq, pos=event.pos, turn=turn, first=first)

    async def _is_answered(self, of: Record, turn: int) -> bool:
        """Return whether the end of a turn was shown."""
        pos = turn
        while rows := await self._store.read({of.key: pos}):
            if rows[0].pos > pos + 1:
                return True  # it was purged, which happens to what has ended
            events = list(events_of(rows, Ids(of.id, of.context_id)))
            # What came since is still to be shown.
            shown = [event for event in events if event.pos <= of.pos]
            if any(turn in event.answers or turn in event.refuses for event in shown):
                return True
            pos = rows[-1].end
        return state_of(of.state) in FINAL

    async def turn_of(self, of: Log | Record, key: Idempotency) -> int:
        """Return the turn of a message that was posted under a key, once its owner has read it.
        Raises the error it was refused with.

        Raises:
            Unavailable: Its owner has not read it in time.
        """
        view = await self.after(of, of.seq, pos=of.pos)
        try:
            tail = self.tail(of)
            outcome = await self.outcome(tail, key.post, 0)
            if outcome is None and tail.state in FINAL and await self._is_purged(tail):
                return tail.pos  # what the log said is in the task
            if outcome is None:
                outcome = await view.post_outcome(key.post)
        except TimeoutError:
            if await self._is_purged(tail, since_ms=key.at_ms):
                return 1  # as much as any turn whose answer is gone: the task has it
            raise unread(tail.ids.task_id) from None
        finally:
            view.close()
        if isinstance(outcome, PostRefused):
            raise error_of(outcome.error, outcome.text, outcome.detail)
        return outcome

    async def _is_purged(self, tail: Tail, since_ms: int = 0) -> bool:
        """Return whether the log of a task has lost its beginning, and with it all that was stored
        before this time.
        """
        rows = await self._store.read({tail.slot.key: 0})
        return not rows or (rows[0].pos != 1 and rows[0].at_ms >= since_ms)

    async def is_purged_at(self, tail: Tail, pos: int) -> bool:
        """Return whether the log of a task has lost what came after a position."""
        rows = await self._store.read({tail.slot.key: pos})
        return bool(rows) and rows[0].pos > pos + 1

    def check(self, namespace: Namespace, task_id: str) -> None:
        """Raise TooManyRequests if one more stream would be too many; before anything is done for
        it.
        """
        if self._tasks.is_out:
            raise self._tasks.refusal()  # no event of it would ever come here
        slot = self._directory.slot_at((namespace, task_id))  # also of a task that is not ours
        tail = slot.tail if slot is not None else None
        of_task = tail.views if tail is not None else 0
        of_caller = self._of_caller[namespace.caller] if namespace.caller else 0
        limits = self.limits
        for count, most, whose, name in (
            (of_task, limits.streams_per_task, "this task", "streams_per_task"),
            (of_caller, limits.streams_per_caller, "you", "streams_per_caller"),
            (self.open, limits.streams, "this server", "streams"),
        ):
            if count >= most:
                raise TooManyRequests(
                    f"{count} streams of {whose} are open, which is the limit",
                    retry_after_s=5,
                    limit=name,
                )

    def tail(self, of: Log | Record) -> Tail:
        """Return the tail of a task. Whoever uses it counts themselves, and lets go of it."""
        slot = self._directory.read(of)
        if slot.tail is not None:
            return slot.tail
        log = slot.log if slot.state in LIVE else None
        if log is None and isinstance(of, Log) and of.commits.is_lost:
            self._directory.leave(slot)
            raise Lost()  # while its reader looked for its place in it
        source = log or of
        if isinstance(source, Log):
            stored, at_ms = source.commits, 0
            pos, seq, state = stored.stored_pos, stored.stored_seq, stored.stored_state
        else:
            pos, seq, state = source.pos, source.seq, state_of(source.state)
            at_ms = source.committed_ms
        ids = of.ids if isinstance(of, Log) else Ids(of.id, of.context_id)
        tail = Tail(slot, ids, slot.place[0], pos=pos, seq=seq, state=state, at_ms=at_ms)
        slot.read(tail)
        if log is None:
            self.remote.follow(tail)
        return tail

    # What views ask for

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._tasks.loop

    @property
    def outage_s(self) -> float:
        return self._tasks.writer.outage_s

    @property
    def is_out(self) -> bool:
        return self._tasks.writer.is_out

    def count(self, tail: Tail, change: int, turn: int = 0) -> None:
        if turn and self.on_turn is not None:
            self.on_turn(tail, turn)
        tail.views += change
        self.open += change
        if tail.namespace.caller:
            self._of_caller[tail.namespace.caller] += change
        self.let_go(tail)

    def let_go(self, tail: Tail) -> None:
        """Forget a tail that nobody uses any more."""
        slot, log = tail.slot, tail.log
        if tail.is_used or slot.tail is not tail:
            return
        slot.read_no_longer()
        self.remote.follow_no_longer(tail)
        if log is not None:
            self._directory.release(log)
        self._directory.leave(slot)

    def check_open(self, tail: Tail) -> None:
        tasks = self._tasks
        if tasks.is_out:
            raise tasks.refusal()
        if tail.is_gone:
            raise WentBack(tail.ids.task_id)
        log = tail.log
        is_stopping = tasks.is_closing or (tasks.is_draining and tail.slot.run is None)
        # Else the end of this task is still to come.
        if is_stopping and (log is None or log.commits.is_lost or log.commits.is_stored):
            raise tasks.parting(tail.ids)

    async def events(self, tail: Tail, pos: int) -> list[Event]:
        while rows := await self._store.read({tail.slot.key: pos}):
            if events := list(events_of(rows, tail.ids)):
                return events
            pos = rows[-1].end  # nothing in there that can be seen
        return []

    async def snapshot_at(self, tail: Tail, pos: int, history_length: int | None) -> Snapshot:
        return await self._reader.shown_at(await self.record(tail), pos, history_length)

    async def stored_snapshot(
        self, of: Log | Record, history_length: int | None = None
    ) -> Snapshot:
        """Return the task as it is now, once all of it is stored."""
        return await self._reader.stored_snapshot(of, history_length)

    async def snapshot_now(self, tail: Tail) -> Snapshot:
        if tail.log is not None and not tail.log.commits.is_lost:
            made: Snapshot = await tail.log.commits.stored(tail.log.snapshot())
            return made
        return await self._reader.shown(await self.record(tail), None)

    async def outcome(self, tail: Tail, post: int, pos: int) -> int | PostRefused | None:
        while rows := await self._store.read({tail.slot.key: pos}):
            for at, _, _, entry in entries_of(rows, tail.ids):
                pos = at
                if isinstance(entry, MessageAdded) and entry.post == post:
                    return at
                if isinstance(entry, PostRefused) and entry.post == post:
                    return entry
        return None

    async def is_over(self, tail: Tail) -> bool:
        record = await self.record(tail)
        return state_of(record.state) in FINAL and not record.owner and tail.pos >= record.pos

    async def record(self, tail: Tail) -> Record:
        """Return a task as the store has it."""
        record = await self._store.load(tail.namespace, tail.ids.task_id)
        if record is None:
            raise Unavailable("the task is gone")
        return record

    def wake_all(self) -> None:
        for slot in self._directory.slots():
            if slot.tail is not None:
                slot.tail.wake()

    def _unowned(self, slot: TaskSlot) -> None:
        """Follow a task that somebody reads and that is not ours any more: others may write it."""
        tail = slot.tail
        if tail is None:
            return
        if tail.state in FINAL:
            return  # who reads it was woken with its last event
        if not self._tasks.is_draining and tail.needs_more:
            self.remote.follow(tail)
        tail.wake()
