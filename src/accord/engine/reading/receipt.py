"""What the sender of a message gets when the message is accepted: the only way to its answer."""

from typing import TYPE_CHECKING

from ...model import FINAL
from ...protocol import Snapshot
from ...store import Record
from ..log import Event, Log, not_stored, shorten
from ..offloading import offload
from .view import View, refusal_of

if TYPE_CHECKING:
    from .tail import Tail
    from .views import Views

__all__ = ["Receipt"]


class Receipt:
    """A message that was accepted, and where its answer will be.

    It is registered with its task at once, so that the event that answers the message comes with
    the task as it stood then, also if all of that is one commit. Nothing can be read through it
    before the message is stored. If that commit is refused, its sender gets an error, and never the
    answer to somebody else's message.

    Whoever has a receipt closes it.
    """

    __slots__ = ("_cuts", "_is_open", "_pos", "_seq", "_tail", "_views", "is_new", "task", "turn")

    def __init__(
        self, views: "Views", task: Log | Record, turn: int, *, is_new: bool = False
    ) -> None:
        self.task = task  # a Log if this process owns it
        self.turn = turn  # the position of the message in the log
        self.is_new = is_new  # the message has made its task
        self._views = views
        self._tail: Tail = views.tail(task)
        if is_new:
            self._seq = self._pos = 0
        elif self._tail.pos < turn:  # nothing after it is stored
            self._seq, self._pos = self._tail.seq, self._tail.pos
        else:  # its answer may be there
            self._seq, self._pos = self._tail.seq_at(turn) or 0, turn
        self._cuts = len(self._tail.cuts)
        self._is_open = True
        self._tail.expect(turn)

    def skip(self, seq: int, pos: int) -> None:
        """Look for the answer behind this event: those up to it were copied from another task."""
        self._seq, self._pos = seq, pos

    def again(self) -> "Receipt":
        """Return one more receipt of the same message, for one more sender of it."""
        return Receipt(self._views, self.task, self.turn)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._tail.expect_no_longer(self.turn)
            self._views.let_go(self._tail)

    async def stored(self) -> None:
        """Return when the message is stored.

        Raises:
            Lost: It is not, and never will be: another process goes on with the task.
            Unavailable: The store fails, or this server stops.
        """
        if isinstance(self.task, Log):
            await self.task.commits.stored_to(self.turn)

    async def snapshot(self, history_length: int | None = None) -> Snapshot:
        """Return the task as it is now, once the message is stored. Raises as `stored` does."""
        return await self._views.stored_snapshot(await self._current(), history_length)

    async def _current(self) -> Log | Record:
        """Return the task with the message in it."""
        if isinstance(self.task, Log) or self.task.pos >= self.turn:
            return self.task
        return await self._views.record(self._tail)

    async def stream(self, history_length: int | None = None) -> View:
        """Return a cursor that ends with the answer, once the message is stored.

        It begins with the first event of a new task, else with the task as it is, or as it was when
        its owner took the message. Raises as `stored` does.
        """
        # A new task's history is the one message.
        if self.is_new and (history_length is None or history_length > 0):
            await self.stored()
            return View(self._views, self._tail, seq=0, pos=0, turn=self.turn)
        if (taken := self._taken()) is not None:
            return await self._views.at(self._tail, taken, self.turn, history_length)
        return await self._views.now(
            await self._current(), turn=self.turn, history_length=history_length
        )

    def _taken(self) -> Event | None:
        """Return the first event after a message that was posted a moment ago; None if it is not
        known, or not posted.
        """
        if isinstance(self.task, Log) or self.task.pos >= self.turn:
            return None
        found = self._tail.after(self._seq) or ()
        return next((event for event in found if event.pos > self.turn), None)

    async def answer(self, history_length: int | None = None) -> Snapshot:
        """Return the task as it stood when the message was answered.

        Raises:
            UnsupportedOperation: The task ended before the message got its turn.
            WentBack: The store has lost the message, and another one stands in its place.
            Unavailable: As `stored` does.
        """
        await self.stored()
        views, tail, turn = self._views, self._tail, self.turn
        seq, pos, cuts = self._seq, self._pos, self._cuts
        may_be_purged = not self.is_new and not seq  # it is not known what came after the message
        while True:
            tail.check_turn(turn, self._cuts)
            if (cut := tail.cut_since(cuts)) is not None and pos > cut:
                # What was looked at is lost, and the answer may be in what came in its place.
                seq, pos = self._seq, turn
            cuts = len(tail.cuts)
            known, found = tail.pos, tail.after(seq)
            if found is None:
                found = await views.events(tail, pos)
            for event in found:
                if event.pos <= turn or event.seq <= self._seq:
                    continue  # of a task that had ended, and was begun anew; or of a forked one
                if turn in event.answers:
                    if event.snapshot is None:
                        return await views.snapshot_at(tail, event.pos, history_length)
                    if history_length is None:
                        return event.snapshot
                    size = len(event.snapshot.head)
                    return await offload(size, shorten, event.snapshot, history_length)
                if turn in event.refuses:
                    raise refusal_of(event, turn, tail)
            if found:
                seq, pos = found[-1].seq, found[-1].pos
                continue
            if tail.pos > known:
                continue  # something came while the store was read
            if tail.state in FINAL and tail.pos >= turn:
                # The log was purged: what it said is in the task.
                return await views.snapshot_now(tail)
            if may_be_purged:
                if await views.is_purged_at(tail, turn):
                    return await views.snapshot_now(tail)  # begun anew since
                may_be_purged = False
                continue  # something may have come while the store was read
            views.check_open(tail)
            if views.is_out:
                raise not_stored()
            waiter = tail.changed(views.loop, turn)
            try:
                await waiter
            finally:
                tail.forget(waiter)
