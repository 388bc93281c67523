"""Tasks in one SQLite file: one writer thread, one flush per batch.

Commits run in the writer thread, which has the only connection that writes. Point look-ups are made
on the event loop, on a read-only connection: in WAL mode they never wait for the writer, and a
change of threads would cost more than the read. Lists and statistics may take longer, and run in a
thread with a connection of their own.
"""

import contextlib
import functools
import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...model import Unavailable
from ..clock import FOREVER_MS, StoreClock, SystemClock
from ..contract import (
    ANY_FORMAT,
    Ages,
    Can,
    CommitFailed,
    ConversationState,
    Ended,
    Fenced,
    Idempotency,
    Item,
    LogEnd,
    Namespace,
    Owned,
    Page,
    PostKind,
    Query,
    ReceivedPost,
    Record,
    Replaced,
    Row,
    Stats,
    Wake,
)
from ..failpoints import point
from ..faults import Faults
from ..file_index import FileIndex
from ..parts import TASKS
from ..push import PushStore
from ..rules import ENDED, INPUT_REQUIRED, WAITING, WORKED_ON
from .commit import Batch, Commit
from .database import SqliteDatabase, WriterThread
from .file_index import SqliteFileIndex
from .files import Watch, check_file, count, files_folder, hold, reason, unusable
from .keys import SqliteKeys
from .logins import SqliteLogins
from .logs import locate, read_rows
from .pages import count_ended, ended, page
from .purge import OLD, purge
from .pushes import SqlitePushes, TableAccess, has_pushes
from .reading import Reading
from .rows import BARE_COLUMNS, COLUMNS, bare_record_of, record_of, select_in
from .samples import SqliteSamples
from .schema import migrate_file
from .worker import Worker

__all__ = ["SqliteStore"]

T = TypeVar("T")

log_ = logging.getLogger("accord")

# Whatever is tried: it is the content.
_UNWRITABLE = (
    UnicodeError,
    OverflowError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
)

_ALIVE = "SELECT 1 FROM replicas WHERE replica=? AND is_dead=0"
# how often it is written that we are alive: with every commit, it would be a page more for each
_SEEN_MS = 1000
# Tasks of an agent, or of any, that have an owner which is not us. What has ended has one only if
# it was about to be reopened: then a post that nobody has read is there.
_ORPHANED = (
    "namespace IN (SELECT namespace FROM namespaces WHERE agent=coalesce(?, agent)) AND "
    "(state IN (1, 2, 6, 8) OR key IN (SELECT task FROM posts)) "
    "AND owner IS NOT NULL AND owner<>?"
)
_OWNED_BY_KEY = (
    "SELECT key, agent, tenant, caller, id, pos FROM tasks JOIN namespaces USING (namespace) "
    "WHERE key IN (VALUES (?))"
)
# By namespace and state, which there is an index for: what has ended has no owner.
_OWNED = (
    "SELECT key, agent, tenant, caller, id, pos FROM tasks JOIN namespaces USING (namespace) "
    "WHERE namespace IN (SELECT namespace FROM namespaces) AND state IN (1, 2, 6, 8) AND owner=?"
)
_UNANSWERED = OLD + " AND due_ms IS NULL"
_UNOWNED = (
    "SELECT key FROM tasks WHERE namespace IN (SELECT namespace FROM namespaces) "
    f"AND state IN {WORKED_ON} AND owner IS NULL AND due_ms IS NULL ORDER BY key"
)
_DUE = "SELECT key FROM tasks WHERE due_ms<=? AND owner IS NULL ORDER BY due_ms"
_GIVE_BACK = "UPDATE tasks SET owner=NULL WHERE key=? AND owner=? AND pos=? AND posts=heard"
_BY_ID = f"SELECT {COLUMNS} FROM tasks WHERE namespace=? AND id=?"
_BY_KEY = f"SELECT {COLUMNS} FROM tasks WHERE key=?"


