"""The request log: one line per request, at `info`, by the logger `accord.requests`."""

import logging
import time
from collections.abc import Awaitable
from typing import Any

from ..auth import Caller
from ..engine.reading import View
from ..model import A2AError, Message
from ..protocol import Snapshot

__all__ = ["begin", "log_done", "log_refused", "logged"]

log_ = logging.getLogger("accord.requests")

_LINE = "%s caller=%s task=%s state=%s %.1f ms"
_REFUSED = "%s caller=%s error=%s: %s %.1f ms"


def begin() -> float:
    """The moment a request begins; 0 if requests are not logged, and nothing else is to be done."""
    return time.monotonic() if log_.isEnabledFor(logging.INFO) else 0.0


async def logged(work: Awaitable[Any], operation: str, caller: Caller, request: Any) -> Any:
    """Await the work of a request, and log that it was done. A stream is logged when it opens."""
    since_s = time.monotonic()
    found = await work
    log_done(operation, caller, *_task_of(found, request), since_s)
    return found


def log_done(operation: str, caller: Caller, task_id: str, state: str, since_s: float) -> None:
    """Log a request that was answered."""
    ms = (time.monotonic() - since_s) * 1000
    log_.info(
        _LINE,
        *(operation, caller.identity or "-", task_id or "-", state or "-", ms),
        extra={
            "operation": operation,
            "caller": caller.identity,
            "task_id": task_id,
            "state": state,
            "ms": round(ms, 1),
        },
    )


def log_refused(operation: str, caller: Caller, error: A2AError, since_s: float) -> None:
    """Log a request that was answered with an error."""
    ms = (time.monotonic() - since_s) * 1000
    log_.info(
        _REFUSED,
        *(operation or "-", caller.identity or "-", type(error).__name__, error, ms),
        extra={
            "operation": operation,
            "caller": caller.identity,
            "task_id": str(error.detail.get("taskId", "")),
            "error": type(error).__name__,
            "ms": round(ms, 1),
        },
    )


def _task_of(found: Any, request: Any) -> tuple[str, str]:
    """The task an answer is about, and its state."""
    if isinstance(found, View):
        return found.task_id, found.state.word
    if isinstance(found, Snapshot):
        return found.task_id, found.state.word
    if isinstance(found, Message):
        return "", "message"
    return str(getattr(request, "task_id", "")), ""
