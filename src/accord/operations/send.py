"""SendMessage and SendStreamingMessage: a message becomes a task, a turn of one, or a bare
reply.
"""

from ..engine.log import Lost
from ..engine.reading import Receipt, View
from ..engine.skills import PROBE_SKILL, Skill, is_probe
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
    configuration = request.configuration
    push = configuration.task_push_notification_config if configuration is not None else None
    receipt = await _accept(service, call, request)
    if isinstance(receipt, Message):
        return receipt
    try:
        history_length = configuration.history_length if configuration is not None else None
        if configuration is not None and configuration.return_immediately:
            return await receipt.snapshot(history_length)
        snapshot = await receipt.answer(history_length)
    finally:
        receipt.close()
    if push is not None and service.notifier is not None:
        # Who waits for the answer and for the notification gets the latter first, if it is quick.
        await service.notifier.outbox.attempted(receipt.task.key, push.id, snapshot.seq)
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
    receipt = await _accept(service, call, request)
    if isinstance(receipt, Message):
        return receipt
    configuration = request.configuration
    try:
        return await receipt.stream(configuration.history_length if configuration else None)
    finally:
        receipt.close()


async def _accept(service: Service, call: Call, request: SendMessageRequest) -> Receipt | Message:
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
) -> Receipt | Message:
    """The same for a message that comes with a push config."""
    config = await inline_config(service, call, request)
    return await _accept_once(service, call, request, config)


async def _accept_once(
    service: Service,
    call: Call,
    request: SendMessageRequest,
    push: TaskPushNotificationConfig | None,
) -> Receipt | Message:
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
) -> Receipt | Message:
    task_id = call.semantics.new_task_id
    if request.message.task_id:
        return await _resume(service, call, request, idempotency, push)
    engine, namespace = service.engine, service.namespace(request.tenant, call)
    if not task_id and (namespace.caller or len(engine.tasks.working) >= service.limits.tasks):
        engine.tasks.check_capacity(caller=namespace.caller)
    skill = await _choose(service, call, request)
    if task_id:
        check_id("id", task_id, "", service.limits)
        while (unspoken := engine.runs.unspoken.get((namespace, task_id))) is not None:
            await unspoken.spoken()  # of another sender of the same id
        if await _exists(service, namespace, task_id):
            request.message.task_id = task_id
            return await _resume(service, call, request, idempotency, push)
        if service.agent.checks_modes:
            service.agent.check_modes(skill, request.message)
        engine.tasks.check_capacity(caller=namespace.caller)
    if skill.makes_task or call.semantics.always_task:
        # Nothing is awaited since it was looked for: two senders of one new id can't both make it
        # here.
        return await _start(service, call, request, skill, idempotency, push)
    reply = await engine.reply(skill, request, service.sender(call))
    return await _replied(service, reply, idempotency)


async def _exists(service: Service, namespace: Namespace, task_id: str) -> bool:
    tasks = service.tasks
    return (
        tasks.directory.log((namespace, task_id)) is not None
        or await tasks.store.load(namespace, task_id) is not None
    )


async def _choose(service: Service, call: Call, request: SendMessageRequest) -> Skill:
    """Return the skill for a message that begins a task. Raises if the caller may not use it."""
    agent, message, tasks = service.agent, request.message, service.tasks
    is_plain = message.metadata is None and request.metadata is None and agent.router is None
    if is_plain:
        skill = agent.default
    elif PROBE in call.extensions and agent.answers_probes and is_probe(request):
        skill = PROBE_SKILL
    else:
        skill = await agent.choose(request)
    if not is_plain and tasks.trouble:
        raise tasks.refusal()  # since it was looked at, somebody was asked
    if skill.scopes:
        service.check_scopes(skill, call)
    if agent.checks_modes and not call.semantics.new_task_id:
        agent.check_modes(skill, message)
    return skill


async def _start(
    service: Service,
    call: Call,
    request: SendMessageRequest,
    skill: Skill,
    idempotency: Idempotency | None,
    push: TaskPushNotificationConfig | None,
) -> Receipt | Message:
    """Begin a task."""
    semantics = call.semantics
    receipt, first_word = service.engine.runs.start(
        skill,
        request,
        service.namespace(request.tenant, call),
        service.sender(call),
        idempotency=idempotency,
        origin=call.origin,
        task_id=semantics.new_task_id,
        always_task=semantics.always_task,
    )
    try:
        if push is not None:  # nothing was awaited: the commit of the message is still to come
            register(service, call, push, receipt)
        reply = await first_word.said if first_word is not None else None
        if reply is None:
            await _settled(service, receipt, idempotency)
            return receipt
    except BaseException:
        receipt.close()
        raise
    receipt.close()
    return await _replied(service, reply, idempotency)


async def _resume(
    service: Service,
    call: Call,
    request: SendMessageRequest,
    idempotency: Idempotency | None,
    push: TaskPushNotificationConfig | None,
) -> Receipt:
    """Take a message to the task it names."""
    namespace = service.namespace(request.tenant, call)
    if service.has_scopes or service.agent.checks_modes:
        await _check_task(service, call, namespace, request.message)
    if push is not None:
        await register_before(service, call, push, namespace, request.message.task_id)
    receipt = await service.engine.resume(
        request,
        namespace,
        service.sender(call),
        idempotency=idempotency,
        reopen=call.semantics.reopen,
    )
    try:
        if push is not None:  # nothing was awaited: the commit of the message is still to come
            register(service, call, push, receipt)
        await _settled(service, receipt, idempotency)
    except BaseException:
        receipt.close()
        raise
    return receipt


async def _settled(service: Service, receipt: Receipt, idempotency: Idempotency | None) -> None:
    """Return when nobody else can have used the key of a message, or the id of its task.

    Where other processes use the store too, its commit may be refused.
    """
    if idempotency is not None and service.tasks.store.is_shared:
        await receipt.stored()


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
