"""The live end of one task's log.

A run appends here and does not wait; `feed` commits what has gathered, and only then are readers and senders told.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..codec import v1
from ..codec.contract import Snapshot
from ..model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    ArtifactUpdate,
    Event,
    InvalidAgentResponse,
    Message,
    StatusUpdate,
    Task,
    TaskState,
    Unavailable,
    UnsupportedOperation,
)
from ..store import Scope, Write
from .entry import About, Entry, TurnBegin, state_number
from .fold import add_message, apply

if TYPE_CHECKING:
    from .feed import Feed

__all__ = ["Log", "Turn"]

MAX_AHEAD = 256
MAX_AHEAD_BYTES = 1 << 20
TAIL_ENTRIES = 256
TAIL_BYTES = 1 << 20
SNAPSHOT_AFTER = 64 << 10
SNAPSHOT_RUNNING = 8 << 20  # while it runs a task is read from memory: a snapshot would only spare a crash some reading

_NOTHING: list[Any] = []


class Turn:
    """A sender's message and what its sender waits for.

    A turn begins when a function starts with the message or an `ask` takes it, and ends at the next interrupted or
    terminal state. `last` is then the number of the event that ended it.
    """

    __slots__ = ("_waiting", "is_answered", "last", "message", "refused")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.last = 0
        self.is_answered = False
        self.refused: A2AError | None = None
        self._waiting: list[tuple[asyncio.Future[Snapshot], int | None]] = []

    def answer(self, history_length: int | None = None) -> asyncio.Future[Snapshot]:
        """The task at the end of this turn."""
        waiter: asyncio.Future[Snapshot] = asyncio.get_running_loop().create_future()
        self._waiting.append((waiter, history_length))
        return waiter

    def waiting(self) -> list[tuple[asyncio.Future[Snapshot], int | None]]:
        """Take who waits, to be answered."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def refuse(self, error: A2AError) -> None:
        """This message gets no turn."""
        self.refused, self.is_answered = error, True
        for waiter, _ in self.waiting():
            if not waiter.done():
                waiter.set_exception(error)


Answer: TypeAlias = tuple[asyncio.Future[Snapshot], Snapshot | A2AError]


class Stoppable(Protocol):
    """What a log knows of its run."""

    def stop(self) -> None: ...


