"""GetTask, ListTasks, CancelTask, SubscribeToTask."""

import asyncio
import base64
import binascii
import logging

from ..codec.contract import LARGE, Snapshot, Tasks
from ..engine.log.entry import STATE_NUMBER
from ..engine.log.reader import Reader
from ..engine.log.stored import check_whole
from ..model import (
    FINAL,
    CancelTaskRequest,
    GetTaskRequest,
    InvalidParams,
    ListTasksRequest,
    SubscribeRequest,
    TaskNotFound,
    UnsupportedOperation,
)
from ..store import Page, Query, Record, Scope
from .call import RESUME, Call
from .check import check_history_length, check_id, check_list, since_ms
from .send import entry_of
from .service import Service

__all__ = ["cancel_task", "get_task", "list_tasks", "subscribe_to_task"]

DEFAULT_PAGE = 50

log_ = logging.getLogger("accord")


async def get_task(service: Service, call: Call, request: GetTaskRequest) -> Snapshot:
    """Return the task, or raise TaskNotFound if it is not this caller's to see."""
    check_id("id", request.id, request.tenant, service.limits)
    check_history_length(request.history_length)
    snapshot = await service.engine.feed.peek(Scope(request.tenant, call.caller.name), request.id, request.history_length)
    if snapshot is None:
        raise TaskNotFound(f"Task not found: {request.id:.80}", taskId=request.id)
    return snapshot


async def list_tasks(service: Service, call: Call, request: ListTasksRequest) -> Tasks:
    """Return a page of the caller's tasks, newest status first."""
    check_list(request, service.limits)
    scope = Scope(request.tenant, call.caller.name)
    size = request.page_size or DEFAULT_PAGE
    query = Query(
        scope=scope,
        limit=size,
        context_id=request.context_id,
        state=STATE_NUMBER[request.status],
        since_ms=since_ms(request.status_timestamp_after),
        before=_read_token(request.page_token),
        size=service.limits.page,
        has_artifacts=bool(request.include_artifacts),
    )
    page = await service.engine.feed.page(query)
    is_plain = service.engine.feed.store.is_volatile and request.history_length is None and not request.include_artifacts
    if is_plain and not any(record.is_stale for record in page.tasks):
        tasks = [record.head for record in page.tasks]  # as they were stored
    else:
        tasks = await _fitting(service, page, request)
    return Tasks([task for task in tasks if task], _write_token(page.next), size, page.total)


async def _fitting(service: Service, page: Page, request: ListTasksRequest) -> list[bytes]:
    """The tasks of a page as a list shows them. What has grown since it was stored may be too much for one: then it ends there."""
    tasks: list[bytes] = []
    size = 0
    for i, record in enumerate(page.tasks):
        task = await _listed(service, record.scope, record, request)
        size += len(task)
        if i and size > service.limits.page:
            before = page.tasks[i - 1]
            page.next = (before.at_ms, before.key)
            break
        tasks.append(task)
        if len(task) > LARGE:
            await asyncio.sleep(0)  # a page of large ones is a long way
    return tasks


async def _listed(service: Service, scope: Scope, record: Record, request: ListTasksRequest) -> bytes:
    """The task as a list shows it; nothing for one that can't be read, which must not hide the others."""
    try:
        return await _shown(service, scope, record, request)
    except ValueError:
        log_.exception("task %s can't be read, and is left out of a list", record.id)
        return b""


async def _shown(service: Service, scope: Scope, record: Record, request: ListTasksRequest) -> bytes:
    if not record.is_stale:
        check_whole(record)
    if record.is_stale or request.history_length is not None:
        snapshot = await service.engine.feed.peek(scope, record.id, request.history_length)
        head, artifacts = (snapshot.head, snapshot.artifacts) if snapshot is not None else (record.head, record.artifacts)
    else:
        head, artifacts = record.head, record.artifacts
    # Absent unless asked for; if asked for present, even if empty (spec LST-5).
    return b'%b,"artifacts":%b}' % (head[:-1], artifacts) if request.include_artifacts else head


async def cancel_task(service: Service, call: Call, request: CancelTaskRequest) -> Snapshot:
    """End a task as canceled. Cancelling a canceled one returns it; other ends are not cancelable."""
    check_id("id", request.id, request.tenant, service.limits)
    return await service.engine.cancel(
        Scope(request.tenant, call.caller.name), request.id, twice_fails=call.semantics.cancel_twice_fails
    )


async def subscribe_to_task(service: Service, call: Call, request: SubscribeRequest) -> Reader:
    """Return the task as it is and what follows; with the resume extension and a cursor, only what follows the cursor."""
    check_id("id", request.id, request.tenant, service.limits)
    engine = service.engine
    scope = Scope(request.tenant, call.caller.name)
    engine.feed.check_readers(scope, request.id)
    log = await engine.find(scope, request.id)
    if RESUME in call.extensions and call.last_event is not None:
        if call.last_event > log.seq:
            engine.feed.let_go(log)
            what = f"task {request.id} has no event {call.last_event} yet; its last is {log.seq}"
            raise InvalidParams(what, violations=(("Last-Event-ID", what),))
        return Reader(engine.feed, log, call.last_event)
    if log.task.status.state in FINAL:
        snapshot = await log.snapshot()  # an end is told when it is stored, also as the reason of a refusal
        if call.semantics.ends_with_snapshot:
            return Reader(engine.feed, log, snapshot.seq, first=entry_of(snapshot))
        raise UnsupportedOperation(f"task {request.id} is already {log.task.status.state.word}", taskId=request.id)
    log.readers += 1  # held while its commit is awaited: one let go meanwhile would have nothing more to say
    try:
        snapshot = await log.snapshot()
        return Reader(engine.feed, log, snapshot.seq, first=entry_of(snapshot))
    finally:
        log.readers -= 1


def _write_token(place: tuple[int, int] | None) -> str:
    if place is None:
        return ""
    return base64.urlsafe_b64encode(b"%d.%d" % place).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, int] | None:
    if not token:
        return None
    try:
        at_ms, key = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode().split(".")
        place = (int(at_ms), int(key))
        if not (0 <= place[0] < 2**53 and 0 <= place[1] < 2**53):
            raise ValueError
        return place
    except (ValueError, binascii.Error):
        what = "is not a token this server gave; start again without one"
        raise InvalidParams(f"pageToken: {what}", violations=(("pageToken", what),)) from None
