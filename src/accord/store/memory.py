"""The store that forgets: `memory://`. For tests, and for agents whose work may be lost."""

import itertools
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from .contract import Ages, Keep, Note, Page, Query, Record, Scope, Stats, Write
from .pieces import LONG, cut, fill
from .short import lengthen

__all__ = ["MemoryStore"]

_ENDED = (3, 4, 5, 7)
_WAITING = (6, 8)
_PIECE = 256  # rows returned by one `rows` call
_KEY_BITS = 40
_KEY = (1 << _KEY_BITS) - 1
_FIRST = (1,)  # the numbers of a log of one row, which most are
_NO_LINES: list[bytes] = []
_NO_NOTES: list[tuple[int, bytes]] = []
_CONTEXT = b',"contextId":"'
_TASK = b'{"task":'
_MADE = b"\1"
_BRACE = ord("}")
_CHANGES = (b"v", b"w", b"a", b"m")  # what begins a line that changes the task

Place: TypeAlias = int  # a time, and the key of a task, as one number: where it stands in a list, oldest first


class Kept(Record):
    """A task and its log. Once it has ended, as nearly every task has, both are put away small.

    The task as it was made, the first line of the log, ends as the snapshot does: there it has a byte no JSON has.
    """

    numbers: list[int] | tuple[int, ...] = ()
    rows: list[bytes] | bytes = b""  # one text when put away
    notes: list[tuple[int, bytes]] = _NO_NOTES  # until it ends: nobody takes it up again then
    pieces: tuple[bytes, ...] = ()  # what is long, and was both in the log and in the snapshot

    def put_away(self, lines: list[bytes]) -> None:
        """Make it small. These are the lines of its log, with an empty one between two rows."""
        self.notes = _NO_NOTES
        head, artifacts, first = self.head, self.artifacts, lines[0]
        at, is_large = head.find(_CONTEXT), len(head) + len(artifacts) > LONG
        made = memoryview(head)[at:] if is_large else head[at:]
        if first[-1] == _BRACE and first.endswith(made, 0, -1):
            lines = [first[: -len(made) - 1] + _MADE, *lines[1:]]
        if is_large:
            lines, (self.head, self.artifacts), pieces = cut(lines, (head, artifacts))
            self.pieces = tuple(map(bytes, pieces))
        else:  # what comes from an encoder has room for more at its end: a copy has not
            self.head, self.artifacts = head[:at] + made, artifacts[:1] + artifacts[1:]
        self.rows = b"\n".join(lines)

    def log(self) -> list[bytes]:
        """The rows as they were given."""
        if isinstance(self.rows, list):
            return self.rows
        if not self.numbers:
            return []
        head = self.whole().head
        text = self.rows.replace(_MADE, head[head.find(_CONTEXT) :] + b"}")
        return fill(text, self.pieces.__getitem__).split(b"\n\n")

    def whole(self, *, has_artifacts: bool = True) -> Record:
        """The task as its readers know it."""
        if not self.pieces and not self.tail:
            return self
        piece = self.pieces.__getitem__
        tail = lengthen(b"\n".join(self.tail), self.id, self.context_id).split(b"\n") if self.tail else []
        artifacts = fill(self.artifacts, piece) if has_artifacts else b"[]"
        return replace(self, head=fill(self.head, piece), artifacts=artifacts, pieces=(), tail=tail)

    def add(self, number: int, lines: list[bytes]) -> None:
        """Add a commit's lines to the log. If it had been put away, more is to come: it is as it was given again."""
        if isinstance(self.rows, bytes) or isinstance(self.numbers, tuple):
            self.numbers, self.rows = list(self.numbers), self.log()
        if self.numbers and self.numbers[-1] == number:
            self.rows[-1] += b"\n" + b"\n".join(lines)
        else:
            self.numbers.append(number)
            self.rows.append(b"\n".join(lines))


