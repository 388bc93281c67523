"""SendMessage and SendStreamingMessage: a message becomes a task, a turn of one, or a bare
reply.
"""

from ..engine.log import Log, Lost, View
from ..engine.runs import Accepted
from ..engine.skills import PROBE_SKILL, is_probe
from ..model import PROBE, Message, Role, SendMessageRequest, TaskPushNotificationConfig
from ..protocol import Snapshot
from ..protocol.v1 import codec as v1
from ..store import Idempotency, Namespace
from .call import Call
from .idempotency import key_of
from .push import inline_config, register, register_before
from .service import Service
from .validation import check_id, check_send

__all__ = ["send_message", "send_streaming_message"]


async def send_message(
    service: Service, call: Call, request: SendMessageRequest
) -> Snapshot | Message:
    """Return the task when it has settled or, with `returnImmediately`, as soon as it exists; or a
    bare reply.
    """
    configuration, tasks = request.configuration, service.tasks
    push = configuration.task_push_notification_config if configuration is not None else None
    accepted = await _accept(service, call, request)
    if isinstance(accepted, Message):
        return accepted
    task, turn, *_ = accepted
    history_length = configuration.history_length if configuration is not None else None
    if configuration is not None and configuration.return_immediately:
        return await tasks.stored_snapshot(task, history_length)
    view = tasks.views.turn(task, turn)
    try:
        snapshot = await view.end(history_length)
    finally:
        view.close()
    if push is not None and service.notifier is not None:
        # Who waits for the answer and for the notification gets the latter first, if it is quick.
        await service.notifier.outbox.attempted(task.key, push.id, snapshot.seq)
    return snapshot


async def send_streaming_message(
    service: Service, call: Call, request: SendMessageRequest
) -> View | Message:
    """Return the events of the task from its first on; of a task that existed, the task as it is,
    then what follows.
    """
    tasks = service.tasks
    task_id = request.message.task_id or call.semantics.new_task_id
    tasks.views.check(service.namespace(request.tenant, call), task_id)
    accepted = await _accept(service, call, request)
    if isinstance(accepted, Message):
        return accepted
    task, turn, is_new, _ = accepted
    configuration = request.configuration
    history_length = configuration.history_length if configuration is not None else None
    if is_new and isinstance(task, Log) and (history_length is None or history_length > 0):
        return tasks.views.new(task, turn)  # a new task's history is the one message
    return await tasks.views.now(task, turn=turn, history_length=history_length)


async def _accept(service: Service, call: Call, request: SendMessageRequest) -> Accepted | Message:
    tasks, limits = service.tasks, service.limits
    if tasks.trouble:
        raise tasks.refusal()
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
        and len(ids := message.message_id + message.task_id + message.context_id + request.tenant)
        <= limits.id_length
        and ids.isprintable()
    ):
        check_send(request, limits)
    if call.caller.name:
        await service.quota.check(service.namespace(request.tenant, call))
    if configuration is not None and configuration.task_push_notification_config is not None:
        return await _accept_pushed(service, call, request)
    return await _accept_once(service, call, request, None)


async def _accept_pushed(
    service: Service, call: Call, request: SendMessageRequest
) -> Accepted | Message:
    """The same for a message that comes with a push config."""
    config = await inline_config(service, call, request)
    return await _accept_once(service, call, request, config)


async def _accept_once(
    service: Service,
    call: Call,
    request: SendMessageRequest,
    push: TaskPushNotificationConfig | None,
) -> Accepted | Message:
    if not call.idempotency_key and not call.extensions:
        return await _begin(service, call, request, None, push)
    key = key_of(call, request)
    if not key:
        return await _begin(service, call, request, None, push)
    namespace = service.namespace(request.tenant, call)
    return await service.sends.once(
        namespace, key, request, lambda record: _begin(service, call, request, record, push)
    )


