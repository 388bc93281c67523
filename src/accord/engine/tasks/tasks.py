"""The tasks of this process: what it has of them, whether it takes more, and when it stops."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection

import msgspec

from ...files import Files
from ...model import A2AError, Limits, TooManyRequests, Unavailable
from ...store import Idempotency, Namespace, Post, PostKind, Record, Store
from ..log import Ids, Log, Writer, not_stored
from ..ownership import Directory
from ..reading import Reader, Views
from .capacity import Working

__all__ = ["MAX_WAITING", "Tasks", "going_on", "stopping"]

CLOCK_OFF_S = 60.0  # a clock that is wrong by so much is not used

MAX_WAITING = 1_000  # runs in memory that wait for input


def stopping() -> Unavailable:
    return Unavailable("the server is stopping; try again in a moment", retry_after_s=1)


def going_on(ids: Ids) -> Unavailable:
    """Return the error for a caller that waits for an unfinished task when the server stops.

    It names the task, because sending the message again without an idempotency key would do the
    work twice.
    """
    return Unavailable(
        f"the server is stopping, and task {ids.task_id} goes on when it is back: get it "
        "by its id, "
        "or send again with the same idempotency key",
        retry_after_s=1,
        taskId=ids.task_id,
        contextId=ids.context_id,
    )


class Tasks:
    """The writer, the directory and the views of this process, on top of one store."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.files: Files | None = None  # where the bytes of files are; None: in the log
        self.working = Working()
        self.is_draining = False
        self.is_closing = False
        # Called when there may be posts for these tasks, or for any (None).
        self.on_posts: Callable[[Collection[int] | None], None] = lambda tasks: None
        # A stored task may have more artifacts than today's limit, if the limit was lowered since.
        # It must stay readable.
        stored_limits = msgspec.structs.replace(limits, artifacts=sys.maxsize)
        self.writer = Writer(store, limits)
        self.directory = Directory(store, self.writer, stored_limits)
        self.directory.on_posts = lambda tasks: self.on_posts(tasks)
        self.reader = Reader(store, self.directory, stored_limits, self._check_open)
        self.views = Views(self)
        self.writer.on_outage = self.views.wake_all
        self.writer.on_fenced = lambda: self.directory.lose_all(self.refusal())
        self.writer.on_rejoined = self._rejoined

    async def open(self) -> None:
        """Open the store and the files, or neither."""
        await self.store.open(self.wake)
        try:
            if self.files is not None:
                await self.files.open()
        except BaseException:
            await self.store.close()
            raise
        await self.writer.open()

    def drain(self) -> None:
        """From now on, send away readers of tasks that have no run in this process."""
        self.is_draining = True
        self.loop.call_soon(self.views.wake_all)

    async def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Store all pending entries, then close the store. Before that, `last` may read it."""
        self.is_closing = True
        self.views.wake_all()
        await self.writer.close()
        await self.directory.close()
        self.views.wake_all()
        self.views.close()
        if last is not None:
            await last()
        if self.files is not None:
            await self.files.close()
        await self.store.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.writer.loop

    async def flush(self) -> None:
        """Return when everything appended so far is stored."""
        await asyncio.gather(*(log.commits.stored() for log in self.directory.live()))

    # Messages and readers

    async def own(
        self, namespace: Namespace, task_id: str, *, reopen: bool = False
    ) -> Log | Record | None:
        """Claim a task, unless this process owns it already, as `Directory.own` does."""
        self._check_open()
        return await self.directory.own(namespace, task_id, reopen=reopen)

    async def find(self, namespace: Namespace, task_id: str) -> Log | Record | None:
        """Return a task for reading; None if there is no such task.

        Return its log if that is live in this process. Else return its record, and watch the store
        for changes of it.
        """
        self._check_open()
        log = self.directory.log((namespace, task_id))
        if log is not None and self.store.is_sure:
            return log
        return await self.views.remote.watch(namespace, task_id)

    # Other processes

    def post(
        self, record: Record, kind: PostKind, body: bytes, idempotency: Idempotency | None = None
    ) -> tuple[int, asyncio.Future[bool]]:
        """Send a post to the process that owns a task.

        Return the id of the post, and a future that says whether it was stored.
        """
        post_id = self.writer.new_key()
        if idempotency is not None:
            idempotency.post = post_id
        return post_id, self.writer.submit(Post(record.key, post_id, kind, body, idempotency))

    def wake(self, tasks: Collection[int] | None) -> None:
        """Read the changes of these tasks, and posts for them. None means all tasks.

        The store calls this when there may be some.
        """
        self.views.remote.wake(tasks)
        self.on_posts(tasks)

    # Whether new work is accepted

    @property
    def is_out(self) -> bool:
        """Whether another process has taken over a store that only one process can use.

        Of other stores this process becomes a new replica. Views stay open, because they read from
        the store what the new owner writes.
        """
        return self.writer.is_replaced

    @property
    def trouble(self) -> str:
        """Why this process should get no new work; empty if it can take some."""
        if self.is_draining:
            return "stopping"
        if self.writer.is_replaced:
            return "another process has taken over the store"
        if self.writer.is_fenced:
            return "others took this server for dead; it starts anew"
        if self.writer.fault or not self.store.is_sure:
            why = self.writer.summary if self.writer.fault else ""
            return "the store can't be written" + (f": {why}" if why else "")
        return self.clock_fault if abs(self.store.clock_ahead_s) >= CLOCK_OFF_S else ""

    @property
    def clock_fault(self) -> str:
        """How wrong the clock of this process is, by that of the store; empty if it can be used.

        With a wrong one, tasks, keys and questions would seem older or younger than they are.
        """
        ahead_s = self.store.clock_ahead_s
        if abs(ahead_s) < CLOCK_OFF_S:
            return ""
        where = "ahead of" if ahead_s > 0 else "behind"
        return (
            f"the clock of this machine is {abs(ahead_s):,.0f} s {where} that of the database; "
            "set it right"
        )

    def parting(self, ids: Ids) -> A2AError:
        """Return the error for a caller that waits for a task when this process stops.

        If the next process will have the task, the error says how to get it there.
        """
        return going_on(ids) if self.store.outlives_process else stopping()

    def refusal(self) -> A2AError:
        """Return the error for a message that this process doesn't accept."""
        if self.is_draining:
            return stopping()
        if self.is_out:
            return Unavailable(
                "another server has taken over from this one; send it there", retry_after_s=5
            )
        if self.writer.is_fenced:
            return Unavailable(
                "this server was away for too long, and others go on with its tasks; get the task "
                "by its id, or send again with the same idempotency key",
                retry_after_s=1,
            )
        if self.clock_fault and self.store.is_sure and not self.writer.fault:
            return Unavailable(
                "the clock of this server is wrong; try again in a moment", retry_after_s=5
            )
        return not_stored()

    def check_capacity(self, *, caller: str = "", is_answer: bool = False) -> None:
        """Raise TooManyRequests if the limit of running tasks is reached, in total or per caller.

        Tasks that wait for input don't count. An answer to such a task (`is_answer`) is accepted
        beyond the limit, so that tasks waiting for input can go on. At most MAX_WAITING tasks run
        beyond the limit.
        """
        count = self.working.of_caller(caller)
        if count >= self.limits.tasks_per_caller and not is_answer:
            raise TooManyRequests(
                f"{count} of your tasks are running, the limit for one caller",
                retry_after_s=1,
                limit="tasks_per_caller",
            )
        count = len(self.working)
        if count >= self.limits.tasks + (MAX_WAITING if is_answer else 0):
            raise TooManyRequests(
                f"{count} tasks are running, the limit of this server",
                retry_after_s=1,
            )

    def _check_open(self) -> None:
        """Raise Unavailable if the store is being closed, since nothing more can be stored."""
        if self.is_closing:
            raise stopping()

    def _rejoined(self) -> None:
        """This process has a new replica number, under which it owns and watches nothing yet."""
        self.directory.lose_all(not_stored())  # what was claimed since under the old one
        self.views.remote.follow_again()
        self.wake(None)
