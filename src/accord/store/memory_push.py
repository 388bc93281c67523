"""Webhooks in memory, beside the tasks of a `MemoryStore`."""

import heapq
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from .namespace import Namespace
from .push import DeadLetter, Outcome, Push
from .rules import ENDED

__all__ = ["MemoryPushes", "PushTable"]

Where = Callable[[int], tuple[str, str, int] | None]  # a task's id, context and state, by its key


class PushTable:
    """What the handles share."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self.of: dict[int, dict[str, Push]] = {}  # by task
        self.due: dict[tuple[int, str], Push] = {}  # those that are, or will be
        self.letters: dict[int, DeadLetter] = {}
        self.numbers = itertools.count(1)

    def put(self, push: Push, now_ms: int) -> None:
        there = self.of.setdefault(push.task, {})
        before = there.get(push.id)
        if before is None:
            n = max((one.n for one in there.values()), default=0) + 1
            push = replace(push, n=n, at_ms=now_ms)
        else:
            push = replace(
                push,
                n=before.n,
                sent=before.sent,
                upto=before.upto,
                claim=before.claim + 1,
                at_ms=now_ms,
            )
        there[push.id] = push
        self.set_due(push, now_ms if push.upto > push.sent else None)

    def set_due(self, push: Push, due_ms: int | None) -> None:
        push.due_ms = due_ms
        if due_ms is None:
            self.due.pop((push.task, push.id), None)
        else:
            self.due[push.task, push.id] = push

    def grow(self, task: int, seq: int, last_status: int, at_ms: int) -> bool:
        """A commit has added events up to these numbers. Return whether something is due now."""
        is_due = False
        for push in self.of.get(task, {}).values():
            push.upto = max(push.upto, seq if push.has_artifacts else last_status)
            if push.upto > push.sent and push.due_ms is None and not push.disabled:
                self.set_due(push, at_ms)
                is_due = True
        return is_due

    def is_needed(self, task: int) -> bool:
        """Whether the log of a task is still to be delivered, or named by a dead letter."""
        return any(
            push.upto > push.sent and not push.disabled for push in self.of.get(task, {}).values()
        ) or any(letter.task == task for letter in self.letters.values())

    def forget(self, task: int) -> None:
        for push in self.of.pop(task, {}).values():
            self.set_due(push, None)
        self.letters = {n: one for n, one in self.letters.items() if one.task != task}

    def purge(self, before_ms: int, limit: int) -> int:
        old = [n for n, letter in self.letters.items() if letter.at_ms < before_ms][:limit]
        for n in old:
            del self.letters[n]
        return len(old)


class MemoryPushes:
    """One process's handle."""

    def __init__(self, table: PushTable, now_ms: Callable[[], int]) -> None:
        self.on_due: Callable[[], None] = lambda: None
        self._table = table
        self._now_ms = now_ms

    async def put(self, push: Push) -> bool:
        if self._table.where(push.task) is None:
            return False
        self._table.put(push, self._now_ms())
        self.on_due()  # of one that was replaced, something may be
        return True

    async def of(self, task: int) -> list[Push]:
        found = sorted(self._table.of.get(task, {}).values(), key=lambda push: push.n)
        return [self._read(push) for push in found]

    async def delete(self, task: int, id: str) -> None:
        push = self._table.of.get(task, {}).pop(id, None)
        if push is not None:
            self._table.set_due(push, None)

    async def count(self, namespace: Namespace) -> int:
        return sum(
            push.namespace == namespace and not self._has_ended(push) for push in self._all()
        )

    async def take(
        self,
        agents: Collection[str],
        limit: int,
        *,
        lease_ms: int,
        skip: Collection[str] = (),
    ) -> list[Push]:
        now_ms = self._now_ms()
        due = (
            (push.due_ms or 0, push.task, push.id, push)
            for push in self._table.due.values()
            if (push.due_ms or 0) <= now_ms
            and push.namespace.agent in agents
            and push.endpoint not in skip
        )
        taken = []
        for *_, push in heapq.nsmallest(limit, due):
            push.claim += 1
            push.due_ms = now_ms + lease_ms
            taken.append(self._read(push))
        return taken

    async def settle(self, outcomes: Sequence[Outcome]) -> None:
        table, now_ms = self._table, self._now_ms()
        for one in outcomes:
            push = table.of.get(one.task, {}).get(one.id)
            if push is None or push.claim != one.claim:
                continue
            push.claim += 1
            push.sent, push.tries, push.failing_ms = one.sent, one.tries, one.failing_ms
            push.error, push.disabled = one.error, one.disabled
            is_more = push.upto > push.sent and not push.disabled
            table.set_due(push, now_ms + one.pause_ms if is_more else None)
            if one.letter is not None:
                n = next(table.numbers)
                table.letters[n] = replace(one.letter, n=n, at_ms=now_ms)

    async def postpone(self, agents: Collection[str], endpoint: str, pause_ms: int) -> None:
        until_ms = self._now_ms() + pause_ms
        for push in self._table.due.values():
            if push.namespace.agent in agents and push.endpoint == endpoint:
                push.due_ms = max(push.due_ms or 0, until_ms)

    async def next_ms(self, agents: Collection[str]) -> int | None:
        return min(
            (
                push.due_ms or 0
                for push in self._table.due.values()
                if push.namespace.agent in agents
            ),
            default=None,
        )

    async def listed(self, limit: int, *, is_troubled: bool = False) -> list[Push]:
        given_up = {(letter.task, letter.push) for letter in self._table.letters.values()}
        found = [
            push
            for push in self._all()
            if not is_troubled
            or push.disabled
            or push.failing_ms
            or (push.task, push.id) in given_up
        ]
        found.sort(key=lambda push: (push.at_ms, push.task, push.n), reverse=True)
        return [self._read(push) for push in found[:limit]]

    async def letters(self, limit: int, *, task_id: str = "") -> list[DeadLetter]:
        found = []
        for letter in reversed(self._table.letters.values()):
            where = self._table.where(letter.task)
            push = self._table.of.get(letter.task, {}).get(letter.push)
            if where is not None and task_id in ("", where[0]):
                namespace = push.namespace if push is not None else Namespace()
                found.append(replace(letter, task_id=where[0], namespace=namespace))
        return found[:limit]

    async def replay(self, letters: Collection[int]) -> int:
        table = self._table
        found = [letter for n in letters if (letter := table.letters.pop(n, None)) is not None]
        for letter in found:
            push = table.of.get(letter.task, {}).get(letter.push)
            if push is not None:
                push.sent = min(push.sent, letter.first - 1)
                push.disabled, push.tries, push.failing_ms = "", 0, 0
                push.claim += 1
                table.set_due(push, self._now_ms())
        self.on_due()
        return len(found)

    def _all(self) -> Iterator[Push]:
        return (push for there in self._table.of.values() for push in there.values())

    def _has_ended(self, push: Push) -> bool:
        where = self._table.where(push.task)
        return where is None or where[2] in ENDED

    def _read(self, push: Push) -> Push:
        """A copy, with the ids of its task: the original changes with the next commit."""
        task_id, context_id, _ = self._table.where(push.task) or ("", "", 0)
        return replace(push, task_id=task_id, context_id=context_id)