class Log:
    """One task while something happens to it. Only its run, or the operation that holds it, changes it.

    - `task` is the draft: the fold of everything appended, committed or not.
    - What is appended between two commits is stored by one.
    """

    __slots__ = (
        "_answers",
        "_bytes",
        "_entries",
        "_flight",
        "_grew",
        "_history",
        "_is_stored",
        "_lines",
        "_picture",
        "_room",
        "_since_snapshot",
        "_size",
        "_stored_at_ms",
        "_stored_state",
        "about",
        "at_ms",
        "committed",
        "feed",
        "inbox",
        "is_clear",
        "is_dead",
        "key",
        "pos",
        "readers",
        "run",
        "scope",
        "seq",
        "size",
        "tail",
        "task",
        "turns",
    )

    def __init__(
        self,
        feed: "Feed",
        key: int,
        scope: Scope,
        task: Task,
        about: About,
        *,
        at_ms: int,
        seq: int = 0,
        pos: int = 0,
        size: int = 0,
    ) -> None:
        self.feed = feed
        self.about = about
        self.key = key
        self.scope = scope
        self.task = task
        self.seq = self.committed = seq
        self.pos = pos
        self.at_ms = at_ms
        self.inbox: deque[Turn] = deque()
        self.turns: list[Turn] = []
        self.tail: list[Entry] = []
        self.run: Stoppable | None = None
        self.readers = 0
        self.size = size  # of all lines: what the task holds, and a little more
        self.is_clear = False  # known: the last function returned, and nothing of it has to be replayed
        self.is_dead = False  # given up by the feed; the task is as last stored
        self._is_stored = seq > 0
        self._stored_state = state_number(task.status.state) if seq else 0
        self._stored_at_ms = at_ms
        self._lines: list[bytes] = []
        self._entries: list[Entry] = []
        self._bytes = 0
        self._answers: list[Answer] = []
        self._flight: tuple[list[Entry], list[Answer]] | None = None  # handed over, not yet committed
        self._picture: tuple[int, Snapshot] | None = None
        self._history: list[bytes] = []
        self._grew: dict[asyncio.Future[None], None] = {}
        self._room: list[asyncio.Future[None]] = []
        self._since_snapshot = 0
        self._size = 0

    # Appending

    def append(self, event: Event) -> None:
        """Add a visible event. Does not wait."""
        data = v1.encode_event(event)
        limits = self.feed.limits
        state = None if isinstance(event, ArtifactUpdate) else event.status.state
        if self.size + len(data) > limits.task_size and (state is None or _may_be_too_much(event)):
            raise InvalidAgentResponse(f"task {self.task.id} would hold more than {limits.task_size} bytes")
        if self.seq:
            apply(self.task, event, limits)
        self.seq += 1
        self._entries.append(Entry(self.seq, data, state))
        self._note(b"v" + data)
        if state in INTERRUPTED or state in FINAL:
            self._end_turns(state)

    def add(self, message: Message) -> None:
        """Log a message of the user, at once: it is kept whatever becomes of the run."""
        data = v1.encode(message)
        limits = self.feed.limits
        if len(self.task.history) >= limits.history or self.size + len(data) > limits.task_size:
            raise UnsupportedOperation(
                f"task {self.task.id} holds {limits.history} messages or {limits.task_size} bytes, the most a task may; "
                f"send without taskId, in context {self.task.context_id}, to start a new one",
                taskId=self.task.id,
                contextId=self.task.context_id,
            )
        add_message(self.task, message, limits)
        self._note(b"m" + data)

    def begin(self, turn: Turn, ask: int = 0) -> None:
        """Note which message the function goes on with."""
        self.turns.append(turn)
        self._note(b"t" + v1.encode(TurnBegin(turn.message.message_id, ask)))

    def note(self, kind: bytes, data: bytes = b"") -> None:
        """Add a private line: `q` waits in its n-th ask, `s` a step began or ended, `r` began again by replay, `l` was let go."""
        self._note(kind + data)

    def _note(self, line: bytes) -> None:
        if self.is_dead:
            raise Unavailable("this task could not be stored and was given up", retry_after_s=5)
        if not self._lines:
            self.feed.changed(self)
        self.pos += 1
        self._lines.append(line)
        self._bytes += len(line)
        self.size += len(line)

    def _end_turns(self, state: TaskState | None) -> None:
        """Answer every sender whose turn this event ends, with the task as it stands here."""
        stays_open = state is TaskState.AUTH_REQUIRED  # blocking sends return, streams stay (design, rule 3)
        for turn in self.turns:
            turn.is_answered = True
            for waiter, history_length in turn.waiting():
                self._answers.append((waiter, self.picture(history_length)))
            if not stays_open:
                turn.last = self.seq
        if not stays_open:
            self.turns.clear()
        if state in FINAL and self.inbox:
            self._refuse_waiting()

    def refuse(self, error: A2AError) -> None:
        """Tell everyone who still waits for the end of a turn that it will not come from here."""
        for turn in [*self.turns, *self.inbox]:
            turn.refuse(error)

    def _refuse_waiting(self) -> None:
        """The run is over: what still waits for a turn will not get one. The messages stay in the history."""
        error = UnsupportedOperation(
            f"task {self.task.id} became {self.task.status.state.word} before your message got its turn; "
            f"send it again without taskId to start a new task in context {self.task.context_id}",
            taskId=self.task.id,
            contextId=self.task.context_id,
        )
        for turn in self.inbox:
            turn.last = self.seq
            self._answers += [(waiter, error) for waiter, _ in turn.waiting()]
            turn.refuse(error)
        self.inbox.clear()

    @property
    def is_far_ahead(self) -> bool:
        return (
            len(self._lines) > MAX_AHEAD
            or self._bytes > MAX_AHEAD_BYTES
            or (self._flight is not None and self.seq - self.committed > MAX_AHEAD)
            or self.feed.is_failing
        )

    async def room(self) -> None:
        """Wait until the commit has caught up."""
        while self.is_far_ahead:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(waiter)
            await waiter

    # Reading

    def picture(self, history_length: int | None = None) -> Snapshot:
        """Encode the task as it stands now."""
        task = self.task
        is_whole = history_length is None or len(task.history) <= history_length
        if is_whole and self._picture is not None and self._picture[0] == self.pos:
            return self._picture[1]  # a sender's answer and the stored snapshot are often the same
        artifacts, history = task.artifacts, task.history
        is_long = len(history) > 8
        task.artifacts = _NOTHING
        if is_long:
            task.history = _NOTHING
        elif not is_whole:
            task.history = history[len(history) - (history_length or 0) :]
        try:
            head = v1.encode(task)
        finally:
            task.artifacts, task.history = artifacts, history
        if is_long and history_length != 0:
            head = b'%b,"history":[%b]}' % (head[:-1], b",".join(self._encoded_history(history_length)))
        picture = Snapshot(self.seq, task.status.state, head, v1.encode(artifacts) if artifacts else b"[]")
        if is_whole:
            self._picture = (self.pos, picture)
        return picture

    def _encoded_history(self, length: int | None) -> list[bytes]:
        """The newest messages, each encoded once however often a long conversation is shown."""
        history, done = self.task.history, self._history
        done += [v1.encode(message) for message in history[len(done) :]]
        return done if length is None else done[-length:]

    def snapshot(self, history_length: int | None = None) -> asyncio.Future[Snapshot]:
        """The task as it stands now, told as soon as all of it is stored."""
        return self._when_stored(self.picture(history_length))

    def stored(self) -> asyncio.Future[None]:
        """Done when everything appended so far is stored."""
        return self._when_stored(None)

    def _when_stored(self, value: Any) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._lines:
            self._answers.append((answer, value))
        elif self._flight is not None:
            self._flight[1].append((answer, value))
        else:
            answer.set_result(value)
        return answer

    def after(self, seq: int) -> list[Entry] | None:
        """The committed entries after `seq` that are still in memory; None if they have to be read from the store."""
        if seq >= self.committed:
            return _NOTHING
        first = self.committed - len(self.tail) + 1
        return self.tail[seq + 1 - first :] if seq + 1 >= first else None

    def grew(self) -> asyncio.Future[None]:
        """Done at the next commit of this task."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._grew[waiter] = None
        return waiter

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """Nobody waits there any more: an idle task would gather one for every sign of life of every reader."""
        self._grew.pop(waiter, None)

    def wake(self) -> None:
        """Let readers and the run look again, though nothing was committed."""
        _wake(self._grew)
        _wake(self._room)

    # Committing, by the feed

    def take(self) -> Write:
        """Hand over what has gathered."""
        lines, self._lines = self._lines, []
        entries, self._entries = self._entries, []
        self._flight, self._answers = (entries, self._answers), []
        self._since_snapshot += self._bytes
        self._bytes = 0
        task = self.task
        state = state_number(task.status.state)
        write = Write(
            self.key,
            self.scope,
            task.id,
            task.context_id,
            not self._is_stored,
            state,
            self._stored_state,
            self.at_ms,
            self.seq,
            self.pos,
            entries[0].seq if entries else self.seq,
            lines,
            b"" if self._is_stored else v1.encode(self.about),
        )
        pause = SNAPSHOT_AFTER if task.status.state in INTERRUPTED else SNAPSHOT_RUNNING
        is_due = self._since_snapshot > pause + 2 * self._size
        if is_due or not self._is_stored or task.status.state in FINAL:
            picture = self.picture()
            write.head, write.artifacts = picture.head, picture.artifacts
            self._size = len(picture.head) + len(picture.artifacts)
            self._since_snapshot = 0
        write.has_moved = state != self._stored_state or self.at_ms != self._stored_at_ms
        self._stored_state = state
        self._stored_at_ms = self.at_ms
        self._is_stored = True
        return write

    def publish(self) -> None:
        """What was handed over is stored: tell everyone who waits for it."""
        assert self._flight is not None  # publish follows take
        (entries, answers), self._flight = self._flight, None
        self._picture = None
        if entries:
            self.committed = entries[-1].seq
            self.tail += entries
            if len(self.tail) > 2 * TAIL_ENTRIES:
                self._trim()
        for answer, picture in answers:
            if answer.done():
                continue
            if isinstance(picture, A2AError):
                answer.set_exception(picture)
            else:
                answer.set_result(picture)
        _wake(self._grew)
        _wake(self._room)

    def _trim(self) -> None:
        """Keep a short tail; readers further behind read the store."""
        size, keep = 0, 0
        for entry in reversed(self.tail):
            size += len(entry.data)
            if keep == TAIL_ENTRIES or size > TAIL_BYTES:
                break
            keep += 1
        del self.tail[: len(self.tail) - keep]

    def abandon(self, error: A2AError) -> None:
        """The commit cannot be made: the task stays as last stored, and everyone who waits is told so."""
        for answer, _ in [*(self._flight[1] if self._flight else ()), *self._answers]:
            if not answer.done():
                answer.set_exception(error)
        self.refuse(error)
        self.is_dead = True
        self._lines.clear()
        self.inbox.clear()
        self.turns.clear()
        if self.run is not None:
            self.run.stop()
        _wake(self._grew)
        _wake(self._room)

    @property
    def has_news(self) -> bool:
        return bool(self._lines)

    @property
    def is_idle(self) -> bool:
        """Nothing happens here any more: the store knows all there is."""
        return self.run is None and not (self.readers or self._lines or self._flight or self.inbox)


def _may_be_too_much(event: Event) -> bool:
    """Whether the agent said this. How a task ends badly, and where it stands, is told also when it is full."""
    if not isinstance(event, StatusUpdate) or event.status.message is None:
        return False
    return event.status.state not in (TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)


def _wake(waiters: list[asyncio.Future[None]] | dict[asyncio.Future[None], None]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
