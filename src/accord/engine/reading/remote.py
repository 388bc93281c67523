"""Tails of tasks that other processes own: watched, and read when those have written."""

import asyncio
import logging
import sys
from collections.abc import Collection

from ...model import FINAL, A2AError, TaskState
from ...pump import Pump
from ...store import Namespace, Record, Row, Store, is_full_piece
from ..log import state_of
from ..ownership import Directory
from .tail import KnownRow, Tail
from .watches import Watches

__all__ = ["RemoteTails"]

log_ = logging.getLogger("accord")

RETRY_S = 1.0
UNKNOWN = sys.maxsize  # further than any record says


class RemoteTails:
    """Feeds the tails of tasks that are not ours with what their owners write."""

    def __init__(self, store: Store, directory: Directory) -> None:
        self._store = store
        self._directory = directory
        self._watches = Watches(store, self._is_read)
        directory.claim = self._watches.claim
        self._woken: set[int] | None = set()  # tasks to be read again, None for all
        # How far tasks that are watched, and have no tail, have grown: the next tail may be made of
        # a record that is older, and the store wakes nobody twice for the same.
        self._grown: dict[int, int] = {}
        self._pump = Pump(
            "reading what other processes write",
            self._read_woken,
            log=log_,
            retry_s=lambda: RETRY_S,
        )
        self._unwatched: set[Tail] = set()  # tails of tasks that are to be watched
        self._follower = Pump(
            "beginning to watch tasks", self._watch_tails, log=log_, retry_s=lambda: RETRY_S
        )

    def close(self) -> None:
        self._watches.close()
        self._follower.cancel()
        self._pump.cancel()

    def _is_read(self, key: int) -> bool:
        slot = self._directory.slot(key)
        return slot is not None and slot.tail is not None and slot.tail.log is None

    # Watching

    async def watch(self, namespace: Namespace, task_id: str) -> Record | None:
        """Return a task as it is stored. From here on, what its owner writes is read as long as
        there is a tail of it.
        """
        return await self._watches.load(namespace, task_id)

    def is_watched(self, key: int) -> bool:
        return key in self._watches

    def follow(self, tail: Tail) -> None:
        """Read what other processes write of a task, from where its tail stands."""
        key = tail.slot.key
        has_grown = tail.pos < self._grown.pop(key, 0)
        if key in self._watches:
            if has_grown:
                self.wake({key})
        elif tail.state not in FINAL:
            self._unwatched.add(tail)
            self._follower.wake()

    async def _watch_tails(self) -> bool:
        """Watch the tasks that are not watched yet. One that can't be is tried again, and holds up
        no other.
        """
        unwatched, self._unwatched = self._unwatched, set()
        tails = [tail for tail in unwatched if tail.slot.tail is tail]
        outcomes = await asyncio.gather(
            *(self.watch(tail.namespace, tail.ids.task_id) for tail in tails),
            return_exceptions=True,
        )
        errors: list[BaseException] = []
        for tail, outcome in zip(tails, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                errors.append(outcome)
                self._unwatched.add(tail)
            else:
                self.wake({tail.slot.key})
        if errors:
            # What nobody foresaw is logged, also if the store is away for others.
            raise next((error for error in errors if not isinstance(error, A2AError)), errors[0])
        return bool(self._unwatched)

    def follow_no_longer(self, tail: Tail) -> None:
        key = tail.slot.key
        if key in self._watches:
            self._grown[key] = max(self._grown.get(key, 0), tail.pos)
            self._watches.end_later(key)

    def follow_again(self) -> None:
        """Watch all tasks again: the store has forgotten that, under the number we had."""
        self._watches.forget()
        for tail in self._tails():
            self.follow(tail)

    # Reading

    def wake(self, tasks: Collection[int] | None) -> None:
        """Read what is new of these tasks. None: look at all of them."""
        for key in tasks or ():
            # The answer to a watch was lost: the store watches what nobody here knows of.
            if key not in self._watches and self._directory.slot(key) is None:
                self._watches.end_later(key)
        self._look_again(tasks)
        if self._woken is None or self._woken:
            self._pump.wake()

    def _tails(self, tasks: Collection[int] | None = None) -> list[Tail]:
        slots = (
            self._directory.slots()
            if tasks is None
            else [slot for key in tasks if (slot := self._directory.slot(key)) is not None]
        )
        tails = [slot.tail for slot in slots if slot.tail is not None]
        return [tail for tail in tails if tail.log is None]

    async def _read_woken(self) -> bool:
        woken, self._woken = self._woken, set()
        tails = {tail.slot.key: tail for tail in self._tails(woken)}
        self._grown |= dict.fromkeys(woken or (), UNKNOWN)
        self._grown = {
            key: pos
            for key, pos in self._grown.items()
            if key not in tails and self._watches.may_watch(key)
        }
        if tails:
            try:
                if woken is None:
                    await self._check_ends(tails)
                asked = {key: tail.pos for key, tail in tails.items()}
                rows = await self._store.read(asked)
                for key, tail in tails.items():
                    if tail.slot.tail is not tail or (tail.log is None and tail.pos != asked[key]):
                        # What was read is no use any more. Who reads the task now may not have it,
                        # and is not woken again for it.
                        self._look_again({key})
                    elif tail.log is None:  # else the task has become ours since
                        await self._extend(tail, [row for row in rows if row.task == key])
            except Exception:
                self._look_again(woken)
                raise
        return self._woken is None or bool(self._woken)

    async def _extend(self, tail: Tail, rows: list[Row]) -> None:
        if not rows:
            return
        if not tail.is_followed_by(rows[0]) and await self._cut(tail):
            return
        try:
            tail.extend_rows(rows)
        except (ValueError, LookupError):  # a broken row harms no other task
            log_.exception("task %s can't be read", tail.ids.task_id)
            return
        if is_full_piece(rows):
            self._look_again({tail.slot.key})

    def _look_again(self, tasks: Collection[int] | None) -> None:
        if tasks is None:
            self._woken = None
        elif self._woken is not None:
            self._woken.update(tasks)

    # Commits that the store has lost, with a failover

    async def _check_ends(self, tails: dict[int, Tail]) -> None:
        """Cut those of these tails that have more than the store still has."""
        known = {key: (tail.pos, tail.known[-1:]) for key, tail in tails.items()}
        ends = await self._store.ends(known)
        for key, (pos, last) in known.items():
            end = ends.get(key)
            if (
                end is None
                or end.pos < pos
                # As long as it was, but not what was read.
                or (end.pos == pos and last and end.at_ms != last[0].at_ms)
            ) and tails[key].pos == pos:
                await self._cut(tails[key])

    async def _cut(self, tail: Tail) -> bool:
        """Have a tail go back to what the store still has of what was read. Return whether that is
        less, or can't be said: the task has become ours.
        """
        pos, known = tail.pos, list(tail.known)
        record = await self._store.load(tail.namespace, tail.ids.task_id)
        last = await self._last_kept(tail, known) if record is not None else None
        if tail.log is not None or tail.is_gone or tail.pos != pos:
            return True
        is_shorter = record is None or record.pos < pos
        if not is_shorter and (not known or last == known[-1]):
            return False
        if tail.state not in FINAL or record is not None:  # else it was purged
            log_.error(
                "the store went back to an earlier state: of %d entries of task %s that were read, "
                "it has the first %d",
                *(pos, tail.ids.task_id, last.pos if last is not None else 0),
            )
        if record is None:
            tail.is_gone = True
            tail.wake()
        elif last is not None:
            tail.cut(last, _state_at(tail, last.pos), same_to=last.pos)
            self._look_again({tail.slot.key})  # for what was written in place of it
        else:
            end = KnownRow(record.pos, record.seq, record.committed_ms)
            tail.cut(end, state_of(record.state), same_to=0 if known else record.pos)
        return True

    async def _last_kept(self, tail: Tail, known: list[KnownRow]) -> KnownRow | None:
        """Return the last of the rows that were read that the store still has; None if none is
        known to be kept.
        """
        kept, left = None, iter(known)
        pos = known[0].pos - 1 if known else 0
        while known and (rows := await self._store.read({tail.slot.key: pos})):
            for row in rows:
                pos = row.end
                if next(left, None) != KnownRow(pos, row.seq, row.at_ms):
                    return kept
                kept = KnownRow(pos, row.seq, row.at_ms)
        return kept


def _state_at(tail: Tail, pos: int) -> TaskState:
    """Return the state of a task at a position; one that is open, if that is not in memory: what
    follows says more.
    """
    states = [event.state for event in tail.events if event.pos <= pos and event.state is not None]
    return states[-1] if states else TaskState.WORKING
