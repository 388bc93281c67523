"""Pages of tasks: never more work than a page is worth.

A page is read along an index that has its tasks in order, or several that are merged, one task
after the other until it is full. Where no index orders what is asked for (the tasks of a context in
one state, for example) the best one is read, no more than SCAN entries of it, and of these the
tasks that match: such a page may be short, or empty, and its `next` still goes on.
"""

import heapq
import itertools
import operator
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..contract import Ended, Namespace, Page, Query, Record
from ..rules import ENDED, MINUTE_MS, rough_sql
from .rows import COLUMNS, COLUMNS_WITHOUT_ARTIFACTS, PLACE, record_of

__all__ = ["SCAN", "count_ended", "ended", "page"]

SCAN = 10_000  # entries of an index that one page reads, and that one total counts
_FAR = (1 << 63) - 1
_RUNNING = (1, 2)
_NOT_RUNNING = "state NOT IN (1, 2)"  # as the indexes say it: else SQLite can't use them
_ROUGH = rough_sql("at_ms-created_ms")
# The columns behind `max` are those of the row that has it.
_ENDED = f"state, at_ms/{MINUTE_MS}, {_ROUGH}, count(*), max(max(at_ms-created_ms, 0)), at_ms, key"

Place: TypeAlias = tuple[int, int]  # (at_ms, key)
Entry: TypeAlias = tuple[Any, ...]  # a place, then the columns that are still to be compared

_place: Callable[[Entry], Place] = operator.itemgetter(0, 1)
_place_of_row: Callable[[Entry], Place] = operator.itemgetter(*PLACE)


class _Range(NamedTuple):
    """A part of an index: equal in its first columns, in the order of time."""

    name: str  # of the index
    where: str
    values: tuple[Any, ...]


class _Plan(NamedTuple):
    """Where the tasks of a query are found: in ranges to be merged; and what is still to be
    compared.
    """

    ranges: list[_Range]
    columns: str  # to be compared, each after a comma
    wanted: tuple[Collection[Any], ...]
    total: int | None  # if the kept counts say it

    def matches(self, entry: Entry) -> bool:
        return all(value in wanted for value, wanted in zip(entry[2:], self.wanted, strict=True))


def page(db: sqlite3.Connection, query: Query, namespaces: Mapping[Namespace, int]) -> Page:
    """Return the tasks of a page, and how many match in all. The caller holds a snapshot of the
    database.
    """
    if query.namespace is not None:
        namespaces = {query.namespace: namespaces.get(query.namespace, 0)}
        plan = _plan(db, query, namespaces[query.namespace])
    else:
        namespaces = dict(namespaces)  # the writer's thread adds to it
        plan = _plan_of_operator(db, query, namespaces)
    total, is_exact = (plan.total, True) if plan.total is not None else _count(db, query, plan)
    tasks, next_ = _fitting(
        db, query, plan, {number: namespace for namespace, number in namespaces.items()}
    )
    return Page(tasks=tasks, total=total, next=next_, is_exact=is_exact)


def ended(
    db: sqlite3.Connection,
    namespaces: Mapping[Namespace, int],
    agent: str,
    from_ms: int,
    to_ms: int,
) -> list[Ended]:
    """Return the tasks that ended between two times, by minute, state and duration."""
    return [
        Ended(minute * MINUTE_MS, state, *found)
        for state, minute, *found in _ended_rows(
            db, namespaces, agent, (from_ms, to_ms), _ENDED, f"GROUP BY 1, 2, {_ROUGH}"
        )
    ]


def count_ended(
    db: sqlite3.Connection,
    namespaces: Mapping[Namespace, int],
    agent: str,
    from_ms: int,
    to_ms: int,
) -> int:
    """Return how many tasks ended between two times."""
    times = (from_ms, to_ms)
    return sum(n for (n,) in _ended_rows(db, namespaces, agent, times, "count(*)", ""))


