"""The connection that writes: batches with numbers, so that one whose outcome is unknown can be
sent again.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import asyncpg

from ..contract import Fenced, Idempotency, Item, Namespace, Post
from ..failpoints import point
from ..rules import log_overwritten
from .commit import Group, groups_of
from .connect import BROKEN, FULL, close, commit_failed, connect, is_content, kill, uncancelled
from .namespaces import NumberTaken, number
from .options import PostgresOptions

__all__ = ["SETTINGS", "CommitWriter", "Committed"]

log_ = logging.getLogger("accord")

PATIENCE_S = 6.0  # and a second for each MiB
AT_ONCE = 20  # tries of a batch that met another replica's, before the caller pauses
KEPT_BATCHES = 100
TRIM_EVERY = 1_000

# Plans are made once, perhaps while the tables are empty: they must be right for full ones.
SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    **{
        f"enable_{what}": "off"
        for what in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "material", "memoize")
    },
}
_MET_ANOTHER = (  # the same batch again, at once
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.DivisionByZeroError,  # a key was used meanwhile: see commit.py
)


class Committed(NamedTuple):
    """What a commit did, for those who have to know."""

    outcomes: list[bool]
    watched: set[tuple[int, int]]  # (task, replica that has views of it)
    posted: set[tuple[int, int]]  # (task, replica that owns it)
    due: list[bool]  # whether a webhook may have something to deliver, for each statement


class _Pending(NamedTuple):
    """A batch on its way, in groups. What becomes of it is kept until the caller knows."""

    items: list[Item]
    groups: list[Group]
    done: Committed


class CommitWriter:
    """Stores batches for one replica, one after the other."""

    def __init__(
        self,
        options: PostgresOptions,
        *,
        pooled: bool,
        replica: int,
        nonce: int,
        db: Any,
        on_full: Callable[[], None],
    ) -> None:
        self.replica = replica
        self.nonce = nonce
        self._options = options
        self._pooled = pooled
        self._db = db  # None after it was lost, until it is needed again
        self._on_full = on_full  # called when there is no connection left for it
        self._is_closed = False
        self._n = 0  # the last batch that is known to be stored
        self._known: set[Namespace] = set()  # namespaces that are in the table
        self._pending: _Pending | None = None
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        async with self._lock:  # not under a commit that still uses it
            self._is_closed = True
            if self._db is not None:
                await close(self._db)

    @contextlib.asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Any]:
        """The connection, between two commits. What the database raises comes through.

        Raises:
            TimeoutError: A commit took too long.
        """
        async with asyncio.timeout(PATIENCE_S):
            await self._lock.acquire()
        try:
            await self._connect()
            db = self._db
            try:
                yield db
            finally:
                if db.is_closed() or db.is_in_transaction():
                    self._drop()
        finally:
            self._lock.release()

    async def commit(self, items: Sequence[Item]) -> Committed:
        """Store items. If that fails, the next call with the same items goes on where this one
        stopped.

        Raises:
            CommitFailed: The database can't be used. Some of the items may be stored: the same
                items again finds out.
            Fenced: This replica may not write any more.
        """
        # Not to be cancelled in the middle: the outcome would be unknown for no reason.
        return await asyncio.shield(asyncio.ensure_future(self._commit(items)))

    async def _commit(self, items: Sequence[Item]) -> Committed:
        async with self._lock:
            pending = self._pending
            if pending is None or not _is_same(pending.items, items):
                if pending is not None:
                    await self._settle(pending)
                pending = self._pending = _Pending(
                    list(items),
                    list(groups_of(items)),
                    Committed([True] * len(items), set(), set(), []),
                )
            point("commit.before")
            while pending.groups:
                group = pending.groups[0]
                try:
                    await self._store(group, pending.done)
                except (*BROKEN, ValueError, OverflowError) as error:
                    if not is_content(error):
                        self._drop()
                        raise commit_failed(self._options, error) from error
                    # Nothing of it is stored, and its number is still free.
                    self._refuse(pending, group, error)
                else:
                    pending.groups.pop(0)
            self._pending = None
            point("commit.after")
            if self._n and self._n % TRIM_EVERY == 0:
                await self._trim()
            return pending.done

    def _refuse(self, pending: _Pending, group: Group, error: BaseException) -> None:
        """Something in this group can't be stored: try its halves, until the culprit is alone."""
        if len(group.items) > 1:
            pending.groups[:1] = group.halves()
            return
        log_.error("something can't be stored and is dropped: %s", error)
        pending.done.outcomes[group.items[0][0]] = False
        pending.groups.pop(0)

    async def _store(self, group: Group, done: Committed) -> None:
        """Store one group; the errors of the database come through."""
        await self._connect()
        await self._register(group)
        sql, values = group.query(self._options.schema)
        patience_s = PATIENCE_S + group.size / (1 << 20)
        refused: list[int] | None
        for attempt in range(AT_ONCE):
            head = (self.replica, self.nonce, self._n + 1)
            try:
                point("commit.begun")
                row = await uncancelled(
                    self._db, self._db.fetchrow(sql, *head, *values), patience_s
                )
            except _MET_ANOTHER as error:
                if attempt == AT_ONCE - 1:
                    raise commit_failed(self._options, error) from error
                await asyncio.sleep(0.001 * attempt)
                continue
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name != "batches_pkey":
                    raise
                refused = await self._found(self._n + 1)  # it was stored when we thought it failed
                watched, watchers, tasks, owners = await self._concerned(group)
                is_due = True
            else:
                refused, is_due, watched, watchers, tasks, owners, overwritten = row
                for context_id in overwritten or ():
                    log_overwritten(context_id)
            break
        if refused is None:  # the gate is closed
            refused = await self._found(self._n + 1)
            if refused is None:
                if await self._certify():
                    raise Fenced(
                        "the store went back to an earlier state, and lost what replica "
                        f"{self.replica} stored last"
                    )
                raise Fenced(f"replica {self.replica} was declared dead")
        self._n += 1
        done.due.append(is_due)
        for i in refused:
            done.outcomes[group.items[i][0]] = False
        done.watched.update(zip(watched or (), watchers or (), strict=True))
        done.posted.update(zip(tasks or (), owners or (), strict=True))

    async def _found(self, n: int) -> list[int] | None:
        """What became of a batch that was sent before; None if it is not there."""
        found: list[int] | None = await uncancelled(
            self._db,
            self._db.fetchval(
                f"SELECT refused FROM {self._options.schema}.batches WHERE replica = $1 AND n = $2",
                self.replica,
                n,
            ),
            PATIENCE_S,
        )
        if found is not None:
            # With a synchronous standby it may be visible before it is there. What commits after it
            # is there no sooner.
            await uncancelled(
                self._db,
                self._db.execute(
                    f"UPDATE {self._options.schema}.replicas SET seen_ms = seen_ms WHERE id = $1",
                    self.replica,
                ),
                PATIENCE_S,
            )
        return found

    async def _concerned(self, group: Group) -> tuple[list[int], ...]:
        """Return whom to notify of a group that was stored by an earlier try."""
        schema = self._options.schema
        keys = [getattr(item, "key", 0) for _, item in group.items if not _is_key(item)]
        posted = [item.task for _, item in group.items if isinstance(item, Post)]
        rows = await uncancelled(
            self._db,
            self._db.fetch(
                f"SELECT key, w, true FROM {schema}.tasks, unnest(watchers) w "
                "WHERE key = ANY ($1::bigint[]) AND w <> $3 "
                f"UNION ALL SELECT key, owner, false FROM {schema}.tasks "
                "WHERE key = ANY ($2::bigint[]) AND owner IS NOT NULL",
                keys,
                posted,
                self.replica,
            ),
            PATIENCE_S,
        )
        watched = [(task, who) for task, who, is_watched in rows if is_watched]
        mailed = [(task, who) for task, who, is_watched in rows if not is_watched]
        return tuple([pair[i] for pair in pairs] for pairs in (watched, mailed) for i in (0, 1))

    async def _settle(self, pending: _Pending) -> None:
        """A batch was given up while its outcome was unknown. Make sure that its number is used: by
        it, or by nothing.
        """
        try:
            await self._connect()
            await uncancelled(
                self._db,
                self._db.execute(
                    f"INSERT INTO {self._options.schema}.batches VALUES ($1, $2, '{{}}') "
                    "ON CONFLICT DO NOTHING",
                    self.replica,
                    self._n + 1,
                ),
                PATIENCE_S,
            )
        except BROKEN as error:
            self._drop()
            raise commit_failed(self._options, error) from error
        self._n += 1
        self._pending = None

    async def _certify(self) -> bool:
        """We may not write: say so for good. Return whether nobody else has declared us dead: then
        the database went back to an earlier state.
        """
        schema = self._options.schema
        found: bool = await uncancelled(
            self._db,
            self._db.fetchval(
                f"WITH was AS (SELECT died FROM {schema}.replicas WHERE id = $1 AND nonce = $2), "
                f"dead AS (UPDATE {schema}.replicas SET died = clock_timestamp() "
                "WHERE id = $1 AND nonce = $2 AND died IS NULL) "
                "SELECT NOT EXISTS (SELECT FROM was WHERE died IS NOT NULL)",
                self.replica,
                self.nonce,
            ),
            PATIENCE_S,
        )
        return found

    async def _connect(self) -> None:
        if self._db is not None and not self._db.is_closed():
            return
        if self._is_closed:
            raise asyncpg.InterfaceError("the store is closed")
        try:
            self._db = await connect(self._options, settings=SETTINGS, pooled=self._pooled)
        except FULL:
            self._on_full()
            raise
        self._known.clear()  # a database that went back may have lost some

    def _drop(self) -> None:
        if self._db is not None:
            kill(self._db)
            self._db = None

    async def _register(self, group: Group) -> None:
        """Write down the names of namespaces that are new to us."""
        new: set[Namespace] = set()
        for _, item in group.items:
            key = item if isinstance(item, Idempotency) else item.idempotency
            if key is not None and key.namespace not in self._known:
                new.add(key.namespace)
            if not isinstance(item, Post) and item.namespace not in self._known:
                new.add(item.namespace)
        if not new:
            return
        schema = self._options.schema
        rows = sorted((number(namespace), *namespace) for namespace in new)
        columns = [list(column) for column in zip(*rows, strict=True)]
        given = "unnest($1::bigint[], $2::text[], $3::text[], $4::text[])"
        # No index is named after ON CONFLICT: another replica may write the same row right now, and
        # the clash may show in either index.
        await uncancelled(
            self._db,
            self._db.execute(
                f"INSERT INTO {schema}.namespaces SELECT * FROM {given} ON CONFLICT DO NOTHING",
                *columns,
            ),
            PATIENCE_S,
        )
        # Two namespaces with one number would share their tasks.
        stored = await uncancelled(
            self._db,
            self._db.fetchval(
                f"SELECT count(*) FROM {schema}.namespaces n JOIN {given} "
                "AS g (namespace, agent, tenant, caller) USING (namespace, agent, tenant, caller)",
                *columns,
            ),
            PATIENCE_S,
        )
        if stored != len(rows):
            raise NumberTaken("the number of a namespace is taken by another one")
        if len(self._known) > 100_000:
            self._known.clear()
        self._known |= new

    async def _trim(self) -> None:
        """Batches long stored are asked for by nobody."""
        try:
            await uncancelled(
                self._db,
                self._db.execute(
                    f"DELETE FROM {self._options.schema}.batches WHERE replica = $1 AND n < $2",
                    self.replica,
                    self._n - KEPT_BATCHES,
                ),
                PATIENCE_S,
            )
        except BROKEN:
            self._drop()  # the next batch says what is wrong


def _is_same(one: Sequence[Item], other: Sequence[Item]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _is_key(item: Item) -> bool:
    return isinstance(item, Idempotency | Post)
