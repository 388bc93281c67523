"""GetTask, ListTasks, CancelTask, SubscribeToTask."""

import asyncio
import base64
import binascii
import functools
import hashlib
import logging

import msgspec

from ..engine import LARGE
from ..engine.log import STATE_NUMBER, Log, state_of
from ..engine.reading import View
from ..engine.runs import not_found
from ..model import (
    FINAL,
    CancelTaskRequest,
    GetTaskRequest,
    InvalidParams,
    ListTasksRequest,
    SubscribeRequest,
    UnsupportedOperation,
    whole_number,
)
from ..protocol import Snapshot, TaskPage
from ..store import Namespace, Page, Query, Record
from .call import RESUME, Call
from .service import Service
from .validation import check_history_length, check_id, check_list, since_ms

__all__ = ["cancel_task", "get_task", "list_tasks", "subscribe_to_task"]

DEFAULT_PAGE = 50
LONG_POLL_S = 30.0  # proxies often close what is silent for a minute
# Counting all tasks that match would take too long: totalSize is how far that went.
INEXACT = ((b"accord-total", b"at-least"),)

log_ = logging.getLogger("accord")


async def get_task(service: Service, call: Call, request: GetTaskRequest) -> Snapshot:
    """Return the task, or raise TaskNotFound if it is not this caller's to see. With a generation
    the caller knows, wait for a while until the task is beyond it.
    """
    check_id("id", request.id, request.tenant, service.limits)
    check_history_length(request.history_length)
    namespace = service.namespace(request.tenant, call)
    if call.semantics.current_generation is not None:
        await _wait_beyond(service, namespace, request.id, call.semantics.current_generation)
        # Whoever asks again for the same call has waited.
        call.semantics = msgspec.structs.replace(call.semantics, current_generation=None)
    reader = service.tasks.reader
    snapshot = await reader.peek(namespace, request.id, request.history_length)
    if snapshot is None:
        raise not_found(request.id)
    if call.semantics.has_timeline:
        length = request.history_length
        return await reader.with_timeline(namespace, request.id, snapshot, length)
    return snapshot


async def _wait_beyond(service: Service, namespace: Namespace, task_id: str, known: int) -> None:
    """Return when the task is beyond this generation, when it has ended, or after 30 s. Counts as a
    stream of the task.
    """
    tasks = service.tasks
    task = await tasks.find(namespace, task_id)
    if task is None or _stored_generation(task) > known:
        return  # nothing is held, so it is no stream
    tasks.views.check(namespace, task_id)
    loop = asyncio.get_running_loop()
    until = loop.time() + LONG_POLL_S
    view = await tasks.views.latest(task)
    try:
        while view.cursor <= known and (left_s := until - loop.time()) > 0:
            if await view.next(left_s) == [] or view.has_lost:
                return  # it has ended; or it is not the task any more that the caller knows
    finally:
        view.close()


def _stored_generation(task: Log | Record) -> int:
    return task.commits.stored_seq if isinstance(task, Log) else task.seq


async def list_tasks(service: Service, call: Call, request: ListTasksRequest) -> TaskPage:
    """Return a page of the caller's tasks, newest status first."""
    check_list(request, service.limits)
    size = request.page_size or DEFAULT_PAGE
    namespace = service.namespace(request.tenant, call)
    query = Query(
        namespace=namespace,
        limit=size,
        context_id=request.context_id,
        state=STATE_NUMBER[request.status],
        since_ms=since_ms(request.status_timestamp_after),
        before=_read_token(request.page_token, namespace),
        size=service.limits.page,
        has_artifacts=bool(request.include_artifacts),
    )
    page = await service.tasks.reader.page(query)
    if not page.is_exact:
        call.headers = INEXACT
    tasks, seqs = await _fitting(service, page, request)
    return TaskPage(tasks, _write_token(page.next, namespace), size, page.total, seqs)


