"""SendMessage and SendStreamingMessage: a message becomes a task, a turn of one, or a bare
reply.
"""

import asyncio

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ..engine.log import Lost
from ..engine.reading import Receipt, View
from ..engine.runs import not_found
from ..engine.skills import PROBE_SKILL, Skill, is_probe
from ..files import SPILL, Files, Hold, named_by_content, refer_parts
from ..model import (
    PROBE,
    QUESTION,
    A2AError,
    InvalidParams,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskPushNotificationConfig,
    Unavailable,
    question_named,
)
from ..protocol import Snapshot
from ..protocol.v1 import codec as v1
from ..store import Idempotency, Namespace
from .call import Call
from .fork import forked, is_fork
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
            snapshot, push = await receipt.snapshot(history_length), None
        else:
            snapshot = await receipt.answer(history_length)
    finally:
        receipt.close()
    if push is not None and service.notifier is not None:
        # Who waits for the answer and for the notification gets the latter first, if it is quick.
        await service.notifier.outbox.attempted(receipt.task.key, push.id, snapshot.seq)
    if call.semantics.has_timeline:
        namespace, reader = service.namespace(request.tenant, call), service.tasks.reader
        return await reader.with_timeline(namespace, snapshot.task_id, snapshot, history_length)
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


class _Send(msgspec.Struct):
    """A message on its way to its task."""

    service: Service
    call: Call
    request: SendMessageRequest
    namespace: Namespace
    push: TaskPushNotificationConfig | None = None  # the webhook that came with it
    idempotency: Idempotency | None = None  # its key


async def _accept(service: Service, call: Call, request: SendMessageRequest) -> Receipt | Message:
    """Check a message and take it to its task, once for each key."""
    tasks, limits = service.tasks, service.limits
    if tasks.trouble:
        raise tasks.refusal()
    if service.required:
        service.check_extensions(call)
    message, configuration = request.message, request.configuration
    if not (  # nothing is wrong with the usual message: that is seen at a glance
        len(message.parts) == 1
        and message.parts[0].metadata is None
        and (
            message.metadata is None
            or (
                len(v1.encode(message.metadata)) <= limits.metadata
                and QUESTION not in message.metadata
            )
        )
        and request.metadata is None
        and (configuration is None or configuration.history_length is None)
        and message.role is not Role.UNSPECIFIED
        and message.message_id
        and len(ids := message.message_id + message.task_id + message.context_id + request.tenant)
        <= limits.id_length
        and ids.isprintable()
    ):
        check_send(request, limits, needs_parts=not is_fork(message))
    send = _Send(service, call, request, service.namespace(request.tenant, call))
    if call.caller.name:
        await service.quota.check(send.namespace)
    if configuration is not None and configuration.task_push_notification_config is not None:
        send.push = await inline_config(service, call, request)
    if (call.idempotency_key or call.extensions) and (key := key_of(call, request)):
        asked = await _named_by_content(send)
        return await service.sends.once(
            send.namespace, key, asked, lambda record: _take(replace(send, idempotency=record))
        )
    return await _take(send)


async def _take(send: _Send) -> Receipt | Message:
    """Take a message to the task it names; if it names none, begin one."""
    files, message = send.service.tasks.files, send.request.message
    if files is not None and any(map(_is_file, message.parts)):
        return await _take_files(send, files)
    return await _take_referred(send)


async def _take_files(send: _Send, files: Files) -> Receipt | Message:
    """Take a message whose files become references."""
    message, service = send.request.message, send.service
    holds: list[Hold] = []
    try:
        message.parts = await refer_parts(
            files, send.namespace, message.parts, lambda: [service.base_url(send.call)], holds
        )
        taken = await _take_referred(send)
    except Unavailable:  # it may be stored all the same
        raise
    except A2AError:
        await files.release(holds)
        raise
    if isinstance(taken, Message):  # there is no task to refer to them
        await files.release(holds)
    return taken


async def _take_referred(send: _Send) -> Receipt | Message:
    message = send.request.message
    if message.metadata is not None and is_fork(message):
        return await _fork(send)
    return await (_resume(send) if message.task_id else _begin(send))


def _is_file(part: Part) -> bool:
    return part.url is not UNSET or (isinstance(part.raw, bytes) and len(part.raw) > SPILL)


async def _named_by_content(send: _Send) -> SendMessageRequest:
    """Return a request with the digests of uploaded files instead of their addresses: who sends
    again under a key may have uploaded them again.
    """
    service, request = send.service, send.request
    files, message = service.tasks.files, request.message
    if files is None or all(part.url is UNSET for part in message.parts):
        return request
    parts = [
        await named_by_content(files, send.namespace, part, lambda: [service.base_url(send.call)])
        for part in message.parts
    ]
    return replace(request, message=replace(message, parts=parts))


