"""One call: who asks, under which tenant, with which options beside the request."""

import msgspec

from ..auth import ANONYMOUS, Caller
from ..codec.contract import NOW, Semantics
from ..model import IDEMPOTENT, RESUME
from ..store import Scope

__all__ = ["IDEMPOTENT", "RESUME", "Call"]


_ANYONE = Scope()


class Call(msgspec.Struct):
    """What travels beside a request, whatever the binding."""

    caller: Caller = ANONYMOUS
    extensions: frozenset[str] = frozenset()
    idempotency_key: str = ""
    last_event: int | None = None
    origin: str = ""
    semantics: Semantics = NOW

    def scope(self, tenant: str) -> Scope:
        return Scope(tenant, self.caller.name) if tenant or self.caller.name else _ANYONE
