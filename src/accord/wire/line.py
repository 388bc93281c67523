"""The sending half of an HTTP/1.1 connection, and its life: answers, the end, and whoever takes too long."""

import asyncio
import contextvars
import http
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ..model import Limits
from ..sockets import reset
from .intake import Chunked, Head, Sized
from .request import Answer, Pairs, Place, Request, Stream
from .unread import Unread

__all__ = ["ANSWER", "BODY", "END", "HEAD", "NEXT", "Home", "Line"]

FLUSH_BYTES = 64 << 10  # a body of more is not copied behind its head
LINGER_S = 2.0  # for a refusal to be heard by a client that is still sending
LINGER_BYTES = 16 << 20  # what may be under way before a client looks at the answer: the buffers of two systems

# What a connection waits for
HEAD, BODY, ANSWER, NEXT, END = range(5)

_STATUS = {status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in http.HTTPStatus}
_CLOSE = b"connection: close\r\n"
_STAY = b"connection: keep-alive\r\n"  # said to those who don't take it for granted
_CHUNKED = b"transfer-encoding: chunked\r\n"


class Home(Protocol):
    """Where a connection belongs."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    unread: Unread
    scheme: str
    date: bytes  # the header
    ok: bytes  # the beginning of most answers
    context: contextvars.Context
    is_leaving: bool

    @property
    def is_full(self) -> bool:
        """More has come in part than there is room for."""

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer | Stream]:
        """Answer a request."""

    def hold(self, size: int) -> None:
        """So much more, or less, has come in part."""

    def joined(self, link: Any) -> None:
        """There is a new connection."""

    def left(self, link: Any) -> None:
        """A connection is gone."""


class Line(asyncio.Protocol):
    """One client, which is answered.

    `look` is called once a second: a timer per request would cost more than reading it.
    """

    # fmt: off
    __slots__ = (
        "_dropped", "_opening", "_stuck_bytes", "_waiter", "ahead", "body", "head", "home", "is_cut", "is_deaf",
        "is_gone", "is_kept", "is_old", "is_paused", "is_reading", "known", "since", "state", "taken_at", "task", "transport",
    )
    # fmt: on

    def __init__(self, home: Home) -> None:
        self.home = home
        self.transport: Any = None
        self.state = HEAD
        self.since = home.loop.time()  # when the wait began
        self.ahead: bytes | bytearray | None = None  # what has come, and is not read yet
        self.known = b""  # the head of the last request, as it came
        self.head: Head | None = None  # and read
        self.body: Sized | Chunked | None = None  # as far as it has come
        self.task: asyncio.Task[None] | None = None  # that answers
        self._opening = b""  # the head of a stream, which goes along with the first of it
        self._waiter: asyncio.Future[None] | None = None
        self.is_kept = True  # the client may ask again
        self.is_old = False  # it knows no chunks
        self.is_cut = False  # it is still sending what nobody will read
        self.is_paused = False  # it does not take what is sent
        self.is_deaf = False  # and neither do we
        self.is_reading = False
        self._dropped = 0  # bytes that came after the end
        self.taken_at, self._stuck_bytes = 0.0, 0  # when the client last took something, while something waits; and how much does
        self.is_gone = False

    # The transport's side

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.home.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        self.state = END
        self.transport = self.head = None
        self.forget_body()
        self.home.left(self)
        self.home.unread.discard(self)
        task, self.task = self.task, None
        if task is not None:
            task.cancel()

    def pause_writing(self) -> None:
        self.is_paused = True
        self.taken_at, self._stuck_bytes = self.home.loop.time(), self.transport.get_write_buffer_size()
        self.home.unread.add(self)

    def resume_writing(self) -> None:
        self.is_paused = False
        self.taken_at = 0.0
        self.home.unread.discard(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self.state == NEXT:
            self.next()

    def forget_body(self) -> None:
        if self.body is not None:
            self.home.hold(-len(self.body.data))
            self.body = None

    def next(self) -> None:
        """Take the next request, if it has come."""

    def place(self) -> Place:
        name, port = self.transport.get_extra_info("sockname")[:2] if self.transport is not None else ("localhost", None)
        return Place(self.home.scheme, (name, port))

    # Answers

    def give(self, answer: Answer) -> None:
        """Send an answer that is there as a whole."""
        head, body = self.head, answer.body
        if self.transport is None or head is None:
            return
        size = len(body)
        is_head = head.target.verb == "HEAD"
        if self.is_kept and answer.status == 200 and not answer.headers and not is_head and not self.is_old:
            opening = b"%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (self.home.ok, answer.content_type, size)
        else:
            lines = [_STATUS[answer.status], self.home.date]
            if size:
                lines.append(b"content-type: %b\r\n" % answer.content_type)
            if answer.status not in (204, 304):
                lines.append(b"content-length: %d\r\n" % size)
            opening = self._headed(lines, answer.headers)
        if is_head:
            body = b""
        if size > FLUSH_BYTES:
            self.transport.write(opening)
            self.transport.write(body)
        else:
            self.transport.write(opening + body)

    def _headed(self, lines: list[bytes], headers: Pairs) -> bytes:
        for name, value in headers:
            if b"\n" in value or b"\r" in value:
                raise ValueError(f"the header {name!r} would break the answer apart")
            if name != b"connection":
                lines.append(b"%b: %b\r\n" % (name, value))
            elif value == b"close":
                self.is_kept = False
        if not self.is_kept:
            lines.append(_CLOSE)
        elif self.is_old:
            lines.append(_STAY)
        lines.append(b"\r\n")
        return b"".join(lines)

    def open(self, headers: Pairs) -> None:
        """Begin a stream."""
        lines = [_STATUS[200], self.home.date]
        if self.is_old:
            self.is_kept = False  # where it ends, only closing can say
        else:
            lines.append(_CHUNKED)
        self._opening = self._headed(lines, headers)
        self.known, self.head = b"", None  # thousands may stay like this for days

    async def ready(self) -> None:
        if self.is_paused:
            await self._drained()

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        if self.is_paused:
            await self._drained()
        if self.transport is None:
            return
        if not self.is_old:
            end = b"0\r\n\r\n" if is_last else b""
            data = b"%x\r\n%b\r\n%b" % (len(data), data, end) if data else end
        if self._opening:
            data, self._opening = self._opening + data, b""
        if data:
            self.transport.write(data)

    async def flush(self) -> None:
        await self.write(b"")

    def idle(self, on_gone: Callable[[], None]) -> None:
        """Whoever answers a client that goes away is cancelled."""

    async def _drained(self) -> None:
        """Wait until the client takes something."""
        self._waiter = self.home.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def answered(self) -> None:
        """All has been sent."""
        self.task = None
        if self.state != ANSWER:
            return
        if not self.is_kept or self.home.is_leaving:
            self.close(is_sending=self.is_cut)
            return
        self.state, self.since = NEXT, self.home.loop.time()
        if self.ahead is not None and not self.is_reading:
            self.home.loop.call_soon(self.next, context=self.home.context)

    # Its end

    def refuse(self, status: int, text: str, *, is_sending: bool = False) -> None:
        """Say what is wrong with what came, and no more. There is no answer under way: the next request is read after it."""
        self.forget_body()
        body = text.encode()
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(body)
        self.transport.write(b"".join((_STATUS[status], self.home.date, head, _CLOSE, b"\r\n", body)))
        self.close(is_sending=is_sending)

    def close(self, *, is_sending: bool = False) -> None:
        """Close; if the client is still sending, when it has heard us, or a moment later.

        Closing at once, with bytes come that nobody reads, would reset the connection and take the answer with it.
        """
        self.state, self.since = END, self.home.loop.time()
        self.ahead = self.head = None
        transport = self.transport
        if not is_sending or not transport.can_write_eof():  # over TLS there is no way to say "that was all" and listen on
            transport.close()
            return
        if self.is_deaf:
            self.is_deaf = False
            transport.resume_reading()
        try:
            transport.write_eof()
        except OSError:  # it has hung up already
            transport.abort()

    def drop(self, size: int) -> None:
        """Something came after the end."""
        self._dropped += size
        if self._dropped > self.home.limits.body + LINGER_BYTES:
            self.abort()

    def leave(self) -> None:
        """Close when the request under way is answered."""
        if self.state == NEXT or (self.state == HEAD and self.ahead is None):
            self.close()
        self.is_kept = False

    def end(self) -> None:
        """Stop whatever is under way, without the closing chunk: a cut must not look like an end."""
        self.abort()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def unread(self) -> int:
        return int(self.transport.get_write_buffer_size()) if self.transport is not None else 0

    def reset_connection(self) -> None:
        if self.transport is not None:
            reset(self.transport)

    def fileno(self) -> int:
        return int(self.transport.get_extra_info("socket").fileno()) if self.transport is not None else -1

    # Once in a while

    def look(self, now: float) -> None:
        """Close the connection if its request has not gone on for too long, or none comes; cut a client that takes nothing."""
        if self.taken_at and self._is_stuck(now):
            self.reset_connection()
            return
        limits, waited_s, state = self.home.limits, now - self.since, self.state
        if state == ANSWER:
            return
        if state == NEXT:
            if waited_s > limits.keep_alive_s and not self.is_paused:
                self.close()
        elif state == END:
            if waited_s > LINGER_S and not self.is_paused:
                self.abort()
        elif waited_s > (patience_s := limits.header_s if state == HEAD else limits.body_idle_s):
            self.refuse(408, f"the rest of the request did not come within {patience_s:g} s")

    def _is_stuck(self, now: float) -> bool:
        waiting = self.transport.get_write_buffer_size()
        if waiting < self._stuck_bytes:
            self.taken_at, self._stuck_bytes = now, waiting  # slow, but it takes something
            return False
        return now - self.taken_at > self.home.limits.stalled_s
