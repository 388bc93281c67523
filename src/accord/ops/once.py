"""Safe to send again, when asked: one key, one task (design, rule 26).

A caller who gives an idempotency key gets the same task or reply for as long as keys are kept: while it runs, after the
answer, after a crash.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from ..codec import v1
from ..engine.log.feed import Feed
from ..engine.log.log import Log, Turn
from ..engine.runs.engine import Accepted
from ..engine.runs.upkeep import before_ms
from ..model import InvalidParams, Message, Part, SendMessageRequest, now_ms
from ..store import Keep, Scope
from .call import IDEMPOTENT, Call

__all__ = ["Claims", "key_of"]

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

    def __init__(self, feed: Feed, keys_s: float) -> None:
        self._feed = feed
        self._keys_s = keys_s  # how long one is good
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
        keep = await self._feed.kept(scope, key, before_ms(self._keys_s))
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
    """What is asked for, whichever way it came.

    Left out: how the answer is to be told (history, waiting), and what only some versions have a place for (the id of a message;
    the name and type of a part that is no file).
    """
    message, configuration = request.message, request.configuration
    asked = (
        message.role,
        message.task_id,
        message.context_id,
        [_content(part) for part in message.parts],
        message.metadata or None,
        message.extensions,
        message.reference_task_ids,
        request.metadata or None,
        configuration.accepted_output_modes if configuration is not None else [],
        configuration.task_push_notification_config if configuration is not None else None,
    )
    return hashlib.sha256(_encode(_decode(_encode(asked)))).digest()


def _content(part: Part) -> Part:
    if part.text is msgspec.UNSET and part.data is msgspec.UNSET:
        return part
    return msgspec.structs.replace(part, filename="", media_type="")


def _number(text: str) -> int | float:
    """A number as protobuf has it, which does not know 2.0 from 2."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


_encode = msgspec.json.Encoder(order="deterministic").encode  # protobuf's maps have no order of their own
_decode = msgspec.json.Decoder(float_hook=_number).decode


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
