"""The circuit breakers of all agents behind the gateway. Several hubs share what they find out."""

from collections.abc import Collection
from typing import NamedTuple

from ...net import CircuitBreaker
from ...store import Database
from ..records import Change, Changes

__all__ = ["FLUSH_S", "BreakerKey", "Breakers"]

FLUSH_S = 0.5  # between two looks for what other hubs should know


class BreakerKey(NamedTuple):
    """An agent that may not answer: a member of an entry."""

    agent: str  # the entry's id
    member: str


class Breakers:
    """A breaker for each member of each entry.

    One that opens or closes is written down, beside the calls, and other hubs do the same with
    theirs: an agent that does not answer one hub is not tried by all of them.
    """

    def __init__(self, db: Database, changes: Changes, open_s: float) -> None:
        self._db = db
        self._changes = changes
        self._open_s = open_s
        self._all: dict[BreakerKey, CircuitBreaker] = {}
        self._last_read: dict[BreakerKey, int] = {}  # until when others say that one is open
        self._news: dict[BreakerKey, int] = {}  # until when one is open, 0 if it has closed
        changes.watch(self._load)

    def of(self, key: BreakerKey) -> CircuitBreaker:
        found = self._all.get(key)
        if found is None:
            found = self._all[key] = CircuitBreaker(self._open_s, 2 * self._open_s)
        return found

    def failed(self, key: BreakerKey) -> None:
        """Count a call that nobody answered."""
        breaker = self.of(key)
        if breaker.failed():
            self._news[key] = self._db.now_ms() + int(1000 * breaker.left_s)

    def succeeded(self, key: BreakerKey) -> None:
        """Count a call that was answered."""
        breaker = self.of(key)
        if not breaker.is_closed:
            self._news[key] = 0
        breaker.succeeded()

    def keep(self, keys: Collection[BreakerKey]) -> None:
        """Forget the breakers of all others."""
        self._all = {key: one for key, one in self._all.items() if key in keys}

    async def flush(self) -> None:
        """Write down for other hubs what has opened and closed."""
        if not self._db.is_shared:
            self._news = {}
        if not self._news:
            return
        news, self._news = self._news, {}
        self._last_read |= news

        async def write(db: Change) -> None:
            await db.execute(
                "DELETE FROM breakers WHERE until_ms < ?", self._db.now_ms() - 3_600_000
            )
            for key, until_ms in news.items():
                await db.execute("DELETE FROM breakers WHERE agent = ? AND member = ?", *key)
                if until_ms:
                    await db.execute("INSERT INTO breakers VALUES (?,?,?)", *key, until_ms)

        await self._changes.write(write)

    async def _load(self) -> None:
        if not self._db.is_shared:
            return
        rows = await self._db.fetch("SELECT agent, member, until_ms FROM breakers")
        found = {BreakerKey(row["agent"], row["member"]): int(row["until_ms"]) for row in rows}
        last, self._last_read = self._last_read, found
        for key, until_ms in found.items():
            left_s = (until_ms - self._db.now_ms()) / 1000
            if last.get(key) != until_ms and left_s > 0:
                self.of(key).open(left_s)
        for key in last.keys() - found.keys():
            self.of(key).close()
