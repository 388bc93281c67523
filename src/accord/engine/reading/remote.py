"""Tails of tasks that other processes own: watched, and read when those have written."""

import asyncio
import logging
from collections.abc import Collection

from ...model import FINAL, A2AError
from ...pump import Pump
from ...store import Namespace, Record, Row, Store, is_full_piece
from ..log import state_of
from ..ownership import Directory
from .tail import Tail
from .watches import Watches

__all__ = ["RemoteTails"]

log_ = logging.getLogger("accord")

RETRY_S = 1.0


class RemoteTails:
    """Feeds the tails of tasks that are not ours with what their owners write."""

    def __init__(self, store: Store, directory: Directory) -> None:
        self._store = store
        self._directory = directory
        self._watches = Watches(store, self._is_read)
        directory.claim = self._watches.claim
        self._woken: set[int] | None = set()  # tasks to be read again, None for all
        # Tasks that have grown since they were watched, and that have no tail yet.
        self._grown: set[int] = set()
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
        if tail.state in FINAL:
            return
        if key not in self._watches:
            self._unwatched.add(tail)
            self._follower.wake()
        elif key in self._grown:
            self.wake({key})

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

    def follow_no_longer(self, key: int) -> None:
        if key in self._watches:
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
        grown = (self._grown | (woken or set())) - tails.keys()
        self._grown = {key for key in grown if self._watches.may_watch(key)}
        if tails:
            try:
                if woken is None:
                    await self._check_lengths(tails)
                rows = await self._store.read({key: tail.pos for key, tail in tails.items()})
            except Exception:
                self._look_again(woken)
                raise
            for key, tail in tails.items():
                self._extend(tail, [row for row in rows if row.task == key])
        return self._woken is None or bool(self._woken)

    def _extend(self, tail: Tail, rows: list[Row]) -> None:
        if not rows:
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

    async def _check_lengths(self, tails: dict[int, Tail]) -> None:
        """See whether the store still has what these tails have: a failover may have lost it."""
        known = {key: tail.pos for key, tail in tails.items()}
        lengths = await self._store.positions(known)
        for key, pos in known.items():
            if lengths.get(key, 0) < pos:
                await self._check_length(tails[key], pos)

    async def _check_length(self, tail: Tail, pos: int) -> None:
        record = await self._store.load(tail.namespace, tail.ids.task_id)
        if tail.log is not None or tail.is_gone or (record is not None and record.pos >= pos):
            return
        if tail.state not in FINAL or record is not None:  # else it was purged
            log_.error(
                "the store went back to an earlier state: task %s has %d entries, and had %d",
                *(tail.ids.task_id, record.pos if record is not None else 0, pos),
            )
        if record is None:
            tail.is_gone = True
            tail.wake()
        else:
            tail.cut(record.pos, record.seq, state_of(record.state))
