"""Wake-ups between replicas: hints that a task has grown, or has posts, which carry no data.

They are sent after a commit and never in it: a NOTIFY holds a lock of the whole database until its
transaction is on the disk. Every replica listens on a channel of its own. Any of them may be lost:
what is watched is looked at every POLL_S all the same, and posts every POSTS_S.
"""

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from ...pump import Pump
from .connect import BROKEN, close, connect, kill
from .options import PostgresOptions

__all__ = ["Wakes"]

log_ = logging.getLogger("accord")

POLL_S = 2.0
POSTS_S = 10.0  # the same for posts, while wake-ups arrive: they report posts
FAST_POLL_S = 0.25  # while no wake-up arrives
RESEND_S = 1.0  # after which a wake-up that could not be sent is sent again
PING_S = 5.0
ECHO_S = 2.0  # within which a ping must come back
YIELD_S = 5.0  # for which there is no listener, once the writer or the heartbeat lacks a connection
MOST = 400  # tasks named in one wake-up; more: all
ALL = "*"
PING = "?"


class Wakes:
    """Sends and receives wake-ups for one replica, and polls."""

    def __init__(
        self,
        options: PostgresOptions,
        *,
        pooled: bool,
        replica: int,
        query: Callable[..., Any],
        wake: Callable[[Collection[int] | None], None],
    ) -> None:
        self.watched: dict[int, int] = {}  # tasks, with the position they were last seen at
        self.is_notified = False  # wake-ups arrive
        self._options = options
        self._pooled = pooled and not options.listen
        self._replica = replica
        self._query = query
        self._wake = wake
        self._pending: defaultdict[int, set[int]] = defaultdict(set)  # tasks by replica
        self._wakes_all = False  # everybody is to be woken
        self._db: Any = None
        self._echoed: asyncio.Event = asyncio.Event()
        self._said = False
        self._posts_s = 0.0  # when posts were last looked for
        self._yields_until_s = 0.0
        self._poller = self._pump("polling", self._poll, self._poll_pause_s)
        self._listener = self._pump("listening", self._listen, self._listen_pause_s)
        self._sender = self._pump("sending wake-ups", self._send, None)

    def _pump(
        self,
        name: str,
        work: Callable[[], Awaitable[bool]],
        pause_s: Callable[[], float] | None,
    ) -> Pump:
        retry_s = pause_s or (lambda: RESEND_S)
        return Pump(name, work, log=log_, pause_s=pause_s, retry_s=retry_s, waits_for=BROKEN)

    def start(self) -> None:
        self._poller.start(pauses_first=True)
        if self._options.has_notify:
            self._listener.start()

    async def stop(self) -> None:
        await asyncio.gather(*(one.stop() for one in (self._poller, self._listener, self._sender)))
        if self._db is not None:
            await close(self._db)

    def give_way(self) -> None:
        """Give back the listener's connection: the writer or the heartbeat gets none. Polling does
        meanwhile.
        """
        self._yields_until_s = time.monotonic() + YIELD_S
        if self._db is not None:
            kill(self._db)

    # Sending

    def send(self, concerned: Iterable[tuple[int, int]]) -> None:
        """Wake the replicas these tasks concern. Does not wait; ourselves at once."""
        mine: set[int] = set()
        for task, replica in concerned:
            if replica == self._replica:
                mine.add(task)
            elif self._options.has_notify:
                self._pending[replica].add(task)
        if mine:
            self._wake(mine)
        if self._pending:
            self._sender.wake()

    def send_all(self) -> None:
        """Wake everybody: there may be orphans."""
        self._wakes_all = True
        self._sender.wake()

    async def _send(self) -> bool:
        """Send all that has gathered by one statement."""
        pending, self._pending = self._pending, defaultdict(set)
        wakes_all, self._wakes_all = self._wakes_all, False
        notices = [
            (self._channel(replica), ALL if len(tasks) > MOST else " ".join(map(_hex, tasks)))
            for replica, tasks in pending.items()
        ]
        if wakes_all:
            notices.append((self._options.schema, ALL))
        if not notices:
            return False
        try:
            await self._query(
                "SELECT pg_notify(c, p) FROM unnest($1::text[], $2::text[]) AS u (c, p)",
                [channel for channel, _ in notices],
                [payload for _, payload in notices],
            )
        except BaseException:
            for replica, tasks in pending.items():
                self._pending[replica] |= tasks
            self._wakes_all |= wakes_all
            raise
        return bool(self._pending) or self._wakes_all

    def _channel(self, replica: int) -> str:
        return f"{self._options.schema}_{replica}"

    # Listening

    def _on_notify(self, db: Any, pid: int, channel: str, payload: str) -> None:
        if payload == PING:
            self._echoed.set()
        elif payload == ALL:
            self._wake(None)
        else:
            self._wake({int(key, 16) for key in payload.split()})

    async def _listen(self) -> bool:
        """Listen for as long as wake-ups arrive. The next round has a new connection."""
        try:
            await self._listen_once()
        except asyncio.CancelledError:
            raise  # whoever stops us closes the connection
        except BaseException:
            # asyncpg has no error of its own for a statement on a connection that is given back.
            is_ended = self._db is not None and self._db.is_closed()
            self._end_listening()
            if not is_ended:
                raise
        else:
            self._end_listening()
        return False

    def _end_listening(self) -> None:
        if self._db is not None:
            kill(self._db)
            self._db = None
        self.is_notified = False
        self._poller.wake()

    def _listen_pause_s(self) -> float:
        return max(self._yields_until_s - time.monotonic(), 1)

    async def _listen_once(self) -> None:
        """Listen until the connection ends, or a ping does not come back."""
        self._db = db = await connect(self._options, dsn=self._options.direct, pooled=self._pooled)
        ended = asyncio.Event()
        db.add_termination_listener(lambda _: ended.set())
        await db.add_listener(self._channel(self._replica), self._on_notify)
        await db.add_listener(self._options.schema, self._on_notify)
        while True:
            self._echoed.clear()
            await asyncio.wait_for(
                db.execute(f"SELECT pg_notify('{self._channel(self._replica)}', '{PING}')"),
                ECHO_S,
            )
            try:
                await asyncio.wait_for(self._echoed.wait(), ECHO_S)
            except TimeoutError:
                self._log_unnotified()
                return
            if not self.is_notified:
                self.is_notified = True
                self._wake(None)  # what came before may be lost
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), PING_S)
            if db.is_closed():
                return

    def _log_unnotified(self) -> None:
        if not self._said:
            self._said = True
            log_.warning(
                "%s: wake-ups do not arrive (a pooler in transaction mode does that); changes on "
                "other replicas are found by polling every %g s. Give a direct address with "
                "listen= to avoid that",
                self._options.place,
                FAST_POLL_S,
            )

    # Polling

    def _poll_pause_s(self) -> float:
        return POLL_S if self.is_notified else FAST_POLL_S

    async def _poll(self) -> bool:
        begun_s = time.monotonic()
        await self._look()
        # Seldom more than a tenth of the time, however much is watched. But a database that was
        # slow once must not keep messages waiting for long.
        await asyncio.sleep(min((time.monotonic() - begun_s) * 9, POLL_S))
        return False

    async def _look(self) -> None:
        await self._look_at_watched()
        is_due = not self.is_notified or time.monotonic() - self._posts_s >= POSTS_S
        if is_due and (posted := await self._posted()):
            self._wake(posted)

    async def _look_at_watched(self) -> None:
        """Wake who reads tasks that have grown. Tasks that are watched while the database answers
        are left to the next look.
        """
        if not (asked := list(self.watched)):
            return
        rows = await self._query(
            f"SELECT key, pos FROM {self._options.schema}.tasks WHERE key = ANY ($1::bigint[])",
            asked,
        )
        there = dict(rows)
        changed: set[int] = set()
        is_shorter = False
        for key in asked:
            pos = there.get(key, 0)  # 0: it is gone, and may come back
            seen = self.watched.get(key, pos)
            if pos != seen:
                self.watched[key] = pos
                changed.add(key)
                is_shorter |= pos < seen
        if is_shorter:  # a failover may have lost what was stored last
            self._wake(None)
        elif changed:
            self._wake(changed)

    async def _posted(self) -> set[int]:
        """Return our tasks that have unread posts."""
        schema = self._options.schema
        rows = await self._query(
            f"SELECT DISTINCT t.key FROM {schema}.posts p JOIN {schema}.tasks t ON t.key = p.task "
            "WHERE t.owner = $1 AND p.n > t.posts_read",
            self._replica,
        )
        self._posts_s = time.monotonic()
        return {key for (key,) in rows}


def _hex(key: int) -> str:
    return f"{key:x}"