class Shelf:
    """The tasks of one scope, and sorted lists of their places so that a page costs the page."""

    __slots__ = ("by_context", "by_state", "places", "scope", "tasks")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.tasks: dict[str, Kept] = {}
        # Nearly every change is near the newest end, where inserting into a list moves next to nothing.
        self.places: list[Place] = []
        self.by_state: defaultdict[int, list[Place]] = defaultdict(list)
        self.by_context: dict[str, list[Place] | Place] = {}  # most contexts have one task

    def put(self, place: Place, task: Kept) -> None:
        insort(self.places, place)
        insort(self.by_state[task.state], place)
        there = self.by_context.get(task.context_id)
        if there is None:
            self.by_context[task.context_id] = place
        elif isinstance(there, int):
            self.by_context[task.context_id] = sorted((there, place))
        else:
            insort(there, place)

    def remove(self, place: Place, task: Kept) -> None:
        for places in (self.places, self.by_state[task.state]):
            del places[bisect_left(places, place)]
        there = self.by_context[task.context_id]
        if isinstance(there, int) or len(there) == 1:
            del self.by_context[task.context_id]
        else:
            del there[bisect_left(there, place)]

    def candidates(self, query: Query) -> tuple[list[Place], int]:
        """The shortest list that holds every match, and the state still to filter by (0: none)."""
        if query.context_id:
            there = self.by_context.get(query.context_id, [])
            return [there] if isinstance(there, int) else there, query.state
        if query.state:
            return self.by_state[query.state], 0
        return self.places, 0


