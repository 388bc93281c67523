"""Whether a request makes sense, before anything is done about it. The same for every binding."""

import datetime
import math
import re
from collections.abc import Iterable

import msgspec

from ..model import (
    QUESTION,
    InvalidParams,
    Limits,
    ListTasksRequest,
    Message,
    Metadata,
    Role,
    SendMessageRequest,
    question_named,
)

__all__ = [
    "check_history_length",
    "check_id",
    "check_list",
    "check_send",
    "since_ms",
]

MAX_PAGE = 100

_INT32 = 2**31 - 1
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def check_send(request: SendMessageRequest, limits: Limits, *, needs_parts: bool = True) -> None:
    """Raise InvalidParams naming every field that is wrong."""
    message, configuration = request.message, request.configuration
    wrong = list(_message(message, limits, needs_parts))
    wrong += _metadata("metadata", request.metadata, limits)
    wrong += _id("tenant", request.tenant, limits)
    if configuration is not None:
        wrong += _history_length("configuration.historyLength", configuration.history_length)
    _refuse(wrong)


def check_id(field: str, value: str, tenant: str, limits: Limits) -> None:
    if value and not tenant and len(value) <= limits.id_length and value.isprintable():
        return
    wrong = [(field, "is required")] if not value else list(_id(field, value, limits))
    wrong += _id("tenant", tenant, limits)
    _refuse(wrong)


def check_history_length(value: int | None) -> None:
    if value is not None:
        _refuse(_history_length("historyLength", value))


def check_list(request: ListTasksRequest, limits: Limits) -> None:
    wrong = [*_id("tenant", request.tenant, limits), *_id("contextId", request.context_id, limits)]
    wrong += _history_length("historyLength", request.history_length)
    if request.page_size is not None and not 1 <= request.page_size <= MAX_PAGE:
        wrong.append(("pageSize", f"{request.page_size} is not between 1 and {MAX_PAGE}"))
    if request.status_timestamp_after and not _RFC3339.fullmatch(request.status_timestamp_after):
        wrong.append(("statusTimestampAfter", "is not a time like 2026-03-01T00:00:00Z"))
    _refuse(wrong)


def since_ms(text: str) -> int | None:
    """Return the first millisecond at or after the time in `text`; None for no text."""
    if not text:
        return None
    head, _, zone_part = text.partition(".")
    digits = re.match(r"\d*", zone_part)
    fraction = digits.group() if digits else ""
    zone = zone_part[len(fraction) :] if zone_part else ""
    try:
        moment = datetime.datetime.fromisoformat((head + zone) if zone else head)
    except ValueError:
        raise InvalidParams(
            f"statusTimestampAfter: {text!r:.80} is not a time",
            violations=(("statusTimestampAfter", "is no time"),),
        ) from None
    seconds = math.floor(moment.timestamp())
    return (
        seconds * 1000 + math.ceil(int(fraction.ljust(9, "0")) / 1_000_000)
        if fraction
        else seconds * 1000
    )


def _message(message: Message, limits: Limits, needs_parts: bool) -> Iterable[tuple[str, str]]:
    if not message.message_id:
        yield "message.messageId", "is required"
    yield from _id("message.messageId", message.message_id, limits)
    yield from _id("message.taskId", message.task_id, limits)
    yield from _id("message.contextId", message.context_id, limits)
    if message.role is Role.UNSPECIFIED:
        yield "message.role", "is required: ROLE_USER"
    if not message.parts and needs_parts:
        yield "message.parts", "needs at least one part"
    elif len(message.parts) > limits.parts:
        yield "message.parts", f"has {len(message.parts)} parts; {limits.parts} are allowed"
    yield from _metadata("message.metadata", message.metadata, limits)
    # Else it would answer whatever is asked when it arrives.
    if message.metadata and QUESTION in message.metadata and not question_named(message):
        what = 'does not name a question: it has to be {"id": ...} with the id of the question'
        yield f"message.metadata[{QUESTION}]", what
    for i, part in enumerate(message.parts):
        if part.metadata is not None:
            yield from _metadata(f"message.parts[{i}].metadata", part.metadata, limits)


def _id(field: str, value: str, limits: Limits) -> Iterable[tuple[str, str]]:
    if len(value) > limits.id_length:
        yield field, f"is longer than {limits.id_length} characters"
    elif value and _CONTROL.search(value):
        yield field, "holds control characters"


def _metadata(field: str, value: Metadata | None, limits: Limits) -> Iterable[tuple[str, str]]:
    if value is not None and len(msgspec.json.encode(value)) > limits.metadata:
        yield field, f"is larger than {limits.metadata} bytes"


def _history_length(field: str, value: int | None) -> list[tuple[str, str]]:
    if value is not None and not 0 <= value <= _INT32:
        return [(field, f"{value} is not a number of messages; use 0 or more")]
    return []


def _refuse(wrong: list[tuple[str, str]]) -> None:
    if wrong:
        raise InvalidParams(
            "; ".join(f"{field}: {what}" for field, what in wrong), violations=tuple(wrong)
        )
