"""The read side of tasks: what is committed, to whoever reads along, in this process or any other.

A view is a cursor on the committed log: it costs an integer, however slow its reader is. All views
of one task share a tail, its newest events. The tail is fed by our own commits, or by reading the
store when another process has written; views do not know which.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ...model import FINAL, A2AError, Limits, TaskState, UnsupportedOperation, error_of
from ...protocol import Snapshot
from ...store import Namespace, Row
from .entries import Event, Ids, MessageAdded, PostRefused, entries_of, event_of, events_of
from .writer import WentBack, not_stored

if TYPE_CHECKING:
    from .log import Log

__all__ = ["Source", "Tail", "View", "refusal_of"]

TAIL_EVENTS = 256
TAIL_BYTES = 1 << 20
STREAM_OUTAGE_S = 30.0  # an outage of the store, before a stream ends with an error

_NONE: list[Event] = []


class Source(Protocol):
    """Where views get what is not in the tail."""

    limits: Limits

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def outage_s(self) -> float: ...

    def check_open(self, tail: "Tail") -> None:
        """Raise Unavailable if nothing more will be told of this task here."""
        ...

    async def events(self, tail: "Tail", pos: int) -> list[Event]:
        """Return events after this position from the store, a bounded piece."""
        ...

    async def snapshot_at(self, tail: "Tail", pos: int, history_length: int | None) -> Snapshot:
        """Return the task as it stood at this position; None stands for now."""
        ...

    async def snapshot_now(self, tail: "Tail") -> Snapshot: ...

    async def outcome(self, tail: "Tail", post: int, pos: int) -> int | PostRefused | None:
        """Return what the log says of a post after this position; None if nothing yet."""
        ...

    async def is_over(self, tail: "Tail") -> bool:
        """Whether the task has ended, nobody begins it anew, and the tail knows all of it."""
        ...

    def count(self, tail: "Tail", change: int) -> None:
        """One view more or less."""
        ...


class Tail:
    """The newest committed events of one task, and who waits for the next."""

    __slots__ = (
        "_posts",
        "_waiters",
        "artifacts",
        "cut_at",
        "cuts",
        "events",
        "ids",
        "is_gone",
        "is_lost",
        "key",
        "log",
        "namespace",
        "pos",
        "receipts",
        "senders",
        "seq",
        "skipped",
        "state",
        "views",
    )

    def __init__(
        self,
        key: int,
        ids: Ids,
        namespace: Namespace,
        *,
        pos: int,
        seq: int,
        state: TaskState,
        log: "Log | None",
        artifacts: list[str],
    ) -> None:
        self.key = key
        self.ids = ids
        self.namespace = namespace
        self.pos = pos  # up to here the log is known
        self.seq = seq
        self.state = state
        self.log = log  # if this process owns the task
        self.artifacts = artifacts  # their ids, in order, if the log is not here to ask
        self.events: list[Event] = []
        self.skipped = 0  # up to here there may be entries that were not looked at
        self.senders: dict[
            int, int
        ] = {}  # turns whose senders wait here for the task as it stands at their end, and how many
        self.receipts = 0
        self.views = 0
        # how often the store has lost the end of the log, and the position it was left at
        self.cuts = self.cut_at = 0
        self.is_gone = False  # the store does not have the task any more
        self.is_lost = (
            False  # another process goes on with the task, and nothing is told of it here
        )
        self._waiters: dict[
            asyncio.Future[None], int
        ] = {}  # with the turn whose end it waits for; 0 for everything
        self._posts: dict[
            int, int | PostRefused
        ] = {}  # what became of posts: the turn, or why there is none

    @property
    def is_used(self) -> bool:
        return bool(self.views or self.receipts)

    def expect(self, turn: int) -> None:
        """Somebody waits for the answer to a turn."""
        self.receipts += 1
        self.senders[turn] = self.senders.get(turn, 0) + 1

    def expect_no_longer(self, turn: int) -> None:
        self.receipts -= 1
        self.senders[turn] -= 1
        if not self.senders[turn]:
            del self.senders[turn]

    def add_outcomes(self, posts: dict[int, int | PostRefused]) -> None:
        """The owner has dealt with these posts."""
        self._posts |= posts
        self.wake()

    def extend(self, events: list[Event], pos: int) -> None:
        """The log has grown to this position. What is known already is ignored."""
        if pos <= self.pos:
            return
        self.pos = pos
        if events and events[0].seq > self.seq + 1:
            self.events = []  # some are missing: views read the store
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
            self._tell(events)

    def _tell(self, events: list[Event]) -> None:
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
        """The same, as another process wrote it."""
        for row in rows:
            if row.pos > self.pos + 1:
                self.events, self.seq = [], row.seq  # some are missing: views read the store
                self.skipped = row.pos
                self.wake()
            for pos, _, _, entry in entries_of([row], self.ids):
                if isinstance(entry, PostRefused):
                    self.add_outcomes({entry.post: entry})
                elif isinstance(entry, MessageAdded) and entry.post:
                    self.add_outcomes({entry.post: pos})
            events = list(events_of([row], self.ids))
            for event in events:
                if event.state is None:
                    artifact_id = event_of(event.data).artifact.artifact_id  # type: ignore[union-attr]  # the state says it is one
                    if artifact_id not in self.artifacts:
                        self.artifacts.append(artifact_id)
            self.extend(events, row.pos + row.data.count(b"\n"))

    def reset(self, pos: int, seq: int, state: TaskState) -> None:
        """The log is known up to here from now on. What lies between is read from the store."""
        if pos > self.pos:
            self.events, self.pos, self.seq, self.state = [], pos, seq, state
            self.skipped = pos
            self.wake()

    def cut(self, pos: int, seq: int, state: TaskState) -> None:
        """The store has lost what came after this position."""
        self.events, self.pos, self.seq, self.state = [], pos, seq, state
        self.skipped = self.cut_at = pos
        self.cuts += 1
        self.wake()

    def check_turn(self, turn: int, cuts: int) -> None:
        """Raise WentBack if the store has lost the message of a turn that was stored when there
        had been so many cuts.
        """
        if self.is_gone or (self.cuts > cuts and turn > self.cut_at):
            raise WentBack(self.ids.task_id)

    def after(self, seq: int) -> list[Event] | None:
        """The committed events after `seq` that are in memory; None if they have to be read from
        the store.
        """
        if seq >= self.seq:
            return _NONE
        first = self.seq - len(self.events) + 1
        return self.events[seq + 1 - first :] if seq + 1 >= first else None

    def post(self, post_id: int) -> int | PostRefused | None:
        """What became of a post: the number of its turn, or why there is none; None if that is not
        known yet.
        """
        return self._posts.pop(post_id, None)

    def changed(self, loop: asyncio.AbstractEventLoop, turn: int = 0) -> asyncio.Future[None]:
        """Done when there is something new; with a turn, when that ends."""
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters[waiter] = turn
        return waiter

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """Nobody waits there any more."""
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
        """An artifact's place among those of its task."""
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


