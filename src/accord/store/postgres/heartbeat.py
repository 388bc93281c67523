"""The heartbeat of a replica, and the watch over those of others.

It runs in a thread with an event loop and a connection of its own: an agent that blocks the
server's loop for a while is not dead.

No clock decides who is dead. Each replica counts its heartbeats in its row. A replica that has
watched another's count stand still for a whole lease, by its own steady clock and while its own
count moved, declares the other dead: the other's batches are refused from then on. If nobody can
write, nobody's count moves, and nobody judges.
"""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import asyncpg

from ..clock import elapsed_s
from ..failpoints import point
from .clock import NOW_MS, DatabaseClock
from .connect import BROKEN, FREE, FULL, close, connect, kill, uncancelled
from .options import PostgresOptions

__all__ = ["Heartbeat", "beat", "declare_dead"]

log_ = logging.getLogger("accord")

STALL_S = 60.0  # a loop that has not moved for so long is as good as dead
LOOK_S = 1.0  # how often we look at others: a lease is over when it is over, not at the next beat
RETRY_S = 0.2
START_S = 10.0


# A lock timeout of its own, also where the session is a pooler's. It holds from before the row is
# locked to the end of the statement, which is the whole transaction: a process that is frozen here,
# or cut off, leaves no lock behind.
_PATIENT = "WITH patient AS MATERIALIZED (SELECT set_config('lock_timeout', $1, true)) "


async def beat(
    db: Any, options: PostgresOptions, replica: int, nonce: int, clock: DatabaseClock
) -> bool:
    """Store that a replica lives, and set `clock` by the database's. False if the replica was
    declared dead, or is another's.
    """
    sent_s = elapsed_s()
    theirs_ms: int | None = await db.fetchval(
        f"{_PATIENT}UPDATE {options.schema}.replicas SET beats = beats + 1, seen_ms = {NOW_MS} "
        "FROM patient WHERE id = $2 AND nonce = $3 AND died IS NULL "
        "RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        _patience(options),
        replica,
        nonce,
    )
    if theirs_ms is None:
        return False
    clock.measure(sent_s, theirs_ms)
    return True


async def declare_dead(
    db: Any, options: PostgresOptions, replica: int, beats: int | None = None
) -> bool:
    """Declare a replica dead, if it has counted no heartbeat since. When it was last seen is
    what it wrote last.
    """
    schema = options.schema
    found = await db.fetchval(
        f"{_PATIENT}UPDATE {schema}.replicas SET died = clock_timestamp(), seen_ms = greatest("
        f"seen_ms, (SELECT coalesce(max(committed_ms), 0) FROM {schema}.tasks WHERE owner = $2)) "
        "FROM patient WHERE id = $2 AND died IS NULL AND beats = coalesce($3, beats) RETURNING id",
        _patience(options),
        replica,
        beats,
    )
    return found is not None


def _patience(options: PostgresOptions) -> str:
    return f"{options.lease.lease_s / 3 * 1000:.0f}ms"


