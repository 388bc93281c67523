"""Webhooks in the tables of a `SqliteStore`."""

import contextlib
import json
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...model import now_ms
from ..contract import Append, Create
from ..failpoints import point
from ..namespace import Namespace
from ..push import DeadLetter, Outcome, Push
from ..rules import ENDED
from .rows import blob

__all__ = [
    "NEEDED",
    "PushesBeside",
    "SqlitePushes",
    "forget",
    "grow",
    "has_pushes",
    "list_letters",
    "list_pushes",
]

# Whether the log of a task is still to be delivered, or named by a dead letter.
NEEDED = (
    "(EXISTS (SELECT 1 FROM pushes WHERE task=key AND upto>sent AND disabled='') "
    "OR EXISTS (SELECT 1 FROM dead_letters WHERE task=key))"
)

# One of the same id keeps its cursors: what was not delivered yet goes to the new address.
_PUT = (
    "INSERT INTO pushes (task, id, n, namespace, is_open, artifacts, upto, sent, at_ms, endpoint, "
    "version, data) VALUES (?1, ?2, (SELECT coalesce(max(n), 0) + 1 FROM pushes WHERE task=?1), "
    "?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) "
    "ON CONFLICT (task, id) DO UPDATE SET artifacts=excluded.artifacts, at_ms=excluded.at_ms, "
    "endpoint=excluded.endpoint, version=excluded.version, data=excluded.data, error='', "
    "disabled='', tries=0, failing_ms=0, claim=claim + 1, "
    "due_ms=CASE WHEN upto>sent THEN excluded.at_ms END"
)
_GROW = (
    "UPDATE pushes SET is_open=?1, upto=max(upto, CASE artifacts WHEN 1 THEN ?2 ELSE ?3 END), "
    "due_ms=CASE WHEN disabled='' AND max(upto, CASE artifacts WHEN 1 THEN ?2 ELSE ?3 END)>sent "
    "THEN coalesce(due_ms, ?4) ELSE due_ms END WHERE task=?5"
)
_COLUMNS = (
    "p.task, p.id, agent, tenant, caller, endpoint, version, data, p.at_ms, p.artifacts, sent, "
    "upto, p.due_ms, tries, claim, failing_ms, error, disabled, n, t.id, t.context"
)
_FROM = "FROM pushes p JOIN namespaces USING (namespace) JOIN tasks t ON t.key=p.task"
_TROUBLED = (
    "WHERE disabled <> '' OR failing_ms > 0 "
    "OR EXISTS (SELECT 1 FROM dead_letters d WHERE d.task=p.task AND d.push=p.id)"
)
_AGENTS = (
    "namespace IN (SELECT namespace FROM namespaces "
    "WHERE agent IN (SELECT value FROM json_each(?)))"
)
_SETTLE = (
    "UPDATE pushes SET sent=?1, tries=?2, failing_ms=?3, error=?4, disabled=?5, claim=claim + 1, "
    "due_ms=CASE WHEN upto>?1 AND ?5='' THEN ?6 END WHERE task=?7 AND id=?8 AND claim=?9"
)
_LETTER = "INSERT INTO dead_letters (task, push, first, last, at_ms, error) VALUES (?,?,?,?,?,?)"
_REPLAY = (
    "UPDATE pushes SET sent=min(sent, ?1), disabled='', tries=0, failing_ms=0, "
    "claim=claim + 1, due_ms=?2 WHERE task=?3 AND id=?4"
)


class TableAccess(NamedTuple):
    """How the store lets its tables be used."""

    write: Callable[[Callable[[sqlite3.Connection], Any], bool], Awaitable[Any]]
    reading: Callable[[], contextlib.AbstractContextManager[sqlite3.Connection]]
    number: Callable[[Namespace], int | None]  # of a namespace
    now_ms: Callable[[], int]  # the store's clock


