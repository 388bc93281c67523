"""One process among those that share a PostgreSQL database: its number and its connections."""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncpg
import msgspec

from ...model import Unavailable
from ...pump import Pump
from ..clock import elapsed_s
from ..contract import Fenced, Wake
from ..failpoints import point
from ..faults import Faults
from .clock import NOW_MS, DatabaseClock
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
from .database import PostgresDatabase
from .heartbeat import Heartbeat, beat, declare_dead
from .options import Lease, parse
from .readers import Readers
from .schema import migrate_database
from .session import READ_S
from .upkeep import PostgresUpkeep
from .wake import Wakes
from .writer import SETTINGS, CommitWriter

__all__ = ["PostgresReplica"]

log_ = logging.getLogger("accord")

READING, BEATING = "reading", "the connection of the heartbeat"
OLDEST_SERVER = (14,)
MOVE_S = 0.5  # how often the heartbeat is shown that the loop moves, and connections are given back
MERGE_S = 5.0  # how often changes of totals are merged


class PostgresReplica:
    """One process among those that share a database: its number and its connections.

    - A replica has a number that is never used again. Every commit checks, in its own transaction,
      that the number is alive: one that was declared dead writes nothing more.
    - Reads and claims go through a small pool, commits through one connection, heartbeats and
      wake-ups through one each.
    """

    def __init__(self, url: str, *, lease: Lease | None, parts: Collection[str]) -> None:
        options = parse(url)
        if lease is not None:
            options = msgspec.structs.replace(options, lease=lease)
        self.options = options
        self.clock = DatabaseClock()
        self.now_ms = self.clock.now_ms
        self.database = PostgresDatabase(options, self.now_ms)  # for the parts beside the tasks
        self.replica = 0
        self.is_open = False
        self._parts = parts
        self._nonce = 0
        self._is_fenced = False
        self._wake: Wake = lambda tasks: None
        self._faults = Faults()
        self._is_pooled = False
        self._readers: Readers | None = None
        self.upkeep = PostgresUpkeep(self)
        self._pumps = [
            self._pump("the heartbeat's loop", self._move, MOVE_S),
            self._pump("connections of readers", self._give_back, MOVE_S),
            self._pump("totals", self._merge_totals, MERGE_S),
        ]

    def _pump(self, name: str, work: Callable[[], Awaitable[bool]], pause_s: float) -> Pump:
        return Pump(
            name,
            work,
            log=log_,
            pause_s=lambda: pause_s,
            retry_s=lambda: pause_s,
            waits_for=BROKEN,
        )

    @property
    def is_sure(self) -> bool:
        return not self._is_fenced and self._heartbeat.is_sure

    @property
    def watched(self) -> dict[int, int]:
        return self._wakes.watched

    @property
    def living(self) -> int:
        return self._heartbeat.living

    @property
    def clock_ahead_s(self) -> float:
        return self.clock.ahead_s

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
        self.database.open()
        if self._is_pooled:
            log_.info(
                "%s is behind a pooler: statements are not prepared, and %s",
                self.options.place,
                "wake-ups go by listen="
                if self.options.listen
                else "without listen= changes on other replicas are found by polling",
            )

    async def _prepare(self, db: Any) -> None:
        place = self.options.place
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
                "%s: behind a pooler the role needs settings of its own, so that a process that is "
                "cut off does not keep its locks: %s",
                place,
                "; ".join(missing),
            )
        await migrate_database(db, self.options, *self._parts)
        point("open.migrated")

    async def _join(self, db: Any) -> None:
        """Take a number."""
        self._nonce = secrets.randbits(62)
        self.replica = await db.fetchval(
            f"INSERT INTO {self.options.schema}.replicas (nonce, seen_ms, name) "
            f"VALUES ($1, {NOW_MS}, $2) RETURNING id",
            self._nonce,
            f"{socket.gethostname()}:{os.getpid()}",
        )
        await beat(db, self.options, self.replica, self._nonce, self.clock)
        await self.clock.ask(db)  # a beat is a commit, and may take long
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
            self._heartbeat = Heartbeat(
                self.options,
                pooled=self._is_pooled,
                replica=self.replica,
                nonce=self._nonce,
                clock=self.clock,
                on_fenced=self._from_heartbeat(self._fence),
                on_death=self._from_heartbeat(self._wakes.send_all),
                on_full=self._from_heartbeat(self._give_way),
                on_short=self._from_heartbeat(self._share),
            )
            try:
                await asyncio.to_thread(self._heartbeat.start)
            except BaseException:
                self._heartbeat.end()
                await declare_dead(db, self.options, self.replica)
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
        for pump in self._pumps:
            pump.start(pauses_first=True)

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

    def _from_heartbeat(self, call: Callable[[], None]) -> Callable[[], None]:
        def pass_on() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(call)

        return pass_on

    def _fence(self) -> None:
        self._is_fenced = True

    def _woken(self, tasks: Collection[int] | None) -> None:
        self._wake(tasks)

    async def _stop(self) -> None:
        await self._stop_pumps()
        await self._wakes.stop()
        await asyncio.to_thread(self._heartbeat.stop)
        await self._writer.close()

    async def _stop_pumps(self) -> None:
        await asyncio.gather(*(pump.stop() for pump in self._pumps))

    async def close(self) -> None:
        if not self.is_open:
            return
        await self.database.close()
        await self._stop_pumps()
        await self._wakes.stop()
        await asyncio.to_thread(self._heartbeat.stop)
        point("close.written")
        try:
            async with asyncio.timeout(CONNECT_S), self._writer.borrowed() as db:
                await declare_dead(db, self.options, self.replica)
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
            await declare_dead(db, self.options, before)

        await self._stop()
        try:
            await self._start(leave)
        except BROKEN as error:
            raise self._unreadable(error) from error

    async def _move(self) -> bool:
        """Show the heartbeat that this loop moves."""
        self._heartbeat.moved_s = time.monotonic()
        return False

    async def _give_back(self) -> bool:
        if self._readers is not None:
            await self._readers.give_back()
        return False

    async def _merge_totals(self) -> bool:
        await self.upkeep.merge_totals()
        return False

    # Its heartbeat

    def _check_fence(self) -> None:
        if self._is_fenced:
            raise Fenced(f"replica {self.replica} was declared dead")

    async def beat(self) -> None:
        self._check_fence()
        sent_s = elapsed_s()
        try:
            async with self._writer.borrowed() as db:
                is_alive = await uncancelled(
                    db, beat(db, self.options, self.replica, self._nonce, self.clock), READ_S
                )
        except BROKEN as error:
            raise commit_failed(self.options, error) from error
        if not is_alive:
            self._fence()
            self._check_fence()
        self._heartbeat.has_beaten(sent_s)
        if self._heartbeat.fault:
            self._faults.failed(BEATING, self._heartbeat.fault)
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
                async with self.connection() as db:
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
                self.connection() as db,
                transaction(db, synchronous_commit="on"),
            ):
                found: list[Any] = await db.fetch(sql.replace("{s}", self.options.schema), *values)
                return found
        except (*BROKEN, UnicodeError) as error:
            raise commit_failed(self.options, error) from error

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[Any]:
        """A connection for several queries."""
        try:
            async with self.connection() as db:
                yield db
        except BROKEN as error:
            raise self._unreadable(error) from error

    def connection(self) -> AbstractAsyncContextManager[Any]:
        if self._readers is None:
            raise asyncpg.InterfaceError("the store is closed")
        return self._readers.use()

    def _unreadable(self, error: BaseException) -> Unavailable:
        self._faults.failed(READING, reason(self.options, error))
        return Unavailable("the store can't be read now; try again later", retry_after_s=5)


def _advice(error: BaseException) -> str:
    if not isinstance(error, FULL):
        return ""
    return (
        "; a replica needs a connection that writes and one for its heartbeat, and does not start "
        "without them: raise max_connections, or start fewer replicas"
    )
