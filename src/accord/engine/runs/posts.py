"""Messages and cancels between processes: a process that does not own a task sends its owner a post
through the store.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from ...model import (
    A2AError,
    SendMessageRequest,
    TaskGenerationMismatch,
    Unavailable,
    UnsupportedOperation,
    error_of,
    errors,
)
from ...protocol import Snapshot
from ...protocol.v1 import codec as v1
from ...pump import Pump
from ...store import Idempotency, PostKind, ReceivedPost, Record
from ..log import NOBODY, Log, PostRefused, Sender
from ..reading import OUTCOME_S, Receipt, View, unread
from .delivery import Incoming
from .refusals import check_generation

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["Posts"]

log_ = logging.getLogger("accord")

RETRY_S = 1.0


class Posted(msgspec.Struct, omit_defaults=True):
    """A message on its way to the owner of its task, and who sent it."""

    request: SendMessageRequest
    sender: Sender = NOBODY
    # how far the task's log was stored when it was accepted; None: an older release did not say
    seen: int | None = None
    if_generation: int | None = None  # it is refused if the task's last event has another number


_decode = msgspec.json.Decoder(Posted).decode


class Posts:
    """Sends posts to other processes, and reads those to this one."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._woken: set[int] | None = set()  # tasks that may have posts, None for all
        self._reader = Pump(
            "messages of other processes", self._read, log=log_, retry_s=lambda: RETRY_S
        )
        self._canceling: dict[int, asyncio.Future[None]] = {}  # by key of the task

    def open(self) -> None:
        self._engine.tasks.on_posts = self._wake
        self._wake(None)

    async def close(self) -> None:
        """Read no more: what is unread is the next owner's."""
        await self._reader.stop()
        canceling = list(self._canceling.values())
        for one in canceling:
            one.cancel()
        if canceling:
            await asyncio.wait(canceling)

    # To the owner of a task

    async def send(self, record: Record, incoming: Incoming) -> Receipt | None:
        """Send a message to a task another process owns; None if that has left it meanwhile."""
        idempotency = incoming.idempotency
        kind = PostKind.REOPEN if incoming.reopen else PostKind.MESSAGE
        view = await self._watch(record)
        if view is None:
            return None
        try:
            if idempotency is not None:
                idempotency.task_id = record.id
            body = v1.encode(
                Posted(incoming.request, incoming.sender, incoming.seen, incoming.if_generation)
            )
            post_id = await self._post(record, kind, body, idempotency)
            if post_id is None:
                return None
            try:
                outcome = await view.post_outcome(post_id)
            except UnsupportedOperation:  # it has ended, and nobody has read the post
                if incoming.if_generation is not None:
                    now = await self._engine.tasks.store.load(record.namespace, record.id)
                    check_generation(now or record, incoming.if_generation)
                raise
            if isinstance(outcome, PostRefused):
                raise error_of(outcome.error, outcome.text, outcome.detail)
            # Before the view is closed: what was read of the task is not read again.
            return Receipt(self._engine.tasks.views, record, outcome)
        except TimeoutError:
            raise unread(record.id) from None
        finally:
            view.close()

    async def cancel(self, record: Record) -> Snapshot | None:
        """Have the owner of a task end it as canceled. Return the task as it ended; None if its
        owner has left it meanwhile.
        """
        view = await self._watch(record)
        if view is None:
            return None
        try:
            post_id = await self._post(record, PostKind.CANCEL, b"", None)
            if post_id is None:
                return None
            skill = self._engine.runs.find_skill(record)
            if skill is not None and skill.on_cancel is not None:
                has_ended = await self._until_cancelled(view, post_id)
            else:
                while events := await view.next(OUTCOME_S):
                    pass
                has_ended = events is not None
        finally:
            view.close()
        if not has_ended:
            raise Unavailable(
                f"the cancel of task {record.id} is stored, but its process has not ended it yet; "
                "get the task in a while",
                retry_after_s=5,
                taskId=record.id,
            )
        return await self._engine.tasks.reader.peek(record.namespace, record.id)

    async def _until_cancelled(self, view: View, post_id: int) -> bool:
        """Wait for the end of a task whose skill may refuse to be cancelled; False if it does not
        come in time. Raises the error it was refused with.
        """
        try:
            outcome = await view.post_outcome(post_id)
        except UnsupportedOperation:  # it has ended, and with it everything that was posted
            return True
        except TimeoutError:
            return False
        if isinstance(outcome, PostRefused):
            raise error_of(outcome.error, outcome.text)
        return True

    async def _watch(self, record: Record) -> View | None:
        """Return a view of what comes after a record; None if the task is gone."""
        views = self._engine.tasks.views
        now: Record | None = record
        if not views.remote.is_watched(record.key):  # else the claim has begun to watch it
            now = await views.remote.watch(record.namespace, record.id)
        return await views.after(now, now.seq, pos=now.pos) if now is not None else None

    async def _post(
        self, record: Record, kind: PostKind, body: bytes, idempotency: Idempotency | None
    ) -> int | None:
        post_id, stored = self._engine.tasks.post(record, kind, body, idempotency)
        return post_id if await stored else None

    # To our own tasks

    def _wake(self, tasks: Collection[int] | None) -> None:
        slot = self._engine.tasks.directory.slot
        if tasks is None:
            self._woken = None
        elif self._woken is not None:
            # Of a task that we only read, the posts are its owner's.
            self._woken.update(
                key
                for key in tasks
                if (one := slot(key)) is None or one.log is not None or one.settled is not None
            )
        if self._woken is None or self._woken:
            self._reader.wake()

    async def _read(self) -> bool:
        woken, self._woken = self._woken, set()
        try:
            for post in await self._engine.tasks.store.unread_posts(woken):
                await self._take(post)
        except Exception:
            self._woken = None  # what was not read is looked for again
            raise
        return self._woken is None or bool(self._woken)

    async def _cancel(self, log: Log, post: ReceivedPost) -> None:
        try:
            await self._engine.cancels.cancel_log(log)
        except Exception as error:  # its skill was asked, and says no, or fails
            _refuse(log, post, error)

    def _cancelled(self, task: int) -> None:
        """Read what came behind a cancel that was dealt with: it has waited for that."""
        del self._canceling[task]
        self._wake({task})

    async def _take(self, post: ReceivedPost) -> None:
        """Deal with a post. That it was, is stored with what came of it, and not before: else a
        crash in between would lose it.
        """
        log = self._engine.tasks.directory.with_post(post.task, post.n)
        if log is None or log.key in self._canceling:
            return
        if post.kind is PostKind.CANCEL:  # the end of the task is what is stored of it
            canceling = self._canceling[log.key] = asyncio.ensure_future(self._cancel(log, post))
            canceling.add_done_callback(lambda _: self._cancelled(post.task))
            return
        try:
            posted = _decode(post.body)
            incoming = Incoming(
                posted.request,
                posted.sender,
                reopen=post.kind is PostKind.REOPEN,
                post=post,
                seen=posted.seen,
                if_generation=posted.if_generation,
            )
            await self._engine.delivery.hand_over(log, incoming)
        except Unavailable:  # of the store: no reason to refuse anything, it is read again
            raise
        except Exception as error:  # whatever it is, it costs this post and no other
            _refuse(log, post, error)


def _refuse(log: Log, post: ReceivedPost, error: Exception) -> None:
    """Have the sender of a post get this error, unless the post was dealt with before it came."""
    if not isinstance(error, A2AError | msgspec.DecodeError):
        log_.error(
            "task %s: handling a message that another process received failed",
            log.ids.task_id,
            exc_info=error,
        )
        error = A2AError("The agent failed")
    if not log.commits.is_lost and log.posts_read < post.n:
        name = _name(error) if isinstance(error, A2AError) else type(error).__name__
        detail = error.detail if isinstance(error, TaskGenerationMismatch) else {}
        log.append(PostRefused(post.id, name, str(error), detail))
        log.posts_read = post.n


def _name(error: A2AError) -> str:
    """Return the name of the protocol's class that an error is: the log keeps that."""
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in errors.__all__)
