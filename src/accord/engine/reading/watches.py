"""Which tasks of other processes this process watches: the store wakes it when they grow."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ...model import A2AError
from ...pump import Pump
from ...store import Namespace, Record, Store

__all__ = ["Watches"]

log_ = logging.getLogger("accord")

LINGER_S = 5.0  # a task is watched for so long after the last who read it has gone


class Watches:
    """Begins to watch tasks that somebody reads, and ends that some time after nobody does.

    Watching ends late, and for all tasks that are due in one statement: the next message to a task
    often comes soon after the last.
    """

    def __init__(self, store: Store, is_read: Callable[[int], bool]) -> None:
        self._store = store
        self._is_read = is_read
        self._watched: set[int] = set()
        self._due: dict[int, float] = {}  # when the watching of a task may end, oldest first
        self._pump = Pump("ending to watch tasks", self._end_due, log=log_)
        # Rounds of `_end` are numbered. A watch that overlaps with a round that ends the watching
        # of the same task may have come first, and is repeated.
        self._begun = self._finished = 0
        self._ended: dict[int, int] = {}  # the last round that has ended the watching of a task
        self._loading = 0
        self._forgotten = 0

    def close(self) -> None:
        self._pump.cancel()

    def __contains__(self, key: int) -> bool:
        return key in self._watched

    def may_watch(self, key: int) -> bool:
        """Return whether a task is watched, or may be when the store has answered."""
        return key in self._watched or self._loading > 0

    def forget(self) -> None:
        """Forget all watches, as the store has: they were made under the number we had."""
        self._watched.clear()
        self._due.clear()
        self._forgotten += 1

    async def load(self, namespace: Namespace, task_id: str) -> Record | None:
        """Return a task as it is stored, watched from here on; None if there is no such task.

        Raises:
            Unavailable: The store can't be read.
        """
        return await self._begin(
            lambda: self._store.load(namespace, task_id, watch=True), lambda record: True
        )

    async def claim(
        self, namespace: Namespace, task_id: str, *, reopen: bool, known: int, format: int
    ) -> Record | None:
        """Claim a task, as a store does. One that another process owns is watched from here on."""

        async def claim() -> Record | None:
            return await self._store.claim(
                namespace, task_id, reopen=reopen, known=known, format=format, watch=True
            )

        # A task that nobody owns, or we do, is not watched: nobody else writes it.
        return await self._begin(claim, lambda record: record.owner not in (0, self._store.replica))

    async def _begin(
        self,
        call: Callable[[], Awaitable[Record | None]],
        is_watched: Callable[[Record], bool],
    ) -> Record | None:
        self._loading += 1
        try:
            while True:
                finished, forgotten = self._finished, self._forgotten
                record = await call()
                if record is None or not is_watched(record):
                    return record
                if self._ended.get(record.key, 0) > finished or self._forgotten > forgotten:
                    continue
                self._watched.add(record.key)
                if not self._is_read(record.key):
                    self.end_later(record.key)  # unless somebody begins to read
                return record
        finally:
            self._loading -= 1

    def end_later(self, key: int) -> None:
        """End watching a task after a while: nobody reads it any more."""
        self._due.pop(key, None)
        self._due[key] = asyncio.get_running_loop().time() + LINGER_S
        self._pump.wake()

    async def _end_due(self) -> bool:
        """Wait for the next task that is due, and end watching all that are."""
        if self._due:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(next(iter(self._due.values())) - loop.time(), 0.0))
            now = loop.time()
            due = [key for key, at in self._due.items() if at <= now]
            for key in due:
                del self._due[key]
            if unread := [key for key in due if not self._is_read(key)]:
                await self._end(unread)
        return bool(self._due)

    async def _end(self, keys: list[int]) -> None:
        self._begun += 1
        for key in keys:
            self._watched.discard(key)
            self._ended[key] = self._begun
        try:
            await self._store.unwatch(keys)
        except A2AError:  # meanwhile we are woken for nothing, which harms nobody
            for key in keys:
                self.end_later(key)
        finally:
            self._finished = self._begun
            if not self._loading:
                self._ended.clear()
