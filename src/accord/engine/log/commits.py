"""What of a log is stored, what is on its way to the store, and who waits for that."""

import asyncio
from typing import Any

import msgspec

from ...model import A2AError, TaskState
from .batch import LogBatch
from .pending_files import PendingFiles
from .writer import Lost, Writer

__all__ = ["Commits"]

MAX_AHEAD = 256  # entries a run may be ahead of the commit
MAX_AHEAD_BYTES = 1 << 20


class Commits(msgspec.Struct, eq=False):
    """The commits of one log: stored, under way, and to come.

    The log adds its entries to the batch that gathers. The writer takes that batch, which is then
    in flight, and reports it here as stored, or the log as lost.
    """

    writer: Writer
    # Up to which position and which visible number the log is stored, and the state there.
    stored_pos: int
    stored_seq: int
    stored_state: TaskState
    is_pending: bool = False  # nothing is stored before the first output of its run
    is_lost: bool = False  # nothing of the log is stored any more
    gathering: LogBatch = msgspec.field(default_factory=LogBatch)
    in_flight: LogBatch | None = None  # handed over, not yet stored
    pending_files: PendingFiles | None = None  # made with the first reference to a file
    drain_waiters: list[asyncio.Future[None]] = []

    @property
    def files(self) -> PendingFiles:
        """Return the files that the next commit refers to."""
        if self.pending_files is None:
            self.pending_files = PendingFiles()
        return self.pending_files

    # Who waits

    @property
    def is_stored(self) -> bool:
        """Return whether everything that was appended is stored."""
        return not self.gathering.lines and self.in_flight is None

    def stored(self, value: Any = None) -> asyncio.Future[Any]:
        """Return a future that gives `value` when everything appended so far is stored."""
        waiter: asyncio.Future[Any] = self.writer.loop.create_future()
        if self.is_lost:
            waiter.set_exception(Lost())
        elif self.gathering.lines:
            self.gathering.waiting.append((waiter, value))
        elif self.in_flight is not None:
            self.in_flight.waiting.append((waiter, value))
        else:
            waiter.set_result(value)
        return waiter

    def stored_to(self, pos: int) -> asyncio.Future[None]:
        """Return a future that is done when the log is stored up to this position."""
        waiter: asyncio.Future[None] = self.writer.loop.create_future()
        in_flight = self.in_flight
        taken_pos = in_flight.pos if in_flight is not None else self.stored_pos
        if self.stored_pos >= pos:
            waiter.set_result(None)
        elif self.is_lost or taken_pos + len(self.gathering.lines) < pos:
            waiter.set_exception(Lost())  # another process has written that
        elif in_flight is not None and in_flight.pos >= pos:
            in_flight.waiting.append((waiter, None))
        else:
            self.gathering.waiting.append((waiter, None))
        return waiter

    def stored_after_outage(self) -> asyncio.Future[None]:
        """Return a future that is done when everything appended so far is stored, however long an
        outage of the store lasts: for runs, which wait that long.
        """
        waiter: asyncio.Future[None] = self.writer.loop.create_future()
        if self.is_lost:
            waiter.set_exception(Lost())
        elif self.is_pending:
            waiter.set_result(None)  # there is no task yet that could go on after a crash
        elif self.gathering.lines:
            self.gathering.outage_waiters.append(waiter)
        elif self.in_flight is not None:
            self.in_flight.outage_waiters.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    @property
    def is_far_ahead(self) -> bool:
        """Return whether so much waits to be stored that the run has to wait too."""
        batch, files = self.gathering, self.pending_files
        size = batch.size + (files.waiting_bytes if files is not None else 0)
        return not self.is_pending and (
            len(batch.lines) > MAX_AHEAD
            or size > MAX_AHEAD_BYTES
            or (self.writer.is_failing and bool(batch.lines))
        )

    async def drain(self) -> None:
        """Wait until the commit has caught up."""
        while self.is_far_ahead and not self.is_lost:
            waiter: asyncio.Future[None] = self.writer.loop.create_future()
            self.drain_waiters.append(waiter)
            await waiter

    def _wake_run(self) -> None:
        waiters, self.drain_waiters = self.drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # What goes along with the next commit

    @property
    def has_key(self) -> bool:
        """Return whether the next commit has an idempotency key already: it can have only one."""
        return self.gathering.idempotency is not None

    @property
    def has_unstored_state(self) -> bool:
        """Return whether a state of the conversation waits to be stored."""
        in_flight = self.in_flight
        return self.gathering.conversation is not None or (
            in_flight is not None and in_flight.conversation is not None
        )

    # What becomes of a commit

    def begin(self, pos: int, seq: int, state: TaskState) -> LogBatch:
        """Return what has gathered, which is in flight from now on. The log ends at this position,
        with this visible number and this state.
        """
        if self.in_flight is not None:
            raise RuntimeError("it was never reported what became of the commit before")
        batch, self.gathering = self.gathering, LogBatch()
        batch.pos, batch.seq, batch.state = pos, seq, state
        self.in_flight = batch
        return batch

    def publish(self) -> LogBatch | None:
        """Note that the batch in flight is stored, notify who waits for that, and return it.

        Return None if the task was lost while it was stored: then those who wait got an error.
        """
        if self.in_flight is None:
            return None
        batch, self.in_flight = self.in_flight, None
        self.stored_pos, self.stored_seq, self.stored_state = batch.pos, batch.seq, batch.state
        if batch.waiting or batch.outage_waiters:
            batch.settle()
        if self.drain_waiters:
            self._wake_run()
        return batch

    def fail(self, error: A2AError) -> None:
        """Raise an error in those who wait, because storing takes too long. What was appended is
        kept, and stored when the store works again.
        """
        self.gathering.fail(error)
        if self.in_flight is not None:
            self.in_flight.fail(error)

    def lose(self, error: A2AError) -> None:
        """Store nothing more of the log, and raise an error in everybody who waits."""
        self.is_lost = True
        batch, self.gathering = self.gathering, LogBatch()
        in_flight, self.in_flight = self.in_flight, None
        batch.lose(error)
        if in_flight is not None:
            in_flight.lose(error)
        self._wake_run()
