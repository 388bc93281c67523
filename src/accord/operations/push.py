"""The four push-config operations (A2A 1.0, sections 3.1.7 to 3.1.10), and the config that comes
with a send.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable

from ..engine.log import Log
from ..engine.reading import Receipt
from ..engine.runs import not_found
from ..model import (
    PUSH_ARTIFACTS,
    DeletePushConfigRequest,
    GetPushConfigRequest,
    InvalidParams,
    ListPushConfigsRequest,
    ListPushConfigsResponse,
    PushNotificationNotSupported,
    SendMessageRequest,
    TaskNotFound,
    TaskPushNotificationConfig,
    whole_number,
)
from ..push import Notifier
from ..store import Namespace, Push
from .call import Call
from .service import Service
from .validation import MAX_PAGE, check_id

__all__ = [
    "create_push_config",
    "delete_push_config",
    "get_push_config",
    "inline_config",
    "list_push_configs",
    "register",
    "register_before",
]

DEFAULT = "default"  # what clients of 0.3 call a config they set without an id
STATE_HEADER = b"accord-push-state"  # of a config that is not in order: there is no field for it
_INLINE = "configuration.taskPushNotificationConfig."


async def create_push_config(
    service: Service, call: Call, request: TaskPushNotificationConfig
) -> TaskPushNotificationConfig:
    """Register a webhook for a task; one of the same id is replaced."""
    notifier = _notifier(service)
    check_id("taskId", request.task_id, request.tenant, service.limits)
    namespace = service.namespace(request.tenant, call)
    if not request.url and call.semantics.empty_url_removes_push:
        key, _ = await _place(service, namespace, request.task_id)
        await notifier.webhooks.delete(key, request.id)
        return request
    await notifier.webhooks.check(request, namespace)
    key, seq = await _place(service, namespace, request.task_id)
    await _check_count(service, call, request, key, request.task_id)
    push = _made(notifier, call, request, namespace, key, request.task_id, seq)
    if not await notifier.webhooks.put(push):
        raise not_found(request.task_id)
    return notifier.webhooks.shown(_named(push, request.task_id))


async def get_push_config(
    service: Service, call: Call, request: GetPushConfigRequest
) -> TaskPushNotificationConfig:
    notifier = _notifier(service)
    check_id("taskId", request.task_id, request.tenant, service.limits)
    if not call.semantics.has_one_push_config:
        check_id("id", request.id, request.tenant, service.limits)
    found = await _of(service, notifier, call, request.tenant, request.task_id)
    push = _find(found, request.id, request.task_id, call)
    if push is None and call.semantics.empty_url_removes_push:
        return TaskPushNotificationConfig(url="", id=request.id, task_id=request.task_id)
    if push is None:
        raise _no_config(request.task_id, request.id)
    call.headers = _states([push])
    return notifier.webhooks.shown(push)


async def list_push_configs(
    service: Service, call: Call, request: ListPushConfigsRequest
) -> ListPushConfigsResponse:
    notifier = _notifier(service)
    check_id("taskId", request.task_id, request.tenant, service.limits)
    size = request.page_size or MAX_PAGE
    if not 1 <= size <= MAX_PAGE:
        what = f"{size} is not between 1 and {MAX_PAGE}"
        raise InvalidParams(f"pageSize: {what}", violations=(("pageSize", what),))
    after = _read_token(request.page_token)
    found = await _of(service, notifier, call, request.tenant, request.task_id)
    left = [push for push in found if push.n > after]
    page = left[:size]
    call.headers = _states(page)
    return ListPushConfigsResponse(
        configs=[notifier.webhooks.shown(push) for push in page],
        next_page_token=_write_token(page[-1].n) if len(left) > size else "",
    )


async def delete_push_config(
    service: Service, call: Call, request: DeletePushConfigRequest
) -> None:
    """Delete a webhook. To delete it again changes nothing (A2A 1.0, section 3.1.10)."""
    notifier = _notifier(service)
    check_id("taskId", request.task_id, request.tenant, service.limits)
    check_id("id", request.id, request.tenant, service.limits)
    found = await _of(service, notifier, call, request.tenant, request.task_id)
    push = _find(found, request.id, request.task_id, call)
    if push is not None:
        await notifier.webhooks.delete(push.task, push.id)


# The config that comes with a send


async def inline_config(
    service: Service, call: Call, request: SendMessageRequest
) -> TaskPushNotificationConfig | None:
    """Return the config of a send, checked; it is taken out of the request, which may be stored."""
    configuration = request.configuration
    if configuration is None or configuration.task_push_notification_config is None:
        return None
    config = configuration.task_push_notification_config
    notifier = _notifier(service)
    await notifier.webhooks.check(config, service.namespace(request.tenant, call), field=_INLINE)
    configuration.task_push_notification_config = None
    return config


def register(
    service: Service, call: Call, config: TaskPushNotificationConfig, receipt: Receipt
) -> None:
    """Store the config in the commit of the message it came with. To be called before anything is
    awaited since that was accepted.
    """
    log = receipt.task
    if not isinstance(log, Log):
        return  # another process owns the task: `register_before` has stored it
    sent = 0 if receipt.is_new else log.commits.stored_seq
    log.register(
        _made(_notifier(service), call, config, log.namespace, log.key, log.ids.task_id, sent)
    )


async def register_before(
    service: Service,
    call: Call,
    config: TaskPushNotificationConfig,
    namespace: Namespace,
    task_id: str,
) -> Callable[[], Awaitable[None]]:
    """Check that a task that exists may have the config. Return what stores it before the message
    goes to another process: it has to be in time for the commits of that process.
    """
    key, seq = await _place(service, namespace, task_id)
    await _check_count(service, call, config, key, task_id)

    async def store() -> None:
        notifier = _notifier(service)
        await notifier.webhooks.put(_made(notifier, call, config, namespace, key, task_id, seq))

    return store


# What they share


def _notifier(service: Service) -> Notifier:
    """Return the notifier. An agent without the capability says so before it reads the request."""
    if service.notifier is None:
        raise PushNotificationNotSupported()
    return service.notifier


async def _place(service: Service, namespace: Namespace, task_id: str) -> tuple[int, int]:
    """The key of a task and its last number; TaskNotFound if it is not this caller's to see."""
    place = await service.tasks.reader.place(namespace, task_id)
    if place is None:
        raise not_found(task_id)
    return place