class Heartbeat:
    """Beats for one replica, from `start` to `stop`."""

    def __init__(
        self,
        options: PostgresOptions,
        *,
        pooled: bool,
        replica: int,
        nonce: int,
        clock: DatabaseClock,
        on_fenced: Callable[[], None],
        on_death: Callable[[], None],
        on_full: Callable[[], None],
        on_short: Callable[[], None],
    ) -> None:
        self.replica = replica
        self.nonce = nonce
        self._clock = clock
        self.moved_s = time.monotonic()  # when the server's loop last moved; set by the server
        self.fault = ""  # why it can't beat; empty while it can
        self._options = options
        self._pooled = pooled and not options.listen
        self._on_fenced = on_fenced  # called in this thread
        self._on_death = on_death  # called in this thread, when another replica was declared dead
        self._on_full = on_full  # called in this thread, when there is no connection left for it
        self._on_short = on_short  # called in this thread, when there is none left for others
        self._beaten_s = elapsed_s()  # when the last beat that is stored was sent
        self._beat_s = -math.inf  # when that was, of those sent here
        self._looked_s = self._beaten_s  # when we last looked at the others
        self._look_s = min(LOOK_S, options.lease.beat_s)
        self._db: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_given_up = False
        self._error: BaseException | None = None
        self._is_running = threading.Event()
        self._seen: dict[int, tuple[int, float]] = {}  # count of another replica, and since when
        self._thread = threading.Thread(target=self._run, name="accord-heartbeat", daemon=True)

    def start(self) -> None:
        """Return when it has a connection. Blocks meanwhile. What the database raises comes
        through.
        """
        self._thread.start()
        if not self._is_running.wait(START_S):
            self._is_given_up = True
            raise TimeoutError("the heartbeat got no connection in time")
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Return when it has stopped. Blocks for no longer than a query takes."""
        self.end()
        self._thread.join(timeout=5)

    def end(self) -> None:
        """Have it stop soon."""
        self._is_given_up = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended by itself
                self._loop.call_soon_threadsafe(self._stopped.set)

    @property
    def living(self) -> int:
        """How many replicas are not declared dead, this one included, as of the last look."""
        return 1 + len(self._seen)

    @property
    def is_sure(self) -> bool:
        """Nobody can have taken this replica for dead yet."""
        lease = self._options.lease
        return elapsed_s() - self._beaten_s < lease.lease_s - lease.beat_s

    def has_beaten(self, sent_s: float) -> None:
        """A beat was stored that was sent at this time, by the clock of `elapsed_s`."""
        self._beaten_s = max(self._beaten_s, sent_s)

    def _run(self) -> None:
        asyncio.run(self._beat_on())

    async def _beat_on(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            self._db = await self._connect()
        except BROKEN as error:
            self._error = error
            return
        finally:
            self._is_running.set()
        while not self._is_given_up:
            pause_s, begun_s = self._look_s, time.monotonic()
            try:
                if begun_s - self.moved_s > STALL_S:
                    pause_s = RETRY_S
                elif not await self._tick():
                    break
                else:
                    self.fault = ""
            except BROKEN as error:
                self.fault = self.fault or str(error) or type(error).__name__
                pause_s = RETRY_S
                self._recover(error)
            left_s = begun_s + pause_s - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), max(left_s, 0))
        if self._db is not None:
            await close(self._db)

    async def _connect(self) -> Any:
        return await connect(self._options, dsn=self._options.direct, pooled=self._pooled)

    def _recover(self, error: BaseException) -> None:
        """Make room for a connection, if that is what is missing; else make it anew. One whose
        statement has met a lock is as good as before.
        """
        if isinstance(error, FULL):
            self._on_full()
        if self._db is not None and not isinstance(error, asyncpg.LockNotAvailableError):
            kill(self._db)
            self._db = None

    async def _tick(self) -> bool:
        """Beat if it is time, and look who does not. False if we are taken for dead."""
        if self._db is None or self._db.is_closed():
            self._db = await self._connect()
        return await uncancelled(self._db, self._look(self._db), self._options.lease.lease_s)

    async def _look(self, db: Any) -> bool:
        lease, now_s = self._options.lease, elapsed_s()
        # Nobody is judged without a beat of our own just before: it shows that a beat can be
        # stored.
        is_judging = any(now_s - since_s >= lease.lease_s for _, since_s in self._seen.values())
        if is_judging or now_s - self._beat_s >= lease.beat_s - self._look_s / 2:
            point("beat.begun")
            is_alive = await beat(db, self._options, self.replica, self.nonce, self._clock)
            point("beat.after")
            if not is_alive:
                self._on_fenced()
                return False
            self._beat_s = now_s
            self.has_beaten(now_s)
            if not self._pooled and await db.fetchval(FREE) < 1:
                self._on_short()
        gap_s, self._looked_s = now_s - self._looked_s, now_s
        rows = await db.fetch(
            f"SELECT id, beats FROM {self._options.schema}.replicas "
            "WHERE died IS NULL AND id <> $1",
            self.replica,
        )
        now_s = elapsed_s()
        # While we could not look, or not beat, we could not have seen another's count move.
        before = self._seen if gap_s < 2 * lease.beat_s else {}
        seen = {}
        for replica, count in rows:
            known = before.get(replica)
            since_s = known[1] if known is not None and known[0] == count else now_s
            seen[replica] = (count, since_s)
        self._seen = seen  # at once: others read how many there are
        for replica, (count, since_s) in list(seen.items()):
            if is_judging and now_s - since_s >= lease.lease_s:
                await self._judge(db, replica, count)
        return True

    async def _judge(self, db: Any, replica: int, count: int) -> None:
        try:
            is_dead = await declare_dead(db, self._options, replica, count)
        except asyncpg.LockNotAvailableError:
            return  # somebody uses its row: look again
        if is_dead:
            log_.warning(
                "replica %d has shown no life for %.0f s: its tasks are taken up",
                replica,
                self._options.lease.lease_s,
            )
            del self._seen[replica]
            self._on_death()
