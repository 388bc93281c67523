"""The write side of a task: its log, while this process writes it.

A run appends and does not wait. The writer stores what has gathered; only then are those told who
wait for something to be stored. Whose the task is, and who reads it, is the business of its slot.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Container
from typing import TYPE_CHECKING, Any

import msgspec

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
    errors,
    moment,
)
from ...protocol import Snapshot
from ...protocol.v1 import codec as v1
from ...store import Append, Create, Idempotency, Leaves, Namespace, Push, StateWrite
from ..offloading import LARGE
from .entries import (
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
    encode,
    encode_about,
    event_of,
)
from .snapshot import LONG, EncodedParts, encode_task
from .writer import Lost, Writer

if TYPE_CHECKING:
    from ..ownership import TaskSlot

__all__ = ["NO_ORIGIN", "Log", "Origin", "StoredBatch", "Turn", "asked_since"]

MAX_AHEAD = 256  # entries a run may be ahead of the commit
MAX_AHEAD_BYTES = 1 << 20
SNAPSHOT_AFTER = 64 << 10

_NONE: list[Any] = []

log_ = logging.getLogger("accord.tasks")


class Turn(msgspec.Struct, eq=False, frozen=True):
    """A message that was accepted. Its number is its position in the log; who sent it waits for the
    entry that answers it.
    """

    number: int
    message: Message
    modes: tuple[str, ...] = ()  # media types its sender can take
    # it is for the task also if that ends first, as versions want it whose tasks can be reopened
    reopens: bool = False
    sender: Sender | None = None  # None: who sent the first message


class StoredBatch(msgspec.Struct, eq=False):
    """What was handed to the writer, until it is stored, and is reported then."""

    pos: int
    state: TaskState
    events: list[Event]
    posts: dict[int, int | PostRefused]
    waiting: list[tuple[asyncio.Future[Any], Any]]
    outage_waiters: list[asyncio.Future[None]]


class Origin(msgspec.Struct, frozen=True):
    """Where in a function something was said: in which branch, within which step."""

    branch: str = ""
    step: str = ""


NO_ORIGIN: Origin = Origin()


class Log:
    """The entries of one task, and what they make of it. Only its run, or the operation that pins
    it, appends.
    """

    __slots__ = (
        "_bytes",
        "_conversation",
        "_drain_waiters",
        "_events",
        "_fold",
        "_idempotency",
        "_in_flight",
        "_is_new",
        "_lines",
        "_outage_waiters",
        "_parts",
        "_posts",
        "_published",
        "_pushes",
        "_since_snapshot",
        "_snapshot",
        "_snapshot_size",
        "_state_pos",
        "_stored_pos",
        "_stored_state",
        "_waiting",
        "about",
        "asked_pos",
        "at_ms",
        "awaited",
        "gives_up",
        "ids",
        "inbox",
        "is_clear",
        "is_lost",
        "is_withheld",
        "key",
        "namespace",
        "pos",
        "posts",
        "posts_read",
        "seq",
        "size",
        "skill",
        "slot",
        "told",
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
        parts: EncodedParts | None = None,
    ) -> None:
        task = fold.draft
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
        self.posts = 0  # posts there were when it was claimed
        self.size = size  # of all lines: what the task holds, and a little more
        self.turns: list[int] = []  # begun and not answered
        self.inbox: deque[Turn] = deque()  # messages that wait for their turn
        # where it last asked something that only a later message answers; 0: not in this process
        self.asked_pos = 0
        self.slot: TaskSlot  # where this process knows whose the task is; it sets itself
        self.awaited: Container[int] = ()  # turns whose senders wait here for their answer
        self.gives_up = False  # the next commit gives up the task
        self.is_clear = (
            False  # known: the last function returned, so nothing of it has to be replayed
        )
        self.is_lost = False  # nothing of it is stored any more
        self.is_withheld = False  # nothing is stored before its run has said something
        self._fold = fold
        self._parts = parts  # of a task that is long or large
        self._is_new = pos == 0
        self._idempotency: Idempotency | None = None
        self._pushes: tuple[Push, ...] = ()  # webhooks to be registered with the next commit
        # the state of the conversation, to be stored with the next commit, and where that ends
        self._conversation: StateWrite | None = None
        self._state_pos = 0
        self.told = 0  # the last event of this process that is the task or a status
        self._stored_state = STATE_NUMBER[task.status.state] if pos else 0
        self._stored_pos = pos
        self._lines: list[bytes] = []  # appended, not yet handed to the writer
        self._events: list[Event] = []  # the visible ones among them
        self._posts: dict[int, int | PostRefused] = {}  # what became of posts, with them
        self._bytes = 0
        self._waiting: list[
            tuple[asyncio.Future[Any], Any]
        ] = []  # to be told, and what, once these lines are stored
        self._outage_waiters: list[
            asyncio.Future[None]
        ] = []  # the same, for who waits through an outage
        self._in_flight: StoredBatch | None = None  # handed over, not yet stored
        self._published = (
            pos,
            task.status.state,
        )  # up to which position the log is stored, and the state there
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._snapshot: tuple[int, Snapshot] | None = None  # and the position it was made at
        self._since_snapshot = 0
        self._snapshot_size = 0

    @property
    def draft(self) -> Task:
        """The task with everything appended, stored or not; the text of its newest artifact may not
        be whole yet.
        """
        return self._fold.draft

    @property
    def state(self) -> TaskState:
        return self._fold.draft.status.state

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
        line, frame = encode(entry)
        if frame:
            self._show(entry, frame, len(line), is_ours)
        self.pos += 1
        if type(entry) is PostRefused:
            self._posts[entry.post] = entry
        elif type(entry) is MessageAdded and entry.post:
            self._posts[entry.post] = self.pos
        if not self._lines and not self.is_withheld:
            self.writer.add(self)
        self._lines.append(line)
        self._bytes += len(line)
        self.size += len(line)
        return self.pos

    def admit(self) -> None:
        """Store what was withheld, with what follows in this turn of the loop."""
        self.is_withheld = False
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
        if state is not None:
            self.told = self.seq
        if type(entry) is StatusChanged:
            self._events.append(
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
            self._events.append(Event(self.seq, self.pos + 1, frame, state))

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
        at_ms, now = moment(self.at_ms)  # a clock set back does not reorder a task's own history
        status = TaskStatus(state=state, message=message, timestamp=now)
        update = StatusUpdate(
            task_id=self.ids.task_id,
            context_id=self.ids.context_id,
            status=status,
            metadata=metadata,
        )
        entry = StatusChanged(update, branch=origin.branch, step=origin.step, cursor=cursor)
        ends = state in FINAL
        if ends or state in INTERRUPTED:
            entry.answers = tuple(self.turns)
            if ends:
                entry.refuses = tuple(turn.number for turn in self.inbox if not turn.reopens)
            elif keeps_waiting:
                entry.keeps_waiting = True
            elif self.inbox:
                error = asked_since(self.ids.task_id)
                entry.refuses = tuple(turn.number for turn in self.inbox)
                entry.reasons = tuple(_reason(turn, error) for turn in entry.refuses)
        if refusal is not None:
            entry.refuses = (*entry.answers, *entry.refuses)
            entry.reasons += tuple(_reason(turn, refusal) for turn in entry.answers)
            entry.answers = ()
        self.append(entry, is_ours=message is None and metadata is None)
        self.at_ms = at_ms
        if entry.answers and self.awaited and any(turn in self.awaited for turn in entry.answers):
            self._events[-1].snapshot = self.snapshot()
        if state is not TaskState.AUTH_REQUIRED and (
            entry.answers or refusal is not None
        ):  # there blocking sends are answered, and streams stay open
            self.turns.clear()
        if entry.answers or ends:
            self._log_state(state, at_ms)
        if ends:
            self.inbox = deque(turn for turn in self.inbox if turn.reopens)
        elif state in INTERRUPTED and not keeps_waiting:
            self.inbox.clear()
            self.asked_pos = self.pos

    def _log_state(self, state: TaskState, at_ms: int) -> None:
        """One line in the log of tasks, for a task that has ended or waits for someone."""
        if not log_.isEnabledFor(logging.INFO):
            return
        began_ms = _made_ms(self.ids.task_id)
        ms = max(0, at_ms - began_ms) if began_ms is not None else None
        log_.info(
            "task %s is %s, skill=%s caller=%s%s",
            *(self.ids.task_id, state.word, self.skill, self.namespace.caller or "-"),
            "" if ms is None else f" {ms} ms",
            extra={
                "task_id": self.ids.task_id,
                "state": state.word,
                "skill": self.skill,
                "caller": self.namespace.caller,
                "ms": ms,
            },
        )

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
        reasons = (_reason(turn.number, error),)
        self.append(StatusChanged(update, refuses=(turn.number,), reasons=reasons))

    @property
    def has_key(self) -> bool:
        """Whether the next commit has an idempotency key already: it can have one."""
        return self._idempotency is not None

    def keep(self, record: Idempotency, turn: Turn) -> None:
        """Store an idempotency key with what it stands for, in one item."""
        record.task_id, record.turn = self.ids.task_id, turn.number
        self._idempotency = record

    def register(self, push: Push) -> None:
        """Store a webhook with what has been appended."""
        self._pushes += (push,)

    def remember(self, write: StateWrite) -> None:
        """Store the state of the conversation with what has been appended."""
        self._conversation, self._state_pos = write, self.pos

    @property
    def has_unstored_state(self) -> bool:
        """Whether a state of the conversation waits to be stored."""
        return self._state_pos > self._published[0]

    # Waiting for the commit

    def stored(self, value: Any = None) -> asyncio.Future[Any]:
        """Done when everything appended so far is stored; gives `value` then."""
        waiter: asyncio.Future[Any] = self.writer.loop.create_future()
        if self.is_lost:
            waiter.set_exception(Lost())
        elif self._lines:
            self._waiting.append((waiter, value))
        elif self._in_flight is not None:
            self._in_flight.waiting.append((waiter, value))
        else:
            waiter.set_result(value)
        return waiter

    def stored_to(self, pos: int) -> asyncio.Future[None]:
        """Done when the log is stored up to this position."""
        waiter: asyncio.Future[None] = self.writer.loop.create_future()
        if self._published[0] >= pos:
            waiter.set_result(None)
        elif self.is_lost or self.pos < pos:  # another process has written that
            waiter.set_exception(Lost())
        elif self._in_flight is not None and self._in_flight.pos >= pos:
            self._in_flight.waiting.append((waiter, None))
        else:
            self._waiting.append((waiter, None))
        return waiter

    def stored_after_outage(self) -> asyncio.Future[None]:
        """The same, however long an outage of the store lasts: for runs, which are held
        meanwhile.
        """
        waiter: asyncio.Future[None] = self.writer.loop.create_future()
        if self.is_lost:
            waiter.set_exception(Lost())
        elif self.is_withheld:
            waiter.set_result(None)  # there is no task yet that could go on after a crash
        elif self._lines:
            self._outage_waiters.append(waiter)
        elif self._in_flight is not None:
            self._in_flight.outage_waiters.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    @property
    def is_stored(self) -> bool:
        return not self._lines and self._in_flight is None

    @property
    def stored_at(self) -> tuple[int, int]:
        """Up to which position, and which visible number, the log is stored."""
        in_flight = len(self._in_flight.events) if self._in_flight is not None else 0
        return self._published[0], self.seq - in_flight - len(self._events)

    @property
    def stored_state(self) -> TaskState:
        return self._published[1]

    @property
    def is_far_ahead(self) -> bool:
        return not self.is_withheld and (
            len(self._lines) > MAX_AHEAD
            or self._bytes > MAX_AHEAD_BYTES
            or (self.writer.is_failing and bool(self._lines))
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
        task = self._fold.joined()
        is_all = history_length is None or len(task.history) <= history_length
        if is_all and self._snapshot is not None and self._snapshot[0] == self.pos:
            return self._snapshot[1]  # a sender's answer and the stored snapshot are often the same
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

    def take(self) -> Create | Append:
        """Hand over what has gathered."""
        data = b"\n".join(self._lines)
        state = self.state
        self._in_flight = StoredBatch(
            self.pos, state, self._events, self._posts, self._waiting, self._outage_waiters
        )
        self._lines, self._events, self._waiting, self._outage_waiters, self._posts = (
            [],
            [],
            [],
            [],
            {},
        )
        self._since_snapshot += self._bytes
        self._bytes = 0
        before, self._stored_pos = self._stored_pos, self.pos
        number = STATE_NUMBER[state]
        leaves = Leaves.END if state in FINAL else Leaves.REST if self.gives_up else Leaves.STAY
        made = None
        if state in FINAL or self._since_snapshot > SNAPSHOT_AFTER + 2 * self._snapshot_size:
            made = self.snapshot()
            self._snapshot_size = len(made.head) + len(made.artifacts)
            self._since_snapshot = 0
        item: Create | Append
        if self._is_new:
            item = Create(
                *(
                    self.key,
                    self.namespace,
                    self.ids.task_id,
                    self.ids.context_id,
                    self.skill,
                    encode_about(self.about),
                    number,
                ),
                *(self.at_ms, self.pos, self.seq, FORMAT, data, leaves),
            )
            self._is_new = False
        else:
            item = Append(
                *(
                    self.key,
                    self.namespace,
                    before,
                    self.pos,
                    self.seq,
                    self._stored_state,
                    number,
                    self.at_ms,
                    FORMAT,
                    data,
                ),
                *(self.posts_read, leaves),
            )
        if made is not None:
            item.head, item.artifacts = made.head, made.artifacts
        if self._idempotency is not None:
            item.idempotency, self._idempotency = self._idempotency, None
        item.told = self.told
        if self._pushes:
            item.pushes, self._pushes = self._pushes, ()
        if self._conversation is not None:
            item.conversation, self._conversation = self._conversation, None
        self._stored_state = number
        return item

    def publish(self) -> StoredBatch | None:
        """What was handed over is stored: tell who waits for that, and return it.

        Return None if the task was lost while it was stored: then who waits was told so.
        """
        if self._in_flight is None:
            return None
        batch, self._in_flight = self._in_flight, None
        self._published = (batch.pos, batch.state)
        for waiter, value in batch.waiting:
            if not waiter.done():
                waiter.set_result(value)
        for waiter in batch.outage_waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self._drain_waiters:
            self._wake_run()
        return batch

    def fail(self, error: A2AError) -> None:
        """Storing takes too long: raise an error in those who wait. What was appended is kept, and
        stored when the store works again.
        """
        waiting, self._waiting = self._waiting, []
        if self._in_flight is not None:
            waiting += self._in_flight.waiting
            self._in_flight.waiting = []
        for waiter, _ in waiting:
            if not waiter.done():
                waiter.set_exception(error)

    def lose(self, error: A2AError | None = None) -> None:
        """Another process owns the task: what was not stored is gone."""
        self.is_lost = True
        outage_waiters = self._outage_waiters + (
            self._in_flight.outage_waiters if self._in_flight is not None else []
        )
        self.fail(error or Lost())
        self._in_flight = None
        self._outage_waiters = []
        for waiter in outage_waiters:
            if not waiter.done():
                waiter.set_exception(error or Lost())
        self._lines, self._events = [], []
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
    """Whether the agent said this. How a task ends badly, and where it stands, is told also when it
    is full.
    """
    if not isinstance(event, StatusUpdate) or event.status.message is None:
        return False
    return event.status.state not in (TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)


def asked_since(task_id: str) -> UnsupportedOperation:
    """Return the error for a message that was accepted before the question that is open."""
    return UnsupportedOperation(
        f"task {task_id} asked a question after it had accepted your message, so the message is no "
        "answer to it; read the question, and send the message again if it answers that",
        taskId=task_id,
    )


def _reason(turn: int, error: A2AError) -> tuple[int, str, str]:
    """Why a turn is refused, as it is logged: by the class of the protocol, not one of a user's."""
    name = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in errors.__all__)
    return turn, name, str(error)


def _made_ms(task_id: str) -> int | None:
    """When a task was made: its id says so (UUID version 7), unless its client chose it."""
    if len(task_id) != 36 or task_id[14] != "7":
        return None
    try:
        return int(task_id[:8] + task_id[9:13], 16)
    except ValueError:
        return None
