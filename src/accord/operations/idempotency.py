"""Safe to send again, when asked: one key, one task.

A caller who gives an idempotency key gets the same task or reply for as long as keys are kept:
while it runs, after the answer, after a crash.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from ..engine.log import Log, Lost
from ..engine.reading import Receipt
from ..engine.runs import age_ms
from ..engine.tasks import Tasks
from ..model import (
    InvalidParams,
    Message,
    Part,
    SendMessageRequest,
    TaskGenerationMismatch,
    TooManyRequests,
    UnsupportedOperation,
)
from ..protocol.v1 import codec as v1
from ..store import Idempotency, Namespace
from .call import IDEMPOTENT, Call

__all__ = ["IdempotentSends", "key_of"]

MAX_KEY = 256


def key_of(call: Call, request: SendMessageRequest) -> str:
    """Return the key a caller gave for this message; empty if every send is to be new."""
    if call.idempotency_key:
        if len(call.idempotency_key) > MAX_KEY:
            raise InvalidParams(f"the idempotency key is longer than {MAX_KEY} characters")
        return call.idempotency_key
    return request.message.message_id if IDEMPOTENT in call.extensions else ""


class IdempotentSends:
    """Sends under a key: those under way here, so that a repeated one joins them, and those that
    are stored.
    """

    def __init__(self, tasks: Tasks, keys_s: float) -> None:
        self._tasks = tasks
        self._keys_s = keys_s  # how long one is good
        self._running: dict[
            tuple[Namespace, str], tuple[bytes, asyncio.Future[Receipt | Message]]
        ] = {}

    async def once(
        self,
        namespace: Namespace,
        key: str,
        request: SendMessageRequest,
        accept: Callable[[Idempotency], Awaitable[Receipt | Message]],
    ) -> Receipt | Message:
        """Return what `accept` gives, or what it gave the first time this key was used.

        Raises:
            InvalidParams: The key was used for another message.
        """
        digest = _digest(request)
        while (running := self._running.get((namespace, key))) is not None:
            known, result = running
            _check_same(known, digest, key)
            try:
                found = await asyncio.shield(result)
                return found.again() if isinstance(found, Receipt) else found
            except asyncio.CancelledError:
                if not result.cancelled() or _is_cancelled():
                    raise
                # The first sender was cancelled, and not this one, which takes its place.
        result = asyncio.get_running_loop().create_future()
        self._running[namespace, key] = (digest, result)
        try:
            found = await self._send(namespace, key, digest, accept)
            result.set_result(found)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                result.cancel()
            else:
                result.set_exception(error)
                result.exception()  # looked at: it is raised here even if nobody else waits
            del self._running[namespace, key]
            raise
        if isinstance(found, Receipt) and isinstance(found.task, Log):
            # Until its commit is made, a repeated send finds the key only here.
            found.task.commits.stored_after_outage().add_done_callback(
                lambda stored: self._forget(namespace, key, stored)
            )
        else:
            del self._running[namespace, key]
        return found

    def _forget(self, namespace: Namespace, key: str, stored: "asyncio.Future[None]") -> None:
        if not stored.cancelled():
            stored.exception()  # whoever sent it gets it
        del self._running[namespace, key]

    async def _send(
        self,
        namespace: Namespace,
        key: str,
        digest: bytes,
        accept: Callable[[Idempotency], Awaitable[Receipt | Message]],
    ) -> Receipt | Message:
        found, is_free = await self._earlier(namespace, key, digest)
        if found is not None:
            return found
        record = Idempotency(namespace, key, digest, -1 if is_free else age_ms(self._keys_s))
        try:
            return await accept(record)
        except (Lost, UnsupportedOperation, TaskGenerationMismatch) as error:
            # Another process was faster, and its message may be why the task refuses this one: the
            # same message, sent before, has answered or ended it since the key was looked for.
            try:
                found, _ = await self._earlier(namespace, key, digest)
            except UnsupportedOperation as refused:  # it was not taken either
                raise (refused if isinstance(error, Lost) else error) from None
            if found is None:
                raise
            return found

    async def _earlier(
        self, namespace: Namespace, key: str, digest: bytes
    ) -> tuple[Receipt | Message | None, bool]:
        """What the key stands for, if it was used; and whether it stands for a task that is gone,
        so that it may be used again.
        """
        record = await self._tasks.store.idempotency(namespace, key, age_ms(self._keys_s))
        if record is None:
            return None, False
        _check_same(record.digest, digest, key)
        if not record.task_id:
            return v1.decode_message(record.reply), False
        found = await self._tasks.find(namespace, record.task_id)
        if found is None:
            return None, True
        try:
            turn = record.turn or await self._tasks.views.turn_of(found, record)
        except (TooManyRequests, TaskGenerationMismatch):  # it was not taken then; it may be now
            return None, True
        if isinstance(found, Log) and found.pos < turn:
            # What we have of the task is older: another process has taken the message.
            found = await self._tasks.views.remote.watch(namespace, record.task_id)
            if found is None:
                return None, True
        return Receipt(self._tasks.views, found, turn), False


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _digest(request: SendMessageRequest) -> bytes:
    """What is asked for, whichever way it came.

    Left out: how the answer is to be given (history, waiting), and what only some versions have a
    place for (the id of a message; the name and type of a part that is no file).
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


_encode = msgspec.json.Encoder(
    order="deterministic"
).encode  # protobuf's maps have no order of their own
_decode = msgspec.json.Decoder(float_hook=_number).decode


def _check_same(known: bytes, given: bytes, key: str) -> None:
    if known != given:
        what = f"the idempotency key {key!r:.80} was used for another message; take a new key"
        raise InvalidParams(
            what, violations=(("idempotencyKey", what),), reason="IDEMPOTENCY_KEY_REUSED"
        )
