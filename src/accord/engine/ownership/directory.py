"""The tasks of this process: found, claimed, given up, kept for a while, lost."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from typing import Any

from ...model import FINAL, A2AError, Fold, Limits, Task
from ...store import Namespace, Owned, Record, Store
from ..log import (
    FORMAT,
    WORKED_ON,
    About,
    Created,
    EncodedParts,
    Log,
    LogBatch,
    Turn,
    Writer,
    about_of,
    read_task,
)
from ..offloading import offload
from .slot import Place, TaskSlot
from .state import LIVE, SlotMove, SlotState

__all__ = ["Directory"]

log_ = logging.getLogger("accord")

# Logs of open tasks that nobody works on, kept for their next message.
IDLE = 1_000
IDLE_BYTES = 64 << 20
CLOSE_S = 5.0  # for what is being given up


class Directory:
    """One slot for each task that something happens to in this process."""

    def __init__(self, store: Store, writer: Writer, stored_limits: Limits) -> None:
        self._store = store
        self._writer = writer
        self._stored_limits = stored_limits
        self._slots: dict[Place, TaskSlot] = {}
        self._by_key: dict[int, TaskSlot] = {}
        self._idle: OrderedDict[Place, TaskSlot] = OrderedDict()
        self._idle_bytes = 0
        self._background: set[asyncio.Future[None]] = set()
        # An answer of the store was lost that may have made tasks ours.
        self.may_own_more = False
        self._losses = 0  # how often all tasks were lost
        self.damaged: set[int] = set()  # tasks that can't be read, which was logged
        # The last post of tasks that the store calls ours, and whose claim is not over here.
        self._early_posts: dict[int, int] = {}
        # Claims a task. Whoever reads what other processes write watches it, if it is another's.
        self.claim: Callable[..., Awaitable[Record | None]] = store.claim
        # Called when there may be posts for these tasks.
        self.on_posts: Callable[[Collection[int]], None] = lambda tasks: None
        # Called with a slot that is read, and whose task ceases to be ours.
        self.on_unowned: Callable[[TaskSlot], None] = lambda slot: None
        # Called with a log that can't be written any more, though this process is not taken for
        # dead.
        self.on_refused: Callable[[Log], None] = lambda log: None
        # Called with a slot whose state has changed; for tests.
        self.on_move: Callable[[TaskSlot], None] | None = None
        writer.on_stored = self._stored
        writer.on_lost = self._lost

    # Finding

    def live(self) -> list[Log]:
        """Return the logs of all tasks that are ours."""
        return [slot.log for slot in self._slots.values() if slot.is_live and slot.log is not None]

    def slots(self) -> list[TaskSlot]:
        return list(self._slots.values())

    def log(self, place: Place) -> Log | None:
        """Return the log of a task if that is ours."""
        slot = self._slots.get(place)
        return slot.log if slot is not None and slot.is_live else None

    def slot(self, key: int) -> TaskSlot | None:
        return self._by_key.get(key)

    def slot_at(self, place: Place) -> TaskSlot | None:
        return self._slots.get(place)

    def knows(self, task: Owned) -> bool:
        """Return whether a task is ours, or a claim or a release of it is under way."""
        slot = self._slots.get((task.namespace, task.id))
        return slot is not None and (slot.is_live or slot.settled is not None)

    def with_post(self, key: int, n: int) -> Log | None:
        """Return the log of a task of ours whose n-th post is to be read; None if it was read, or
        if the task is not ours yet.

        A task with an unread post has not been given up, even if we meant to. A post that comes
        while we claim its task is read when the claim is answered.
        """
        slot = self._by_key.get(key)
        log = slot.log if slot is not None else None
        if log is not None and log.posts_read >= n:
            return None
        if slot is not None and log is not None and slot.state is SlotState.IDLE:
            self._uncache(slot)
            slot.move(SlotMove.KEEP)
            slot.own(log)
        if slot is None or not slot.is_live:
            self._early_posts[key] = n
            return None
        return log

    # Slots

    def _add(self, place: Place, key: int) -> TaskSlot:
        """Make a slot. A task that is claimed by its id has no key (0) before the store answers."""
        slot = self._slots[place] = TaskSlot(place, key, self)
        if key:
            self._by_key[key] = slot
        return slot

    def read(self, of: Log | Record) -> TaskSlot:
        """Return the slot of a task that somebody begins to read."""
        if isinstance(of, Log):
            place, slot = (of.namespace, of.ids.task_id), of.slot
            if slot.log is of:
                return slot
        else:
            place = (of.namespace, of.id)
        found = self._slots.get(place)
        if found is None:
            found = self._add(place, of.key)
            found.move(SlotMove.READ)
        elif not found.key:  # it is being claimed
            found.key, self._by_key[of.key] = of.key, found
        return found

    def leave(self, slot: TaskSlot) -> None:
        """Forget a slot that is only there to be read, if nobody does."""
        if slot.tail is None and slot.state is SlotState.READING:
            slot.move(SlotMove.LEAVE)
            self._remove(slot)

    def _remove(self, slot: TaskSlot) -> None:
        if self._slots.get(slot.place) is slot:
            del self._slots[slot.place]
        if self._by_key.get(slot.key) is slot:
            del self._by_key[slot.key]

    # New tasks

    def create(
        self,
        namespace: Namespace,
        task: Task,
        skill: str,
        about: About,
        at_ms: int,
        modes: tuple[str, ...] = (),
        *,
        is_pending: bool = False,
    ) -> tuple[Log, Turn]:
        """Create a task. Return its log, and the turn of its first message.

        If it is pending, nobody finds it and nothing of it is stored before `admit`.
        """
        key = self._writer.new_key()
        log = Log(self._writer, key, namespace, Fold(task), skill, about, at_ms=at_ms)
        log.commits.is_pending = is_pending
        place = (namespace, task.id)
        slot = TaskSlot(place, key, self) if is_pending else self._add(place, key)
        slot.move(SlotMove.CREATE)
        slot.own(log)
        return log, Turn(log.append(Created(task, modes)), task.history[0], modes)

    def admit(self, log: Log) -> None:
        """Make a pending task one like all others."""
        slot = log.slot
        self._slots[slot.place] = self._by_key[slot.key] = slot
        log.admit()

    # Claiming

    async def own(
        self, namespace: Namespace, task_id: str, *, reopen: bool = False
    ) -> Log | Record | None:
        """Claim a task, unless this process owns it already.

        Return its log if this process owns it now. Return its record if it has ended or another
        process owns it. Return None if there is no such task.
        """
        place = (namespace, task_id)
        while True:
            slot = self._slots.get(place)
            if slot is not None and slot.settled is not None:
                await asyncio.wait({slot.settled})
                continue
            log = slot.log if slot is not None else None
            if slot is not None and log is not None and slot.is_live:
                is_ours = slot.state is SlotState.OWNED
                if is_ours and not (reopen and log.state in FINAL):
                    return log
                if not log.commits.is_stored:
                    await log.commits.stored()
                    continue  # that commit gave up the task, so claim it again
            if slot is not None and slot.pins:
                await asyncio.wait({slot.unpinned()})
                continue  # whoever uses the log finds that it was given up
            return await self._claim(place, reopen=reopen)

    async def _claim(self, place: Place, *, reopen: bool) -> Log | Record | None:
        slot = self._slots.get(place) or self._add(place, 0)
        with self._claiming(slot):
            cached = slot.log
            known = cached.pos if cached is not None and cached.state not in FINAL else 0
            losses = self._losses
            record = await self.claim(*place, reopen=reopen, known=known, format=FORMAT)
            is_ours = record is not None and record.owner == self._store.replica
            if record is None or not is_ours or self._losses != losses:
                self._deny(slot)
                return record
            slot.key, self._by_key[record.key] = record.key, slot
            if cached is None or not known or cached.pos != record.pos or cached.commits.is_lost:
                cached = await self._adopt(record)
            slot.move(SlotMove.GRANT)
            slot.own(cached)
            self._expect_posts(cached, record)
            return cached

    @contextlib.contextmanager
    def _claiming(self, slot: TaskSlot) -> Iterator[None]:
        """Make other claims of this task wait, so that it gets only one log in this process."""
        self._uncache(slot)
        if slot.is_live:
            slot.disown(keeps_log=True)
        slot.move(SlotMove.CLAIM)
        with self._settling(slot):
            try:
                yield
            except BaseException:
                slot.move(SlotMove.FAIL)
                slot.disown()
                self.may_own_more = True
                raise

    @contextlib.contextmanager
    def _settling(self, slot: TaskSlot) -> Iterator[None]:
        settled = slot.settled = self._writer.loop.create_future()
        try:
            yield
        finally:
            slot.settled = None
            settled.set_result(None)

    def _deny(self, slot: TaskSlot) -> None:
        slot.move(SlotMove.DENY)
        slot.disown()
        self.leave(slot)

    async def _adopt(self, record: Record) -> Log:
        """Return the log of a stored task.

        Raises:
            ValueError: The stored task is damaged.
        """
        try:
            fold, parts = await offload(record.size, read_task, record, self._stored_limits)
        except (ValueError, LookupError):
            if record.key not in self.damaged:
                self.damaged.add(record.key)
                log_.exception("task %s can't be read and stays as it is", record.id)
            raise
        return _log_of(self._writer, record, fold, parts)

    def _expect_posts(self, log: Log, record: Record) -> None:
        """Have posts read that the task's last owner left unread, or that came while we claimed
        the task.
        """
        log.posts = max(record.posts, self._early_posts.pop(log.key, 0))
        if log.posts_read < log.posts:
            self.on_posts({log.key})

    # Giving up

    def release(self, log: Log) -> None:
        """Give up a task that nothing happens to here any more, if all of it is stored."""
        slot = log.slot
        if slot.log is not log or slot.state not in LIVE or slot.is_used:
            return
        if log.posts_read < log.posts:
            return  # the last owner left posts, and they are still being read
        if self._slots.get(slot.place) is not slot:
            return  # it is pending
        if slot.state is SlotState.OWNED:
            # A task that is worked on keeps its owner, so that others notice when that dies.
            if log.state not in WORKED_ON or log.sleeps:
                slot.move(SlotMove.FREE)
                # From now on, not from when that begins: a claim in between would be undone by it.
                settled = slot.settled = self._writer.loop.create_future()
                self._in_background(self._unclaim(slot, log, settled))
        elif slot.settled is None:
            self._given_up(slot, log)

    async def _unclaim(self, slot: TaskSlot, log: Log, settled: "asyncio.Future[None]") -> None:
        """Give up a task without a commit. Claims of it wait: else it could undo one of them."""
        try:
            if not self._writer.is_closing:  # else the store gives up all that is ours
                await self._store.unclaim(slot.key, log.pos)
        except Exception as error:
            if not isinstance(error, A2AError):  # else the store has said so itself
                log_.exception("task %s can't be given up; the audit looks at it", slot.place[1])
            self.may_own_more = True
        finally:
            slot.settled = None
            settled.set_result(None)
        if slot.log is log and slot.state is SlotState.RELEASING and not slot.is_used:
            self._given_up(slot, log)

    def _given_up(self, slot: TaskSlot, log: Log) -> None:
        if log.state in FINAL:
            slot.move(SlotMove.END)
            slot.disown()
            self.leave(slot)
        else:
            slot.move(SlotMove.CACHE)
            slot.disown(keeps_log=True)
            self._cache(slot, log)

    # Keeping logs for a while

    def _cache(self, slot: TaskSlot, log: Log) -> None:
        """Keep the log of an open task for its next message, and drop the oldest ones.

        Without that, each message would read the whole task from the store.
        """
        self._idle[slot.place] = slot
        self._idle_bytes += log.size
        while self._idle and (len(self._idle) > IDLE or self._idle_bytes > IDLE_BYTES):
            oldest = next(iter(self._idle.values()))
            self._uncache(oldest)
            oldest.move(SlotMove.END)
            oldest.disown()
            self.leave(oldest)

    def _uncache(self, slot: TaskSlot) -> None:
        if self._idle.pop(slot.place, None) is not None and slot.log is not None:
            self._idle_bytes -= slot.log.size

    # What the writer reports

    def _stored(self, log: Log, batch: LogBatch) -> None:
        slot = log.slot
        if slot.tail is not None and slot.tail.log is log:
            slot.tail.extend(batch.events, batch.pos)
            if batch.posts:
                slot.tail.add_outcomes(batch.posts)
        if slot.log is not log:
            return
        if batch.state in FINAL and log.state in FINAL:
            slot.free()  # that commit gave the task up
        if slot.run is None:
            self.release(log)
            if slot.tail is not None:
                slot.tail.wake()  # a server that stops has no more events of it
        elif slot.run.starts_when_stored and log.commits.is_stored:
            slot.run.start()

    def _lost(self, log: Log) -> None:
        slot = log.slot
        if slot.log is not log:
            return
        if slot.run is not None:
            slot.run.lose()
        self._uncache(slot)
        if slot.state is SlotState.CLAIMING:
            slot.disown()  # what was kept is of no use; the claim goes on
            return
        slot.move(SlotMove.LOSE)
        slot.move(SlotMove.FORGET)
        slot.disown()
        self.leave(slot)
        if log.commits.stored_pos and not self._writer.is_fenced:
            self.on_refused(log)

    def lose_all(self, error: A2AError) -> None:
        """Lose all tasks: other processes have taken them over. What is being claimed is not ours
        either: it was claimed under a number that counts for nothing.
        """
        self._losses += 1
        self._early_posts.clear()
        for slot in self.slots():
            if slot.log is not None:
                slot.log.lose(error)
            elif slot.state is SlotState.UNSURE:
                slot.move(SlotMove.LOSE)
                slot.move(SlotMove.FORGET)
                self.leave(slot)

    async def close(self) -> None:
        """Wait for what is being given up, before the store is closed."""
        if self._background:
            await asyncio.wait(self._background, timeout=CLOSE_S)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        doing = asyncio.ensure_future(work)
        self._background.add(doing)
        doing.add_done_callback(self._background.discard)


def _log_of(writer: Writer, record: Record, fold: Fold, parts: EncodedParts | None) -> Log:
    return Log(
        writer,
        record.key,
        record.namespace,
        fold,
        record.skill,
        about_of(record.about),
        at_ms=record.at_ms,
        seq=record.seq,
        pos=record.pos,
        posts_read=record.posts_read,
        size=record.size,
        due_ms=record.due_ms,
        parts=parts,
    )
