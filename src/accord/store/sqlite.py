"""The default store: one SQLite file, one writer thread, one flush per batch.

Commits run in the writer thread, which owns the only connection that writes. Reads are point look-ups and short ranges on a
second, read-only connection, made on the event loop: in WAL mode they never wait for the writer, and a thread hop would
cost more than the read.
"""

import contextlib
import itertools
import logging
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..model import Unavailable, now_ms
from .apart import ROW_BITS, ids, put_apart, whole
from .contract import Ages, CommitFailed, Fenced, Keep, Note, Page, Query, Record, Scope, Stats, Write
from .failpoints import point
from .insert import blob, insert
from .listing import BEGUN, COLUMNS, page
from .lock import hold
from .look import check_file, count, unusable
from .migrate import migrate_sqlite
from .short import ids_of, lengthen
from .worker import Worker

__all__ = ["SqliteStore"]

T = TypeVar("T")

log_ = logging.getLogger("accord")

_PIECE = 256
_NOTE_BITS = 40
_BEAT = "UPDATE owners SET beat_ms=? WHERE owner=?"
_COUNT = "INSERT INTO counts VALUES (?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n"
_MADE = b'v{"task":'
_BREAK = bytearray(b"\n")  # what it joins is one too: see `blob`

# An error rolls all of a commit back: with OR FAIL a statement need not be able to undo itself, for which SQLite would copy every
# page it changes, and many of them into a file.
_NOTED = "INSERT OR FAIL INTO notes VALUES (?,?,?,?)"
_LOGGED = "INSERT OR FAIL INTO events VALUES (?,?) ON CONFLICT DO UPDATE SET data = CAST(data || x'0a' || excluded.data AS BLOB)"

# What a commit does to the tasks it is about: begun, told more of, only their log grew, they stand elsewhere, they have a
# new snapshot.
_BEGIN = "INSERT OR FAIL INTO begun (scope, owner, key, id, context, state, at_ms, seq, pos, about) VALUES (?,?,?,?,?,?,?,?,?,?)"
_TOLD = "DELETE FROM begun WHERE scope=? AND id=?"
_NEW = f"INSERT OR FAIL INTO tasks (scope, owner, {COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
_KEPT = "UPDATE tasks SET seq=?, pos=?, owner=? WHERE key=?"
# One that stands elsewhere has a log again, also if it had ended and its log had gone.
_MOVED = "UPDATE tasks SET state=?, at_ms=?, seq=?, pos=?, owner=?, folded=0 WHERE key=?"
_FOLDED = "UPDATE tasks SET state=?, at_ms=?, seq=?, pos=?, owner=?, folded=0, snap_pos=?, head=?, artifacts=? WHERE key=?"


