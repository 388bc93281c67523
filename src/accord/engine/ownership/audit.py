"""Finding tasks that the store calls ours and that this process does not know."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...store import Namespace
from ..log import WORKED_ON, Log
from .slot import TaskSlot
from .state import SlotState

if TYPE_CHECKING:
    from ..tasks import Tasks

__all__ = ["OwnershipAudit"]

AUDIT_S = 60.0


class OwnershipAudit:
    """Compares the store's list of our tasks with what this process knows, again and again.

    A claim whose answer was lost leaves a task that names us as its owner, and that nobody here
    works on. But a list is out of date when it arrives: meanwhile tasks were made, answered and
    claimed. So a task counts as unknown only if two lists in a row have it at the same position
    and nobody here knew it either time. Then it is claimed again, like any other task, and from
    there on treated like one: resumed, or given up.
    """

    def __init__(self, tasks: "Tasks", take_up: Callable[[Log], Awaitable[object]]) -> None:
        self._tasks = tasks
        self._take_up = take_up
        self._next_s = 0.0
        self._unknown: dict[int, int] = {}  # in the last list: key and position

    @property
    def is_due(self) -> bool:
        """Return whether it is time for the next list."""
        return self._tasks.loop.time() >= self._next_s

    async def check(self) -> None:
        """Look for such tasks, if it is time to or an answer of the store was lost. Called every
        second.

        Raises:
            Unavailable: The store can't be read.
        """
        directory = self._tasks.directory
        is_due = self.is_due
        if not is_due and not directory.may_own_more and not self._unknown:
            return
        directory.may_own_more = False
        if is_due:
            self._next_s = self._tasks.loop.time() + AUDIT_S
        try:
            await self._check(directory.slots() if is_due else [])
        except BaseException:
            directory.may_own_more = True
            raise

    async def _check(self, slots: list[TaskSlot]) -> None:
        damaged = self._tasks.directory.damaged
        for slot in slots:
            if _is_left(slot) and slot.key not in damaged:
                await self._claim(*slot.place)
        before, self._unknown = self._unknown, {}
        owned = await self._tasks.store.owned()
        knows = self._tasks.directory.knows
        for one in [one for one in owned if not knows(one) and one.key not in damaged]:
            if before.get(one.key) == one.pos:
                await self._claim(one.namespace, one.id)
            else:
                self._unknown[one.key] = one.pos

    async def _claim(self, namespace: Namespace, task_id: str) -> None:
        with contextlib.suppress(ValueError, LookupError):  # it is damaged, which was logged
            log = await self._tasks.own(namespace, task_id)
            if isinstance(log, Log):
                await self._take_up(log)


def _is_left(slot: TaskSlot) -> bool:
    """Return whether nobody deals with a task that may be ours: a claim's answer was lost, or it
    could not be resumed.
    """
    if slot.state is SlotState.UNSURE:
        return True
    log = slot.log
    return (
        slot.state is SlotState.OWNED
        and log is not None
        and slot.run is None
        and not slot.pins
        and log.state in WORKED_ON
    )