def _ended_rows(
    db: sqlite3.Connection,
    namespaces: Mapping[Namespace, int],
    agent: str,
    times: tuple[int, int],
    columns: str,
    grouped: str,
) -> Iterator[tuple[Any, ...]]:
    numbers = [number for space, number in namespaces.items() if agent in ("", space.agent)]
    if not numbers:
        return
    # Without a namespace to compare, what is counted is in the index.
    is_of_all = len(numbers) == len(namespaces)
    of_agent = "" if is_of_all else f"AND namespace IN ({','.join('?' * len(numbers))}) "
    for state, folded in itertools.product(ENDED, (0, 1)):
        yield from db.execute(
            f"SELECT {columns} FROM tasks INDEXED BY tasks_by_age WHERE folded=? AND state=? "
            f"AND {_NOT_RUNNING} AND at_ms>=? AND at_ms<? {of_agent}{grouped}",
            (folded, state, *times, *([] if is_of_all else numbers)),
        )


def _plan(db: sqlite3.Connection, query: Query, namespace: int) -> _Plan:
    if query.context_id:
        return _plan_of_context(query, namespace)
    counts = dict(
        db.execute("SELECT state, n FROM counts WHERE namespace=? AND n>0", (namespace,)).fetchall()
    )
    states = [query.state] if query.state else list(counts)
    total = sum(counts.get(state, 0) for state in states) if query.since_ms is None else None
    return _Plan(
        [
            _Range("tasks_by_state", "namespace=? AND state=?", (namespace, state))
            for state in states
        ],
        "",
        (),
        total,
    )


def _plan_of_context(query: Query, namespace: int) -> _Plan:
    """Submitted and working tasks are not in the index by context: they are few."""
    where = "namespace=? AND state=? AND context=?"
    running = [
        _Range("tasks_by_state", where, (namespace, state, query.context_id)) for state in _RUNNING
    ]
    if query.state in _RUNNING:
        return _Plan([running[_RUNNING.index(query.state)]], "", (), None)
    others = _Range(
        "tasks_by_context",
        f"namespace=? AND context=? AND {_NOT_RUNNING}",
        (namespace, query.context_id),
    )
    if query.state:
        return _Plan([others], ", state", ((query.state,),), None)
    return _Plan([others, *running], "", (), None)


def _plan_of_operator(
    db: sqlite3.Connection, query: Query, namespaces: Mapping[Namespace, int]
) -> _Plan:
    numbers = {
        number for namespace, number in namespaces.items() if query.agent in ("", namespace.agent)
    }
    # With other agents, whose tasks are in the same index.
    is_shared = len(numbers) < len(namespaces)
    counts: Counter[int] = Counter()
    ranges: list[_Range] = []
    for namespace, state, n in db.execute("SELECT namespace, state, n FROM counts WHERE n>0"):
        if namespace in numbers and query.state in (0, state):
            counts[state] += n
            if state in _RUNNING:
                ranges.append(
                    _Range("tasks_by_state", "namespace=? AND state=?", (namespace, state))
                )
    for state in counts.keys() - set(_RUNNING):
        ranges += [
            _Range("tasks_by_age", f"folded=? AND state=? AND {_NOT_RUNNING}", (folded, state))
            for folded in (0, 1)
        ]
    columns = (", namespace" if is_shared else "") + (", context" if query.context_id else "")
    wanted: tuple[Collection[Any], ...] = (
        *((numbers,) if is_shared else ()),
        *(((query.context_id,),) if query.context_id else ()),
    )
    total = counts.total() if query.since_ms is None and not query.context_id else None
    return _Plan(ranges, columns, wanted, total)


