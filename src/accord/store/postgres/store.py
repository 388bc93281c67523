"""Tasks in a PostgreSQL database, which many replicas share."""

from collections.abc import Collection, Mapping, Sequence

from ..clock import FOREVER_MS
from ..contract import (
    ANY_FORMAT,
    Ages,
    Can,
    ConversationState,
    Ended,
    Fenced,
    Idempotency,
    Item,
    LogEnd,
    Namespace,
    Owned,
    Page,
    Query,
    ReceivedPost,
    Record,
    Row,
    Stats,
)
from ..file_index import FileIndex
from ..keys import KeyStore
from ..logins import LoginStore
from ..parts import TASKS
from ..push import PushStore
from ..samples import SampleStore
from .file_index import PostgresFileIndex
from .keys import PostgresKeys
from .logins import PostgresLogins
from .logs import PostgresLogs
from .options import Lease
from .ownership import PostgresOwnership
from .pushes import PostgresPushes
from .replica import PostgresReplica
from .samples import PostgresSamples

__all__ = ["PostgresStore"]


class PostgresStore(PostgresReplica):
    """Tasks in a database that other replicas use at the same time. A commit that has returned is
    on the database's disk.

    What is read of tasks is in `PostgresLogs`, whose they are in `PostgresOwnership`, what is
    deleted in `PostgresUpkeep`. `Store` says what each method does and raises.
    """

    is_volatile = False
    outlives_process = True
    is_shared = True

    def __init__(
        self, url: str, *, lease: Lease | None = None, parts: Collection[str] = (TASKS,)
    ) -> None:
        super().__init__(url, lease=lease, parts=parts)
        self.pushes: PushStore = PostgresPushes(self)
        self.keys: KeyStore = PostgresKeys(self)
        self.logins: LoginStore = PostgresLogins(self)
        self.samples: SampleStore = PostgresSamples(self)
        self._file_index = PostgresFileIndex(self)
        self.files: FileIndex = self._file_index
        self.files_url = url
        self._logs = PostgresLogs(self)
        self._ownership = PostgresOwnership(self, self._logs)

    async def close(self) -> None:
        if self.is_open:
            await self._file_index.close()
        await super().close()

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
        return await self._ownership.claim(
            namespace, task_id, reopen=reopen, known=known, format=format, watch=watch
        )

    async def unclaim(self, key: int, pos: int) -> None:
        await self._ownership.unclaim(key, pos)

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        return await self._ownership.orphans(limit, can)

    async def due(self, limit: int, can: Can) -> list[Record]:
        return await self._ownership.due(limit, can)

    async def owned(self) -> list[Owned]:
        return await self._ownership.owned()

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        return await self._ownership.load(namespace, task_id, watch=watch)

    async def unwatch(self, tasks: Collection[int]) -> None:
        await self._ownership.unwatch(tasks)

    # Reading

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        return await self._logs.read(after)

    async def ends(self, tasks: Collection[int]) -> dict[int, LogEnd]:
        return await self._logs.ends(tasks)

    async def locate(self, task: int, seq: int) -> int:
        return await self._logs.locate(task, seq)

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        return await self._logs.unread_posts(tasks)

    async def idempotency(
        self, namespace: Namespace, key: str, kept_ms: int = FOREVER_MS
    ) -> Idempotency | None:
        return await self._logs.idempotency(namespace, key, kept_ms)

    async def conversation_state(
        self, namespace: Namespace, context_id: str
    ) -> ConversationState | None:
        return await self._logs.conversation_state(namespace, context_id)

    async def page(self, query: Query) -> Page:
        return await self._logs.page(query)

    async def ended(self, agent: str, from_ms: int, to_ms: int) -> list[Ended]:
        return await self._logs.ended(agent, from_ms, to_ms)

    async def count_ended(self, agent: str, from_ms: int, to_ms: int) -> int:
        return await self._logs.count_ended(agent, from_ms, to_ms)

    async def stored(self, agent: str, caller: str) -> int:
        return await self._logs.stored(agent, caller)

    async def stats(self) -> Stats:
        return await self._logs.stats()

    # Upkeep

    async def purge(self, ages: Ages, limit: int) -> int:
        return await self.upkeep.purge(ages, limit)