class SqliteStore:
    """Tasks in one file, which this process alone may use.

    - A commit that has returned is on the disk (`synchronous=FULL`), not only in the system's memory.
    - A second process on the same file is refused at `open`, by name.
    """

    is_volatile = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._scopes: dict[Scope, int] = {}
        self._keys = 0
        self._owner: int | None = 0
        self._worker: Worker | None = None

    async def open(self) -> None:
        check_file(self.path)  # before anything is made beside it
        with contextlib.ExitStack() as undo:
            self._lock = undo.enter_context(hold(self.path))
            point("open.locked")
            try:
                self._db = undo.enter_context(contextlib.closing(self._connect()))
                self._reader = undo.enter_context(contextlib.closing(self._connect()))
                self._prepare()
            except sqlite3.DatabaseError as error:
                raise unusable(self.path, error) from error
            undo.pop_all()
        self._worker = Worker("accord-sqlite")

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        migrate_sqlite(self._db)
        point("open.migrated")
        self._cursor = self._db.cursor()  # for what is done again and again: a connection remembers each it made, for a while
        self._reader.execute("PRAGMA query_only = ON")
        rows = self._reader.execute("SELECT tenant, owner, scope FROM scopes")
        self._scopes = {Scope(tenant, owner): scope for tenant, owner, scope in rows}
        (self._keys,) = self._reader.execute(
            "SELECT max(k) FROM (SELECT 0 AS k UNION ALL SELECT max(key) FROM tasks UNION ALL SELECT max(key) FROM begun)"
        ).fetchone()
        self._owner = self._db.execute("INSERT INTO owners (beat_ms) VALUES (?)", (now_ms(),)).lastrowid
        assert self._owner is not None  # the row has just been inserted
        self._cursor.execute(_BEAT, (now_ms(), self._owner))  # so that it is not first prepared in the middle of something
        self._notes = itertools.count(self._owner << _NOTE_BITS)
        point("open.owned")

    async def close(self) -> None:
        if self._worker is None:
            return
        await self._worker.stop()
        self._worker = None
        point("close.written")
        with contextlib.suppress(sqlite3.Error):  # the next process strikes it out
            self._db.execute("DELETE FROM owners WHERE owner=?", (self._owner,))
        point("close.left")
        self._reader.close()
        self._db.close()  # the last connection: folds the log file back into the database
        self._lock.close()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, cached_statements=256)

    def new_key(self) -> int:
        self._keys += 1
        return self._keys

    # Writing

    async def commit(self, writes: Sequence[Write], keeps: Sequence[Keep], notes: Sequence[Note] = ()) -> None:
        await self._in_writer(lambda: self._commit(writes, keeps, notes))

    async def _in_writer(self, work: Callable[[], T]) -> T:
        """Have the writer thread do something; raise CommitFailed if the database will not."""
        assert self._worker is not None  # it is open
        try:
            return await self._worker.do(work)
        except CommitFailed:
            raise
        except Exception as error:
            raise CommitFailed(str(error)) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and only while this process has not been taken for dead."""
        db, own = self._db, self._cursor
        own.execute("BEGIN IMMEDIATE")
        try:
            if own.execute("SELECT 1 FROM owners WHERE owner=?", (self._owner,)).fetchone() is None:
                raise Fenced(f"another process took over {self.path}")
            yield db
            own.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                own.execute("ROLLBACK")
            raise

    def _commit(self, writes: Sequence[Write], keeps: Sequence[Keep], notes: Sequence[Note]) -> None:
        known = len(self._scopes)
        point("commit.before")
        try:
            with self._transaction() as db:
                point("commit.begun")
                self._store(db, writes, keeps, notes)
                if len(self._scopes) > known:
                    fresh = [(n, scope.tenant, scope.owner) for scope, n in list(self._scopes.items())[known:]]
                    db.executemany("INSERT OR IGNORE INTO scopes VALUES (?,?,?)", fresh)
        except BaseException:
            for scope in list(self._scopes)[known:]:
                del self._scopes[scope]
            raise
        point("commit.after")

    def _store(self, db: sqlite3.Connection, writes: Sequence[Write], keeps: Sequence[Keep], notes: Sequence[Note]) -> None:
        writes = [put_apart(db, w) for w in writes]
        if writes:
            self._stand(db, writes)
        point("commit.tasks")
        insert(db, _LOGGED, [(w.key << ROW_BITS | w.row, _BREAK.join(w.lines)) for w in writes])
        insert(db, _NOTED, [(key, next(self._notes), row, blob(lines)) for key, row, lines in notes])
        point("commit.events")
        if keeps:
            db.executemany(
                "INSERT OR REPLACE INTO keys VALUES (?,?,?,?,?,?)",
                [(self._scope(k.scope), k.key, k.digest, k.at_ms, k.task_id, k.reply) for k in keeps],
            )
            point("commit.keys")

    def _stand(self, db: sqlite3.Connection, writes: Sequence[Write]) -> None:
        """Store where tasks stand, and how many of each state there are."""
        begun: list[tuple[Any, ...]] = []
        told: list[tuple[Any, ...]] = []
        new: list[tuple[Any, ...]] = []
        kept: list[tuple[Any, ...]] = []
        moved: list[tuple[Any, ...]] = []
        folded: list[tuple[Any, ...]] = []
        change: Counter[tuple[int, int]] = Counter()
        for w in writes:
            scope = self._scope(w.scope)
            if w.head is None and w.is_new:
                place = (scope, self._owner, w.key, w.id, w.context_id, w.state)
                begun.append((*place, w.at_ms, w.seq, w.pos, blob(w.about)))
                continue
            if w.state != w.was:
                change[scope, w.state] += 1
                if w.was:
                    change[scope, w.was] -= 1
            if w.head is not None and (w.is_new or w.was_begun):
                place = (scope, self._owner, w.key, w.id, w.context_id, w.state)
                new.append((*place, w.at_ms, w.seq, w.pos, w.pos, blob(w.about), blob(w.head), blob(w.artifacts)))
                if w.was_begun:
                    told.append((scope, w.id))
            elif w.head is not None:
                snapshot = (blob(w.head), blob(w.artifacts))
                folded.append((w.state, w.at_ms, w.seq, w.pos, self._owner, w.pos, *snapshot, w.key))
            elif w.has_moved:
                moved.append((w.state, w.at_ms, w.seq, w.pos, self._owner, w.key))
            else:
                kept.append((w.seq, w.pos, self._owner, w.key))
        # What is set, even to the same, is written to every index it is in: five pages more for each commit.
        insert(db, _BEGIN, begun)
        insert(db, _NEW, new)
        for sql, rows in ((_TOLD, told), (_KEPT, kept), (_MOVED, moved), (_FOLDED, folded)):
            if rows:
                db.executemany(sql, rows)
        if counted := [(scope, state, n) for (scope, state), n in change.items() if n]:
            db.executemany(_COUNT, counted)
        point("commit.counts")

    def _scope(self, scope: Scope) -> int:
        number = self._scopes.get(scope)
        if number is None:
            number = self._scopes[scope] = len(self._scopes) + 1
        return number

    # Reading

    def _rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        try:
            return self._reader.execute(sql, args).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: sqlite3.Error) -> Unavailable:
        log_.error("reading %s failed: %s", self.path, error)
        return Unavailable("the store can't be read now; try again later", retry_after_s=5)

    async def load(self, scope: Scope, task_id: str) -> Record | None:
        place = (self._scopes.get(scope), task_id)
        found = self._rows(f"SELECT {COLUMNS} FROM tasks WHERE scope=? AND id=?", *place) or self._rows(
            f"SELECT {BEGUN} FROM begun WHERE scope=? AND id=?", *place
        )
        if not found:
            return None
        record = self._record(scope, found[0])
        if record.is_stale:
            self._bring_up(record)
        return record

    def _record(self, scope: Scope, row: tuple[Any, ...]) -> Record:
        record = Record(row[0], scope, *row[1:])
        record.head, record.artifacts = self._whole(record.key, record.head), self._whole(record.key, record.artifacts)
        return record

    def _whole(self, key: int, text: bytes) -> bytes:
        try:
            return whole(self._reader, key, text)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _bring_up(self, record: Record) -> None:
        """Add the lines after the snapshot: the last ones of the log, collected from its end."""
        missing = record.pos - record.snap_pos if record.snap_pos > 0 else sys.maxsize
        backwards: list[bytes] = []
        try:
            rows = self._reader.execute("SELECT data FROM events WHERE id BETWEEN ? AND ? ORDER BY id DESC", ids(record.key))
            for (data,) in rows:
                lines = lengthen(whole(self._reader, record.key, data), record.id, record.context_id).split(b"\n")
                backwards += [line for line in reversed(lines) if line.startswith((b"v", b"m"))]
                if len(backwards) >= missing:
                    break
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        if record.snap_pos <= 0 and backwards and backwards[-1].startswith(_MADE):
            # Only begun, or written by an older version: all of the log, which begins with the task as it was made. If that has
            # gone, the task had ended and was begun anew: its snapshot is that end, and all of the log came after.
            record.head, record.artifacts = backwards.pop().removeprefix(_MADE)[:-1], b"[]"
        record.tail = backwards[:missing][::-1]

    async def rows(self, key: int, after: int) -> list[tuple[int, bytes]]:
        base, end = ids(key)
        ((start,),) = self._rows("SELECT coalesce(max(id), ?) FROM events WHERE id BETWEEN ? AND ?", base, *ids(key, after))
        found = self._rows("SELECT id, data FROM events WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?", start, end, _PIECE)
        names = self._rows("SELECT id, context FROM tasks WHERE key=?", key) or [self._made(key)]
        return [(id_ - base, lengthen(self._whole(key, data), *names[0])) for id_, data in found]

    def _made(self, key: int) -> tuple[str, str]:
        """The ids of a task that is only begun, from the first line of its log."""
        first = self._rows("SELECT data FROM events WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1", *ids(key))
        if not first:
            return "", ""
        return ids_of(first[0][0])

    async def notes(self, key: int) -> list[tuple[int, bytes]]:
        return self._rows("SELECT row, data FROM notes WHERE key=? ORDER BY n", key)

    async def page(self, query: Query) -> Page:
        try:
            return page(self._reader, query, self._scopes.get(query.scope))
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    async def kept(self, scope: Scope, key: str, since_ms: int) -> Keep | None:
        found = self._rows(
            "SELECT digest, at_ms, task, reply FROM keys WHERE scope=? AND key=? AND at_ms>=?",
            self._scopes.get(scope),
            key,
            since_ms,
        )
        return Keep(scope, key, *found[0]) if found else None

    def _found(self, where: str, *args: Any) -> list[Record]:
        """Tasks of any scope, as they stand."""
        return self._records(self._rows(f"SELECT scope, {COLUMNS} FROM tasks WHERE {where}", *args))

    def _records(self, rows: list[tuple[Any, ...]]) -> list[Record]:
        scopes = {number: scope for scope, number in self._scopes.items()}
        records = [self._record(scopes[row[0]], row[1:]) for row in rows]
        for record in records:
            if record.is_stale:
                self._bring_up(record)
        return records

    # Ownership

    async def beat(self) -> None:
        def work() -> None:
            with self._transaction():
                self._cursor.execute(_BEAT, (now_ms(), self._owner))
                point("beat.begun")
            point("beat.after")

        await self._in_writer(work)

    async def take_over(self, lease_ms: int) -> list[Record]:
        """This process alone holds the file, so every other owner is dead, whenever it was last heard of."""

        def work() -> None:
            point("take-over.before")
            with self._transaction() as db:
                db.execute("DELETE FROM owners WHERE owner<>?", (self._owner,))
                point("take-over.fenced")
            point("take-over.after")

        await self._in_writer(work)
        told = self._found("scope IN (SELECT scope FROM scopes) AND state IN (1, 2, 8) AND owner<>?", self._owner)
        begun = self._records(self._rows(f"SELECT scope, {BEGUN} FROM begun WHERE owner<>?", self._owner))
        return sorted([*told, *begun], key=lambda record: record.key)

    # Upkeep

    async def waiting(self, before_ms: int, limit: int) -> list[Record]:
        return self._found(
            "folded=0 AND state NOT IN (1, 2) AND at_ms<? AND state IN (6, 8) ORDER BY at_ms LIMIT ?", before_ms, limit
        )

    async def purge(self, ages: Ages, limit: int) -> int:
        return await self._in_writer(lambda: self._purge(ages, limit))

    def _purge(self, ages: Ages, limit: int) -> int:
        with self._transaction() as db:
            folded = db.execute(
                "SELECT key FROM tasks WHERE folded=0 AND state NOT IN (1, 2) AND at_ms<? AND state IN (3, 4, 5, 7) "
                "ORDER BY at_ms LIMIT ?",
                (ages.events_ms, limit),
            ).fetchall()
            db.executemany("UPDATE tasks SET folded=1 WHERE key=?", folded)
            db.executemany("DELETE FROM events WHERE id BETWEEN ? AND ?", [ids(key) for (key,) in folded])
            db.executemany("DELETE FROM notes WHERE key=?", folded)
            point("purge.events")
            old = db.execute(
                "SELECT key, scope, state FROM tasks WHERE folded=1 AND at_ms<? ORDER BY at_ms LIMIT ?", (ages.tasks_ms, limit)
            ).fetchall()
            db.executemany("DELETE FROM tasks WHERE key=?", [(key,) for key, _, _ in old])
            db.executemany("DELETE FROM pieces WHERE id BETWEEN ? AND ?", [ids(key) for key, _, _ in old])
            gone = Counter((scope, state) for _, scope, state in old)
            db.executemany(_COUNT, [(scope, state, -n) for (scope, state), n in gone.items()])
            point("purge.tasks")
            keys = db.execute(
                "DELETE FROM keys WHERE (scope, key) IN (SELECT scope, key FROM keys WHERE at_ms<? LIMIT ?)", (ages.keys_ms, limit)
            ).rowcount
            point("purge.keys")
        point("purge.after")
        return len(old) + len(folded) + keys

    async def stats(self) -> Stats:
        return count(self._reader, self.path)

    async def vacuum(self) -> None:
        """Give back the room that purged tasks left in the file."""
        await self._in_writer(lambda: self._db.execute("VACUUM"))
