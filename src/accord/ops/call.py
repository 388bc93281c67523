"""One call: who asks, under which tenant, with which options beside the request."""

import asyncio

import msgspec

from ..auth import ANONYMOUS, Caller
from ..codec.contract import NOW, Semantics
from ..model import IDEMPOTENT, RESUME

__all__ = ["IDEMPOTENT", "RESUME", "Call", "in_task"]


class Call(msgspec.Struct):
    """What travels beside a request, whatever the binding."""

    caller: Caller = ANONYMOUS
    extensions: frozenset[str] = frozenset()
    idempotency_key: str = ""
    last_event: int | None = None
    version: str = ""  # of the protocol, as the caller names it
    origin: str = ""
    semantics: Semantics = NOW


async def in_task() -> None:
    """Go on in a task, which a request gets only when it has to wait: code that is not ours may count on one."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)
