"""Safe to send again, when asked: one key, one task (design, rule 26).

A caller who gives an idempotency key gets the same task or reply for 24 hours: while it runs, after the answer, after a crash.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

from ..codec import v1
from ..model import InvalidParams, Message, SendMessageRequest, now_ms
from ..run.engine import Accepted
from ..run.feed import Feed
from ..run.log import Log, Turn
from ..store import Keep, Scope
from .call import IDEMPOTENT, Call

__all__ = ["Claims", "key_of"]

KEEP_MS = 24 * 3600 * 1000
MAX_KEY = 256


def key_of(call: Call, request: SendMessageRequest) -> str:
    """Return the key a caller gave for this message; empty if every send is to be new."""
    if call.idempotency_key:
        if len(call.idempotency_key) > MAX_KEY:
            raise InvalidParams(f"the idempotency key is longer than {MAX_KEY} characters")
        return call.idempotency_key
    return request.message.message_id if IDEMPOTENT in call.extensions else ""


class Claims:
    """Who is doing the work of a key right now. What is done is in the store."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._running: dict[tuple[Scope, str], tuple[bytes, asyncio.Future[Accepted | Message]]] = {}

    async def once(
        self,
        scope: Scope,
        key: str,
        request: SendMessageRequest,
        accept: Callable[[Keep], Awaitable[Accepted | Message]],
    ) -> Accepted | Message:
        """Return what `accept` gives, or what it gave the first time this key was used.

        Raises:
            InvalidParams: The key was used for another message.
        """
        digest = _digest(request)
        running = self._running.get((scope, key))
        if running is not None:
            _same(running[0], digest, key)
            return await asyncio.shield(running[1])
        result: asyncio.Future[Accepted | Message] = asyncio.get_running_loop().create_future()
        self._running[scope, key] = (digest, result)
        try:
            found = await self._earlier(scope, key, digest)
            if found is None:
                found = await accept(Keep(scope, key, digest, now_ms()))
            result.set_result(found)
        except BaseException as error:
            result.set_exception(error)
            result.exception()  # looked at: it is raised here even if nobody else waits
            raise
        finally:
            del self._running[scope, key]
        return found

    async def _earlier(self, scope: Scope, key: str, digest: bytes) -> Accepted | Message | None:
        keep = await self._feed.kept(scope, key, now_ms() - KEEP_MS)
        if keep is None:
            return None
        _same(keep.digest, digest, key)
        if not keep.task_id:
            return v1.decode_message(keep.reply)
        log = await self._feed.find(scope, keep.task_id)
        if log is None:
            return None  # the task was deleted: the key has nothing to stand for
        return Accepted(log, _turn(log, keep.reply.decode()), False)


def _digest(request: SendMessageRequest) -> bytes:
    """What is asked for, whatever the message is called: a version without message ids gets a new one every time."""
    message = request.message
    name, message.message_id = message.message_id, ""
    try:
        return hashlib.sha256(v1.encode(request)).digest()
    finally:
        message.message_id = name


def _turn(log: Log, message_id: str) -> Turn:
    """The turn of a message sent before; one that is over if it is neither waiting nor worked on."""
    for turn in (*log.turns, *log.inbox):
        if turn.message.message_id == message_id:
            return turn
    over = Turn(log.task.history[0])
    over.last, over.is_answered = log.seq, True
    return over


def _same(known: bytes, given: bytes, key: str) -> None:
    if known != given:
        what = f"the idempotency key {key!r:.80} was used for another message; take a new key"
        raise InvalidParams(what, violations=(("idempotencyKey", what),), reason="IDEMPOTENCY_KEY_REUSED")