class MemoryStore:
    """Tasks on shelves."""

    is_volatile = True

    def __init__(self) -> None:
        self.new_key = itertools.count(1).__next__
        self._shelves: dict[Scope, Shelf] = {}
        self._by_key: list[Kept | None] = []  # from key `_gone` on: a list is a fifth of a dictionary
        self._gone = 1
        self._kept: dict[tuple[Scope, str], Keep] = {}

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def commit(self, writes: Sequence[Write], keeps: Sequence[Keep], notes: Sequence[Note] = ()) -> None:
        for key, row, lines in notes:
            task = self._get(key)
            assert task is not None  # what is written to is not purged
            task.notes = [] if task.notes is _NO_NOTES else task.notes
            task.notes.append((row, lines))
        for write in writes:
            task = self._make(write) if write.is_new else self._get(write.key)
            assert task is not None  # what is written to is not purged
            is_end = write.state in _ENDED and write.head is not None
            if is_end and write.is_new:
                task.numbers = _FIRST if write.row == 1 else (write.row,)
                task.put_away(write.lines)
                continue
            task.add(write.row, write.lines)  # first: a log that was put away needs the snapshot it was put away with
            if not write.is_new:
                self._move(task, write)
            if is_end:
                task.put_away(b"\n\n".join(task.log()).split(b"\n"))
        for keep in keeps:
            self._kept[keep.scope, keep.key] = keep

    def _make(self, write: Write) -> Kept:
        shelf = self._shelves.get(write.scope)
        if shelf is None:
            shelf = self._shelves[write.scope] = Shelf(write.scope)
        place = (write.key, shelf.scope, write.id, write.context_id, write.state, write.at_ms, write.seq, write.pos, write.pos)
        if write.head is not None:
            task = Kept(*place, write.about, write.head, write.artifacts, _NO_LINES)
        else:  # only begun: its first line is the task as it was made
            made = write.lines[0].removeprefix(b"v")[len(_TASK) : -1]
            task = Kept(*place, write.about, made, b"[]", [line for line in write.lines[1:] if line.startswith(_CHANGES)])
            task.snap_pos = 1
        shelf.tasks[write.id] = task
        at = write.at_ms << _KEY_BITS | write.key
        if (shelf.places and at < shelf.places[-1]) or task.context_id in shelf.by_context:
            shelf.put(at, task)
        else:  # the newest of all, as most are when they are made
            shelf.places.append(at)
            shelf.by_state[task.state].append(at)
            shelf.by_context[task.context_id] = at
        index = write.key - self._gone
        if index == len(self._by_key):
            self._by_key.append(task)
            return task
        self._by_key += [None] * (index + 1 - len(self._by_key))  # a task made later was stored first
        self._by_key[index] = task
        return task

    def _get(self, key: int) -> Kept | None:
        index = key - self._gone
        return self._by_key[index] if 0 <= index < len(self._by_key) else None

    def _move(self, task: Kept, write: Write) -> None:
        """Have the task stand where a commit left it."""
        if task.at_ms != write.at_ms or task.state != write.state:
            shelf = self._shelves[task.scope]
            shelf.remove(_place(task.at_ms, task.key), task)
            task.at_ms, task.state = write.at_ms, write.state
            shelf.put(_place(task.at_ms, task.key), task)
        task.seq, task.pos = write.seq, write.pos
        if write.head is not None:
            task.head, task.artifacts, task.snap_pos, task.tail = write.head, write.artifacts, write.pos, _NO_LINES
            task.pieces = ()
        else:
            task.tail = [] if task.tail is _NO_LINES else task.tail
            task.tail += [line for line in write.lines if line.startswith(_CHANGES)]

    async def load(self, scope: Scope, task_id: str) -> Record | None:
        shelf = self._shelves.get(scope)
        task = shelf.tasks.get(task_id) if shelf is not None else None
        return task.whole() if task is not None else None

    async def rows(self, key: int, after: int) -> list[tuple[int, bytes]]:
        task = self._get(key)
        if task is None:
            return []
        start = max(bisect_right(task.numbers, after) - 1, 0)
        rows = [lengthen(lines, task.id, task.context_id) for lines in task.log()[start : start + _PIECE]]
        return list(zip(task.numbers[start : start + _PIECE], rows, strict=True))

    async def notes(self, key: int) -> list[tuple[int, bytes]]:
        task = self._get(key)
        return list(task.notes) if task is not None else []

    async def page(self, query: Query) -> Page:
        shelf = self._shelves.get(query.scope) or Shelf(query.scope)
        places, wanted = shelf.candidates(query)
        end = len(places) if query.before is None else bisect_left(places, _place(*query.before))
        start = 0 if query.since_ms is None else bisect_left(places, _place(query.since_ms, 0))
        found: list[Record] = []
        size, more = 0, False
        for i in range(end - 1, start - 1, -1):
            task = self._by_key[(places[i] & _KEY) - self._gone]
            if task is not None and wanted in (0, task.state):
                more = len(found) == query.limit
                if more:
                    break
                record = task.whole(has_artifacts=query.has_artifacts)
                size += len(record.head) + (len(record.artifacts) if query.has_artifacts else 0)
                more = size > query.size and bool(found)
                if more:
                    break
                found.append(record)
        total = len(places) - start
        if wanted:
            tasks = (self._get(place & _KEY) for place in places[start:])
            total = sum(task is not None and task.state == wanted for task in tasks)
        return Page(tasks=found, total=total, next=(found[-1].at_ms, found[-1].key) if more else None)

    async def kept(self, scope: Scope, key: str, since_ms: int) -> Keep | None:
        keep = self._kept.get((scope, key))
        return keep if keep is not None and keep.at_ms >= since_ms else None

    async def beat(self) -> None: ...

    async def take_over(self, lease_ms: int) -> list[Record]:
        return []  # what was in memory died with its process

    async def waiting(self, before_ms: int, limit: int) -> list[Record]:
        found = (task for task in self._tasks() if task.state in _WAITING and task.at_ms < before_ms)
        return [task.whole() for task in itertools.islice(found, limit)]

    def _tasks(self) -> Iterator[Kept]:
        return (task for task in self._by_key if task is not None)

    async def purge(self, ages: Ages, limit: int) -> int:
        ended = [task for task in self._tasks() if task.state in _ENDED]
        folded = [task for task in ended if task.at_ms < ages.events_ms and task.numbers][:limit]
        for task in folded:
            task.numbers, task.rows = (), b""
        old = [task for task in ended if task.at_ms < ages.tasks_ms and not task.numbers][:limit]
        for task in old:
            shelf = self._shelves[task.scope]
            shelf.remove(_place(task.at_ms, task.key), task)
            del shelf.tasks[task.id]
            self._by_key[task.key - self._gone] = None
        gone = next((i for i, task in enumerate(self._by_key) if task is not None), len(self._by_key))
        del self._by_key[:gone]
        self._gone += gone
        keys = [k for k, keep in self._kept.items() if keep.at_ms < ages.keys_ms][:limit]
        for key in keys:
            del self._kept[key]
        return len(old) + len(folded) + len(keys)

    async def stats(self) -> Stats:
        tasks = dict(Counter(task.state for task in self._tasks()))
        return Stats(tasks=tasks, events=sum(len(task.numbers) for task in self._tasks()), keys=len(self._kept), size=0)


def _place(at_ms: int, key: int) -> Place:
    return at_ms << _KEY_BITS | key
