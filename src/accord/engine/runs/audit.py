"""Finding tasks that the store calls ours and that this process does not know."""

import logging
from collections.abc import Awaitable, Callable

from ...store import Owned
from ..log import Log, Tasks

__all__ = ["OwnershipAudit"]

log_ = logging.getLogger("accord")

AUDIT_S = 60.0


class OwnershipAudit:
    """Compares the store's list of our tasks with what this process knows, again and again.

    A claim whose answer was lost leaves a task that names us as its owner, and that nobody here
    works on. But a list is out of date when it arrives: meanwhile tasks were made, answered and
    claimed. So a task counts as unknown only if two lists in a row have it at the same position
    and nobody here knew it either time. Then it is claimed again, like any other task, and from
    there on treated like one: resumed, or given up.
    """

    def __init__(self, tasks: Tasks, take_up: Callable[[Log], Awaitable[object]]) -> None:
        self._tasks = tasks
        self._take_up = take_up
        self._next_s = 0.0
        self._unknown: dict[int, int] = {}  # in the last list: key and position
        self._damaged: set[int] = set()  # can't be read, which was logged

    async def check(self) -> None:
        """Called every second: look if it is time to, or if a claim's answer was lost.

        Raises:
            Unavailable: The store can't be read.
        """
        tasks = self._tasks
        now_s = tasks.loop.time()
        if now_s < self._next_s and not tasks.may_own_more and not self._unknown:
            return
        self._next_s, tasks.may_own_more = now_s + AUDIT_S, False
        before, self._unknown = self._unknown, {}
        try:
            owned = await tasks.store.owned()
        except BaseException:
            tasks.may_own_more = True
            raise
        unknown = [one for one in owned if not tasks.knows(one) and one.key not in self._damaged]
        for one in unknown:
            if before.get(one.key) == one.pos:
                await self._claim(one)
            else:
                self._unknown[one.key] = one.pos

    async def _claim(self, one: Owned) -> None:
        try:
            log = await self._tasks.own(one.namespace, one.id)
            if isinstance(log, Log):
                await self._take_up(log)
        except (ValueError, LookupError):
            log_.exception("task %s can't be read and stays as it is", one.id)
            self._damaged.add(one.key)