def _entries(
    db: sqlite3.Connection,
    query: Query,
    plan: _Plan,
    before: Place | None,
    columns: str = "at_ms, key",
    place_of: Callable[[Entry], Place] = _place,
) -> Iterator[Entry]:
    """The entries of the plan's ranges in the query's order: these columns, which have a place."""
    since_ms = query.since_ms if query.since_ms is not None else -1
    if query.oldest_first:
        place = before or (-1, -1)
        bounds: tuple[int, ...] = (max(since_ms, place[0]), _FAR, *place)
        compared, order = ">", "at_ms, key"
    else:
        place = before or (_FAR, _FAR)
        bounds = (since_ms, place[0], *place)
        compared, order = "<", "at_ms DESC, key DESC"
    streams = [
        db.execute(
            f"SELECT {columns} FROM tasks INDEXED BY {part.name} "
            f"WHERE {part.where} AND at_ms>=? AND at_ms<=? AND (at_ms, key) {compared} (?,?) "
            f"ORDER BY {order}",
            (*part.values, *bounds),
        )
        for part in plan.ranges
    ]
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=place_of, reverse=not query.oldest_first)


def _count(db: sqlite3.Connection, query: Query, plan: _Plan) -> tuple[int, bool]:
    """How many match, and whether that is all of them."""
    since_ms = query.since_ms if query.since_ms is not None else -1
    seen = total = 0
    for part in plan.ranges:
        left = SCAN - seen
        sql = f"FROM tasks INDEXED BY {part.name} WHERE {part.where} AND at_ms>=? LIMIT ?"
        if plan.columns:
            found = db.execute(
                f"SELECT 0, 0{plan.columns} {sql}", (*part.values, since_ms, left + 1)
            ).fetchall()
            total += sum(map(plan.matches, found[:left]))
            seen += len(found)
        else:
            ((n,),) = db.execute(
                f"SELECT count(*) FROM (SELECT 1 {sql})", (*part.values, since_ms, left + 1)
            )
            total += min(n, left)
            seen += n
        if seen > SCAN:
            return total, False
    return total, True


def _fitting(
    db: sqlite3.Connection, query: Query, plan: _Plan, namespaces: Mapping[int, Namespace]
) -> tuple[list[Record], Place | None]:
    """As many tasks as a page may have, and where the next page goes on."""
    tasks: list[Record] = []
    size = 0
    scan = _Scan(db, query, plan)
    for row in scan.rows():
        if len(tasks) == query.limit:
            return tasks, (tasks[-1].at_ms, tasks[-1].key)
        record = record_of(db, row, namespaces[row[1]])
        size += record.size if query.has_artifacts else record.size - len(record.artifacts)
        if tasks and size > query.size:
            return tasks, (tasks[-1].at_ms, tasks[-1].key)
        tasks.append(record)
    return tasks, scan.next()


class _Scan:
    """Reads the tasks that match, in order, as long as that is not too much."""

    def __init__(self, db: sqlite3.Connection, query: Query, plan: _Plan) -> None:
        self._db = db
        self._query = query
        self._plan = plan
        self._last: Place | None = None  # that was looked at, if what matches had to be found

    def rows(self) -> Iterator[Entry]:
        """The COLUMNS of each."""
        db, query, plan = self._db, self._query, self._plan
        columns = COLUMNS if query.has_artifacts else COLUMNS_WITHOUT_ARTIFACTS
        if not plan.columns:  # all of it matches
            return _entries(db, query, plan, query.before, columns, _place_of_row)
        return self._matching(columns)

    def _matching(self, columns: str) -> Iterator[Entry]:
        db, query, plan = self._db, self._query, self._plan
        entries = _entries(db, query, plan, query.before, f"at_ms, key{plan.columns}")
        for entry in itertools.islice(entries, SCAN):
            self._last = _place(entry)
            if plan.matches(entry):
                yield from db.execute(f"SELECT {columns} FROM tasks WHERE key=?", (entry[1],))

    def next(self) -> Place | None:
        """Where to go on, once all was read that may be; None at the end."""
        if self._last is None:
            return None
        rest = _entries(self._db, self._query, self._plan, self._last)
        return self._last if next(rest, None) is not None else None
