"""SendMessage and SendStreamingMessage: a message becomes a task, a turn of one, or a bare reply."""

from collections.abc import Iterable

from ..codec import v1
from ..codec.contract import Snapshot
from ..model import Limits, Message, PushNotificationNotSupported, Role, SendMessageRequest
from ..run.engine import Accepted
from ..run.entry import Entry
from ..run.reader import Reader
from ..store import Keep, Scope
from .call import Call
from .check import check_id, refuse, wrong_history_length, wrong_id, wrong_metadata
from .once import key_of
from .service import Service

__all__ = ["send_message", "send_streaming_message"]


async def send_message(service: Service, call: Call, request: SendMessageRequest) -> Snapshot | Message:
    """Return the task when it has settled or, with `returnImmediately`, as soon as it exists; or a bare reply."""
    accepted = await _accept(service, call, request)
    if isinstance(accepted, Message):
        return accepted
    log, turn, _ = accepted
    configuration = request.configuration
    history_length = configuration.history_length if configuration is not None else None
    if turn.refused is not None:
        raise turn.refused
    if turn.is_answered or (configuration is not None and configuration.return_immediately):
        try:
            return await log.snapshot(history_length)
        finally:
            service.engine.feed.let_go(log)  # brought back for a repeated send, it would be kept for nothing
    return await turn.answer(history_length)


async def send_streaming_message(service: Service, call: Call, request: SendMessageRequest) -> Reader | Message:
    """Return the events of the task from its first on; of a task that existed, the task as it is, then what follows."""
    task_id = request.message.task_id or call.semantics.new_task_id
    service.engine.feed.check_readers(Scope(request.tenant, call.caller.name), task_id)
    accepted = await _accept(service, call, request)
    if isinstance(accepted, Message):
        return accepted
    log, turn, is_new = accepted
    feed = service.engine.feed
    configuration = request.configuration
    history_length = configuration.history_length if configuration is not None else None
    if is_new and (history_length is None or history_length > 0):
        return Reader(feed, log, 0, turn=turn)  # a new task's history is the one message
    snapshot = await log.snapshot(history_length)
    return Reader(feed, log, snapshot.seq, turn=turn, first=entry_of(snapshot))


def entry_of(snapshot: Snapshot) -> Entry:
    return Entry(snapshot.seq, b'{"task":%b}' % snapshot.data, snapshot.state)


async def _accept(service: Service, call: Call, request: SendMessageRequest) -> Accepted | Message:
    service.engine.feed.check_accepting()
    if service.required:
        service.check_extensions(call)
    _check(request, service.limits)
    if request.configuration is not None and request.configuration.task_push_notification_config is not None:
        raise PushNotificationNotSupported()
    if not call.idempotency_key and not call.extensions:
        return await _begin(service, call, request, None)
    key = key_of(call, request)
    if not key:
        return await _begin(service, call, request, None)
    scope = Scope(request.tenant, call.caller.name)
    return await service.claims.once(scope, key, request, lambda keep: _begin(service, call, request, keep))


async def _begin(service: Service, call: Call, request: SendMessageRequest, keep: Keep | None) -> Accepted | Message:
    engine, scope, semantics = service.engine, Scope(request.tenant, call.caller.name), call.semantics
    if request.message.task_id:
        return await engine.resume(request, scope, call.caller, keep=keep, reopen=semantics.reopen)
    agent, message = engine.agent, request.message
    is_plain = message.metadata is None and request.metadata is None and agent.router is None
    skill = agent.default if is_plain else await agent.choose(request)
    if agent.strict_modes:
        agent.check_modes(skill, message)
    task_id = semantics.new_task_id
    if task_id:
        check_id("id", task_id, "", service.limits)
        if await engine.feed.find(scope, task_id) is not None:
            request.message.task_id = task_id
            return await engine.resume(request, scope, call.caller, keep=keep, reopen=semantics.reopen)
    if skill.makes_task or semantics.always_task:
        # Nothing is awaited since `find`: two senders of one new id can't both make it.
        return engine.start(skill, request, scope, call.caller, keep=keep, origin=call.origin, task_id=task_id)
    reply = await engine.reply(skill, request, call.caller)
    if keep is not None:
        keep.reply = v1.encode(reply)
        await engine.feed.keep_reply(keep)
    return reply


def _check(request: SendMessageRequest, limits: Limits) -> None:
    """Raise InvalidParams naming every field that is wrong."""
    message, configuration = request.message, request.configuration
    if (
        len(message.parts) == 1
        and message.parts[0].metadata is None
        and (message.metadata is None or len(v1.encode(message.metadata)) <= limits.metadata)
        and request.metadata is None
        and (configuration is None or configuration.history_length is None)
        and message.role is not Role.UNSPECIFIED
        and message.message_id
        and len(ids := message.message_id + message.task_id + message.context_id + request.tenant) <= limits.id_length
        and ids.isprintable()
    ):
        return  # nothing is wrong with the usual message: that is seen at a glance
    wrong = list(_wrong_message(message, limits))
    wrong += wrong_metadata("metadata", request.metadata, limits)
    wrong += wrong_id("tenant", request.tenant, limits)
    if configuration is not None:
        wrong += wrong_history_length("configuration.historyLength", configuration.history_length)
    refuse(wrong)


def _wrong_message(message: Message, limits: Limits) -> Iterable[tuple[str, str]]:
    if not message.message_id:
        yield "message.messageId", "is required"
    yield from wrong_id("message.messageId", message.message_id, limits)
    yield from wrong_id("message.taskId", message.task_id, limits)
    yield from wrong_id("message.contextId", message.context_id, limits)
    if message.role is Role.UNSPECIFIED:
        yield "message.role", "is required: ROLE_USER"
    if not message.parts:
        yield "message.parts", "needs at least one part"
    elif len(message.parts) > limits.parts:
        yield "message.parts", f"has {len(message.parts)} parts; {limits.parts} are allowed"
    yield from wrong_metadata("message.metadata", message.metadata, limits)
    for i, part in enumerate(message.parts):
        if part.metadata is not None:
            yield from wrong_metadata(f"message.parts[{i}].metadata", part.metadata, limits)
