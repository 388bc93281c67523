"""The store that forgets: `memory://`. For tests, and for agents whose work may be lost."""

import itertools
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Sequence

from .contract import Ages, Keep, Page, Query, Record, Scope, Stats, Write

__all__ = ["MemoryStore"]

_ENDED = (3, 4, 5, 7)
_WAITING = (6, 8)
_PIECE = 256  # rows returned by one `rows` call

Place = tuple[int, int]  # (at_ms, key): where a task stands in a list, oldest first


class MemoryStore:
    """Tasks in dictionaries, and sorted lists of their places so that a page costs the page."""

    is_volatile = True

    def __init__(self) -> None:
        self.new_key = itertools.count(1).__next__
        self._tasks: dict[tuple[Scope, str], Record] = {}
        self._rows: dict[int, tuple[list[int], list[bytes]]] = {}
        self._by_key: dict[int, Record] = {}
        self._kept: dict[tuple[Scope, str], Keep] = {}
        # Nearly every change is near the newest end, where inserting into a list moves next to nothing.
        self._all: defaultdict[Scope, list[Place]] = defaultdict(list)
        self._by_state: defaultdict[tuple[Scope, int], list[Place]] = defaultdict(list)
        self._by_context: defaultdict[tuple[Scope, str], list[Place]] = defaultdict(list)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def commit(self, writes: Sequence[Write], keeps: Sequence[Keep]) -> None:
        for write in writes:
            record = self._tasks.get((write.scope, write.id))
            if record is None:
                place, scope = (write.at_ms, write.key), write.scope
                record = Record(
                    write.key, scope, write.id, write.context_id, write.state, write.at_ms, 0, 0, 0, write.about, b"", b""
                )
                self._tasks[scope, write.id] = self._by_key[write.key] = record
                self._rows[write.key] = ([], [])
                insort(self._all[scope], place)
                insort(self._by_state[scope, write.state], place)
                insort(self._by_context[scope, write.context_id], place)
            elif (record.at_ms, record.state) != (write.at_ms, write.state):
                self._move(record, write)
            record.seq, record.pos = write.seq, write.pos
            numbers, rows = self._rows[write.key]
            lines = b"\n".join(write.lines)
            if numbers and numbers[-1] == write.row:
                rows[-1] += b"\n" + lines
            else:
                numbers.append(write.row)
                rows.append(lines)
            if write.head is not None:
                record.head, record.artifacts, record.snap_pos, record.tail = write.head, write.artifacts, write.pos, []
            else:
                record.tail += [line for line in write.lines if line.startswith((b"v", b"m"))]
        for keep in keeps:
            self._kept[keep.scope, keep.key] = keep

    def _move(self, record: Record, write: Write) -> None:
        old, new = (record.at_ms, record.key), (write.at_ms, write.key)
        for places in self._lists(record):
            del places[bisect_left(places, old)]
        record.at_ms, record.state = write.at_ms, write.state
        for places in self._lists(record):
            insort(places, new)

    def _lists(self, record: Record) -> tuple[list[Place], ...]:
        return (
            self._all[record.scope],
            self._by_state[record.scope, record.state],
            self._by_context[record.scope, record.context_id],
        )

    async def load(self, scope: Scope, task_id: str) -> Record | None:
        return self._tasks.get((scope, task_id))

    async def rows(self, key: int, after: int) -> list[tuple[int, bytes]]:
        numbers, rows = self._rows.get(key, ([], []))
        start = max(bisect_right(numbers, after) - 1, 0)
        return list(zip(numbers[start : start + _PIECE], rows[start : start + _PIECE], strict=True))

    async def page(self, query: Query) -> Page:
        places, wanted = self._candidates(query)
        end = len(places) if query.before is None else bisect_left(places, query.before)
        start = 0 if query.since_ms is None else bisect_left(places, (query.since_ms, 0))
        found: list[Record] = []
        for i in range(end - 1, start - 1, -1):
            record = self._by_key[places[i][1]]
            if wanted in (0, record.state):
                found.append(record)
                if len(found) > query.limit:
                    break
        total = len(places) - start
        if wanted:
            total = sum(self._by_key[key].state == wanted for _, key in places[start:])
        more = len(found) > query.limit
        found = found[: query.limit]
        return Page(tasks=found, total=total, next=(found[-1].at_ms, found[-1].key) if more else None)

    def _candidates(self, query: Query) -> tuple[list[Place], int]:
        """The shortest list that holds every match, and the state still to filter by (0: none)."""
        if query.context_id:
            return self._by_context.get((query.scope, query.context_id), []), query.state
        if query.state:
            return self._by_state.get((query.scope, query.state), []), 0
        return self._all.get(query.scope, []), 0

    async def kept(self, scope: Scope, key: str, since_ms: int) -> Keep | None:
        keep = self._kept.get((scope, key))
        return keep if keep is not None and keep.at_ms >= since_ms else None

    async def beat(self) -> None: ...

    async def take_over(self, lease_ms: int) -> list[Record]:
        return []  # what was in memory died with its process

    async def waiting(self, before_ms: int, limit: int) -> list[Record]:
        found = (r for r in self._tasks.values() if r.state in _WAITING and r.at_ms < before_ms)
        return list(itertools.islice(found, limit))

    async def purge(self, ages: Ages, limit: int) -> int:
        ended = [r for r in self._tasks.values() if r.state in _ENDED]
        folded = [r for r in ended if r.at_ms < ages.events_ms and self._rows[r.key][0]][:limit]
        for record in folded:
            self._rows[record.key] = ([], [])
        old = [r for r in ended if r.at_ms < ages.tasks_ms and not self._rows[r.key][0]][:limit]
        for record in old:
            for places in self._lists(record):
                del places[bisect_left(places, (record.at_ms, record.key))]
            del self._tasks[record.scope, record.id], self._by_key[record.key], self._rows[record.key]
        keys = [k for k, keep in self._kept.items() if keep.at_ms < ages.keys_ms][:limit]
        for key in keys:
            del self._kept[key]
        return len(old) + len(folded) + len(keys)

    async def stats(self) -> Stats:
        tasks = dict(Counter(r.state for r in self._tasks.values()))
        events = sum(len(rows) for _, rows in self._rows.values())
        return Stats(tasks=tasks, events=events, keys=len(self._kept), size=0)
