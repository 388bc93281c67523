"""Tasks in a PostgreSQL database, which many replicas share."""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncpg
import msgspec

from ...model import Unavailable, now_ms
from ..contract import (
    ANY_FORMAT,
    Ages,
    Can,
    ConversationState,
    Fenced,
    Idempotency,
    Item,
    Namespace,
    Owned,
    Page,
    PostKind,
    Query,
    ReceivedPost,
    Record,
    Row,
    Stats,
    Wake,
)
from ..failpoints import point
from ..faults import Faults
from ..keys import KeyStore
from ..logins import LoginStore
from ..push import PushStore
from ..rules import ENDED, INPUT_REQUIRED, PIECE_BYTES, PIECE_ROWS, WAITING
from .admin import count
from .claims import claim_sql
from .connect import (
    BROKEN,
    CONNECT_S,
    FULL,
    ISOLATION,
    close,
    commit_failed,
    connect,
    is_pooled,
    missing_settings,
    reason,
    transaction,
    uncancelled,
)
from .heart import CLOCK, Heart, beat, bury, elapsed_s
from .keys import PostgresKeys
from .logins import PostgresLogins
from .migrations import check, migrate, version
from .namespaces import number
from .options import Lease, parse
from .pages import page
from .pushes import NEEDED, PostgresPushes
from .readers import Readers
from .rows import bare_record_of, record_of, select, select_bare
from .wake import Wakes, end
from .writer import SETTINGS, CommitWriter

__all__ = ["PostgresStore"]

log_ = logging.getLogger("accord")

READ_S = 5.0
PURGE_S = 30.0
READING, BEATING = "reading", "the connection of the heartbeat"
OLDEST_SERVER = (14,)
FOLD_S = 5.0  # how often changes of totals are added up
FORGET = "1 hour"  # after which a dead replica without tasks is forgotten

_ENDED = ", ".join(map(str, ENDED))
_WAITING = ", ".join(map(str, WAITING))
_ORPHANED = (
    "t.owner IS NOT NULL AND t.owner = ANY ($1::bigint[]) AND t.namespace IN "
    "(SELECT namespace FROM {s}.namespaces WHERE agent = ANY ($2::text[]))"
)

_FOLD = """
WITH gone AS (DELETE FROM {s}.deltas RETURNING namespace, state, n)
INSERT INTO {s}.counts AS c SELECT namespace, state, sum(n) FROM gone GROUP BY 1, 2
ON CONFLICT (namespace, state) DO UPDATE SET n = c.n + excluded.n"""


# A commit deletes the posts it has read, if it sees them: not one that came while it waited for the
# task's row.
_READ_POSTS = """
DELETE FROM {s}.posts p USING {s}.tasks t WHERE t.key = p.task AND p.n <= t.posts_read"""

# What the tasks of a caller take: their snapshots, and the log of those without one.
_STORED = """
WITH t AS (
  SELECT key, snap, octet_length(coalesce(head, '')) + octet_length(coalesce(artifacts, ''))
    AS size FROM {s}.tasks
  WHERE namespace IN (SELECT namespace FROM {s}.namespaces WHERE agent = $1 AND caller = $2)
)
SELECT coalesce((SELECT sum(size) FROM t), 0) + coalesce((SELECT sum(octet_length(e.data))
  FROM {s}.events e JOIN t ON t.key = e.task AND t.snap = 0), 0)
  + coalesce((SELECT sum(octet_length(data)) FROM {s}.states
  WHERE namespace IN (SELECT namespace FROM {s}.namespaces WHERE agent = $1 AND caller = $2)), 0)"""