class View:
    """A cursor on one task's committed log.

    With a turn it ends where the turn is answered, or refused; without one at the end of the task.
    """

    __slots__ = (
        "_cuts",
        "_first",
        "_is_over",
        "_pos",
        "_refusal",
        "_source",
        "_tail",
        "_timer",
        "_turn",
        "_until",
        "_waiter",
        "cursor",
        "limits",
        "on_close",
    )

    def __init__(
        self,
        source: Source,
        tail: Tail,
        *,
        seq: int,
        pos: int,
        turn: int = 0,
        first: Event | None = None,
    ) -> None:
        self._source = source
        self._tail = tail
        self._turn = turn
        self._cuts = tail.cuts
        self._pos = pos  # as `cursor`, by position
        self._first = first
        self._is_over = False
        self._refusal: A2AError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self.cursor = seq  # the last event that was read
        self.limits = source.limits
        self.on_close: Callable[[], None] | None = None  # called once, when it is closed
        source.count(tail, 1)

    @property
    def task_id(self) -> str:
        return self._tail.ids.task_id

    @property
    def state(self) -> TaskState:
        """Of the task now, which may be ahead of what was read."""
        log = self._tail.log
        return log.state if log is not None else self._tail.state

    async def next(self, wait_s: float) -> list[Event] | None:
        """Return what comes next: an empty list at the end, None if nothing came for `wait_s`.

        Raises:
            UnsupportedOperation: The task ended before the view's own message got its turn.
            Unavailable: The store fails, or this server stops.
        """
        if self._first is not None:
            first, self._first = self._first, None
            self._is_over = self.ends_at(first)
            return [first]
        if self._is_over:
            if self._refusal is not None:
                raise self._refusal
            return []
        tail = self._tail
        if tail.is_gone or tail.cuts > self._cuts:
            tail.check_turn(self._turn, self._cuts)
            self._cuts = tail.cuts
            if self.cursor > tail.seq:
                return self._up_to_the_end([await self._gap()])
        found = tail.after(self.cursor)
        if found is not None and not found:
            if tail.state in FINAL and tail.pos >= self._turn:
                return []  # resumed after the last event: nothing follows it
            self._source.check_open(tail)
            self._waiter = tail.changed(self._source.loop)
            self._set_timer(wait_s)
            try:
                await self._waiter
            except BaseException:
                tail.forget(self._waiter)
                raise
            found = tail.after(self.cursor)
            if found is not None and not found:
                tail.forget(self._waiter)
                if self._source.outage_s > STREAM_OUTAGE_S:
                    raise not_stored()
                return None
        if found is None:
            found = await self._source.events(tail, self._pos)
            found = [event for event in found if event.seq > self.cursor]
            if not found or found[0].seq > self.cursor + 1:
                found = [await self._gap()]
        return self._up_to_the_end(found)

    async def post_outcome(self, post_id: int) -> int | PostRefused:
        """Wait until the owner has dealt with a post: the number of its turn, or why there
        is none.

        Raises:
            UnsupportedOperation: The task ended first: nobody will read the post.
            Unavailable: The store fails, or this server stops.
        """
        tail, checked = self._tail, self._pos
        while (found := tail.post(post_id)) is None:
            self._source.check_open(tail)
            changed = tail.changed(self._source.loop)  # from here on, what happens is noticed
            try:
                if tail.skipped > checked:
                    checked = tail.skipped
                    found = await self._source.outcome(tail, post_id, self._pos)
                    if found is not None:
                        break
                if tail.state in FINAL and await self._source.is_over(tail):
                    if (found := tail.post(post_id)) is not None:
                        break
                    raise _ended(tail.ids, tail.state)
                await changed
            finally:
                tail.forget(changed)
        return found

    @property
    def is_over(self) -> bool:
        """Nothing follows what has been returned."""
        return self._is_over and self._refusal is None

    def _set_timer(self, wait_s: float) -> None:
        """Wait no longer than this. One timer serves many waits: most end long before it would
        ring.
        """
        loop = self._source.loop
        self._until = loop.time() + wait_s
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        loop = self._source.loop
        if loop.time() + 0.001 >= self._until:
            self.nudge()
        else:
            self._timer = loop.call_at(self._until, self._ring)

    async def _gap(self) -> Event:
        """What was to come next has been purged: the task as it is takes its place, which says that
        something is missing.
        """
        snapshot = await self._source.snapshot_now(self._tail)
        return Event(snapshot.seq, self._tail.pos, b'{"task":%b}' % snapshot.data, snapshot.state)

    def _up_to_the_end(self, found: list[Event]) -> list[Event]:
        for i, event in enumerate(found):
            if event.state is not None and self.ends_at(event):
                self._is_over = True
                # Readers were shown a rejection of their own turn: that is its answer.
                is_shown = event.state is TaskState.REJECTED and any(
                    turn == self._turn for turn, _, _ in event.reasons
                )
                if self._turn and self._turn not in event.answers and not is_shown:
                    self._refusal = refusal_of(event, self._turn, self._tail)
                found = found[: i + 1]
                break
        self.cursor, self._pos = found[-1].seq, found[-1].pos
        return found

    def ends_at(self, event: Event) -> bool:
        """Whether the stream is over after this event. A turn may outlast the end of its task, if
        its message reopens that.
        """
        if not self._turn:
            return event.state in FINAL
        return self._turn in event.refuses or (
            self._turn in event.answers and event.state is not TaskState.AUTH_REQUIRED
        )

    def index(self, artifact_id: str) -> int:
        """An artifact's place among those of its task."""
        return self._tail.index(artifact_id)

    def nudge(self) -> None:
        """Make a waiting `next` return, though nothing came."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._source.count(self._tail, -1)
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()


def refusal_of(event: Event, turn: int, tail: Tail) -> A2AError:
    """The error of a message that this event refuses: the task ended first, or the message does not
    fit. It stays in the history.
    """
    for refused, error, text in event.reasons:
        if refused == turn:
            return error_of(error, text)
    return _ended(tail.ids, event.state or tail.state)


def _ended(ids: Ids, state: TaskState) -> A2AError:
    task_id, context_id = ids
    return UnsupportedOperation(
        f"task {task_id} became {state.word} before it took your message; "
        f"send it again without taskId to start a new task in context {context_id}",
        taskId=task_id,
        contextId=context_id,
    )
