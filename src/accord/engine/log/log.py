"""The live ends of the logs of tasks, and the one writer that stores what they gather.

A run appends and does not wait; the writer commits what has gathered in all logs, and only then are readers and senders told.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from ...codec import v1
from ...codec.contract import Snapshot
from ...model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    ArtifactUpdate,
    Event,
    InvalidAgentResponse,
    Limits,
    Message,
    Metadata,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
    Unavailable,
    UnsupportedOperation,
    moment,
)
from ...store import CommitFailed, Fenced, Keep, Note, Scope, Store, Write
from ...store.failpoints import is_armed, point
from .entry import STATE_NUMBER, About, Entry, TurnBegin, encoded, event_of
from .picture import LARGE, LONG, Texts

__all__ = ["Book", "Log", "Turn", "going_on", "not_stored", "stopping"]

log_ = logging.getLogger("accord")

GIVE_UP_S = 10.0
TURNS = 4  # of the loop that a commit waits for more to come along, while it does
RESTING = 1_000
RESTING_BYTES = 64 << 20

MAX_AHEAD = 256
MAX_AHEAD_BYTES = 1 << 20
TAIL_ENTRIES = 256
TAIL_BYTES = 1 << 20
SNAPSHOT_AFTER = 64 << 10
SNAPSHOT_RUNNING = 8 << 20  # while it runs a task is read from memory: a snapshot would only spare a crash some reading

_NOTHING: list[Any] = []
_RUNNING = (TaskState.SUBMITTED, TaskState.WORKING)


class Turn(msgspec.Struct, eq=False):
    """A sender's message and what its sender waits for.

    A turn begins when a function starts with the message or an `ask` takes it, and ends at the next interrupted or
    terminal state. `last` is then the number of the event that ended it.
    """

    message: Message
    output_modes: Sequence[str] = ()  # that its sender can take
    last: int = 0
    is_answered: bool = False
    refused: A2AError | None = None
    waiting: list[tuple[asyncio.Future[Snapshot], int | None]] = []  # who is to be told, with how much history

    def refuse(self, error: A2AError) -> None:
        """This message gets no turn, or its end is not told here."""
        self.refused, self.is_answered = error, True
        for waiter, _ in self.waiting:
            if not waiter.done():
                waiter.set_exception(error)
        self.waiting.clear()


Answer: TypeAlias = tuple[asyncio.Future[Snapshot], Snapshot | A2AError]
Noted: TypeAlias = "tuple[Log, asyncio.Future[None]]"  # whose private line it is, and who waits for it


class Stoppable(Protocol):
    """What a log knows of its run."""

    has_begun: bool

    def begin(self) -> None: ...

    def lose(self) -> None: ...


class Log:
    """One task while something happens to it. Only its run, or the operation that holds it, changes it.

    - `task` is the draft: the fold of everything appended, committed or not.
    - What is appended between two commits is stored by one.
    """

    __slots__ = (
        "_answers",
        "_bytes",
        "_entries",
        "_grew",
        "_is_begun",
        "_picture",
        "_room",
        "_since_snapshot",
        "_size",
        "_stored_at_ms",
        "_stored_pos",
        "_stored_state",
        "_texts",
        "about",
        "at_ms",
        "book",
        "committed",
        "flight",
        "inbox",
        "is_clear",
        "is_dead",
        "key",
        "lines",
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
        book: "Book",
        key: int,
        scope: Scope,
        task: Task,
        about: About,
        *,
        at_ms: int,
        seq: int = 0,
        pos: int = 0,
        size: int = 0,
        is_begun: bool = False,
        texts: Texts | None = None,
    ) -> None:
        self.book = book
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
        self.is_dead = False  # given up by the book; the task is as last stored
        self._is_begun = is_begun  # in the store: the log is there, and no snapshot yet
        self._stored_state = STATE_NUMBER[task.status.state] if seq and not is_begun else 0  # by the snapshot; 0 without one
        self._stored_at_ms = at_ms
        self._stored_pos = pos
        self.lines: list[bytes] = []  # gathered, not yet handed over
        self._entries: list[Entry] = []
        self._bytes = 0
        self._answers: list[Answer] = []
        self.flight: tuple[list[Entry], list[Answer]] | None = None  # handed over, not yet committed
        self._picture: tuple[int, Snapshot] | None = None
        self._texts = texts  # of a task that is long or large
        self._grew: dict[asyncio.Future[None], None] = {}
        self._room: list[asyncio.Future[None]] = []
        self._since_snapshot = 0
        self._size = 0

    # Appending

    def append(self, event: Event, *, is_ours: bool = True) -> None:
        """Add a visible event. Does not wait.

        One with something in it that the agent still holds, and may change, is not `is_ours`: the draft then gets its own copy.
        """
        data = v1.encode(v1.FRAMES[type(event)](event))
        limits = self.book.limits
        state = None if isinstance(event, ArtifactUpdate) else event.status.state
        if self.size + len(data) > limits.task_size and (state is None or _may_be_too_much(event)):
            raise InvalidAgentResponse(f"task {self.task.id} would hold more than {limits.task_size} bytes")
        if self.seq:
            self.task.apply(event if is_ours else event_of(data), limits)
        if self.size + len(data) > LARGE:
            self._texts = self._texts or Texts()
            self._texts.keep(event, data)
        self.seq += 1
        self.pos += 1
        self._entries.append(Entry(self.seq, data, state))
        if self.seq == 1:
            self._note(data)
        else:  # the ids of the task, which every line would repeat, are left out
            at = data.index(b',"artifact":' if state is None else b',"status":')
            self._note((b"a" if state is None else b"w") + data[at:])
            self.size += at
        if state in INTERRUPTED or state in FINAL:
            self._end_turns(state)

    def set_status(self, state: TaskState, message: Message | None = None, metadata: Metadata | None = None) -> None:
        """Give the task a new status, now."""
        task = self.task
        at_ms, now = moment(self.at_ms)  # a clock set back does not reorder a task's own history
        status = TaskStatus(state=state, message=message, timestamp=now)
        event = StatusUpdate(task_id=task.id, context_id=task.context_id, status=status, metadata=metadata)
        self.append(event, is_ours=message is None and metadata is None)
        self.at_ms = at_ms

    def add(self, message: Message) -> None:
        """Log a message of the user, at once: it is kept whatever becomes of the run."""
        data = v1.encode(message)
        limits = self.book.limits
        if len(self.task.history) >= limits.history or self.size + len(data) > limits.task_size:
            raise UnsupportedOperation(
                f"task {self.task.id} holds {limits.history} messages or {limits.task_size} bytes, the most a task may; "
                f"send without taskId, in context {self.task.context_id}, to start a new one",
                taskId=self.task.id,
                contextId=self.task.context_id,
            )
        self.task.add(message, limits)
        if len(data) > LARGE:
            self._texts = self._texts or Texts()
            self._texts.keep_message(self.task.history, data)
        self.pos += 1
        self._note(b"m" + data)

    def begin(self, turn: Turn, ask: int = 0) -> None:
        """Note which message the function goes on with."""
        self.turns.append(turn)
        self._note(b"t" + v1.encode(TurnBegin(turn.message.message_id, ask)))

    def note(self, kind: bytes, data: bytes = b"") -> None:
        """Add a private line: `q` waits in its n-th ask, `s` a step began or ended, `r` began again by replay, `l` was let go."""
        self._note(kind + data)

    def noted(self, line: bytes) -> asyncio.Future[None]:
        """Add a private line. Done when it is stored."""
        if self.lines or self.flight is not None or self.is_dead:
            self._note(line)
            return self.stored()
        # Nothing else is to be stored: the way of most steps, past all that the rest needs.
        self.size += len(line)
        book = self.book
        stored: asyncio.Future[None] = book.loop.create_future()
        book.notes.append((self.key, self.seq, line))
        book.noted.append((self, stored))
        if book.wake is not None and not book.wake.done():
            book.wake.set_result(None)
        return stored

    def _note(self, line: bytes) -> None:
        if self.is_dead:
            raise Unavailable("this task could not be stored and was given up", retry_after_s=5)
        if not self.lines:  # the first since the last commit
            book = self.book
            book.dirty.append(self)
            if book.wake is not None and not book.wake.done():
                book.wake.set_result(None)
        self.lines.append(line)
        self._bytes += len(line)
        self.size += len(line)

    def _end_turns(self, state: TaskState | None) -> None:
        """Answer every sender whose turn this event ends, with the task as it stands here."""
        stays_open = state is TaskState.AUTH_REQUIRED  # blocking sends return, streams stay (design, rule 3)
        for turn in self.turns:
            turn.is_answered = True
            for waiter, history_length in turn.waiting:
                self._answers.append((waiter, self.picture(history_length)))
            turn.waiting.clear()
            if not stays_open:
                turn.last = self.seq
        if not stays_open:
            self.turns.clear()
        if state in FINAL and self.inbox:
            self._refuse_waiting()

    def refuse(self, error: A2AError) -> None:
        """Tell everyone who still waits for the end of a turn that it will not come from here.

        What the error tells of the task has to be stored first, like everything else.
        """
        later = self._answers if self.lines else self.flight[1] if self.flight is not None else None
        for turn in [*self.turns, *self.inbox]:
            if later is not None:
                later += [(waiter, error) for waiter, _ in turn.waiting]
                turn.waiting.clear()
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
            self._answers += [(waiter, error) for waiter, _ in turn.waiting]
            turn.waiting.clear()
            turn.refuse(error)
        self.inbox.clear()

    @property
    def is_far_ahead(self) -> bool:
        return (
            len(self.lines) > MAX_AHEAD
            or self._bytes > MAX_AHEAD_BYTES
            or (self.flight is not None and self.seq - self.committed > MAX_AHEAD)
            or self.book.is_failing
        )

    async def room(self) -> None:
        """Wait until the commit has caught up."""
        while self.is_far_ahead:
            waiter: asyncio.Future[None] = self.book.loop.create_future()
            self._room.append(waiter)
            await waiter

    # Reading

    def picture(self, history_length: int | None = None) -> Snapshot:
        """Encode the task as it stands now."""
        task = self.task
        is_whole = history_length is None or len(task.history) <= history_length
        if is_whole and self._picture is not None and self._picture[0] == self.pos:
            return self._picture[1]  # a sender's answer and the stored snapshot are often the same
        if self._texts is None and (not is_whole or len(task.history) > LONG):
            self._texts = Texts()
        if self._texts is not None:
            picture = self._texts.picture(task, self.seq, history_length)
        else:
            artifacts, task.artifacts = task.artifacts, _NOTHING
            try:
                head = v1.encode(task)
            finally:
                task.artifacts = artifacts
            picture = Snapshot(self.seq, task.status.state, head, v1.encode(artifacts) if artifacts else b"[]")
        if is_whole:
            self._picture = (self.pos, picture)
        return picture

    def snapshot(self, history_length: int | None = None) -> asyncio.Future[Snapshot]:
        """The task as it stands now, told as soon as all of it is stored."""
        try:
            picture = self.picture(history_length)
        except TypeError as error:  # the agent has changed what it had said, and it is no longer JSON
            raise not_stored() from error
        return self.stored(picture)

    def stored(self, value: Any = None) -> asyncio.Future[Any]:
        """Done when everything appended so far is stored; gives `value` then."""
        answer: asyncio.Future[Any] = self.book.loop.create_future()
        if self.lines:
            self._answers.append((answer, value))
        elif self.is_dead:
            answer.set_exception(not_stored())
        elif self.flight is not None:
            self.flight[1].append((answer, value))
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
        waiter: asyncio.Future[None] = self.book.loop.create_future()
        self._grew[waiter] = None
        return waiter

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """Nobody waits there any more: an idle task would gather one for every sign of life of every reader."""
        self._grew.pop(waiter, None)

    def wake(self) -> None:
        """Let readers and the run look again."""
        _wake(self._grew)
        _wake(self._room)

    # Committing, by the book

    def take(self) -> Write | Note:
        """Hand over what has gathered; as a note if all of it is private, and the task stands as it did."""
        lines, self.lines = self.lines, []
        self._since_snapshot += self._bytes
        self._bytes = 0
        if self.pos == self._stored_pos:
            self.flight, self._answers = (_NOTHING, self._answers), []
            return self.key, self.seq, b"\n".join(lines)
        entries, self._entries = self._entries, []
        self.flight, self._answers = (entries, self._answers), []
        task = self.task
        state = task.status.state
        number = STATE_NUMBER[state]
        row = entries[0].seq if entries else self.seq
        write = Write(self.key, row, lines, number, self.scope, self._stored_state, self.at_ms, self.seq, self.pos)
        self._stored_pos = self.pos
        if self._stored_state:
            write.has_moved = number != self._stored_state or self.at_ms != self._stored_at_ms
            pause = SNAPSHOT_AFTER if state in INTERRUPTED else SNAPSHOT_RUNNING
            is_due = state in FINAL or self._since_snapshot > pause + 2 * self._size
        else:
            write.id, write.context_id, write.about = task.id, task.context_id, encoded(self.about)
            if self._is_begun:
                write.was_begun = True
            else:
                write.is_new = True
                if state in _RUNNING and not task.artifacts:
                    self._is_begun = True
                    return write
            is_due, self._is_begun = True, False
        if is_due:
            picture = self.picture()
            write.head, write.artifacts = picture.head, picture.artifacts
            self._size = len(picture.head) + len(picture.artifacts)
            self._since_snapshot = 0
        self._stored_state = number
        self._stored_at_ms = self.at_ms
        return write

    def publish(self) -> None:
        """What was handed over is stored: tell everyone who waits for it."""
        assert self.flight is not None  # publish follows take
        (entries, answers), self.flight = self.flight, None
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
        if entries and self._grew:
            _wake(self._grew)
        if self._room:
            _wake(self._room)
        if self.run is None:
            self.book.let_go(self)
        elif not self.run.has_begun and not self.lines:
            self.run.begin()

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
        self.refuse(error)
        for answer, _ in [*(self.flight[1] if self.flight else ()), *self._answers]:
            if not answer.done():
                answer.set_exception(error)
        self.is_dead = True
        self.lines.clear()
        self.inbox.clear()
        self.turns.clear()
        if self.run is not None:
            self.run.lose()
        self.wake()


class Book:
    """Every live log, and the group commit that stores them.

    - Nothing is shown that is not stored: readers and senders are woken after the commit, never before.
    - What happens on the loop in one turn, to however many tasks, is one commit.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.logs: dict[tuple[Scope, str], Log] = {}
        self.working: set[Stoppable] = set()  # runs that do not wait for their client
        self.given_up: set[tuple[Scope, str]] = set()  # tasks the store failed, to be looked at when it works again
        self.is_failing = self.is_closing = self.is_draining = self.is_fenced = False
        self.fault = ""  # what the store said when it began to fail; nothing while it works
        self._failed_s = 0.0
        self._loading: dict[tuple[Scope, str], set[object]] = {}  # who waits for a task from the store
        self._resting: OrderedDict[tuple[Scope, str], Log] = OrderedDict()
        self._resting_bytes = 0
        self.dirty: list[Log] = []
        self.notes: list[Note] = []
        self.noted: list[Noted] = []  # of each of them
        self._keeps: list[tuple[Keep, asyncio.Future[None] | None]] = []
        self._unstored: dict[tuple[Scope, str], Keep] = {}  # the keys among them, until their commit is made
        self.wake: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.store.open()
        self.loop = asyncio.get_running_loop()  # asked for each time, it would ask the system
        self._writer = self.loop.create_task(self._write(), name="accord-writer")

    def drain(self) -> None:
        """From now on, readers of tasks nobody works on here are told to go elsewhere."""
        self.is_draining = True
        self.loop.call_soon(self._wake_readers)

    def _wake_readers(self) -> None:
        for log in self.live():
            log.wake()

    async def close(self) -> None:
        """Store what has gathered, then stop."""
        self.is_closing = True
        self._wake_readers()
        self.stir()
        if self._writer is not None:
            await self._writer
        await self.store.close()

    # Live tasks

    def live(self) -> list[Log]:
        return list(self.logs.values())

    def create(self, scope: Scope, task: Task, about: About, at_ms: int) -> Log:
        """Return the log of a new task, which is its first event."""
        log = self.logs[scope, task.id] = Log(self, self.store.new_key(), scope, task, about, at_ms=at_ms)
        log.append(task)
        return log

    def let_go(self, log: Log) -> None:
        """Forget a log nothing happens to any more: the store knows all there is."""
        if log.run is not None or log.readers or log.lines or log.flight or log.inbox:
            return
        place = (log.scope, log.task.id)
        if self.logs.get(place) is log:
            del self.logs[place]
            if log.task.status.state not in FINAL:
                self._rest(log)
            self._loading.pop(place, None)  # what is being loaded was read before the last commit

    def _rest(self, log: Log) -> None:
        """Keep an open task that nothing happens to for its next message, while there is room: loading it costs its length."""
        self._resting[log.scope, log.task.id] = log
        self._resting_bytes += log.size
        while len(self._resting) > RESTING or self._resting_bytes > RESTING_BYTES:
            _, oldest = self._resting.popitem(last=False)
            self._resting_bytes -= oldest.size

    # Group commit

    def keep(self, keep: Keep) -> None:
        """Store an idempotency key with the next commit, the one that stores what it stands for."""
        self._keeps.append((keep, None))
        self._unstored[keep.scope, keep.key] = keep
        self.stir()

    async def keep_reply(self, keep: Keep) -> None:
        """Store an idempotency key that stands for a reply without a task; return when it is stored."""
        self.check_open()
        stored: asyncio.Future[None] = self.loop.create_future()
        self._keeps.append((keep, stored))
        self.stir()
        await stored

    async def kept(self, scope: Scope, key: str, since_ms: int) -> Keep | None:
        """Return what a key stands for, stored or about to be; None if it was not used since `since_ms`."""
        self.check_open()
        return self._unstored.get((scope, key)) or await self.store.kept(scope, key, since_ms)

    def check_open(self) -> None:
        """Raise Unavailable if the server is stopping: nothing new is begun that could not be stored any more."""
        if self.is_closing:
            raise stopping()

    def stir(self) -> None:
        """Have the writer look: there is something to store."""
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)

    async def _write(self) -> None:
        """Commit what has gathered, tell who waits, again and again."""
        while True:
            if not self.dirty and not self.notes and not self._keeps:
                if self.is_closing:
                    return
                self.wake = self.loop.create_future()
                await self.wake
            logs, self.dirty = self.dirty, []
            await asyncio.sleep(0)  # runs that were started with these lines may end in this turn: then one commit holds it all
            count = len(self.notes)
            for _ in range(TURNS):
                if not self.dirty and len(self.notes) == count:
                    break
                logs += self.dirty  # more came, and may in the next turn too: fewer commits, each of more
                self.dirty, count = [], len(self.notes)
                await asyncio.sleep(0)
            if self._keeps:  # a key goes with what it stands for, which may have come meanwhile
                logs += self.dirty
                self.dirty = []
            logs = [log for log in logs if log.lines]
            keeps, self._keeps = self._keeps, []
            notes, noted, self.notes, self.noted = self.notes, self.noted, [], []
            told: Exception | None = None
            writes, lost = self._taken(logs, notes)  # a log that has a note there had nothing else to store then
            kept = [keep for keep, _ in keeps if (keep.scope, keep.task_id) not in lost]
            try:
                try:
                    await self.store.commit(writes, kept, notes)
                except CommitFailed as error:
                    await self._insist(writes, kept, notes, error)
            except CommitFailed as error:
                self._abandon([*logs, *(log for log, _ in noted)], error)
                told = not_stored()
                if self.is_fenced:
                    self.forget_all()
            else:
                if self.fault:
                    self.works()
                for log in logs:
                    log.publish()
                if is_armed:
                    point("publish.after")
            waiting = [stored for _, stored in noted]
            for keep, stored in keeps:
                if self._unstored.get((keep.scope, keep.key)) is keep:
                    del self._unstored[keep.scope, keep.key]
                if stored is not None:
                    waiting.append(stored)
            for stored in waiting:
                if not stored.done():
                    stored.set_exception(told) if told else stored.set_result(None)

    def _taken(self, logs: list[Log], notes: list[Note]) -> tuple[list[Write], set[tuple[Scope, str]]]:
        """What the logs hand over. One that can't be written is given up and taken out, lest it stop the others."""
        writes: list[Write] = []
        lost: set[tuple[Scope, str]] = set()
        for log in list(logs):
            try:
                taken = log.take()
                if isinstance(taken, Write):
                    writes.append(taken)
                else:
                    notes.append(taken)
            except Exception as error:  # the agent has changed what it had said, and it is no longer JSON
                logs.remove(log)
                lost.add((log.scope, log.task.id))
                self._abandon([log], error)
        return writes, lost

    async def flush(self) -> None:
        """Return when everything appended so far is stored."""
        await asyncio.gather(*(log.stored() for log in self.live()))

    async def _insist(self, writes: list[Write], keeps: list[Keep], notes: list[Note], error: CommitFailed) -> None:
        """Try a failed commit again for a while: a full disk may get room, a locked file may be let go. Runs are held meanwhile."""
        pause_s = 0.05
        try:
            while True:
                log_.error("commit failed, trying again: %s", error, extra={"tasks": len(writes) + len(notes)})
                self.fails(error)
                # Once given up, nothing is held until the store works again: whoever comes is told at once.
                if time.monotonic() + pause_s > self._failed_s + GIVE_UP_S or self.is_closing or self.is_fenced:
                    raise error
                self.is_failing = True
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 1.0)
                try:
                    await self.store.commit(writes, keeps, notes)
                    return
                except CommitFailed as again:
                    error = again
        finally:
            self.is_failing = False
            self._wake_readers()

    def fails(self, error: CommitFailed) -> None:
        """The store has not taken something: until it takes the next, no new work should come."""
        if isinstance(error, Fenced) and not self.is_fenced:
            self.is_fenced = True
            log_.critical("%s: nothing done here counts any more, and no more work is taken; stop this process", error)
        if not self.fault:
            self.fault, self._failed_s = str(error), time.monotonic()

    def works(self) -> None:
        """The store has taken something."""
        if self.fault and not self.is_fenced:
            log_.warning("the store works again; it had failed for %.1f s: %s", time.monotonic() - self._failed_s, self.fault)
            self.fault = ""

    def forget_all(self) -> None:
        """Another process goes on with every task: what is in memory here is no longer what they are."""
        for log in self.live():
            log.abandon(not_stored())
        self.logs.clear()
        self._resting.clear()
        self.given_up.clear()

    def _abandon(self, logs: list[Log], error: Exception) -> None:
        log_.error("commit given up: %s", error, extra={"tasks": [log.task.id for log in logs]})
        for log in logs:
            self.given_up.add((log.scope, log.task.id))
            self.logs.pop((log.scope, log.task.id), None)
            log.abandon(not_stored())


def stopping() -> Unavailable:
    return Unavailable("the server is stopping; try again in a moment", retry_after_s=1)


def going_on(task: Task) -> Unavailable:
    """The server is stopping, and this task is not over: sent again without a key, its work would be done twice."""
    return Unavailable(
        f"the server is stopping, and task {task.id} goes on when it is back: get it by its id, "
        "or send again with the same idempotency key",
        retry_after_s=1,
        taskId=task.id,
        contextId=task.context_id,
    )


def not_stored() -> Unavailable:
    return Unavailable("the server could not store this; try again later", retry_after_s=5)


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
