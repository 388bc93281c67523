"""The newest committed events of a task, for all who read it in this process.

It is fed by our own commits, or by reading the store when another process has written. Readers do
not know which.
"""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ...model import FINAL, TaskState
from ...store import Namespace, Row
from ..log import Event, Ids, MessageAdded, PostRefused, WentBack, entries_of, event_of, events_of

if TYPE_CHECKING:
    from ..log import Log
    from ..ownership import TaskSlot

__all__ = ["KnownRow", "Tail"]

TAIL_EVENTS = 256
TAIL_BYTES = 1 << 20

_NONE: list[Event] = []


class KnownRow(NamedTuple):
    """A row of the log that was read, or the last one of a task that was."""

    pos: int  # of its last entry
    seq: int
    at_ms: int  # when it was committed


class Tail:
    """The newest committed events of one task, and who waits for the next."""

    __slots__ = (
        "_known",
        "_posts",
        "_waiters",
        "artifacts",
        "cuts",
        "events",
        "ids",
        "is_gone",
        "log",
        "namespace",
        "pos",
        "receipts",
        "senders",
        "seq",
        "skipped",
        "slot",
        "start",
        "state",
        "views",
    )

    def __init__(
        self,
        slot: "TaskSlot",
        ids: Ids,
        namespace: Namespace,
        *,
        pos: int,
        seq: int,
        state: TaskState,
        at_ms: int = 0,
    ) -> None:
        self.slot = slot
        self.ids = ids
        self.namespace = namespace
        self.pos = pos  # up to here the log is known
        self.seq = seq
        self.state = state
        self.log: Log | None = None  # while the task is ours; set by the slot
        self.artifacts: list[str] = []  # their ids, in order, if the log is not here to ask
        self.events: list[Event] = []
        self.start = pos  # all events after this position are among these
        self.skipped = 0  # up to here there may be entries that were not looked at
        # turns whose senders wait here for the task as it stands at their end, and how many
        self.senders: dict[int, int] = {}
        self.receipts = 0
        self.views = 0
        # What was read from the store, in order: the store may lose commits, and others may be made
        # in their place. Empty if our own log has fed this tail last.
        self._known = [KnownRow(pos, seq, at_ms)] if at_ms else []
        # How often that was so: up to which position the log is still what was read.
        self.cuts: list[int] = []
        self.is_gone = False  # the store does not have the task any more
        # with the turn whose end it waits for; 0 for everything
        self._waiters: dict[asyncio.Future[None], int] = {}
        # what became of posts: the turn, or why there is none
        self._posts: dict[int, int | PostRefused] = {}

    @property
    def is_used(self) -> bool:
        return bool(self.views or self.receipts)

    @property
    def needs_more(self) -> bool:
        """Return whether somebody waits for what is not stored yet."""
        ended = {turn for event in self.events for turn in (*event.answers, *event.refuses)}
        return bool(self.views) or any(turn not in ended for turn in self.senders)

    def expect(self, turn: int) -> None:
        """Count one more who waits for the answer to a turn."""
        self.receipts += 1
        self.senders[turn] = self.senders.get(turn, 0) + 1

    def expect_no_longer(self, turn: int) -> None:
        self.receipts -= 1
        self.senders[turn] -= 1
        if not self.senders[turn]:
            del self.senders[turn]

    def add_outcomes(self, posts: dict[int, int | PostRefused]) -> None:
        """Note what became of posts that the owner has dealt with."""
        self._posts |= posts
        self.wake()

    def extend(self, events: list[Event], pos: int) -> None:
        """Add what the log has grown by, to this position. What is known already is ignored."""
        if pos <= self.pos:
            return
        self.pos = pos
        if events and events[0].seq > self.seq + 1:
            self.events, self.start = [], events[0].pos - 1  # views read what is missing
        if events and events[0].seq <= self.seq:
            events = [event for event in events if event.seq > self.seq]
        if not events:
            return
        self.seq = events[-1].seq
        self.events += events
        for event in reversed(events):
            if event.state is not None:
                self.state = event.state
                break
        if len(self.events) > 2 * TAIL_EVENTS:
            self._trim()
        if self._waiters:
            self._notify(events)

    def _notify(self, events: list[Event]) -> None:
        """Wake who waits for one of these events."""
        ended = {turn for event in events for turn in (*event.answers, *event.refuses)}
        woken = [
            waiter
            for waiter, turn in self._waiters.items()
            if not turn or turn in ended or self.state in FINAL
        ]
        for waiter in woken:
            del self._waiters[waiter]
            if not waiter.done():
                waiter.set_result(None)

    def extend_rows(self, rows: list[Row]) -> None:
        """Add what the log has grown by, as another process wrote it."""
        for row in rows:
            events = list(events_of([row], self.ids))
            if row.pos > self.pos + 1:  # some are missing: views read the store
                self.events, self.seq = [], row.seq - len(events)
                self.skipped, self.start = row.pos, row.pos - 1
                if self.state in FINAL:
                    self.state = TaskState.WORKING  # it was begun anew
                self.wake()
            for pos, _, _, entry in entries_of([row], self.ids):
                if isinstance(entry, PostRefused):
                    self.add_outcomes({entry.post: entry})
                elif isinstance(entry, MessageAdded) and entry.post:
                    self.add_outcomes({entry.post: pos})
            for event in events:
                if event.state is None:
                    artifact_id = event_of(event.data).artifact.artifact_id  # type: ignore[union-attr]  # the state says it is one
                    if artifact_id not in self.artifacts:
                        self.artifacts.append(artifact_id)
            end = row.end
            self._know(end, row)
            self.extend(events, end)

    def _know(self, end: int, row: Row) -> None:
        if end <= self.pos:
            return
        known = self.known
        if row.pos > self.pos + 1:
            known.clear()
        known.append(KnownRow(end, row.seq, row.at_ms))
        if len(known) > 2 * TAIL_EVENTS:
            del known[:-TAIL_EVENTS]

    @property
    def known(self) -> list[KnownRow]:
        """Return the rows up to where the log is known, as they were read from the store; none if
        it is known from our own log.
        """
        if self._known and self._known[-1].pos != self.pos:
            self._known = []
        return self._known

    def is_followed_by(self, row: Row) -> bool:
        """Return whether the row after what is known follows what was read, and nothing else that
        the store has in its place.
        """
        if row.pos > self.pos + 1 or not self.known:
            return True  # what lies between was purged, or nothing was read yet
        return row.pos > self.pos and row.before_ms in (0, self.known[-1].at_ms)

    def reset(self, pos: int, seq: int, state: TaskState) -> None:
        """Go on from here. What lies between is read from the store."""
        if pos > self.pos:
            self.events, self.pos, self.seq, self.state = [], pos, seq, state
            self.skipped = self.start = pos
            self.wake()

    def cut(self, end: KnownRow, state: TaskState, *, same_to: int) -> None:
        """Go on behind this row: the store has lost what was read after the position `same_to`."""
        self._known = [end] if end.at_ms else []
        self.events, self.pos, self.seq, self.state = [], end.pos, end.seq, state
        self.skipped = self.start = end.pos
        self.cuts.append(same_to)
        self.wake()

    def cut_since(self, cuts: int) -> int | None:
        """Return up to which position the log is what it was when there had been so many cuts;
        None if nothing was lost since.
        """
        return min(self.cuts[cuts:], default=None)

    def check_turn(self, turn: int, cuts: int) -> None:
        """Raise WentBack if the store has lost the message of a turn that was stored when there
        had been so many cuts.
        """
        cut = self.cut_since(cuts)
        if self.is_gone or (cut is not None and turn > cut):
            raise WentBack(self.ids.task_id)

    def after(self, seq: int) -> list[Event] | None:
        """Return the committed events after `seq` that are in memory; None if they have to be read
        from the store.
        """
        if seq >= self.seq:
            return _NONE
        first = self.seq - len(self.events) + 1
        return self.events[seq + 1 - first :] if seq + 1 >= first else None

    def seq_at(self, pos: int) -> int | None:
        """Return the number of the last event up to a position; None if that is not in memory."""
        if not self.start <= pos <= self.pos:
            return None
        return self.seq - sum(event.pos > pos for event in self.events)

    def post(self, post_id: int) -> int | PostRefused | None:
        """Return what became of a post: the number of its turn, or why there is none; None if that
        is not known yet.
        """
        return self._posts.pop(post_id, None)

    def changed(self, loop: asyncio.AbstractEventLoop, turn: int = 0) -> asyncio.Future[None]:
        """Return a future that is done when there is something new; with a turn, when that ends."""
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters[waiter] = turn
        return waiter

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """Drop a future that nobody waits for any more."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Have all views look again."""
        if not self._waiters:
            return
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def index(self, artifact_id: str) -> int:
        """Return an artifact's place among those of its task."""
        known = (
            [one.artifact_id for one in self.log.draft.artifacts]
            if self.log is not None
            else self.artifacts
        )
        return known.index(artifact_id) if artifact_id in known else 0

    def _trim(self) -> None:
        """Keep a short tail; views further behind read the store."""
        size, keep = 0, 0
        for event in reversed(self.events):
            size += len(event.data)
            if keep == TAIL_EVENTS or size > TAIL_BYTES:
                break
            keep += 1
        del self.events[: len(self.events) - keep]
        self.start = self.events[0].pos - 1 if self.events else self.pos