async def _begin(send: _Send) -> Receipt | Message:
    """Begin a task, or answer with a message if the skill makes no task."""
    service, call, request, namespace = send.service, send.call, send.request, send.namespace
    tasks, task_id = service.tasks, call.semantics.new_task_id
    if not task_id and (namespace.caller or len(tasks.working) >= service.limits.tasks):
        tasks.check_capacity(caller=namespace.caller)
    skill = await _choose(service, call, request)
    if task_id:
        check_id("id", task_id, "", service.limits)
        while (pending := service.engine.runs.pending_task(namespace, task_id)) is not None:
            await asyncio.wait({pending.decided})  # of another sender of the same id
        if await _exists(service, namespace, task_id):
            request.message.task_id = task_id
            return await _resume(send)
        if service.agent.checks_modes:
            service.agent.check_modes(skill, request.message)
        tasks.check_capacity(caller=namespace.caller)
    if request.message.metadata is not None and question_named(request.message):
        raise not_found(task_id) if task_id else _no_task_named()
    if skill.makes_task or call.semantics.always_task:
        # Nothing is awaited since it was looked for: two senders of one new id can't both make it
        # here.
        return await _start(send, skill)
    reply = await service.engine.reply(skill, request, namespace, service.sender(call))
    return await _replied(send, reply)


def _no_task_named() -> InvalidParams:
    what = "is required: the message names a question, and a question belongs to a task"
    return InvalidParams(f"message.taskId: {what}", violations=(("message.taskId", what),))


async def _exists(service: Service, namespace: Namespace, task_id: str) -> bool:
    tasks, place = service.tasks, (namespace, task_id)
    return (
        tasks.directory.log(place) is not None
        or await tasks.store.load(*place) is not None
        # made by another sender, while the store was asked
        or tasks.directory.log(place) is not None
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


async def _start(send: _Send, skill: Skill) -> Receipt | Message:
    """Make a task and start its run. The first output may decide that there is none."""
    service, call = send.service, send.call
    begun = service.engine.runs.start(
        skill,
        send.request,
        send.namespace,
        service.sender(call),
        idempotency=send.idempotency,
        origin=call.origin,
        task_id=call.semantics.new_task_id,
        always_task=call.semantics.always_task,
    )
    receipt, reply = begun.receipt, None
    try:
        if send.push is not None:  # nothing was awaited: the commit of the message is to come
            register(service, call, send.push, receipt)
        if begun.pending is not None:
            reply = await begun.pending.decided
        if send.idempotency is not None and reply is None:
            await receipt.stored()  # else somebody may have used the key
    except BaseException:
        receipt.close()
        raise
    if reply is None:
        return receipt
    receipt.close()
    return await _replied(send, reply)


async def _resume(send: _Send) -> Receipt:
    """Take a message to the task it names."""
    service, call, message = send.service, send.call, send.request.message
    if service.has_scopes or service.agent.checks_modes:
        await _check_task(service, call, send.namespace, message)
    before_post = None
    if send.push is not None:
        before_post = await register_before(
            service, call, send.push, send.namespace, message.task_id
        )
    receipt = await service.engine.resume(
        send.request,
        send.namespace,
        service.sender(call),
        idempotency=send.idempotency,
        reopen=call.semantics.reopen,
        if_generation=call.semantics.if_generation_match,
        before_post=before_post,
    )
    return await _completed(send, receipt)


async def _fork(send: _Send) -> Receipt:
    """Make a task of what another had done up to one of its events."""
    service, call = send.service, send.call
    fork = await forked(service, call, send.request, send.idempotency)
    return await _completed(send, await service.engine.forks.fork(fork))


async def _completed(send: _Send, receipt: Receipt) -> Receipt:
    """Return a receipt when its webhook is registered and its key is known to be its own."""
    try:
        if send.push is not None:  # nothing was awaited: the commit of the message is to come
            register(send.service, send.call, send.push, receipt)
        if send.idempotency is not None:
            await receipt.stored()  # else somebody may have used the key
    except BaseException:
        receipt.close()
        raise
    return receipt


async def _replied(send: _Send, reply: Message) -> Message:
    """A message is the answer: who sends again under the same key gets it too."""
    if send.idempotency is not None:
        send.idempotency.reply = v1.encode(reply)
        if not await send.service.tasks.writer.submit(send.idempotency):
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
