"""Running an operation for a caller who may go away meanwhile."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from ..run.reader import Reader
from .call import IDEMPOTENT, Call
from .service import Service
from .table import Operation

__all__ = ["perform"]


def perform(operation: Operation, service: Service, call: Call, request: Any) -> Awaitable[Any]:
    """Run an operation, to its end even if the caller is gone before, where half of it would be worse than none."""
    work = operation.run(service, call, request)
    if operation.is_droppable and not (call.idempotency_key or IDEMPOTENT in call.extensions):
        return work
    return _to_the_end(asyncio.ensure_future(work))


async def _to_the_end(work: asyncio.Future[Any]) -> Any:
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(_discard)
        raise


def _discard(work: asyncio.Future[Any]) -> None:
    """Nobody waits for this any more."""
    if not work.cancelled() and work.exception() is None and isinstance(reader := work.result(), Reader):
        reader.close()
