"""What every binding offers the client, and what the HTTP ones share."""

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
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
    "ItemStream",
    "Items",
    "SseItems",
    "beside",
    "moved",
    "only",
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


class ItemStream(Protocol):
    """The messages of a stream as they come, what came together together. It ends where the
    connection ends.
    """

    def __aiter__(self) -> AsyncIterator[Items]: ...

    async def __anext__(self) -> Items: ...

    async def aclose(self) -> None:
        """Let go of the connection, unless all was read: then it can be used again."""
        ...


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

    async def stream(
        self, operation: str, request: Any, extra: Extra, timeout_s: float
    ) -> ItemStream:
        """Return the stream that the agent has begun. Whoever gets it closes it.

        Raises as `call` does.
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


class SseItems:
    """The messages of an SSE body; `read` opens one. What came before one that makes no sense is
    not lost for it.
    """

    __slots__ = ("_body", "_chunks", "_depth", "_fault", "_is_over", "_parser", "_read", "_url")

    def __init__(
        self, body: ResponseBody, url: str, budget: Budget, read: Callable[[bytes], EventFrame]
    ) -> None:
        self._body = body
        self._chunks = body.chunks()
        self._parser = sse.SseParser(budget.event_bytes)
        self._depth = budget.depth
        self._url = url
        self._read = read
        self._fault: A2AError | None = None  # of what came after the messages that were given
        self._is_over = False

    def __aiter__(self) -> "SseItems":
        return self

    async def __anext__(self) -> Items:
        while not self._is_over:
            chunk = await anext(self._chunks, None)
            self._is_over = chunk is None
            items = self._items(chunk)
            if items:
                return items
        if self._fault is not None:
            raise self._fault
        raise StopAsyncIteration

    def _items(self, chunk: bytes | None) -> Items:
        """Return the messages that end in a chunk; None is the end of the body."""
        items: Items = []
        try:
            found = self._parser.feed(chunk) if chunk is not None else self._parser.end()
            understood(self._url, "an event", self._open, found, items)
        except sse.TooBig:
            most = f"an event is larger than {self._parser.limit} bytes"
            self._fault, self._is_over = BadAnswer(safe_url(self._url), most), True
        except A2AError as error:
            self._fault, self._is_over = error, True
        return items

    def _open(self, found: list[sse.Sse], items: Items) -> None:
        for event in found:
            check_depth(event.data, self._depth)
            items.append(Item(self._read(event.data), event.id))

    async def aclose(self) -> None:
        self._is_over = True
        await self._body.close()


async def only(items: Items) -> AsyncGenerator[Items, None]:
    """Yield what came instead of a stream: an agent that does not stream, but did the work."""
    yield items


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
