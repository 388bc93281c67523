"""One call: who asks, under which tenant, with which options beside the request."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from ..auth import ANONYMOUS, Caller
from ..model import IDEMPOTENT, RESUME, SCHEMA
from ..protocol import DEFAULT_SEMANTICS, Semantics

__all__ = ["IDEMPOTENT", "RESUME", "SCHEMA", "Call"]


NO_HEADERS: Mapping[bytes, bytes] = MappingProxyType({})


class Call(msgspec.Struct):
    """What travels beside a request, whatever the binding."""

    caller: Caller = ANONYMOUS
    extensions: frozenset[str] = frozenset()
    idempotency_key: str = ""
    last_event: int | None = None
    version: str = ""  # of the protocol, as the caller names it
    origin: str = ""
    semantics: Semantics = DEFAULT_SEMANTICS
    headers: tuple[tuple[bytes, bytes], ...] = ()  # of the answer: what has no place in its body
    request_headers: Mapping[bytes, bytes] = NO_HEADERS
    base_url: Callable[[], str] | None = None  # the address the caller used, if that is known
