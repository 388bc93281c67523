"""A cursor on the committed log of a task: it costs an integer, however slow its reader is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from ...model import (
    FINAL,
    A2AError,
    Limits,
    TaskState,
    Unavailable,
    UnsupportedOperation,
    error_of,
)
from ...protocol import Snapshot
from ..log import Event, Ids, PostRefused, not_stored
from .tail import Tail

__all__ = ["OUTCOME_S", "Source", "View", "refusal_of", "unread"]

STREAM_OUTAGE_S = 30.0  # an outage of the store, before a stream ends with an error
OUTCOME_S = 30.0  # for the owner of a task to deal with a post


class Source(Protocol):
    """Where views get what is not in the tail."""

    limits: Limits

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def outage_s(self) -> float: ...

    def check_open(self, tail: "Tail") -> None:
        """Raise Unavailable if no more events of this task will come here."""
        ...

    async def events(self, tail: "Tail", pos: int) -> list[Event]:
        """Return events after this position from the store, a bounded piece."""
        ...

    async def snapshot_at(self, tail: "Tail", pos: int, history_length: int | None) -> Snapshot:
        """Return the task as it stood at this position."""
        ...

    async def snapshot_now(self, tail: "Tail") -> Snapshot: ...

    async def outcome(self, tail: "Tail", post: int, pos: int) -> int | PostRefused | None:
        """Return what the log says of a post after this position; None if nothing yet."""
        ...

    async def is_over(self, tail: "Tail") -> bool:
        """Return whether the task has ended, nobody begins it anew, and the tail knows all."""
        ...

    def count(self, tail: "Tail", change: int, turn: int = 0) -> None:
        """Count one view more or less; a new one may be for one turn."""
        ...


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
        "give",
        "has_lost",
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
        self._cuts = len(tail.cuts)
        self._pos = pos  # as `cursor`, by position
        self._first = first
        self._is_over = False
        self._refusal: A2AError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self.cursor = seq  # the last event that was read
        self.has_lost = False  # the store has lost some of what was read
        self.limits = source.limits
        # Writes files into events on their way out; None: they have none.
        self.give: Callable[[list[Event]], Awaitable[list[Event]]] | None = None
        self.on_close: Callable[[], None] | None = None  # called once, when it is closed
        source.count(tail, 1, turn)

    @property
    def task_id(self) -> str:
        return self._tail.ids.task_id

    @property
    def state(self) -> TaskState:
        """Return the state of the task now, which may be ahead of what was read."""
        log = self._tail.log
        return log.state if log is not None else self._tail.state

    async def next(self, wait_s: float) -> list[Event] | None:
        """Return what comes next, with its files written out, as `_next` does."""
        events = await self._next(wait_s)
        return events if self.give is None or not events else await self.give(events)

    async def _next(self, wait_s: float) -> list[Event] | None:
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
        if (lost := self._lost()) is not None:
            return self._up_to_the_end([await self._gap(lost)])
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
            if (lost := self._lost()) is not None:
                return self._up_to_the_end([await self._gap(lost)])
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
            TimeoutError: The owner has not dealt with it for OUTCOME_S.
        """
        async with asyncio.timeout(OUTCOME_S):
            return await self._post_outcome(post_id)

    async def _post_outcome(self, post_id: int) -> int | PostRefused:
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
        """Return whether nothing follows what has been returned."""
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

    def _lost(self) -> int | None:
        """Return up to which position the store still has what was read; None if it has all of it.

        Raises:
            WentBack: It has lost the task, or the view's own message.
        """
        tail = self._tail
        if not tail.is_gone and len(tail.cuts) == self._cuts:
            return None
        tail.check_turn(self._turn, self._cuts)
        cut, self._cuts = tail.cut_since(self._cuts), len(tail.cuts)
        if cut is None or self._pos <= cut:
            return None
        self.has_lost = True
        return cut

    async def _gap(self, pos: int = 0) -> Event:
        """Return the task, as it is or as it stood at a position, in place of what was to come next
        and has been purged or lost. Its number shows that something is missing.
        """
        source, tail = self._source, self._tail
        snapshot = await (source.snapshot_at(tail, pos, None) if pos else source.snapshot_now(tail))
        return Event(snapshot.seq, pos or tail.pos, b'{"task":%b}' % snapshot.data, snapshot.state)

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
        """Return whether the stream is over after this event. A turn may outlast the end of its
        task, if its message reopens that.
        """
        if not self._turn:
            return event.state in FINAL
        return self._turn in event.refuses or (
            self._turn in event.answers and event.state is not TaskState.AUTH_REQUIRED
        )

    def index(self, artifact_id: str) -> int:
        """Return an artifact's place among those of its task."""
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
    """Return the error of a message that this event refuses: the task ended first, or the message
    does not fit. It stays in the history.
    """
    for refused, error, text in event.reasons:
        if refused == turn:
            return error_of(error, text)
    return _ended(tail.ids, event.state or tail.state)


def unread(task_id: str) -> A2AError:
    """The error of a message that the owner of its task has not read for OUTCOME_S."""
    return Unavailable(
        f"the message for task {task_id} is stored, but its process has not read it yet; get the "
        "task in a while",
        retry_after_s=5,
        taskId=task_id,
    )


def _ended(ids: Ids, state: TaskState) -> A2AError:
    task_id, context_id = ids
    return UnsupportedOperation(
        f"task {task_id} became {state.word} before it took your message; "
        f"send it again without taskId to start a new task in context {context_id}",
        taskId=task_id,
        contextId=context_id,
    )
