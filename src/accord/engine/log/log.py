"""The write side of a task: its log, while this process writes it.

A run appends and does not wait. The writer stores what has gathered; only then those are notified
who wait for something to be stored. Whose the task is, and who reads it, is known to its slot.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container
from typing import TYPE_CHECKING, Any

from ...files import MARK, uses_of
from ...model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    Fold,
    InvalidAgentResponse,
    Message,
    Metadata,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
    UnsupportedOperation,
    timestamp,
)
from ...protocol import Snapshot
from ...protocol.v1 import codec as v1
from ...store import Append, Create, FileUse, Idempotency, Leaves, Namespace, Push, StateWrite
from ..offloading import LARGE
from .batch import LogBatch
from .entries import (
    ENCODE,
    FORMAT,
    STATE_NUMBER,
    About,
    ArtifactChanged,
    Entry,
    Event,
    Ids,
    MessageAdded,
    PostRefused,
    Sender,
    StatusChanged,
    encode_about,
    event_of,
    parts_of,
)
from .pending_files import PendingFiles
from .snapshot import LONG, EncodedParts, encode_task
from .state_line import log_state
from .turns import NO_ORIGIN, Origin, Turn, reason, refuse_answered, settle_turns
from .writer import Lost, Writer, not_stored

if TYPE_CHECKING:
    from ..ownership import TaskSlot

__all__ = [
    "WORKED_ON",
    "Log",
]

log_ = logging.getLogger("accord")

MAX_AHEAD = 256  # entries a run may be ahead of the commit
MAX_AHEAD_BYTES = 1 << 20
SNAPSHOT_AFTER = 64 << 10

WORKED_ON = (TaskState.SUBMITTED, TaskState.WORKING)


class Log:
    """The entries of one task, and what they make of it. Only its run, or the operation that pins
    it, appends.
    """

    __slots__ = (
        "_batch",
        "_conversation",
        "_drain_waiters",
        "_fold",
        "_idempotency",
        "_in_flight",
        "_is_skipped",
        "_parts",
        "_pending_files",
        "_pushes",
        "_since_snapshot",
        "_snapshot",
        "_snapshot_size",
        "_state_pos",
        "_stored_due_ms",
        "_taken_pos",
        "_taken_state",
        "about",
        "asked_pos",
        "at_ms",
        "awaited",
        "draft",
        "due_ms",
        "expired_ms",
        "gives_up",
        "ids",
        "inbox",
        "is_clear",
        "is_lost",
        "is_pending",
        "key",
        "last_status",
        "namespace",
        "pos",
        "posts",
        "posts_read",
        "seq",
        "size",
        "skill",
        "slot",
        "state",
        "stored_pos",
        "stored_state",
        "turns",
        "writer",
    )

    def __init__(
        self,
        writer: Writer,
        key: int,
        namespace: Namespace,
        fold: Fold,
        skill: str,
        about: About,
        *,
        at_ms: int,
        seq: int = 0,
        pos: int = 0,
        posts_read: int = 0,
        size: int = 0,
        due_ms: int = 0,
        parts: EncodedParts | None = None,
    ) -> None:
        task = fold.draft
        # With everything appended, stored or not. The text of the newest artifact may not be whole.
        self.draft: Task = task
        self.state: TaskState = task.status.state
        self.writer = writer
        self.key = key
        self.namespace = namespace
        self.ids = Ids(task.id, task.context_id)
        self.skill = skill
        self.about = about
        self.at_ms = at_ms
        self.seq = seq
        self.pos = pos
        self.posts_read = posts_read  # posts dealt with
        self.posts = 0  # posts there were when its claim was answered
        self.size = size  # of all lines: what the task holds, and a little more
        self.turns: list[int] = []  # begun and not answered
        self.inbox: deque[Turn] = deque()  # messages that wait for their turn
        # where it last asked something that only a later message answers; 0: not in this process
        self.asked_pos = 0
        # when the task is to be taken up, if nobody owns it then; 0: not by itself
        self.due_ms = self._stored_due_ms = due_ms
        # the deadline that ended the last question; 0 if something else did, or the next was asked
        self.expired_ms = 0
        self.slot: TaskSlot  # where this process knows whose the task is; it sets itself
        self.awaited: Container[int] = ()  # turns whose senders wait here for their answer
        self.gives_up = False  # the next commit gives up the task
        # known: the last function returned, so nothing of it has to be replayed
        self.is_clear = False
        self.is_lost = False  # nothing of it is stored any more
        self.is_pending = False  # nothing is stored before the first output of its run
        self.last_status = 0  # the last event of this process that is the task or a status
        # Up to which position the log is stored, and the state there.
        self.stored_pos = pos
        self.stored_state: TaskState = task.status.state
        self._fold = fold
        self._batch = LogBatch()  # appended, not yet handed to the writer
        self._in_flight: LogBatch | None = None  # handed over, not yet stored
        # Up to which position the log was handed over, and the state there as stores number it.
        self._taken_pos = pos
        self._taken_state = STATE_NUMBER[task.status.state] if pos else 0
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._idempotency: Idempotency | None = None
        self._pushes: tuple[Push, ...] = ()  # webhooks to be registered with the next commit
        self._pending_files: PendingFiles | None = None  # made with the first reference to a file
        self._is_skipped = False  # the writer has left it out: it has to be added again
        # the state of the conversation, to be stored with the next commit, and where that ends
        self._conversation: StateWrite | None = None
        self._state_pos = 0
        self._parts = parts  # of a task that is long or large
        self._snapshot: tuple[int, Snapshot] | None = None  # and the position it was made at
        self._since_snapshot = 0
        self._snapshot_size = 0

    @property
    def sleeps(self) -> bool:
        """Its function sleeps, and was given up until then."""
        return self.due_ms > 0 and self.state in WORKED_ON and self.slot.run is None

    # Appending

    def append(self, entry: Entry, *, is_ours: bool = True) -> int:
        """Add an entry and return its position. Does not wait.

        One with something in it that the agent still holds, and may change, is not `is_ours`: the
        draft gets its own copy.

        Raises:
            InvalidAgentResponse: The task would hold more than it may.
            Unavailable: Another process goes on with this task.
        """
        if self.is_lost:
            raise Lost()
        line, frame = ENCODE[type(entry)](entry)
        if frame:
            self._show(entry, frame, len(line), is_ours)
        self.pos += 1
        batch = self._batch
        if type(entry) is PostRefused:
            batch.posts[entry.post] = entry
        elif type(entry) is MessageAdded and entry.post:
            batch.posts[entry.post] = self.pos
        if not batch.lines and not self.is_pending:
            self.writer.add(self)
        if MARK in line:
            self._files.refer(uses_of(parts_of(entry)))
        batch.lines.append(line)
        batch.size += len(line)
        self.size += len(line)
        return self.pos

    def admit(self) -> None:
        """Store a pending task, with what follows in this turn of the loop."""
        self.is_pending = False
        self.writer.add(self)

    def _show(self, entry: Any, frame: bytes, size: int, is_ours: bool) -> None:
        """Apply a visible entry to the draft."""
        event = entry.update if self.seq else entry.task  # the first entry is the task
        limits = self.writer.limits
        state: TaskState | None = event.status.state if type(entry) is not ArtifactChanged else None
        if self.size + size > limits.task_size and (state is None or _is_output(event)):
            raise InvalidAgentResponse(
                f"task {self.ids.task_id} would hold more than {limits.task_size} bytes"
            )
        if self.seq:
            self._fold.apply(event if is_ours else event_of(frame), limits)
        if self.size + size > LARGE:
            self._parts = self._parts or EncodedParts()
            self._parts.keep(event, frame)
        self.seq += 1
        self.writer.ends_with_chunk = state is None
        if state is not None:
            self.state, self.last_status = state, self.seq
        if type(entry) is StatusChanged:
            self._batch.events.append(
                Event(
                    self.seq,
                    self.pos + 1,
                    frame,
                    state,
                    entry.answers,
                    entry.refuses,
                    entry.reasons,
                )
            )
        else:
            self._batch.events.append(Event(self.seq, self.pos + 1, frame, state))

    def set_status(
        self,
        state: TaskState,
        message: Message | None = None,
        metadata: Metadata | None = None,
        origin: Origin = NO_ORIGIN,
        *,
        refusal: A2AError | None = None,
        cursor: str | None = None,
        keeps_waiting: bool = False,
    ) -> None:
        """Give the task a new status, now. An interrupted or terminal one answers the turns that
        have begun; with a refusal, their senders get that error instead.

        An interrupted status is a question. A message that waits was accepted before it, so it is
        no answer and is refused, unless the status `keeps_waiting` messages for their own turns.
        """
        # A clock set back does not reorder a task's own history.
        at_ms = max(self.writer.store.now_ms(), self.at_ms)
        status = TaskStatus(state=state, message=message, timestamp=timestamp(at_ms))
        update = StatusUpdate(
            task_id=self.ids.task_id,
            context_id=self.ids.context_id,
            status=status,
            metadata=metadata,
        )
        entry = StatusChanged(update, branch=origin.branch, step=origin.step, cursor=cursor)
        ends = state in FINAL
        if ends or state in INTERRUPTED:
            settle_turns(entry, self.turns, self.inbox, keeps_waiting=keeps_waiting)
        if refusal is not None:
            refuse_answered(entry, refusal)
        self.append(entry, is_ours=message is None and metadata is None)
        self.at_ms = at_ms
        if self.awaited and any(map(self.awaited.__contains__, entry.answers)):
            self._batch.events[-1].snapshot = self.snapshot()
        # There blocking sends are answered, and streams stay open.
        if state is not TaskState.AUTH_REQUIRED and (entry.answers or refusal is not None):
            self.turns.clear()
        if entry.answers or ends:
            log_state(self.ids.task_id, state, self.skill, self.namespace.caller, at_ms)
        if state not in INTERRUPTED:
            self.due_ms = 0  # whoever works on it sees to what is due
        if ends and self.inbox:
            self.inbox = deque(turn for turn in self.inbox if turn.reopens)
        elif state in INTERRUPTED and not keeps_waiting:
            self.inbox.clear()
            self.asked_pos = self.pos
        if state in INTERRUPTED:
            self.expired_ms = 0

    def add_message(
        self,
        message: Message,
        modes: tuple[str, ...] = (),
        *,
        post: int = 0,
        reopens: bool = False,
        sender: Sender | None = None,
    ) -> Turn:
        """Log a message of the user, at once: it is kept whatever becomes of the run.

        Raises:
            UnsupportedOperation: The task holds as much as it may.
        """
        task, limits = self._fold.draft, self.writer.limits
        data = v1.encode(message)
        if len(task.history) >= limits.history or self.size + len(data) > limits.task_size:
            raise UnsupportedOperation(
                f"task {task.id} holds {limits.history} messages or {limits.task_size} "
                "bytes, the limits of a task; "
                f"send without taskId, in context {task.context_id}, to start a new one",
                taskId=task.id,
                contextId=task.context_id,
            )
        task.add(message, limits)
        if len(data) > LARGE:
            self._parts = self._parts or EncodedParts()
            self._parts.keep_message(task.history, data)
        if sender == self.about.sender:
            sender = None
        added = MessageAdded(message, modes, post, sender)
        return Turn(self.append(added), message, modes, reopens, sender)

    def refuse(self, turn: Turn, error: A2AError) -> None:
        """A message that waited gets no turn, though the task goes on as it is."""
        update = StatusUpdate(
            task_id=self.ids.task_id, context_id=self.ids.context_id, status=self.draft.status
        )
        reasons = (reason(turn.number, error),)
        self.append(StatusChanged(update, refuses=(turn.number,), reasons=reasons))

    @property
    def has_key(self) -> bool:
        """Whether the next commit has an idempotency key already: it can have one."""
        return self._idempotency is not None

    def keep(self, record: Idempotency, turn: Turn) -> None:
        """Store an idempotency key with what it stands for, in one item."""
        record.task_id, record.turn = self.ids.task_id, turn.number
        self._idempotency = record

    @property
    def _files(self) -> PendingFiles:
        if self._pending_files is None:
            self._pending_files = PendingFiles()
        return self._pending_files

    def refer_to(self, id: str, use: Callable[[], FileUse]) -> None:
        """Store a reference to a file that is being written, as it is when it is written."""
        self._files.refer_to(id, use)

    def write_file(self, size: int, flush: Callable[[], Awaitable[None]]) -> None:
        """Have `flush` store `size` bytes that entries refer to. Until then this log is left out of
        commits. Commits of other logs go on.
        """
        self._files.begin(size)
        self.writer.in_background(self._write_file(size, flush))

    async def _write_file(self, size: int, flush: Callable[[], Awaitable[None]]) -> None:
        files = self._files
        try:
            await self.writer.store_file(flush, lambda: self.is_lost)
        except Exception:
            # The server stops without these bytes. Stored, the task would have a file that is not
            # there: it stays as it was stored last.
            log_.error("a file of task %s was not stored before the stop", self.ids.task_id)
            self.lose(not_stored())
        finally:
            files.end(size)
            if not files.is_writing and self._is_skipped:
                self._is_skipped = False
                self.writer.add(self)

    def register(self, push: Push) -> None:
        """Store a webhook with what has been appended."""
        self._pushes += (push,)

    def remember(self, write: StateWrite) -> None:
        """Store the state of the conversation with what has been appended."""
        self._conversation, self._state_pos = write, self.pos

    @property
    def has_unstored_state(self) -> bool:
        """Whether a state of the conversation waits to be stored."""
        return self._state_pos > self.stored_pos

    # Waiting for the commit

    def stored(self, value: Any = None) -> asyncio.Future[Any]:
        """Done when everything appended so far is stored; gives `value` then."""
        waiter: asyncio.Future[Any] = self.writer.loop.create_future()
        if self.is_lost:
            waiter.set_exception(Lost())
        elif self._batch.lines:
            self._batch.waiting.append((waiter, value))
        elif self._in_flight is not None:
            self._in_flight.waiting.append((waiter, value))
        else:
            waiter.set_result(value)
        return waiter

    def stored_to(self, pos: int) -> asyncio.Future[None]:
        """Done when the log is stored up to this position."""
        waiter: asyncio.Future[None] = self.writer.loop.create_future()
        if self.stored_pos >= pos:
            waiter.set_result(None)
        elif self.is_lost or self.pos < pos:  # another process has written that
            waiter.set_exception(Lost())
        elif self._in_flight is not None and self._in_flight.pos >= pos:
            self._in_flight.waiting.append((waiter, None))
        else:
            self._batch.waiting.append((waiter, None))
        return waiter

    def stored_after_outage(self) -> asyncio.Future[None]:
        """The same, however long an outage of the store lasts: for runs, which wait that long."""
        waiter: asyncio.Future[None] = self.writer.loop.create_future()
        if self.is_lost:
            waiter.set_exception(Lost())
        elif self.is_pending:
            waiter.set_result(None)  # there is no task yet that could go on after a crash
        elif self._batch.lines:
            self._batch.outage_waiters.append(waiter)
        elif self._in_flight is not None:
            self._in_flight.outage_waiters.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    @property
    def is_stored(self) -> bool:
        return not self._batch.lines and self._in_flight is None

    @property
    def stored_at(self) -> tuple[int, int]:
        """Up to which position, and which visible number, the log is stored."""
        in_flight = len(self._in_flight.events) if self._in_flight is not None else 0
        return self.stored_pos, self.seq - in_flight - len(self._batch.events)

    @property
    def is_far_ahead(self) -> bool:
        batch, files = self._batch, self._pending_files
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
            self._drain_waiters.append(waiter)
            await waiter

    # The task as JSON

    def snapshot(self, history_length: int | None = None) -> Snapshot:
        """Encode the task as it stands now."""
        task = self.draft
        is_all = history_length is None or len(task.history) <= history_length
        if is_all and self._snapshot is not None and self._snapshot[0] == self.pos:
            return self._snapshot[1]  # a sender's answer and the stored snapshot are often the same
        self._fold.joined()
        if self._parts is None and (not is_all or len(task.history) > LONG):
            self._parts = EncodedParts()
        seq, parts = self.seq, self._parts
        made = (
            encode_task(task, seq) if parts is None else parts.snapshot(task, seq, history_length)
        )
        if is_all:
            self._snapshot = (self.pos, made)
        return made

    # For the writer

    def take(self) -> Create | Append | None:
        """Hand over what has gathered; None if its files are not stored yet. Then it comes back
        when they are.
        """
        files = self._pending_files
        self._is_skipped = files is not None and files.is_writing
        if self._is_skipped:
            return None
        batch, self._batch = self._batch, LogBatch()
        batch.pos, batch.state = self.pos, self.state
        self._in_flight = batch
        self._since_snapshot += batch.size
        made = None
        if self.state in FINAL or self._since_snapshot > SNAPSHOT_AFTER + 2 * self._snapshot_size:
            made = self.snapshot()
            self._snapshot_size = len(made.head) + len(made.artifacts)
            self._since_snapshot = 0
        item = self._item(b"\n".join(batch.lines))
        batch.lines = []  # the item has them
        if made is not None:
            item.head, item.artifacts = made.head, made.artifacts
        if self._idempotency is not None:
            item.idempotency, self._idempotency = self._idempotency, None
        item.last_status = self.last_status
        if self.due_ms != self._stored_due_ms:
            item.due_ms = self._stored_due_ms = self.due_ms
        if files is not None:
            item.files = files.take()
        if self._pushes:
            item.pushes, self._pushes = self._pushes, ()
        if self._conversation is not None:
            item.conversation, self._conversation = self._conversation, None
        return item

    def _item(self, data: bytes) -> Create | Append:
        """Return what a store gets of the entries since the last commit."""
        before, self._taken_pos = self._taken_pos, self.pos
        before_state, self._taken_state = self._taken_state, STATE_NUMBER[self.state]
        leaves = Leaves.STAY
        if self.state in FINAL:
            leaves = Leaves.END
        elif self.gives_up:
            leaves = Leaves.IDLE
        if not before:
            return Create(
                *(self.key, self.namespace, self.ids.task_id, self.ids.context_id, self.skill),
                *(encode_about(self.about), self._taken_state, self.at_ms, self.pos, self.seq),
                *(FORMAT, data, leaves),
            )
        return Append(
            *(self.key, self.namespace, before, self.pos, self.seq),
            *(before_state, self._taken_state, self.at_ms, FORMAT, data),
            *(self.posts_read, leaves),
        )

    def publish(self) -> LogBatch | None:
        """What was handed over is stored: notify who waits for that, and return it.

        Return None if the task was lost while it was stored: then those who wait got an error.
        """
        if self._in_flight is None:
            return None
        batch, self._in_flight = self._in_flight, None
        self.stored_pos, self.stored_state = batch.pos, batch.state
        if batch.waiting or batch.outage_waiters:
            batch.settle()
        if self._drain_waiters:
            self._wake_run()
        return batch

    def fail(self, error: A2AError) -> None:
        """Storing takes too long: raise an error in those who wait. What was appended is kept, and
        stored when the store works again.
        """
        self._batch.fail(error)
        if self._in_flight is not None:
            self._in_flight.fail(error)

    def lose(self, error: A2AError | None = None) -> None:
        """Another process owns the task: what was not stored is gone."""
        self.is_lost = True
        batch, self._batch = self._batch, LogBatch()
        in_flight, self._in_flight = self._in_flight, None
        batch.lose(error or Lost())
        if in_flight is not None:
            in_flight.lose(error or Lost())
        self.inbox.clear()
        self.turns.clear()
        self._wake_run()
        self.writer.on_lost(self)

    def _wake_run(self) -> None:
        waiters, self._drain_waiters = self._drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _is_output(event: Any) -> bool:
    """Whether the agent said this. How a task ends badly, and where it stands, is logged also when
    the task is full.
    """
    if not isinstance(event, StatusUpdate) or event.status.message is None:
        return False
    return event.status.state not in (TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)
