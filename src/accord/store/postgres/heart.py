"""The heartbeat of a replica, and the watch over those of others.

It runs in a thread with an event loop and a connection of its own: an agent that blocks the
server's loop for a while is not dead.

No clock decides who is dead. Each replica counts its beats in its row. Who has watched another's
count stand still for a whole lease, by its own steady clock and while its own count moved, writes
the other's death certificate: the other's batches are refused from then on. If nobody can write,
nobody's count moves, and nobody judges.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from ...model import now_ms
from ..failpoints import point
from .connect import BROKEN, close, connect, kill, uncancelled
from .options import PostgresOptions

__all__ = ["Heart", "bury"]

log_ = logging.getLogger("accord")

STALL_S = 60.0  # a loop that has not moved for so long is as good as dead
RETRY_S = 0.2
START_S = 10.0


async def bury(db: Any, schema: str, replica: int, beats: int | None = None) -> bool:
    """Write the death certificate of a replica, if it has not moved since `beats`. When it was last
    heard of is what it wrote last.
    """
    found = await db.fetchval(
        f"UPDATE {schema}.replicas SET died = clock_timestamp(), seen_ms = greatest(seen_ms, "
        f"(SELECT coalesce(max(committed_ms), 0) FROM {schema}.tasks WHERE owner = $1)) "
        "WHERE id = $1 AND died IS NULL AND beats = coalesce($2, beats) RETURNING id",
        replica,
        beats,
    )
    return found is not None


class Heart:
    """Beats for one replica, from `start` to `stop`."""

    def __init__(
        self,
        options: PostgresOptions,
        *,
        pooled: bool,
        replica: int,
        nonce: int,
        on_fenced: Callable[[], None],
        on_death: Callable[[], None],
    ) -> None:
        self.replica = replica
        self.nonce = nonce
        self.moved_s = time.monotonic()  # when the server's loop last moved; set by the server
        self._options = options
        self._pooled = pooled and not options.listen
        self._on_fenced = on_fenced  # called in this thread
        self._on_death = on_death  # called in this thread, when another replica was declared dead
        self._beaten_s = time.monotonic()  # when the last beat that is stored was sent
        self._looked_s = self._beaten_s  # when we last beat here, and looked at the others
        self._is_running = threading.Event()
        self._seen: dict[int, tuple[int, float]] = {}  # count of another replica, and since when
        self._thread = threading.Thread(target=self._run, name="accord-heart", daemon=True)

    def start(self) -> None:
        self._thread.start()
        if not self._is_running.wait(START_S):
            raise RuntimeError("the thread of the heartbeat did not start")

    def stop(self) -> None:
        """Return when it has stopped. Blocks for no longer than a query takes."""
        with contextlib.suppress(RuntimeError):  # its loop has ended by itself
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(timeout=5)

    @property
    def is_sure(self) -> bool:
        """Nobody can have taken this replica for dead yet."""
        lease = self._options.lease
        return time.monotonic() - self._beaten_s < lease.lease_s - lease.beat_s

    def has_beaten(self, sent_s: float) -> None:
        """A beat was stored by another connection."""
        self._beaten_s = max(self._beaten_s, sent_s)

    def _run(self) -> None:
        asyncio.run(self._beat_on())

    async def _beat_on(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._is_running.set()
        lease = self._options.lease
        db: Any = None
        is_failing = False
        while not self._stopped.is_set():
            pause_s, begun_s = lease.beat_s, time.monotonic()
            try:
                if begun_s - self.moved_s > STALL_S:
                    pause_s = RETRY_S
                else:
                    if db is None or db.is_closed():
                        dsn = self._options.direct
                        db = await connect(self._options, dsn=dsn, pooled=self._pooled)
                    if not await uncancelled(db, self._beat(db), lease.lease_s):
                        break
                    is_failing = False
            except BROKEN as error:
                if not is_failing:
                    log_.warning("the heartbeat fails, and is tried again: %s", error)
                is_failing, pause_s = True, RETRY_S
                if db is not None:
                    kill(db)
                    db = None
            left_s = begun_s + pause_s - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), max(left_s, 0))
        if db is not None:
            await close(db)

    async def _beat(self, db: Any) -> bool:
        """Show that we live, and look who does not. False if we are taken for dead."""
        schema, lease = self._options.schema, self._options.lease
        sent_s = time.monotonic()
        point("beat.begun")
        beats = await db.fetchval(
            f"UPDATE {schema}.replicas SET beats = beats + 1, seen_ms = $3 "
            "WHERE id = $1 AND nonce = $2 AND died IS NULL RETURNING beats",
            self.replica,
            self.nonce,
            now_ms(),
        )
        point("beat.after")
        if beats is None:
            self._on_fenced()
            return False
        gap_s, self._looked_s = sent_s - self._looked_s, sent_s
        self.has_beaten(sent_s)
        rows = await db.fetch(
            f"SELECT id, beats FROM {schema}.replicas WHERE died IS NULL AND id <> $1", self.replica
        )
        now_s = time.monotonic()
        # While our own count stood still we could not have seen another's move.
        before = self._seen if gap_s < 2 * lease.beat_s else {}
        self._seen = {}
        for replica, count in rows:
            known = before.get(replica)
            since_s = known[1] if known is not None and known[0] == count else now_s
            self._seen[replica] = (count, since_s)
            if now_s - since_s >= lease.lease_s and await bury(db, schema, replica, count):
                log_.warning(
                    "replica %d has shown no life for %.0f s: its tasks are taken up",
                    replica,
                    lease.lease_s,
                )
                del self._seen[replica]
                self._on_death()
        return True