class PostgresStore:
    """Tasks in a database that other replicas use at the same time.

    - A commit that has returned is on the database's disk.
    - A replica has a number that is never used again. Every commit checks, in its own transaction,
      that the number is alive: one that was declared dead writes nothing more.
    - Reads and claims go through a small pool, commits through one connection, heartbeats and
      wake-ups through one each.
    """

    is_volatile = False
    is_shared = True

    def __init__(self, url: str, *, lease: Lease | None = None) -> None:
        options = parse(url)
        if lease is not None:
            options = msgspec.structs.replace(options, lease=lease)
        self.options = options
        self.replica = 0
        self._nonce = 0
        self._is_fenced = False
        self._wake: Wake = lambda tasks: None
        self.pushes: PushStore = PostgresPushes(self)
        self.keys: KeyStore = PostgresKeys(self)
        self.logins: LoginStore = PostgresLogins(self)
        self.is_open = False
        self._faults = Faults()
        self._is_pooled = False
        self._readers: Readers | None = None
        self._running: list[asyncio.Task[None]] = []
        self.clock_ahead_s = 0.0  # at the last heartbeat

    @property
    def is_sure(self) -> bool:
        return not self._is_fenced and self._heart.is_sure

    # Opening and closing

    async def open(self, wake: Wake) -> None:
        """Every opening is a new replica, also of a store that was closed."""
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        try:
            self._is_pooled = await is_pooled(self.options)
            await self._start(self._prepare)
        except BROKEN as error:
            raise RuntimeError(
                f"the database can't be used: {reason(self.options, error)}{_advice(error)}"
            ) from error
        self.is_open = True
        ((theirs_ms,),) = await self.fetch(f"SELECT {CLOCK}")
        self.clock_ahead_s = (now_ms() - theirs_ms) / 1000
        if self._is_pooled:
            log_.info(
                "%s is behind a pooler: statements are not prepared, and %s",
                self.options.place,
                "wake-ups go by listen="
                if self.options.listen
                else "without listen= changes on other replicas are found by polling",
            )

    async def _prepare(self, db: Any) -> None:
        place, schema = self.options.place, self.options.schema
        server = db.get_server_version()
        if (server.major,) < OLDEST_SERVER:
            raise RuntimeError(
                f"{place} is PostgreSQL {server.major}; {OLDEST_SERVER[0]} or newer is needed"
            )
        missing = await missing_settings(db)  # behind a pooler we can't set them
        if any(ISOLATION in statement for statement in missing):
            raise RuntimeError(
                f"{place}: the default transaction isolation is one Accord can't use; "
                + "; ".join(missing)
            )
        if missing:
            log_.warning(
                "%s: behind a pooler the role needs settings of its own, lest a process that is "
                "cut off keep its locks: %s",
                place,
                "; ".join(missing),
            )
        have, needs = await version(db, schema)
        check(place, have, needs)
        await migrate(db, schema)
        point("open.migrated")

    async def _join(self, db: Any) -> None:
        """Take a number."""
        self._nonce = secrets.randbits(62)
        self.replica = await db.fetchval(
            f"INSERT INTO {self.options.schema}.replicas (nonce, seen_ms, name) "
            "VALUES ($1, $2, $3) RETURNING id",
            self._nonce,
            now_ms(),
            f"{socket.gethostname()}:{os.getpid()}",
        )
        point("open.owned")

    async def _start(self, prepare: Callable[[Any], Awaitable[None]]) -> None:
        """Take a number; begin to write, to beat, to listen and to poll as the replica we are.

        The connections of the writer and of the heartbeat come first: without both of them a
        replica is none. What the database raises comes through.
        """
        db = await connect(self.options, settings=SETTINGS, pooled=self._is_pooled)
        try:
            await prepare(db)
            await self._join(db)
            self._wakes = Wakes(
                self.options,
                pooled=self._is_pooled,
                replica=self.replica,
                query=self._fetch_raw,
                wake=self._woken,
            )
            self._heart = Heart(
                self.options,
                pooled=self._is_pooled,
                replica=self.replica,
                nonce=self._nonce,
                on_fenced=self._from_heart(self._fence),
                on_death=self._from_heart(self._wakes.send_all),
                on_full=self._from_heart(self._give_way),
                on_short=self._from_heart(self._share),
            )
            try:
                await asyncio.to_thread(self._heart.start)
            except BaseException:
                self._heart.end()
                await bury(db, self.options, self.replica)
                raise
        except BaseException:
            await close(db)
            raise
        self._writer = CommitWriter(
            self.options,
            pooled=self._is_pooled,
            replica=self.replica,
            nonce=self._nonce,
            db=db,
            on_full=self._give_way,
        )
        if self._readers is None:
            self._readers = Readers(
                self.options, pooled=self._is_pooled, borrow=lambda: self._writer.borrowed()
            )
        self._is_fenced = False
        self._wakes.start()
        self._running = [asyncio.create_task(self._tend(), name="accord-postgres")]

    def _give_way(self) -> None:
        """The writer or the heartbeat gets no connection: it goes before readers and listener."""
        self._share()
        self._wakes.give_way()

    def _share(self) -> None:
        """Another replica may get no connection: its writer and its heartbeat go before our
        readers.
        """
        if self._readers is not None:
            self._readers.give_way()

    def _from_heart(self, call: Callable[[], None]) -> Callable[[], None]:
        def pass_on() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(call)

        return pass_on

    def _fence(self) -> None:
        self._is_fenced = True

    def _woken(self, tasks: Collection[int] | None) -> None:
        self._wake(tasks)

    async def _stop(self) -> None:
        await end(self._running)
        await self._wakes.stop()
        await asyncio.to_thread(self._heart.stop)
        await self._writer.close()

    async def close(self) -> None:
        if not self.is_open:
            return
        await end(self._running)
        await self._wakes.stop()
        await asyncio.to_thread(self._heart.stop)
        point("close.written")
        try:
            async with asyncio.timeout(CONNECT_S), self._writer.borrowed() as db:
                await bury(db, self.options, self.replica)
                # What we leave can be taken up at once.
                await db.execute("SELECT pg_notify($1, '*')", self.options.schema)
        except BROKEN as error:  # the others find out
            log_.warning("leaving %s failed: %s", self.options.place, error)
        point("close.left")
        await self._writer.close()
        assert self._readers is not None
        await self._readers.close()
        self._readers, self.is_open = None, False

    async def rejoin(self) -> None:
        """Take a new number, after this one was declared dead."""
        before = self.replica

        async def leave(db: Any) -> None:
            await bury(db, self.options, before)

        await self._stop()
        try:
            await self._start(leave)
        except BROKEN as error:
            raise self._unreadable(error) from error

    async def adopt(self, agent: str) -> None:
        """No release stored tasks without the name of their agent here."""

    async def _tend(self) -> None:
        """Show the heart that this loop moves; add up totals."""
        folded_s = time.monotonic()
        while True:
            self._heart.moved_s = time.monotonic()
            await asyncio.sleep(0.5)
            assert self._readers is not None
            await self._readers.give_back()
            if time.monotonic() - folded_s > FOLD_S:
                folded_s = time.monotonic()
                try:
                    await self.fold()
                except (*BROKEN, Unavailable) as error:
                    log_.debug("adding up totals failed, and is tried again: %s", error)

    # Writing

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        self._check_fence()
        try:
            done = await self._writer.commit(items)
        except Fenced:
            self._fence()
            raise
        if done.watched or done.posted:
            self._wakes.send(done.watched | done.posted)
        if any(done.due):
            self.pushes.on_due()
        return done.outcomes

    def _check_fence(self) -> None:
        if self._is_fenced:
            raise Fenced(f"replica {self.replica} was declared dead")

    async def beat(self) -> None:
        self._check_fence()
        sent_s = elapsed_s()
        try:
            async with self._writer.borrowed() as db:
                theirs_ms = await uncancelled(
                    db, beat(db, self.options, self.replica, self._nonce), READ_S
                )
        except BROKEN as error:
            raise commit_failed(self.options, error) from error
        if theirs_ms is None:
            self._fence()
            self._check_fence()
        else:
            self.clock_ahead_s = (now_ms() - theirs_ms) / 1000
        self._heart.has_beaten(sent_s)
        if self._heart.fault:
            self._faults.failed(BEATING, self._heart.fault)
        else:
            self._faults.works(BEATING)
        self._faults.say()

    # Reading

    async def _fetch_raw(self, sql: str, *values: Any) -> list[Any]:
        """Query through the pool. A connection that was cut while nobody used it is replaced: all
        we do there may be done twice.
        """
        for attempt in range(2):
            try:
                async with self._connection() as db:
                    found: list[Any] = await db.fetch(
                        sql.replace("{s}", self.options.schema), *values, timeout=READ_S
                    )
                    self._faults.works(READING)
                    return found
            except (asyncpg.PostgresConnectionError, ConnectionError):
                if attempt:
                    raise
            except asyncpg.InterfaceError as error:
                if attempt or isinstance(error, ValueError):
                    raise
        raise AssertionError("unreachable")

    async def fetch(self, sql: str, *values: Any) -> list[Any]:
        """The same. Raises Unavailable if the database can't be used."""
        try:
            return await self._fetch_raw(sql, *values)
        except (*BROKEN, UnicodeError) as error:
            raise self._unreadable(error) from error

    async def write(self, sql: str, *values: Any, is_flushed: bool = True) -> list[Any]:
        """Query through the pool, and return when it is on the disk. What may be done twice needs
        no flush.

        Raises:
            CommitFailed: The database can't be used.
        """
        try:
            if not is_flushed:
                return await self._fetch_raw(sql, *values)
            async with (
                asyncio.timeout(READ_S),
                self._connection() as db,
                transaction(db, synchronous_commit="on"),
            ):
                found: list[Any] = await db.fetch(sql.replace("{s}", self.options.schema), *values)
                return found
        except (*BROKEN, UnicodeError) as error:
            raise commit_failed(self.options, error) from error

    @contextlib.asynccontextmanager
    async def _reading(self) -> AsyncIterator[Any]:
        """A connection for several queries."""
        try:
            async with self._connection() as db:
                yield db
        except BROKEN as error:
            raise self._unreadable(error) from error

    def _connection(self) -> AbstractAsyncContextManager[Any]:
        if self._readers is None:
            raise asyncpg.InterfaceError("the store is closed")
        return self._readers.use()

    def _unreadable(self, error: BaseException) -> Unavailable:
        self._faults.failed(READING, reason(self.options, error))
        return Unavailable("the store can't be read now; try again later", retry_after_s=5)

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        if "\0" in task_id:
            return None
        if watch:
            # First: what is committed from now on sees it, what was committed before is read.
            await self.fetch(
                "UPDATE {s}.tasks SET watchers = watchers || $3::bigint "
                "WHERE namespace = $1 AND id = $2 AND NOT (watchers @> ARRAY[$3::bigint])",
                number(namespace),
                task_id,
                self.replica,
            )
        record = await self._load(namespace, task_id)
        if watch and record is not None:
            # Who watches it already may not have seen as much of it.
            self._wakes.watched.setdefault(record.key, record.pos)
        return record

    async def _load(self, namespace: Namespace, task_id: str) -> Record | None:
        rows = await self.fetch(
            select(self.options.schema) + "WHERE t.namespace = $1 AND t.id = $2",
            number(namespace),
            task_id,
        )
        record = record_of(rows[0]) if rows else None
        return record if record is not None and record.namespace == namespace else None

    async def unwatch(self, tasks: Collection[int]) -> None:
        for key in tasks:
            self._wakes.watched.pop(key, None)
        await self.fetch(
            "UPDATE {s}.tasks SET watchers = array_remove(watchers, $2::bigint) "
            "WHERE key = ANY ($1::bigint[]) AND watchers @> ARRAY[$2::bigint]",
            list(tasks),
            self.replica,
        )

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        # For each task from the row that holds the next position, if there is one; of large rows
        # no more than the piece has, but at least one.
        rows = await self.fetch(
            "SELECT e.task, e.pos, e.seq, e.at_ms, e.data "
            "FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY AS a (task, pos, place) "
            "JOIN {s}.tasks t ON t.key = a.task AND t.pos > a.pos, "
            "LATERAL (SELECT e.*, sum(octet_length(e.data)) OVER (ORDER BY e.pos) "
            "  - octet_length(e.data) AS before FROM (SELECT * FROM {s}.events e "
            "  WHERE e.task = a.task AND e.pos >= coalesce((SELECT max(pos) FROM {s}.events "
            "    WHERE task = a.task AND pos <= a.pos + 1), 0) "
            "  ORDER BY e.pos LIMIT $3) e) e "
            "WHERE e.before <= $4 ORDER BY a.place, e.pos",
            list(after),
            [min(pos, 2**31 - 2) for pos in after.values()],
            PIECE_ROWS,
            PIECE_BYTES,
        )
        return [Row(*row) for row in rows]

    async def positions(self, tasks: Collection[int]) -> dict[int, int]:
        rows = await self.fetch(
            "SELECT key, pos FROM {s}.tasks WHERE key = ANY ($1::bigint[])", list(tasks)
        )
        return dict(rows)

    async def locate(self, task: int, seq: int) -> int:
        # The first row that reaches this number has it, unless rows before it are gone. Both
        # numbers only grow, so halving finds it: the index has them both.
        rows = await self.fetch(
            """
WITH RECURSIVE last AS (
  SELECT pos, seq FROM {s}.events WHERE task = $1 ORDER BY pos DESC LIMIT 1
),
wanted AS (SELECT least($2::int, seq) AS seq FROM last),
halving (low, found) AS (
  SELECT 1, pos FROM last
  UNION ALL
  SELECT CASE WHEN m.seq >= w.seq THEN low ELSE (low + found) / 2 + 1 END,
    CASE WHEN m.seq >= w.seq THEN m.pos ELSE found END
  FROM halving CROSS JOIN wanted w LEFT JOIN LATERAL (
    SELECT pos, seq FROM {s}.events WHERE task = $1 AND pos <= (low + found) / 2
    ORDER BY pos DESC LIMIT 1
  ) m ON true
  WHERE low < found
)
SELECT h.found, w.seq, EXISTS (SELECT FROM {s}.events WHERE task = $1 AND pos < h.found)
FROM halving h, wanted w WHERE h.low >= h.found""",
            task,
            min(seq, 2**31 - 1),
        )
        if not rows or rows[0][1] <= 0:
            return 0
        found, _, has_before = rows[0]
        return int(found) if found == 1 or has_before else 0

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        which = "" if tasks is None else "t.key = ANY ($2::bigint[]) AND "
        rows = await self.fetch(
            "SELECT p.task, p.n, p.id, p.kind, p.body FROM {s}.posts p "
            f"JOIN {{s}}.tasks t ON t.key = p.task WHERE {which}t.owner = $1 "
            "AND p.n > t.posts_read ORDER BY p.task, p.n",
            self.replica,
            *(() if tasks is None else (list(tasks),)),
        )
        return [
            ReceivedPost(task, n, id_, PostKind(kind), body) for task, n, id_, kind, body in rows
        ]

    async def idempotency(
        self, namespace: Namespace, key: str, since_ms: int
    ) -> Idempotency | None:
        rows = await self.fetch(
            "SELECT digest, at_ms, 0, task, turn, post, reply FROM {s}.keys "
            "WHERE namespace = $1 AND key = $2 AND at_ms >= $3",
            number(namespace),
            key,
            since_ms,
        )
        return Idempotency(namespace, key, *rows[0]) if rows else None

    async def conversation_state(
        self, namespace: Namespace, context_id: str
    ) -> ConversationState | None:
        if "\0" in context_id:
            return None
        rows = await self.fetch(
            "SELECT n, data FROM {s}.states JOIN {s}.namespaces USING (namespace) "
            "WHERE namespace = $1 AND context = $2 AND (agent, tenant, caller) = ($3, $4, $5)",
            number(namespace),
            context_id,
            *namespace,
        )
        return ConversationState(*rows[0]) if rows else None

    async def page(self, query: Query) -> Page:
        return await page(self.fetch, self.options.schema, query)

    async def stored(self, agent: str, caller: str) -> int:
        rows = await self.fetch(_STORED, agent, caller)
        return int(rows[0][0])

    async def stats(self) -> Stats:
        async with self._reading() as db:
            return await count(db, self.options.schema)

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
        if "\0" in task_id:
            return None
        schema, replica = self.options.schema, self.replica  # which may be another soon
        select_ = select_bare(schema) if known else select(schema)
        rows = await self.fetch(
            claim_sql(reopen=reopen, watch=watch)
            + f"SELECT t.*, c.pos, c.seen_ms, w.pos FROM ({select_} "
            "WHERE t.namespace = $1 AND t.id = $2) t "
            "LEFT JOIN claimed c ON true LEFT JOIN watched w ON true",
            number(namespace),
            task_id,
            replica,
            format,
        )
        if not rows:
            return None
        *row, claimed_pos, seen_ms, watched_pos = rows[0]
        record = bare_record_of(row) if known else record_of(row)
        if record.namespace != namespace:
            return None
        # The task was read as it was before the claim, which has waited for commits under way.
        pos = claimed_pos or watched_pos or record.pos
        if pos != record.pos or (known and known != pos):
            again = await self._load(namespace, task_id)
            if again is None:
                return None
            record = again
        if claimed_pos is not None:
            record.owner, record.died_ms = replica, seen_ms or 0
        elif watch and record.owner not in (0, replica):
            self._wakes.watched.setdefault(record.key, record.pos)
        return record

    async def unclaim(self, key: int, pos: int) -> None:
        await self.fetch(
            "UPDATE {s}.tasks SET owner = NULL "
            "WHERE key = $1 AND owner = $2 AND pos = $3 AND posts = posts_read",
            key,
            self.replica,
            pos,
        )

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        keys: dict[int, int] = {}  # with when its owner was last heard of
        dead = [
            row[0]
            for row in await self.fetch(
                "SELECT id FROM {s}.replicas r WHERE died IS NOT NULL "
                "AND EXISTS (SELECT FROM {s}.tasks t WHERE t.owner = r.id)"
            )
        ]
        if dead:
            await self.fetch(
                "UPDATE {s}.tasks t SET owner = NULL WHERE key IN (SELECT key FROM {s}.tasks t "
                f"WHERE {_ORPHANED} AND posts = posts_read AND (state IN ({_ENDED}) OR "
                f"(state = {INPUT_REQUIRED} AND at_ms >= $3)) FOR UPDATE SKIP LOCKED)",
                dead,
                list(can.agents),
                can.unanswered_ms,
            )
            keys |= await self._take(_ORPHANED, limit, can, dead)
        if len(keys) < limit and can.unanswered_ms:
            waiting = (
                f"t.owner IS NULL AND t.state IN ({_WAITING}) AND t.at_ms < $1 AND t.namespace IN "
                "(SELECT namespace FROM {s}.namespaces WHERE agent = ANY ($2::text[]))"
            )
            keys |= await self._take(waiting, limit - len(keys), can, can.unanswered_ms)
        if not keys:
            return []
        rows = await self.fetch(
            select(self.options.schema) + "WHERE t.key = ANY ($1::bigint[]) ORDER BY t.key",
            list(keys),
        )
        found = [record_of(row) for row in rows]
        for record in found:
            record.died_ms = keys[record.key]
        return found

    async def owned(self) -> list[Owned]:
        rows = await self.fetch(
            "SELECT key, agent, tenant, caller, id, pos FROM {s}.tasks "
            "JOIN {s}.namespaces USING (namespace) WHERE owner = $1 ORDER BY key",
            self.replica,
        )
        return [Owned(key, Namespace(*whose), id_, pos) for key, *whose, id_, pos in rows]

    async def _take(self, which: str, limit: int, can: Can, first: Any) -> dict[int, int]:
        """Make tasks ours. What another replica is about to take is left to it."""
        pairs = [(agent, skill) for agent, skills in can.agents.items() for skill in skills]
        rows = await self.fetch(
            f"""
WITH old AS MATERIALIZED (
  SELECT t.key, t.owner FROM {{s}}.tasks t
  WHERE {which} AND t.format <= $5 AND EXISTS (
    SELECT FROM {{s}}.namespaces n
    JOIN unnest($3::text[], $4::text[]) AS can (agent, skill) ON n.agent = can.agent
    WHERE n.namespace = t.namespace AND can.skill = t.skill)
  ORDER BY t.key LIMIT $6 FOR UPDATE SKIP LOCKED
)
UPDATE {{s}}.tasks t SET owner = $7 FROM old WHERE t.key = old.key
RETURNING t.key, (SELECT seen_ms FROM {{s}}.replicas WHERE id = old.owner)""",
            first,
            list(can.agents),
            [agent for agent, _ in pairs],
            [skill for _, skill in pairs],
            can.format,
            limit,
            self.replica,
        )
        return {key: seen_ms or 0 for key, seen_ms in rows}

    # Upkeep

    async def purge(self, ages: Ages, limit: int) -> int:
        """One replica at a time: who finds another at it leaves it to that one."""
        try:
            async with asyncio.timeout(PURGE_S), self._connection() as db, transaction(db):
                if not await db.fetchval(
                    "SELECT pg_try_advisory_xact_lock($1)", self._lock("purge")
                ):
                    return 0
                return await self._purge(db, ages, limit)
        except BROKEN as error:
            raise commit_failed(self.options, error) from error

    def _lock(self, what: str) -> int:
        return zlib.crc32(f"accord {what} {self.options.schema}".encode())

    async def _purge(self, db: Any, ages: Ages, limit: int) -> int:
        s = self.options.schema
        needed = NEEDED.replace("{s}", s)
        agent = (ages.agent,) if ages.agent else ()
        namespaces = f"(SELECT namespace FROM {s}.namespaces WHERE agent = $3)"
        whose = f"AND namespace IN {namespaces} " if agent else ""
        folded = await db.fetch(
            f"UPDATE {s}.tasks SET folded = true WHERE key IN (SELECT key FROM {s}.tasks "
            f"WHERE NOT folded AND state IN ({_ENDED}) AND at_ms < $1 AND owner IS NULL "
            f"AND NOT (pushed > 0 AND {needed}) {whose}"
            "ORDER BY at_ms, key LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING key, snap = pos",
            ages.events_ms,
            limit,
            *agent,
        )
        # Without a snapshot the log is all there is of a task.
        await db.execute(
            f"DELETE FROM {s}.events WHERE task = ANY ($1::bigint[])",
            [key for key, has_snapshot in folded if has_snapshot],
        )
        point("purge.events")
        old = await db.fetch(
            f"DELETE FROM {s}.tasks WHERE key IN (SELECT key FROM {s}.tasks WHERE folded "
            f"AND state IN ({_ENDED}) AND at_ms < $1 AND owner IS NULL {whose}"
            "ORDER BY at_ms, key LIMIT $2 FOR UPDATE SKIP LOCKED) "
            "RETURNING key, namespace, state, context",
            ages.tasks_ms,
            limit,
            *agent,
        )
        gone = [key for key, *_ in old]
        for table in ("events", "posts", "pushes", "dead_letters"):
            await db.execute(f"DELETE FROM {s}.{table} WHERE task = ANY ($1::bigint[])", gone)
        await db.execute(
            f"INSERT INTO {s}.deltas SELECT namespace, state, -count(*) "
            "FROM unnest($1::bigint[], $2::smallint[]) AS u (namespace, state) GROUP BY 1, 2",
            [namespace for _, namespace, _, _ in old],
            [state for _, _, state, _ in old],
        )
        await self._forget_states(db, {(namespace, context) for _, namespace, _, context in old})
        point("purge.tasks")
        keys = await db.fetch(
            f"DELETE FROM {s}.keys WHERE (namespace, key) IN (SELECT namespace, key FROM {s}.keys "
            "WHERE at_ms < $1 LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1",
            ages.keys_ms,
            limit,
        )
        point("purge.keys")
        letters = await db.fetch(
            f"DELETE FROM {s}.dead_letters WHERE n IN (SELECT n FROM {s}.dead_letters "
            "WHERE at_ms < $1 LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1",
            ages.letters_ms,
            limit,
        )
        await self._forget(db, limit)
        return len(folded) + len(old) + len(keys) + len(letters)

    async def _forget_states(self, db: Any, contexts: Collection[tuple[int, str]]) -> None:
        """Delete the states of those conversations that have no task left; not one that a turn
        writes at the same moment.
        """
        s = self.options.schema
        found = await db.fetch(
            f"SELECT o.namespace, o.context, o.n FROM {s}.states o "
            "JOIN unnest($1::bigint[], $2::text[]) AS u (namespace, context) "
            "USING (namespace, context) "
            f"WHERE NOT EXISTS (SELECT FROM {s}.tasks t WHERE t.namespace = o.namespace "
            "AND t.context = o.context)",
            [namespace for namespace, _ in contexts],
            [context for _, context in contexts],
        )
        if found:
            await db.execute(
                f"DELETE FROM {s}.states o "
                "USING unnest($1::bigint[], $2::text[], $3::int[]) AS u (namespace, context, n) "
                "WHERE o.namespace = u.namespace AND o.context = u.context AND o.n = u.n",
                *([row[i] for row in found] for i in range(3)),
            )

    async def _forget(self, db: Any, limit: int) -> None:
        """Delete what dead replicas left that no task names."""
        s = self.options.schema
        await db.execute(
            f"DELETE FROM {s}.replicas r WHERE died < clock_timestamp() - interval '{FORGET}' "
            f"AND NOT EXISTS (SELECT FROM {s}.tasks t WHERE t.owner = r.id)"
        )
        await db.execute(
            f"DELETE FROM {s}.batches b WHERE NOT EXISTS "
            f"(SELECT FROM {s}.replicas r WHERE r.id = b.replica)"
        )
        await db.execute(
            f"UPDATE {s}.tasks t SET watchers = ARRAY(SELECT w FROM unnest(t.watchers) w "
            f"JOIN {s}.replicas r ON r.id = w AND r.died IS NULL) WHERE key IN "
            f"(SELECT key FROM {s}.tasks WHERE watchers <> '{{}}' AND NOT watchers <@ "
            f"ARRAY(SELECT id FROM {s}.replicas WHERE died IS NULL) LIMIT $1 "
            "FOR UPDATE SKIP LOCKED)",
            limit,
        )

    async def fold(self) -> None:
        """Add up what commits changed of the totals, and delete posts that were read. One replica
        at a time.
        """
        async with self._reading() as db, asyncio.timeout(READ_S), transaction(db):
            if await db.fetchval("SELECT pg_try_advisory_xact_lock($1)", self._lock("fold")):
                await db.execute(_FOLD.replace("{s}", self.options.schema))
                await db.execute(_READ_POSTS.replace("{s}", self.options.schema))


def _advice(error: BaseException) -> str:
    if not isinstance(error, FULL):
        return ""
    return (
        "; a replica needs a connection that writes and one for its heartbeat, and does not start "
        "without them: raise max_connections, or start fewer replicas"
    )
