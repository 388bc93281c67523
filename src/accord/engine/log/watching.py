"""All views of this process: a tail for each task somebody reads, fed by our own commits or by what
other processes write.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Coroutine
from typing import TYPE_CHECKING, Any

from ...model import FINAL, A2AError, TooManyRequests, Unavailable, error_of
from ...protocol import Snapshot
from ...store import Namespace, Record
from .entries import Event, Ids, MessageAdded, PostRefused, entries_of, events_of, state_of
from .log import Log
from .views import Tail, View
from .watches import Watches
from .writer import Lost, WentBack

if TYPE_CHECKING:
    from .tasks import Tasks

__all__ = ["Views"]

log_ = logging.getLogger("accord")

RETRY_S = 1.0


class Views:
    """Opens views of tasks, and is where they get what is not in their tail."""

    def __init__(self, tasks: "Tasks") -> None:
        self._tasks = tasks
        self._store = tasks.store
        self.limits = tasks.limits
        self.open = 0
        self._of_caller: Counter[str] = Counter()
        self._tails: dict[int, Tail] = {}
        self._woken: set[int] | None = set()  # tasks to be read again, None for all
        self._reading: asyncio.Task[None] | None = None
        self._watches = Watches(tasks.store, self._tails.__contains__)
        self._background: set[asyncio.Future[None]] = set()

    def close(self) -> None:
        self._watches.close()
        if self._reading is not None:
            self._reading.cancel()

    # Opening

    async def after(self, of: Log | Record, seq: int, *, pos: int | None = None) -> View:
        """Return a cursor on a task, after event `seq`, to the end of the task."""
        if pos is None:
            pos = await self._store.locate(of.key, seq) if seq else 0
        return View(self, self.tail(of), seq=seq, pos=pos)

    async def now(
        self, of: Log | Record, *, turn: int = 0, history_length: int | None = None
    ) -> View:
        """Return a cursor on a task that begins with the task as it is. With a turn, it ends where
        that is answered.
        """
        if isinstance(of, Log):
            pos = of.pos
            is_answered = turn not in of.turns and all(
                waiting.number != turn for waiting in of.inbox
            )
            with of.held():  # while its commit is awaited
                snapshot: Snapshot = await of.stored(of.snapshot(history_length))
        else:
            pos, snapshot = of.pos, await self._tasks.shown(of, history_length)
            is_answered = bool(turn) and await self._is_answered(of, turn)
        answers = (turn,) if turn and is_answered else ()
        first = Event(snapshot.seq, pos, b'{"task":%b}' % snapshot.data, snapshot.state, answers)
        return View(self, self.tail(of), seq=snapshot.seq, pos=pos, turn=turn, first=first)

    async def _is_answered(self, of: Record, turn: int) -> bool:
        """Whether the end of a turn has been told."""
        pos = turn
        while rows := await self._store.read({of.key: pos}):
            events = list(events_of(rows, Ids(of.id, of.context_id)))
            shown = [
                event for event in events if event.pos <= of.pos
            ]  # what came since is still to be shown
            if any(turn in event.answers or turn in event.refuses for event in shown):
                return True
            pos = rows[-1].pos + rows[-1].data.count(b"\n")
        return state_of(of.state) in FINAL

    async def turn_of(self, of: Log | Record, post: int) -> int:
        """Return the turn of a message that was posted, once its owner has read it. Raises the
        error it was refused with.
        """
        view = await self.after(of, of.seq, pos=of.pos)
        try:
            outcome = await self.outcome(self.tail(of), post, 0)
            if outcome is None:
                outcome = await view.post_outcome(post)
        finally:
            view.close()
        if isinstance(outcome, PostRefused):
            raise error_of(outcome.error, outcome.text)
        return outcome

    def check(self, namespace: Namespace, task_id: str) -> None:
        """Raise TooManyRequests if one more stream would be too many; before anything is done for
        it.
        """
        if self._tasks.is_out:
            raise self._tasks.refusal()  # nothing would ever be told of it here
        log = self._tasks.logs.get((namespace, task_id))
        of_task = log.tail.views if log is not None and log.tail is not None else 0
        of_caller = self._of_caller[namespace.caller] if namespace.caller else 0
        limits = self.limits
        for count, most, whose, name in (
            (of_task, limits.streams_per_task, "this task", "streams_per_task"),
            (of_caller, limits.streams_per_caller, "you", "streams_per_caller"),
            (self.open, limits.streams, "this server", "streams"),
        ):
            if count >= most:
                raise TooManyRequests(
                    f"{count} streams of {whose} are open, which is the limit",
                    retry_after_s=5,
                    limit=name,
                )

    def tail(self, of: Log | Record) -> Tail:
        tail = self._tails.get(of.key)
        if tail is not None:
            return tail
        of = self._tasks.live_log(of.key) or of
        if isinstance(of, Log):
            if of.is_lost:
                raise Lost()  # while its reader looked for its place in it
            pos, seq = of.stored_at
            tail = Tail(
                of.key,
                of.ids,
                of.namespace,
                pos=pos,
                seq=seq,
                state=of.stored_state,
                log=of,
                artifacts=[],
            )
            of.tail = tail
        else:
            ids = Ids(of.id, of.context_id)
            tail = Tail(
                of.key,
                ids,
                of.namespace,
                pos=of.pos,
                seq=of.seq,
                state=state_of(of.state),
                log=None,
                artifacts=[],
            )
            if self._store.is_shared and of.key not in self._watches:
                self._begin_watching(tail)
        self._tails[of.key] = tail
        return tail

    # What views ask for

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._tasks.writer.loop

    @property
    def outage_s(self) -> float:
        return self._tasks.writer.outage_s

    @property
    def is_out(self) -> bool:
        return self._tasks.writer.is_out

    def count(self, tail: Tail, change: int) -> None:
        tail.views += change
        self.open += change
        if tail.namespace.caller:
            self._of_caller[tail.namespace.caller] += change
        self.let_go(tail)

    def let_go(self, tail: Tail) -> None:
        """Forget a tail that nobody uses any more."""
        if not tail.is_used and self._tails.get(tail.key) is tail:
            del self._tails[tail.key]
            if tail.log is not None:
                tail.log.tail = None
                self._tasks.release(tail.log)
            elif tail.key in self._watches:
                self._watches.end_later(tail.key)

    def check_open(self, tail: Tail) -> None:
        tasks = self._tasks
        if tasks.is_out:
            raise tasks.refusal()
        if tail.is_lost:
            raise Lost()
        if tail.is_gone:
            raise WentBack(tail.ids.task_id)
        log = tail.log
        is_stopping = tasks.is_closing or (tasks.is_draining and (log is None or log.run is None))
        if is_stopping and (
            log is None or log.is_lost or log.is_stored
        ):  # else the end of this task is still to come
            raise tasks.parting(tail.ids)

    async def events(self, tail: Tail, pos: int) -> list[Event]:
        while rows := await self._store.read({tail.key: pos}):
            if events := list(events_of(rows, tail.ids)):
                return events
            pos = rows[-1].pos + rows[-1].data.count(b"\n")  # nothing in there that can be seen
        return []

    async def snapshot_at(self, tail: Tail, pos: int, history_length: int | None) -> Snapshot:
        return await self._tasks.shown_at(await self._record(tail), pos, history_length)

    async def stored_snapshot(
        self, of: Log | Record, history_length: int | None = None
    ) -> Snapshot:
        """Return the task as it is now, once all of it is stored."""
        return await self._tasks.stored_snapshot(of, history_length)

    async def snapshot_now(self, tail: Tail) -> Snapshot:
        if tail.log is not None and not tail.log.is_lost:
            made: Snapshot = await tail.log.stored(tail.log.snapshot())
            return made
        return await self._tasks.shown(await self._record(tail), None)

    async def outcome(self, tail: Tail, post: int, pos: int) -> int | PostRefused | None:
        while rows := await self._store.read({tail.key: pos}):
            for at, _, _, entry in entries_of(rows, tail.ids):
                pos = at
                if isinstance(entry, MessageAdded) and entry.post == post:
                    return at
                if isinstance(entry, PostRefused) and entry.post == post:
                    return entry
        return None

    async def is_over(self, tail: Tail) -> bool:
        record = await self._record(tail)
        return state_of(record.state) in FINAL and not record.owner and tail.pos >= record.pos

    async def _record(self, tail: Tail) -> Record:
        record = await self._store.load(tail.namespace, tail.ids.task_id)
        if record is None:
            raise Unavailable("the task is gone")
        return record

    def wake_all(self) -> None:
        for tail in list(self._tails.values()):
            tail.wake()

    # Tasks that become ours, and cease to be

    def attach(self, log: Log) -> None:
        """This process owns the task: its log feeds the tail."""
        if (tail := self._tails.get(log.key)) is not None:
            log.tail, tail.log = tail, log
            tail.reset(
                *log.stored_at, log.stored_state
            )  # others may have written since it was last read

    def detach(self, log: Log) -> None:
        """Nothing happens to the task here any more."""
        if (tail := log.tail) is not None:
            tail.artifacts = [artifact.artifact_id for artifact in log.draft.artifacts]
            tail.log, log.tail = None, None
            if self._tasks.is_draining:
                tail.wake()  # nothing more is told of it here
            elif self._store.is_shared and tail.is_used and log.stored_state not in FINAL:
                self._begin_watching(tail)  # another process may go on with the task

    def lost(self, tail: Tail) -> None:
        """Another process owns the task: views go on with what that writes, where it can be seen
        from here.
        """
        if self._store.is_shared:
            self._begin_watching(tail)
        else:
            tail.is_lost = True
        tail.wake()

    def watch_again(self) -> None:
        """The store has forgotten what we watched, under the number we had."""
        self._watches.forget()
        for tail in list(self._tails.values()):
            if tail.log is None:
                self._begin_watching(tail)

    # What other processes write

    async def watch(self, namespace: Namespace, task_id: str) -> Record | None:
        """Return a task as it is stored. From here on, what its owner writes is read as long as
        there is a view of it.
        """
        return await self._watches.load(namespace, task_id)

    def wake(self, tasks: Collection[int] | None) -> None:
        """The store says: these tasks may have grown; None for all."""
        if tasks is None:
            self._woken = None
        elif self._woken is not None:
            self._woken.update(tasks)
        if self._reading is None or self._reading.done():
            self._reading = self.loop.create_task(self._read_woken())

    async def _read_woken(self) -> None:
        while self._woken is None or self._woken:
            woken, self._woken = self._woken, set()
            tails = {
                key: tail
                for key, tail in self._tails.items()
                if tail.log is None and (woken is None or key in woken)
            }
            if not tails:
                continue
            try:
                if woken is None:
                    await self._check_lengths(tails)
                rows = await self._store.read({key: tail.pos for key, tail in tails.items()})
            except A2AError as error:
                log_.debug("reading what other processes wrote failed; trying again: %s", error)
                await asyncio.sleep(RETRY_S)
                self._look_again(tails)
                continue
            for key, tail in tails.items():
                if mine := [row for row in rows if row.task == key]:
                    tail.extend_rows(mine)
                    self._look_again({key})  # there may be more

    async def _check_lengths(self, tails: dict[int, Tail]) -> None:
        """See whether the store still has what these tails have: a failover may have lost it."""
        known = {key: tail.pos for key, tail in tails.items()}
        lengths = await self._store.positions(known)
        for key, pos in known.items():
            tail = tails[key]
            if lengths.get(key, 0) >= pos or tail.log is not None or tail.is_gone:
                continue
            record = await self._store.load(tail.namespace, tail.ids.task_id)
            if tail.log is not None or (record is not None and record.pos >= pos):
                continue
            length = record.pos if record is not None else 0
            if tail.state not in FINAL or record is not None:  # else it was purged
                log_.error(
                    "the store went back to an earlier state: task %s has %d entries, and had %d",
                    *(tail.ids.task_id, length, pos),
                )
            if record is None:
                tail.is_gone = True
                tail.wake()
            else:
                tail.cut(record.pos, record.seq, state_of(record.state))

    def _look_again(self, tasks: Collection[int]) -> None:
        if self._woken is not None:
            self._woken.update(tasks)

    def _begin_watching(self, tail: Tail) -> None:
        self._in_background(self._watch(tail))

    async def _watch(self, tail: Tail) -> None:
        """Read along with a task that was only looked at before, from where it was then."""
        while True:
            try:
                await self.watch(tail.namespace, tail.ids.task_id)
                break
            except A2AError:
                await asyncio.sleep(RETRY_S)
                if self._tails.get(tail.key) is not tail:
                    return
        self._tasks.wake({tail.key})

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        doing = asyncio.ensure_future(work)
        self._background.add(doing)
        doing.add_done_callback(self._background.discard)
