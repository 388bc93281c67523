"""What every binding offers the client, and what the HTTP ones share."""

import math
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import urljoin

import msgspec

from ...model import A2AError, ParseError, whole_number
from ...net import Response, ResponseBody, origin_of, safe_url
from ...observe import NO_TRACE, Trace
from ...protocol import EventFrame, JsonObject, status_error
from ..budget import Budget, check_depth
from ..errors import BadAnswer
from ..streams import sse

__all__ = [
    "NOTHING",
    "Binding",
    "Extra",
    "Item",
    "Items",
    "beside",
    "events",
    "moved",
    "read_all",
    "refusal",
    "seconds",
    "understood",
]

T = TypeVar("T")

_any = msgspec.json.Decoder()


class Extra(msgspec.Struct, frozen=True):
    """What travels beside a request, on every binding."""

    extensions: str = ""
    key: str = ""  # the idempotency key
    after: str = ""  # resume after this event
    trace: Trace = NO_TRACE


NOTHING = Extra()


def beside(extra: Extra, extensions_header: str) -> dict[str, str]:
    """Return the headers that carry it."""
    named = {
        extensions_header: extra.extensions,
        "Idempotency-Key": extra.key,
        "Last-Event-ID": extra.after,
        "traceparent": extra.trace.traceparent,
        "tracestate": extra.trace.tracestate,
    }
    return {name: value for name, value in named.items() if value}


class Item(msgspec.Struct, gc=False):
    """One message of a stream, and the cursor that stands behind it."""

    frame: EventFrame
    cursor: str


Items: TypeAlias = list[Item]


class Binding(Protocol):
    """One way to talk to one agent. Operations and requests are those of 1.0, whatever is spoken on
    the wire.
    """

    name: str
    version: str
    url: str

    async def call(self, operation: str, request: Any, extra: Extra, timeout_s: float) -> Any:
        """Return the operation's result.

        Raises:
            A2AError: The agent says so, or (BadAnswer) says something that can't be understood.
            AgentFault: There was no answer.
        """
        ...

    def stream(
        self, operation: str, request: Any, extra: Extra, timeout_s: float
    ) -> AsyncGenerator[list[Item], None]:
        """Yield the messages of a stream as they come, what came together together; none, once the
        agent has begun one.

        Ends where the connection ends.
        """
        ...

    async def close(self) -> None:
        """Let go of what only this binding holds."""
        ...


def understood(url: str, what: str, read: Callable[..., T], *given: Any) -> T:
    """Return `read(*given)`; what it can't make sense of becomes BadAnswer."""
    try:
        return read(*given)
    except A2AError as error:
        if isinstance(error, ParseError):
            raise BadAnswer(safe_url(url), f"{what} can't be understood: {error}") from None
        raise
    except (
        msgspec.MsgspecError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ) as error:
        why = (
            "it is nested too deep"
            if isinstance(error, RecursionError)
            else str(error) or type(error).__name__
        )
        raise BadAnswer(safe_url(url), f"{what} can't be understood: {why[:300]}") from None


def refusal(
    url: str,
    status: int,
    retry_after: str | None,
    location: str | None,
    body: bytes,
    read: Callable[[JsonObject], A2AError | None],
) -> A2AError:
    """Return the error of an answer whose status is not 2xx: what its body says, else what its
    status says.
    """
    try:
        value = _any.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = None
    said = read(value) if isinstance(value, dict) else None
    what = str(said) if said is not None else f"{safe_url(url)}: HTTP {status}"
    by_status = status_error(status, what, seconds(retry_after))
    if by_status is not None:
        if said is None or type(said) is A2AError:
            by_status.detail = said.detail if said is not None else {}
            return by_status
        said.retry_after_s = by_status.retry_after_s
    if said is not None:
        return said
    if 300 <= status < 400:
        return BadAnswer(
            safe_url(url),
            f"redirects to {safe_url(location or '?')[:200]}; connect to that address instead",
        )
    return BadAnswer(safe_url(url), f"HTTP {status} instead of an answer", status)


def moved(url: str, status: int, location: str | None) -> str | None:
    """Return where to send a call instead: only what a redirect keeps whole, and only on the same
    origin.
    """
    if status not in (307, 308) or not location:
        return None
    try:
        target = urljoin(url, location)
        return target if target != url and origin_of(target) == origin_of(url) else None
    except ValueError:
        return None


def seconds(retry_after: str | None) -> str | None:
    """Retry-After as seconds: it may also be a date."""
    if retry_after is None or whole_number(retry_after) is not None:
        return retry_after
    try:
        left = parsedate_to_datetime(retry_after).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return str(max(math.ceil(left), 0))


async def events(
    body: ResponseBody, url: str, budget: Budget, read: Callable[[bytes], EventFrame]
) -> AsyncGenerator[list[Item], None]:
    """Yield the messages of an SSE body; `read` opens one. What came before one that makes no sense
    is not lost for it.
    """
    try:
        async with aclosing(sse.read(body.chunks(), budget.event_bytes)) as source:
            async for batch in source:
                items: list[Item] = []
                try:
                    understood(url, "an event", _open, batch, read, budget.depth, items)
                except A2AError:
                    if items:
                        yield items
                    raise
                yield items
    except sse.TooBig:
        raise BadAnswer(
            safe_url(url), f"an event is larger than {budget.event_bytes} bytes"
        ) from None
    finally:
        await body.close()


def _open(
    batch: list[sse.Sse], read: Callable[[bytes], EventFrame], depth: int, items: list[Item]
) -> None:
    for event in batch:
        check_depth(event.data, depth)
        items.append(Item(read(event.data), event.id))


async def read_all(body: ResponseBody, url: str, limit: int) -> Response:
    """Read a body to its end, because it turned out not to be a stream."""
    pieces, size = [], 0
    try:
        async for piece in body.chunks():
            size += len(piece)
            if size > limit:
                raise BadAnswer(safe_url(url), f"the answer is larger than {limit} bytes")
            pieces.append(piece)
    finally:
        await body.close()
    return Response(body.status, body.headers, b"".join(pieces))