async def _check_count(
    service: Service, call: Call, config: TaskPushNotificationConfig, key: int, task_id: str
) -> None:
    """A task has so many configs and no more. One of an id that is there replaces that."""
    there = await _notifier(service).webhooks.store.of(key)
    most = service.limits.push_configs_per_task
    if len(there) >= most and _id_of(config, call, task_id) not in {push.id for push in there}:
        raise InvalidParams(f"task {task_id} has {most} push configs, the most allowed; delete one")


async def _of(
    service: Service, notifier: Notifier, call: Call, tenant: str, task_id: str
) -> list[Push]:
    key, _ = await _place(service, service.namespace(tenant, call), task_id)
    return await notifier.webhooks.store.of(key)


def _find(found: list[Push], id: str, task_id: str, call: Call) -> Push | None:
    push = next((push for push in found if push.id == id), None)
    if push is not None or not call.semantics.has_one_push_config or id not in ("", DEFAULT):
        return push
    unnamed = next((push for push in found if push.id == task_id), None)
    return unnamed or (found[0] if found and not id else None)


def _made(
    notifier: Notifier,
    call: Call,
    config: TaskPushNotificationConfig,
    namespace: Namespace,
    key: int,
    task_id: str,
    seq: int,
) -> Push:
    config.id = _id_of(config, call, task_id)
    return notifier.webhooks.made(
        config,
        task=key,
        task_id=task_id,
        namespace=namespace,
        version=call.origin.partition("/")[0],
        sent=seq,
        has_artifacts=PUSH_ARTIFACTS in call.extensions,
    )


def _id_of(config: TaskPushNotificationConfig, call: Call, task_id: str) -> str:
    """The id of a config; empty if it is to get a new one."""
    return config.id or (task_id if call.semantics.has_one_push_config else "")


def _named(push: Push, task_id: str) -> Push:
    push.task_id = task_id
    return push


def _states(pushes: list[Push]) -> tuple[tuple[bytes, bytes], ...]:
    """Tell the owner of a webhook that it fails, or why it was disabled."""
    states = [
        f"{push.id}: disabled: {push.disabled}" if push.disabled else f"{push.id}: {push.error}"
        for push in pushes
        if push.disabled or (push.failing_ms and push.error)
    ]
    text = "; ".join(states).encode("ascii", "replace")[:1000]
    return ((STATE_HEADER, text),) if text else ()


def _no_config(task_id: str, id: str) -> TaskNotFound:
    return TaskNotFound(f"task {task_id[:80]} has no push config {id[:80]!r}", taskId=task_id[:256])


def _write_token(n: int) -> str:
    return base64.urlsafe_b64encode(b"p%d" % n).decode().rstrip("=")


def _read_token(token: str) -> int:
    if not token:
        return 0
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        number = whole_number(text[1:])
        if not text.startswith(b"p") or number is None:
            raise ValueError
        return number
    except (ValueError, binascii.Error):
        what = "is not a token this server gave; start again without one"
        raise InvalidParams(f"pageToken: {what}", violations=(("pageToken", what),)) from None