async def _begin(
    service: Service,
    call: Call,
    request: SendMessageRequest,
    idempotency: Idempotency | None,
    push: TaskPushNotificationConfig | None,
) -> Accepted | Message:
    engine, semantics = service.engine, call.semantics
    namespace = service.namespace(request.tenant, call)
    sender = service.sender(call)
    if request.message.task_id:
        if service.has_scopes or service.agent.checks_modes:
            await _check_task(service, call, namespace, request.message)
        if push is not None:
            await register_before(service, call, push, namespace, request.message.task_id)
        accepted = await engine.resume(
            request, namespace, sender, idempotency=idempotency, reopen=semantics.reopen
        )
        _register(service, call, push, accepted)
        return await _stored(service, accepted) if idempotency is not None else accepted
    agent, message, task_id = service.agent, request.message, semantics.new_task_id
    if not task_id and (namespace.caller or len(engine.tasks.working) >= service.limits.tasks):
        engine.tasks.check_capacity(caller=namespace.caller)
    is_plain = message.metadata is None and request.metadata is None and agent.router is None
    if is_plain:
        skill = agent.default
    elif PROBE in call.extensions and agent.answers_probes and is_probe(request):
        skill = PROBE_SKILL
    else:
        skill = await agent.choose(request)
    if not is_plain and engine.tasks.trouble:
        raise engine.tasks.refusal()  # since it was looked at, somebody was asked
    if skill.scopes:
        service.check_scopes(skill, call)
    if agent.checks_modes and not task_id:
        agent.check_modes(skill, message)
    if task_id:
        check_id("id", task_id, "", service.limits)
        while (unspoken := engine.runs.unspoken.get((namespace, task_id))) is not None:
            await unspoken.spoken()  # of another sender of the same id
        if (namespace, task_id) in engine.tasks.logs or await engine.tasks.store.load(
            namespace, task_id
        ) is not None:
            message.task_id = task_id
            if service.has_scopes or agent.checks_modes:
                await _check_task(service, call, namespace, message)
            if push is not None:
                await register_before(service, call, push, namespace, task_id)
            accepted = await engine.resume(
                request, namespace, sender, idempotency=idempotency, reopen=semantics.reopen
            )
            _register(service, call, push, accepted)
            return accepted
        if agent.checks_modes:
            agent.check_modes(skill, message)
        engine.tasks.check_capacity(caller=namespace.caller)
    if skill.makes_task or semantics.always_task:
        # Nothing is awaited since it was looked for: two senders of one new id can't both make it
        # here.
        accepted = engine.runs.start(
            skill,
            request,
            namespace,
            sender,
            idempotency=idempotency,
            origin=call.origin,
            task_id=task_id,
            always_task=semantics.always_task,
        )
        _register(service, call, push, accepted)
        if accepted.first_word is not None:
            reply = await accepted.first_word.said
            if reply is not None:
                return await _replied(service, reply, idempotency)
        return await _stored(service, accepted) if idempotency is not None or task_id else accepted
    return await _replied(service, await engine.reply(skill, request, sender), idempotency)


async def _replied(service: Service, reply: Message, idempotency: Idempotency | None) -> Message:
    """A message is the answer: who sends again under the same key gets it too."""
    if idempotency is not None:
        idempotency.reply = v1.encode(reply)
        if not await service.tasks.writer.submit(idempotency):
            raise Lost()
    return reply


async def _check_task(service: Service, call: Call, namespace: Namespace, message: Message) -> None:
    """A message to a task is one to its skill."""
    task = await service.tasks.find(namespace, message.task_id)
    if task is None:
        return
    runs, agent = service.engine.runs, service.agent
    if service.has_scopes:
        service.check_scopes(runs.skill_of(task), call)
    skill = runs.find_skill(task)
    if agent.checks_modes and skill is not None:
        agent.check_modes(skill, message, is_first=False)


def _register(
    service: Service, call: Call, push: TaskPushNotificationConfig | None, accepted: Accepted
) -> None:
    """Nothing was awaited since the message was accepted: its commit is still to come."""
    if push is not None:
        register(service, call, push, accepted)


async def _stored(service: Service, accepted: Accepted) -> Accepted:
    """Where other processes use the store too, one may have used the key, or made a task of that
    id: its commit may be refused.
    """
    if service.tasks.store.is_shared and isinstance(accepted.task, Log):
        await accepted.task.stored()
    return accepted
