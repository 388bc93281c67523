"""The write side of a task: its log, while this process writes it.

A run appends and does not wait. The writer stores what has gathered; only then those are notified
who wait for something to be stored. Whose the task is, and who reads it, is known to its slot.
"""

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
from .commits import Commits
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

SNAPSHOT_AFTER = 64 << 10

WORKED_ON = (TaskState.SUBMITTED, TaskState.WORKING)  # neither waiting for the client nor over


class Log:
    """The entries of one task, and what they make of it. Only its run, or the operation that pins
    it, appends.
    """

    __slots__ = (
        "_fold",
        "_parts",
        "_since_snapshot",
        "_snapshot",
        "_snapshot_size",
        "_stored_due_ms",
        "about",
        "asked_pos",
        "at_ms",
        "awaited",
        "commits",
        "draft",
        "due_ms",
        "expired_ms",
        "gives_up",
        "ids",
        "inbox",
        "is_clear",
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
        self.last_status = 0  # the last event of this process that is the task or a status
        self.commits = Commits(writer, pos, seq, task.status.state)
        self._fold = fold
        self._parts = parts  # of a task that is long or large
        self._snapshot: tuple[int, Snapshot] | None = None  # and the position it was made at
        self._since_snapshot = 0
        self._snapshot_size = 0

    @property
    def sleeps(self) -> bool:
        """Return whether its function sleeps, and was given up until then."""
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
        commits = self.commits
        if commits.is_lost:
            raise Lost()
        line, frame = ENCODE[type(entry)](entry)
        if frame:
            self._show(entry, frame, len(line), is_ours)
        self.pos += 1
        batch = commits.gathering
        if type(entry) is PostRefused:
            batch.posts[entry.post] = entry
        elif type(entry) is MessageAdded and entry.post:
            batch.posts[entry.post] = self.pos
        if not batch.lines and not commits.is_pending:
            self.writer.add(self)
        if MARK in line:
            commits.files.refer(uses_of(parts_of(entry)))
        batch.lines.append(line)
        batch.size += len(line)
        self.size += len(line)
        return self.pos

    def admit(self) -> None:
        """Store a pending task, with what follows in this turn of the loop."""
        self.commits.is_pending = False
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
            self.commits.gathering.events.append(
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
            self.commits.gathering.events.append(Event(self.seq, self.pos + 1, frame, state))

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
            self.commits.gathering.events[-1].snapshot = self.snapshot()
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
        """Refuse a message that waits for its turn. The task stays as it is."""
        update = StatusUpdate(
            task_id=self.ids.task_id, context_id=self.ids.context_id, status=self.draft.status
        )
        reasons = (reason(turn.number, error),)
        self.append(StatusChanged(update, refuses=(turn.number,), reasons=reasons))

    # What goes along with the next commit

    def keep(self, record: Idempotency, turn: Turn) -> None:
        """Store an idempotency key with what it stands for, in one item."""
        record.task_id, record.turn = self.ids.task_id, turn.number
        self.commits.gathering.idempotency = record

    def register(self, push: Push) -> None:
        """Store a webhook with what has been appended."""
        self.commits.gathering.pushes += (push,)

    def remember(self, write: StateWrite) -> None:
        """Store the state of the conversation with what has been appended."""
        self.commits.gathering.conversation = write

    def refer_to(self, id: str, use: Callable[[], FileUse]) -> None:
        """Store a reference to a file that is being written, as it is when it is written."""
        self.commits.files.refer_to(id, use)

    def write_file(self, size: int, flush: Callable[[], Awaitable[None]]) -> None:
        """Have `flush` store `size` bytes that entries refer to. Until then this log is left out of
        commits. Commits of other logs go on.
        """
        self.commits.files.begin(size)
        self.writer.in_background(self._write_file(size, flush))

    async def _write_file(self, size: int, flush: Callable[[], Awaitable[None]]) -> None:
        files = self.commits.files
        try:
            await self.writer.store_file(flush, lambda: self.commits.is_lost)
        except Exception:
            # The server stops without these bytes. Stored, the task would have a file that is not
            # there: it stays as it was stored last.
            log_.error("a file of task %s was not stored before the stop", self.ids.task_id)
            self.lose(not_stored())
        finally:
            if files.end(size):
                self.writer.add(self)

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
        commits = self.commits
        files = commits.pending_files
        if files is not None and files.holds_up():
            return None
        batch = commits.begin(self.pos, self.seq, self.state)
        item = self._item(b"\n".join(batch.lines))
        batch.lines = []  # the item has them
        self._since_snapshot += batch.size
        if self.state in FINAL or self._since_snapshot > SNAPSHOT_AFTER + 2 * self._snapshot_size:
            made = self.snapshot()
            self._snapshot_size = len(made.head) + len(made.artifacts)
            self._since_snapshot = 0
            item.head, item.artifacts = made.head, made.artifacts
        item.idempotency = batch.idempotency
        item.last_status = self.last_status
        if self.due_ms != self._stored_due_ms:
            item.due_ms = self._stored_due_ms = self.due_ms
        if files is not None:
            item.files = files.take()
        item.pushes = batch.pushes
        item.conversation = batch.conversation
        return item

    def _item(self, data: bytes) -> Create | Append:
        """Return what a store gets of the entries since the last commit."""
        before, before_state = self.commits.stored_pos, self.commits.stored_state
        leaves = Leaves.STAY
        if self.state in FINAL:
            leaves = Leaves.END
        elif self.gives_up:
            leaves = Leaves.IDLE
        state = STATE_NUMBER[self.state]
        if not before:
            return Create(
                *(self.key, self.namespace, self.ids.task_id, self.ids.context_id, self.skill),
                *(encode_about(self.about), state, self.at_ms, self.pos, self.seq),
                *(FORMAT, data, leaves),
            )
        return Append(
            *(self.key, self.namespace, before, self.pos, self.seq),
            *(STATE_NUMBER[before_state], state, self.at_ms, FORMAT, data),
            *(self.posts_read, leaves),
        )

    def lose(self, error: A2AError | None = None) -> None:
        """Drop what is not stored: another process owns the task."""
        self.commits.lose(error or Lost())
        self.inbox.clear()
        self.turns.clear()
        self.writer.on_lost(self)


def _is_output(event: Any) -> bool:
    """Return whether an event is output of the agent. Others, and statuses that end a task badly,
    are logged also when the task is full.
    """
    if not isinstance(event, StatusUpdate) or event.status.message is None:
        return False
    return event.status.state not in (TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)
