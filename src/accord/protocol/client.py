"""Reading what an agent answers: what every version has in common, and the errors.

The client's half of a version's codec is a module of pure functions: `client` in the version's
folder.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from ..model import (
    A2AError,
    Event,
    Message,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
    errors,
    whole_number,
)
from .mending import Note

__all__ = ["ClientCodec", "EventFrame", "FrameDecoder", "JsonObject", "error_of", "status_error"]

JsonObject: TypeAlias = dict[str, Any]

MAX_WAIT_S = 9_999_999  # the longest Retry-After that is believed
MAX_TEXT = 2_000

_ALL: list[type[A2AError]] = [getattr(errors, name) for name in errors.__all__]
_BY_REASON: dict[str, type[A2AError]] = {}
_BY_CODE: dict[int, type[A2AError]] = {}
_BY_STATUS: dict[int, type[A2AError]] = {}
for _cls in _ALL:
    # The general class of a code or reason comes before its special cases.
    if not any(
        _cls is not other and issubclass(_cls, other) and other.reason == _cls.reason
        for other in _ALL
    ):
        _BY_REASON.setdefault(_cls.reason, _cls)
    if _cls.code != A2AError.code and not any(
        _cls is not o and issubclass(_cls, o) and o.code == _cls.code for o in _ALL
    ):
        _BY_CODE.setdefault(_cls.code, _cls)
    if _cls.is_http_level:
        _BY_STATUS[_cls.status] = _cls
_BY_CODE |= {-31401: Unauthenticated, -31403: PermissionDenied}  # what a2a-go answers
_BY_REASON |= {"UNAUTHORIZED": PermissionDenied}
_BY_STATUS |= {502: Unavailable, 504: Unavailable}
del _BY_STATUS[404]  # by itself it may mean any of several things


class EventFrame(msgspec.Struct, frozen=True, gc=False):
    """What one message of a stream holds: usually one event; none that counts, or several, in the
    old versions.
    """

    events: tuple[Event | Message, ...]
    is_last: bool = False  # the agent says so itself (`final` of the 0.x versions)


FrameDecoder: TypeAlias = Callable[[bytes], EventFrame]


class ClientCodec(Protocol):
    """One version of the protocol over JSON-RPC, seen from the client.

    Operations carry their 1.0 names. What a version has no word for raises UnsupportedOperation
    here, before anything is sent. What can't be understood raises ValueError or
    msgspec.MsgspecError, with the reason. `note` takes what had to be mended. An extended card is
    returned as JSON, as it came.
    """

    version: str  # the value of A2A-Version, empty for versions older than it
    extensions_header: str

    def method(self, operation: str) -> str: ...

    def params(self, operation: str, request: Any) -> bytes: ...

    def result(self, operation: str, raw: bytes, request: Any, note: Note) -> Any: ...

    def frames(self, request: Any, note: Note) -> FrameDecoder: ...

    def error(self, error: JsonObject) -> A2AError: ...


def error_of(
    code: object,
    message: object,
    details: object,
    *,
    codes: Mapping[int, type[A2AError]] = _BY_CODE,
) -> A2AError:
    """Return the error an agent means: by its reason if it gives one, else by its code."""
    reason, metadata, violations = _details(details)
    cls = _BY_REASON.get(reason)
    if cls is None:
        cls = codes.get(code, A2AError) if isinstance(code, int) else A2AError
    text = message if isinstance(message, str) and message.strip() else ""
    if not text and cls is A2AError:
        text = f"error {code!r:.40}"
    detail = {str(k)[:80]: str(v)[:MAX_TEXT] for k, v in metadata.items()}
    if cls is A2AError and isinstance(code, int) and code != A2AError.code:
        detail.setdefault("code", str(code))
    found = cls(text[:MAX_TEXT], violations=violations, reason=reason or None)
    found.detail = detail
    return found


def status_error(status: int, message: str, retry_after: str | None = None) -> A2AError | None:
    """Return the error an HTTP status alone stands for, on every binding; None if it is not one of
    those.
    """
    cls = _BY_STATUS.get(status)
    if cls is None:
        return None
    return cls(message[:MAX_TEXT], retry_after_s=whole_number(retry_after or "", MAX_WAIT_S))


def _details(details: object) -> tuple[str, JsonObject, tuple[tuple[str, str], ...]]:
    """Reason, metadata and field violations from the typed details of 1.0, or from whatever object
    stands there.
    """
    reason = ""
    metadata: JsonObject = {}
    if isinstance(details, dict):
        metadata = {
            name: value for name, value in details.items() if isinstance(value, (str, int, float))
        }
        details = [details]
    violations: tuple[tuple[str, str], ...] = ()
    for item in details if isinstance(details, list) else ():
        if not isinstance(item, dict):
            continue
        if isinstance(item.get("reason"), str) and not reason:
            reason = item["reason"][:80]
            metadata = item["metadata"] if isinstance(item.get("metadata"), dict) else metadata
        fields = item.get("fieldViolations")
        if isinstance(fields, list):
            violations = tuple(
                (str(f.get("field", ""))[:200], str(f.get("description", ""))[:500])
                for f in fields[:50]
                if isinstance(f, dict)
            )
    return reason, metadata, violations