async def _fitting(
    service: Service, page: Page, request: ListTasksRequest
) -> tuple[list[bytes], list[int]]:
    """The tasks of a page as a list shows them, with the number of each one's last event. What has
    grown since it was stored may be too much for one: then it ends there.
    """
    tasks: list[bytes] = []
    seqs: list[int] = []
    size = paused = 0
    # If one of them is damaged, each is looked at by itself.
    is_plain = (
        request.history_length is None
        and not request.include_artifacts
        and service.tasks.reader.are_whole(page.tasks)
    )
    for i, record in enumerate(page.tasks):
        task = (
            record.head
            if is_plain and not record.is_stale
            else await _listed(service, record, request)
        )
        size += len(task)
        if i and size > service.limits.page:
            before = page.tasks[i - 1]
            page.next = (before.at_ms, before.key)
            break
        if task:
            tasks.append(task)
            seqs.append(record.seq)
        if size - paused > LARGE:
            paused = size
            await asyncio.sleep(0)  # a page of large ones is a long way
    return tasks, seqs


async def _listed(service: Service, record: Record, request: ListTasksRequest) -> bytes:
    """The task as a list shows it; nothing for one that can't be read, which must not hide the
    others.
    """
    try:
        snapshot = await service.tasks.reader.shown(record, request.history_length)
    except ValueError:
        log_.exception("task %s can't be read, and is left out of a list", record.id)
        return b""
    # Artifacts are absent unless asked for; if asked for present, even if empty.
    return (
        b'%b,"artifacts":%b}' % (snapshot.head[:-1], snapshot.artifacts)
        if request.include_artifacts
        else snapshot.head
    )


async def cancel_task(service: Service, call: Call, request: CancelTaskRequest) -> Snapshot:
    """End a task as canceled. Cancelling a canceled one returns it; other ends are not
    cancelable.
    """
    check_id("id", request.id, request.tenant, service.limits)
    return await service.engine.cancel(
        service.namespace(request.tenant, call),
        request.id,
        twice_fails=call.semantics.cancel_twice_fails,
    )


async def subscribe_to_task(service: Service, call: Call, request: SubscribeRequest) -> View:
    """Return the task as it is and what follows; with the resume extension and a cursor, only what
    follows the cursor.
    """
    check_id("id", request.id, request.tenant, service.limits)
    tasks, namespace = service.tasks, service.namespace(request.tenant, call)
    tasks.views.check(namespace, request.id)
    task = await tasks.find(namespace, request.id)
    if task is None:
        raise not_found(request.id)
    if RESUME in call.extensions and call.last_event is not None:
        if call.last_event <= task.seq:
            return await tasks.views.after(task, call.last_event)
        # A cursor beyond the log: the task as it is, which is the sign of a gap.
        return await tasks.views.now(task)
    state = task.state if isinstance(task, Log) else state_of(task.state)
    if state in FINAL and not call.semantics.ends_with_snapshot:
        # An end is shown when it is stored, also as the reason of a refusal.
        await tasks.reader.stored_snapshot(task)
        raise UnsupportedOperation(f"task {request.id} is already {state.word}", taskId=request.id)
    return await tasks.views.now(task)


def _write_token(place: tuple[int, int] | None, namespace: Namespace) -> str:
    if place is None:
        return ""
    return base64.urlsafe_b64encode(b"%d.%d.%b" % (*place, _tag(namespace))).decode().rstrip("=")


def _read_token(token: str, namespace: Namespace) -> tuple[int, int] | None:
    """Where a page begins. A token of another caller is as good as one nobody gave."""
    if not token:
        return None
    try:
        first, second, tag = base64.b64decode(
            token + "=" * (-len(token) % 4), altchars=b"-_", validate=True
        ).split(b".")
        at_ms, key = whole_number(first), whole_number(second)
        if at_ms is None or key is None or tag != _tag(namespace):
            raise ValueError
        return at_ms, key
    except (ValueError, binascii.Error):
        what = "is not a token this server gave; start again without one"
        raise InvalidParams(f"pageToken: {what}", violations=(("pageToken", what),)) from None


@functools.lru_cache(1024)
def _tag(namespace: Namespace) -> bytes:
    return (
        hashlib.sha256(repr(tuple(namespace)).encode("utf-8", "replace")).hexdigest()[:16].encode()
    )
