"""SendMessage and SendStreamingMessage: a message becomes a task, a turn of one, or a bare reply."""

import asyncio

from ..codec import v1
from ..codec.contract import Snapshot
from ..engine.log.entry import Entry
from ..engine.log.reader import Reader
from ..engine.runs.engine import Accepted
from ..model import Message, PushNotificationNotSupported, Role, SendMessageRequest
from ..store import Keep, Scope
from .call import Call
from .check import check_id, check_send
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
    answer: asyncio.Future[Snapshot] = log.book.loop.create_future()
    turn.waiting.append((answer, history_length))
    return await answer


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
    feed, limits = service.engine.feed, service.limits
    if feed.is_draining or feed.is_failing or feed.is_fenced:
        raise feed.refusal()
    if service.required:
        service.check_extensions(call)
    message, configuration = request.message, request.configuration
    if not (  # nothing is wrong with the usual message: that is seen at a glance
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
        check_send(request, limits)
    if configuration is not None and configuration.task_push_notification_config is not None:
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
    agent, message, task_id = engine.agent, request.message, semantics.new_task_id
    if not task_id and len(engine.feed.working) >= service.limits.tasks:
        engine.feed.check_room()
    is_plain = message.metadata is None and request.metadata is None and agent.router is None
    skill = agent.default if is_plain else await agent.choose(request)
    if agent.strict_modes:
        agent.check_modes(skill, message)
    if task_id:
        check_id("id", task_id, "", service.limits)
        log = await engine.feed.find(scope, task_id)
        if log is not None:
            request.message.task_id = task_id
            return await engine.hand_over(log, request, call.caller, keep=keep, reopen=semantics.reopen)
        engine.feed.check_room()
    if skill.makes_task or semantics.always_task:
        # Nothing is awaited since `find`: two senders of one new id can't both make it.
        return engine.start(skill, request, scope, call.caller, keep=keep, origin=call.origin, task_id=task_id)
    reply = await engine.reply(skill, request, call.caller)
    if keep is not None:
        keep.reply = v1.encode(reply)
        await engine.feed.keep_reply(keep)
    return reply