_OF_CALLER = (
    "tasks INDEXED BY tasks_by_id WHERE namespace IN "
    "(SELECT namespace FROM namespaces WHERE agent=? AND caller=?)"
)
# What the tasks of a caller take: their snapshots, what is stored beside these, and the log of
# those without one.
_STORED = (
    f"SELECT sum(length(head) + length(artifacts)) FROM {_OF_CALLER}",
    f"SELECT sum(length(data)) FROM pieces WHERE task IN (SELECT key FROM {_OF_CALLER})",
    f"SELECT sum(length(data)) FROM events WHERE task IN (SELECT key FROM {_OF_CALLER} AND snap=0)",
    "SELECT sum(length(data)) FROM states WHERE namespace IN "
    "(SELECT namespace FROM namespaces WHERE agent=? AND caller=?)",
)


class SqliteStore:
    """Tasks in one file, which this process alone may use.

    - A commit that has returned is on the disk (`synchronous=FULL`), not only in the system's
      memory.
    - A second process on the same file is refused at `open`, by name.
    - Since nobody else writes, a task whose owner is not this process has no living owner: to claim
      it needs no write. Its next commit says that it is ours.
    """

    is_volatile = False
    outlives_process = True
    clock_ahead_s = 0.0  # one process, one clock
    is_shared = False
    living = 1

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        parts: Collection[str] = (TASKS,),
        clock: StoreClock | None = None,
    ) -> None:
        self.path = Path(path)
        self.clock = clock or SystemClock()
        self.now_ms = self.clock.now_ms
        self._parts = parts
        self.database = SqliteDatabase(str(path), self.now_ms)  # for the parts beside the tasks
        self.keys = SqliteKeys(path, self.clock)
        self.logins = SqliteLogins(path, self.clock)
        self.samples = SqliteSamples(path, self.clock)
        self.replica = 0
        self.is_sure = True
        self._faults = Faults()
        self._namespaces: dict[Namespace, int] = {}
        self._seen_ms = 0
        # Tasks that are ours though the database does not say so yet.
        self._claimed: set[int] = set()
        self._died_ms: dict[int, int] = {}  # when other replicas were last seen
        # by agent: tasks of dead owners that nobody has taken up
        self._orphans: dict[str, list[int]] = {}
        self._wake: Wake = lambda tasks: None
        self._worker: Worker | None = None
        self._has_pushes = False
        self._reads = Reading(self.path, self._faults)
        access = TableAccess(self._write, self._reading, self._namespace_number, self.now_ms)
        self.pushes: PushStore = SqlitePushes(access)
        self.files: FileIndex = SqliteFileIndex(access)
        self.files_url = files_folder(self.path.absolute()).as_uri()

    async def open(self, wake: Wake) -> None:
        check_file(self.path)  # before anything is made beside it
        with contextlib.ExitStack() as undo:
            self._lock = undo.enter_context(hold(self.path))
            point("open.locked")
            try:
                self._db = undo.enter_context(contextlib.closing(self._connect()))
                self._reads.db = undo.enter_context(contextlib.closing(self._connect()))
                self._lister = undo.enter_context(contextlib.closing(self._connect()))
                self._beside = None
                if set(self._parts) != {TASKS}:
                    self._beside = undo.enter_context(contextlib.closing(self._connect()))
                self._prepare()
                self._watch = undo.enter_context(contextlib.closing(Watch(self.path)))
            except sqlite3.DatabaseError as error:
                raise unusable(self.path, error) from error
            undo.pop_all()
        self._wake, self.is_sure = wake, True
        self._worker = Worker("accord-sqlite")
        self._lists = Worker("accord-sqlite-lists")
        if self._beside is not None:
            self.database.open(WriterThread(self._worker, self._transaction), self._beside)

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        migrate_file(self._db, self.path, *self._parts)
        point("open.migrated")
        # For what is done again and again: a connection remembers each it made, for a while.
        self._cursor = self._db.cursor()
        for reader in filter(None, (self._reads.db, self._lister, self._beside)):
            reader.execute("PRAGMA query_only = ON")
            # A connection that reads for the first time when the file was emptied takes the log
            # beside it for one that is left over, and deletes it: so it reads now.
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        self._read_namespaces()
        replica = self._db.execute(
            "INSERT INTO replicas (heard_ms) VALUES (?)", (self.now_ms(),)
        ).lastrowid
        assert replica is not None  # the row has just been inserted
        self.replica = replica
        point("open.owned")
        self._take_over()
        self._has_pushes = has_pushes(self._db)

    def _read_namespaces(self) -> None:
        rows = self._db.execute("SELECT agent, tenant, caller, namespace FROM namespaces")
        self._namespaces = {Namespace(*names): number for *names, number in rows}

    def _take_over(self) -> None:
        """This process alone holds the file: every other one is dead, and may not write any
        more.
        """
        point("take-over.before")
        with self._transaction() as db:
            db.execute("UPDATE replicas SET is_dead=1 WHERE replica<>?", (self.replica,))
            # A dead one is remembered while a task names it: when it was last seen, or wrote.
            last = f"SELECT owner, max(committed_ms) FROM tasks WHERE {_ORPHANED} GROUP BY owner"
            written_ms = dict(db.execute(last, (None, self.replica)).fetchall())
            seen_ms = dict(
                db.execute("SELECT replica, heard_ms FROM replicas WHERE is_dead=1").fetchall()
            )
            self._died_ms = {
                replica: max(seen_ms.get(replica, 0), ms) for replica, ms in written_ms.items()
            }
            db.executemany(
                "DELETE FROM replicas WHERE replica=?",
                [(replica,) for replica in seen_ms.keys() - written_ms.keys()],
            )
            point("take-over.fenced")
        self._claimed, self._orphans = set(), {}
        point("take-over.after")

    async def rejoin(self) -> None:
        raise self._replaced()

    def _replaced(self) -> Replaced:
        return Replaced(f"another process has {self.path} for itself")

    async def close(self) -> None:
        if self._worker is None:
            return
        await self.database.close()
        await self._worker.stop()
        await self._lists.stop()
        self._worker = None
        point("close.written")
        with contextlib.suppress(sqlite3.Error):  # the next process takes it for dead all the same
            self._db.execute("UPDATE replicas SET is_dead=1 WHERE replica=?", (self.replica,))
        point("close.left")
        self.keys.close()
        self.logins.close()
        self.samples.close()
        self._lister.close()
        self._reads.db.close()
        self._db.close()  # the last connection: merges the log file into the database
        self._watch.close()
        self._lock.close()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=512
        )

    # Writing

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        def work() -> Batch:
            point("commit.before")
            at_ms = self.now_ms()
            try:
                with self._transaction(at_ms) as db:
                    point("commit.begun")
                    batch = self._commit(db, at_ms, self._namespaces).store(items)
            except _UNWRITABLE:  # to find out which of them it is
                with self._transaction(at_ms) as db:
                    batch = self._store_each(db, at_ms, items)
            self._namespaces.update(batch.namespaces)
            self._claimed.difference_update(batch.written)
            self._has_pushes |= batch.is_due
            point("commit.after")
            return batch

        batch = await self._in_writer(work)
        if batch.posted:
            self._wake(batch.posted)
        if batch.is_due:
            self.pushes.on_due()
        return batch.outcomes

    def _commit(
        self, db: sqlite3.Connection, at_ms: int, namespaces: Mapping[Namespace, int]
    ) -> Commit:
        return Commit(db, self.replica, self._claimed, namespaces, at_ms, self._has_pushes)

    def _store_each(self, db: sqlite3.Connection, at_ms: int, items: Sequence[Item]) -> Batch:
        """Store items one by one in one transaction, so that a failure stores none of them. What
        can't be written whatever is tried is left out.
        """
        all_ = Batch([], set(), set(), {}, is_due=False)
        for item in items:
            db.execute("SAVEPOINT item")
            try:
                known = self._namespaces | all_.namespaces
                one = self._commit(db, at_ms, known).store([item])
            except _UNWRITABLE as error:
                log_.error("something can't be stored and is dropped: %s", reason(self.path, error))
                db.execute("ROLLBACK TO item")
                one = Batch([False], set(), set(), {}, is_due=False)
            db.execute("RELEASE item")
            all_ = all_.joined(one)
        return all_

    async def _write(self, work: Callable[[sqlite3.Connection], T], is_flushed: bool) -> T:
        """Change something beside the tasks, in a transaction of its own; flushed or not."""

        def write() -> T:
            if not is_flushed:
                self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction() as db:
                    done = work(db)
                self._has_pushes = self._has_pushes or has_pushes(self._db)
                return done
            finally:
                if not is_flushed:
                    self._db.execute("PRAGMA synchronous = FULL")

        return await self._in_writer(write)

    def _namespace_number(self, namespace: Namespace) -> int | None:
        return self._namespaces.get(namespace)

    async def _in_writer(self, work: Callable[[], T]) -> T:
        """Have the writer thread do something; raise CommitFailed, with a plain reason, if the
        database will not.
        """
        assert self._worker is not None  # it is open
        try:
            return await self._worker.do(work)
        except Fenced:
            self.is_sure = False
            raise
        except CommitFailed:
            raise
        except Exception as error:
            raise CommitFailed(reason(self.path, error)) from error

    @contextlib.contextmanager
    def _transaction(self, at_ms: int = 0) -> Iterator[sqlite3.Connection]:
        """All or nothing, and only while this process has not been taken for dead and the file is
        where it was.
        """
        db, own = self._db, self._cursor
        own.execute("BEGIN IMMEDIATE")
        try:
            if own.execute(_ALIVE, (self.replica,)).fetchone() is None:
                raise self._replaced()
            if at_ms - self._seen_ms >= _SEEN_MS:
                own.execute("UPDATE replicas SET heard_ms=? WHERE replica=?", (at_ms, self.replica))
                self._seen_ms = at_ms
            yield db
            if self._worker is not None:
                self._watch.check()
            own.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                own.execute("ROLLBACK")
            raise

    # Reading

    def _reading(self) -> "Reading":
        """The connection that reads, for a block. Raises Unavailable if that can't be done."""
        return self._reads

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        # Nothing to watch: what changes is changed here.
        with self._reading() as db:
            return self._found(db, namespace, _BY_ID, (self._namespaces.get(namespace), task_id))

    def _found(
        self, db: sqlite3.Connection, namespace: Namespace, sql: str, values: tuple[Any, ...]
    ) -> Record | None:
        row = db.execute(sql, values).fetchone()
        if row is None:
            return None
        record = record_of(db, row, namespace)
        if record.key in self._claimed:
            record.owner = self.replica
        return record

    async def unwatch(self, tasks: Collection[int]) -> None: ...

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        with self._reading() as db:
            return read_rows(db, after)

    async def ends(self, tasks: Collection[int]) -> dict[int, LogEnd]:
        wanted = "SELECT key, pos, committed_ms FROM tasks WHERE key IN (VALUES (?))"
        with self._reading() as db:
            rows = select_in(db, wanted, [(task,) for task in tasks])
        return {key: LogEnd(pos, at_ms) for key, pos, at_ms in rows}

    async def locate(self, task: int, seq: int) -> int:
        with self._reading() as db:
            return locate(db, task, seq)

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        wanted = "SELECT posts.* FROM posts JOIN tasks ON key=task WHERE n>heard AND "
        with self._reading() as db:
            rows = db.execute(wanted + "owner=?", (self.replica,)).fetchall()
            rows += select_in(
                db, wanted + "task IN (VALUES (?))", [(task,) for task in self._claimed.copy()]
            )
        return [
            ReceivedPost(task, n, id_, PostKind(kind), body)
            for task, n, id_, kind, body in sorted(set(rows))
            if tasks is None or task in tasks
        ]

    async def idempotency(
        self, namespace: Namespace, key: str, kept_ms: int = FOREVER_MS
    ) -> Idempotency | None:
        with self._reading() as db:
            row = db.execute(
                "SELECT digest, 0, task, turn, post, reply, at_ms FROM keys WHERE namespace=? AND key=? AND at_ms>=?",  # noqa: E501
                (self._namespaces.get(namespace), key, self.now_ms() - kept_ms),
            ).fetchone()
        return Idempotency(namespace, key, *row) if row is not None else None

    async def conversation_state(
        self, namespace: Namespace, context_id: str
    ) -> ConversationState | None:
        with self._reading() as db:
            row = db.execute(
                "SELECT n, data FROM states WHERE namespace=? AND context=?",
                (self._namespaces.get(namespace), context_id),
            ).fetchone()
        return ConversationState(*row) if row is not None else None

    async def page(self, query: Query) -> Page:
        def work() -> Page:
            with self._snapshot() as db:
                found = page(db, query, self._namespaces)
            for record in found.tasks:
                if record.key in self._claimed:
                    record.owner = self.replica
            return found

        return await self._in_lister(work)

    async def ended(self, agent: str, from_ms: int, to_ms: int) -> list[Ended]:
        def work() -> list[Ended]:
            namespaces = dict(self._namespaces)  # the writer's thread adds to it
            with self._snapshot() as db:
                return ended(db, namespaces, agent, from_ms, to_ms)

        return await self._in_lister(work)

    async def count_ended(self, agent: str, from_ms: int, to_ms: int) -> int:
        def work() -> int:
            namespaces = dict(self._namespaces)
            with self._snapshot() as db:
                return count_ended(db, namespaces, agent, from_ms, to_ms)

        return await self._in_lister(work)

    async def stats(self) -> Stats:
        def work() -> Stats:
            with self._snapshot() as db:
                return count(db, self.path)

        return await self._in_lister(work)

    async def stored(self, agent: str, caller: str) -> int:
        def work() -> int:
            with self._snapshot() as db:
                return sum(db.execute(sql, (agent, caller)).fetchone()[0] or 0 for sql in _STORED)

        return await self._in_lister(work)

    async def _in_lister(self, work: Callable[[], T]) -> T:
        try:
            return await self._lists.do(work)
        except sqlite3.Error as error:
            raise self._reads.failed(error) from error

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """The database as it stands now, for several queries."""
        self._lister.execute("BEGIN")
        try:
            yield self._lister
        finally:
            self._lister.execute("ROLLBACK")

    # Ownership

    async def claim(
        self,
        namespace: Namespace,
        task_id: str,
        *,
        reopen: bool = False,
        known: int = 0,
        format: int = ANY_FORMAT,
        watch: bool = False,
    ) -> Record | None:
        record = self._known(namespace, task_id, known) if known else None
        if record is None:
            record = await self.load(namespace, task_id)
        if (
            record is not None
            and record.owner != self.replica
            and record.format <= format
            and (reopen or record.state not in ENDED)
        ):
            self._claim(record)
        return record

    def _known(self, namespace: Namespace, task_id: str, known: int) -> Record | None:
        """A task without snapshot and rows, if its log is as long as the caller knows it; None if
        it is not.
        """
        place = (self._namespaces.get(namespace), task_id, known)
        with self._reading() as db:
            row = db.execute(
                f"SELECT {BARE_COLUMNS} FROM tasks WHERE namespace=? AND id=? AND pos=?", place
            ).fetchone()
        if row is None:
            return None
        record = bare_record_of(row, namespace)
        if record.key in self._claimed:
            record.owner = self.replica
        return record

    def _claim(self, record: Record) -> None:
        record.died_ms = self._died_ms.get(record.owner, 0)
        self._claimed.add(record.key)
        record.owner = self.replica

    async def unclaim(self, key: int, pos: int) -> None:
        if key in self._claimed:
            self._claimed.discard(key)  # the database has never said that it is ours
            return

        def work() -> None:
            with self._transaction() as db:
                db.execute(_GIVE_BACK, (key, self.replica, pos))

        try:
            await self._in_writer(work)
        except CommitFailed as error:
            raise Unavailable(str(error), retry_after_s=5) from error

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        unanswered_ms = self.now_ms() - can.unanswered_ms
        for agent in can.agents:
            if agent in self._orphans:
                continue
            find = functools.partial(self._find_orphans, agent, unanswered_ms)
            try:
                self._orphans[agent] = await self._in_writer(find)
            except Fenced:
                raise
            except CommitFailed as error:
                raise Unavailable(str(error), retry_after_s=5) from error
        found: list[Record] = []
        with self._reading() as db:
            for agent in can.agents:
                left: list[int] = []
                for key in self._orphans[agent]:
                    if key in self._claimed or not self._has_dead_owner(db, key):
                        continue  # a message or a cancel was faster
                    if len(found) == limit or not self._take_up(db, key, can, found):
                        left.append(key)
                self._orphans[agent] = left
            for state in WAITING:
                unanswered = db.execute(_UNANSWERED, (0, state, unanswered_ms))
                while len(found) < limit and (row := unanswered.fetchone()) is not None:
                    if row[0] not in self._claimed:
                        self._take_up(db, row[0], can, found)
            for (key,) in db.execute(_UNOWNED).fetchall() if can.unowned else ():
                if len(found) < limit and key not in self._claimed:
                    self._take_up(db, key, can, found)
        return found

    def _has_dead_owner(self, db: sqlite3.Connection, key: int) -> bool:
        row = db.execute("SELECT owner FROM tasks WHERE key=?", (key,)).fetchone()
        return row is not None and row[0] not in (None, self.replica)

    def _take_up(self, db: sqlite3.Connection, key: int, can: Can, found: list[Record]) -> bool:
        """Take up a task if we can. One of a skill we don't have too: no other process will ever
        come for it.
        """
        agent, tenant, caller, format_ = db.execute(
            "SELECT agent, tenant, caller, format FROM tasks JOIN namespaces USING (namespace) WHERE key=?",  # noqa: E501
            (key,),
        ).fetchone()
        if agent not in can.agents or format_ > can.format:
            return False
        record = self._found(db, Namespace(agent, tenant, caller), _BY_KEY, (key,))
        assert record is not None  # it is there: open tasks are not purged
        self._claim(record)
        found.append(record)
        return True

    def _find_orphans(self, agent: str, unanswered_ms: int) -> list[int]:
        """The tasks of an agent that dead owners left. Those that only wait for input are left
        without an owner.
        """
        with self._transaction() as db:
            db.execute(
                f"UPDATE tasks SET owner=NULL WHERE {_ORPHANED} AND state=? AND posts=heard AND (at_ms>=? OR due_ms IS NOT NULL)",  # noqa: E501
                (agent, self.replica, INPUT_REQUIRED, unanswered_ms),
            )
            rows = db.execute(
                f"SELECT key FROM tasks WHERE {_ORPHANED} ORDER BY key", (agent, self.replica)
            ).fetchall()
        return [key for (key,) in rows]

    async def due(self, limit: int, can: Can) -> list[Record]:
        found: list[Record] = []
        with self._reading() as db:
            rows = db.execute(_DUE, (self.now_ms(),))
            while len(found) < limit and (row := rows.fetchone()) is not None:
                if row[0] not in self._claimed:
                    self._take_up(db, row[0], can, found)
        return found

    async def owned(self) -> list[Owned]:
        claimed = [(task,) for task in self._claimed.copy()]

        def work() -> list[Owned]:
            with self._snapshot() as db:
                rows = db.execute(_OWNED, (self.replica,)).fetchall()
                rows += select_in(db, _OWNED_BY_KEY, claimed)
            return [
                Owned(key, Namespace(*whose), id_, pos)
                for key, *whose, id_, pos in sorted(set(rows))
            ]

        return await self._in_lister(work)

    async def beat(self) -> None:
        def work() -> None:
            with self._transaction(self.now_ms()):
                self._watch.check_all()
                point("beat.begun")
            point("beat.after")

        await self._in_writer(work)
        self._faults.say()

    # Upkeep

    async def purge(self, ages: Ages, limit: int) -> int:
        def work() -> int:
            with self._transaction() as db:
                purged = purge(db, self._claimed, self.now_ms(), ages, limit)
            point("purge.after")
            return purged

        return await self._in_writer(work)

    async def vacuum(self) -> None:
        """Give back the room that purged tasks left in the file."""
        await self._in_writer(lambda: self._db.execute("VACUUM"))