class SqlitePushes:
    """Webhooks of the tasks in one file.

    Since one process uses the file, what was taken is remembered in memory: after a crash it is due
    as before.
    """

    def __init__(self, access: TableAccess) -> None:
        self.on_due: Callable[[], None] = lambda: None
        self._access = access
        self._taken: dict[tuple[int, str], int] = {}  # until when

    async def put(self, push: Push) -> bool:
        number = self._access.number(push.namespace)

        def work(db: sqlite3.Connection) -> bool:
            row = db.execute("SELECT state FROM tasks WHERE key=?", (push.task,)).fetchone()
            if row is None or number is None:
                return False
            values = _values(push, number, row[0] not in ENDED, self._access.now_ms())
            db.execute(_PUT, values)
            point("push.put")
            return True

        stored: bool = await self._access.write(work, True)
        self._taken.pop((push.task, push.id), None)
        self.on_due()  # of one that was replaced, something may be
        return stored

    async def of(self, task: int) -> list[Push]:
        with self._access.reading() as db:
            rows = db.execute(f"SELECT {_COLUMNS} {_FROM} WHERE p.task=? ORDER BY n", (task,))
            return [_push(row) for row in rows]

    async def delete(self, task: int, id: str) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM pushes WHERE task=? AND id=?", (task, id))

        await self._access.write(work, True)

    async def count(self, namespace: Namespace) -> int:
        with self._access.reading() as db:
            found = db.execute(
                "SELECT count(*) FROM pushes INDEXED BY pushes_by_caller WHERE namespace=? AND "
                "is_open=1",
                (self._access.number(namespace),),
            ).fetchone()
        return int(found[0])

    async def take(
        self,
        agents: Collection[str],
        limit: int,
        *,
        lease_ms: int,
        skip: Collection[str] = (),
    ) -> list[Push]:
        taken, now_ms = self._taken, self._access.now_ms()
        for place in [place for place, until_ms in taken.items() if until_ms <= now_ms]:
            del taken[place]
        marks = ",".join("?" * len(skip))
        found: list[Push] = []
        with self._access.reading() as db:
            due = db.execute(
                f"SELECT task, id FROM pushes WHERE due_ms<=? AND endpoint NOT IN ({marks}) "
                f"AND {_AGENTS} ORDER BY due_ms LIMIT ?",
                (now_ms, *skip, json.dumps(list(agents)), limit + len(taken)),
            )
            for place in [place for place in due if place not in taken][:limit]:
                taken[place] = now_ms + lease_ms
                row = db.execute(f"SELECT {_COLUMNS} {_FROM} WHERE p.task=? AND p.id=?", place)
                found += [_push(one) for one in row]
        return found

    async def settle(self, outcomes: Sequence[Outcome]) -> None:
        def work(db: sqlite3.Connection) -> None:
            now_ms = self._access.now_ms()
            for one in outcomes:
                due_ms = now_ms + one.pause_ms
                values = (one.sent, one.tries, one.failing_ms, one.error, one.disabled, due_ms)
                done = db.execute(_SETTLE, (*values, one.task, one.id, one.claim))
                if done.rowcount and one.letter is not None:
                    db.execute(_LETTER, _letter_values(one.letter, now_ms))
            point("push.settled")

        # Not flushed: what a power cut takes back is delivered once more.
        await self._access.write(work, False)
        for one in outcomes:
            self._taken.pop((one.task, one.id), None)

    async def postpone(self, agents: Collection[str], endpoint: str, pause_ms: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            until_ms = self._access.now_ms() + pause_ms
            db.execute(
                f"UPDATE pushes SET due_ms=? WHERE due_ms<? AND endpoint=? AND {_AGENTS}",
                (until_ms, until_ms, endpoint, json.dumps(list(agents))),
            )

        await self._access.write(work, False)

    async def next_ms(self, agents: Collection[str]) -> int | None:
        with self._access.reading() as db:
            rows = db.execute(
                f"SELECT due_ms, task, id FROM pushes WHERE due_ms IS NOT NULL AND {_AGENTS} "
                "ORDER BY due_ms LIMIT ?",
                (json.dumps(list(agents)), 1 + len(self._taken)),
            )
            return min(
                (max(due_ms, self._taken.get((task, id_), 0)) for due_ms, task, id_ in rows),
                default=None,
            )

    async def listed(self, limit: int, *, is_troubled: bool = False) -> list[Push]:
        with self._access.reading() as db:
            return list_pushes(db, limit, is_troubled=is_troubled)

    async def letters(self, limit: int, *, task_id: str = "") -> list[DeadLetter]:
        with self._access.reading() as db:
            return list_letters(db, limit, task_id=task_id)

    async def replay(self, letters: Collection[int]) -> int:
        now_ms = self._access.now_ms()
        count: int = await self._access.write(lambda db: _replay(db, letters, now_ms), True)
        self.on_due()
        return count


# Within a commit, a purge, an opening


def grow(
    db: sqlite3.Connection,
    items: Sequence[tuple[Create | Append, int]],
    at_ms: int,
    *,
    are_there: bool,
) -> bool:
    """Register webhooks that came with stored items, each given with the number of its namespace;
    move those of their tasks. Return whether something may be due.
    """
    fresh = [
        _values(push, number, item.state not in ENDED, at_ms)
        for item, number in items
        for push in item.pushes
    ]
    if fresh:
        db.executemany(_PUT, fresh)
        point("commit.pushes")
    elif not are_there:
        return False
    moved = db.executemany(
        _GROW,
        [
            (item.state not in ENDED, item.seq, item.last_status, at_ms, item.key)
            for item, _ in items
        ],
    )
    return moved.rowcount > 0


def has_pushes(db: sqlite3.Connection) -> bool:
    """Whether there are webhooks at all."""
    return db.execute("SELECT 1 FROM pushes LIMIT 1").fetchone() is not None


def forget(db: sqlite3.Connection, tasks: Iterable[tuple[int]]) -> None:
    """These tasks are deleted."""
    tasks = list(tasks)
    for table in ("pushes", "dead_letters"):
        db.executemany(f"DELETE FROM {table} WHERE task=?", tasks)


# For the operator, also beside a server that runs


def list_pushes(db: sqlite3.Connection, limit: int, *, is_troubled: bool = False) -> list[Push]:
    where = _TROUBLED if is_troubled else ""
    rows = db.execute(
        f"SELECT {_COLUMNS} {_FROM} {where} ORDER BY p.at_ms DESC, p.task DESC, n DESC LIMIT ?",
        (limit,),
    )
    return [_push(row) for row in rows]


def list_letters(db: sqlite3.Connection, limit: int, *, task_id: str = "") -> list[DeadLetter]:
    rows = db.execute(
        "SELECT d.task, push, first, last, d.at_ms, error, n, agent, tenant, caller, t.id "
        "FROM dead_letters d JOIN tasks t ON t.key=d.task JOIN namespaces USING (namespace) "
        "WHERE ?1='' OR t.id=?1 ORDER BY n DESC LIMIT ?2",
        (task_id, limit),
    )
    return [
        DeadLetter(task, push, first, last, error, n, at_ms, Namespace(*names), task_id_)
        for task, push, first, last, at_ms, error, n, *names, task_id_ in rows
    ]


class PushesBeside:
    """What an operator needs of webhooks, from another process than the server's.

    SQLite lets one write after the other, and the server looks for what is due every second.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def listed(self, limit: int, *, is_troubled: bool = False) -> list[Push]:
        with self._open() as db:
            return list_pushes(db, limit, is_troubled=is_troubled)

    async def letters(self, limit: int, *, task_id: str = "") -> list[DeadLetter]:
        with self._open() as db:
            return list_letters(db, limit, task_id=task_id)

    async def replay(self, letters: Collection[int]) -> int:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            count = _replay(db, letters, now_ms())
            db.execute("COMMIT")
            return count

    def _open(self) -> contextlib.closing[sqlite3.Connection]:
        return contextlib.closing(sqlite3.connect(self._path, isolation_level=None))


def _replay(db: sqlite3.Connection, letters: Collection[int], now_ms: int) -> int:
    count = 0
    for n in letters:
        row = db.execute(
            "DELETE FROM dead_letters WHERE n=? RETURNING task, push, first", (n,)
        ).fetchone()
        if row is not None:
            count += 1
            task, push, first = row
            db.execute(_REPLAY, (first - 1, now_ms, task, push))
    return count


def _values(push: Push, namespace: int, is_open: bool, at_ms: int) -> tuple[Any, ...]:
    return (
        push.task,
        push.id,
        namespace,
        is_open,
        push.has_artifacts,
        push.upto,
        push.sent,
        at_ms,
        push.endpoint,
        push.version,
        blob(push.data),
    )


def _letter_values(letter: DeadLetter, at_ms: int) -> tuple[Any, ...]:
    return (letter.task, letter.push, letter.first, letter.last, at_ms, letter.error)


def _push(row: tuple[Any, ...]) -> Push:
    task, id_, agent, tenant, caller, endpoint, version, data, at_ms, artifacts, *rest = row
    return Push(
        task,
        id_,
        Namespace(agent, tenant, caller),
        endpoint,
        version,
        data,
        at_ms,
        bool(artifacts),
        *rest,
    )
