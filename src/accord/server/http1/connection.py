"""A server's side of one HTTP/1.1 connection (RFC 9112): requests in, answers out, one after the
other.

What a client may cost is bounded: bytes of a head and of a body, bytes sent ahead, the time to say
what it wants and to take what it is given, and the time others wait for it. Who goes too far gets
an error, and the connection is closed.
"""

import asyncio
import contextvars
import http
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from ...sockets import reset
from ..request import (
    BodyStream,
    HttpRequest,
    HttpResponse,
    Pairs,
    Peer,
    Problem,
    ServerUrl,
    SizedResponse,
    StreamingResponse,
    check_header,
    is_upload,
    not_read,
    too_busy,
    too_large,
)
from ..transport import BACKLOG, BODY_WAITS, TURN_S, PausableReader, start_task
from .parser import Bad, Chunked, RequestHead, Sized, is_request, read_head

if TYPE_CHECKING:
    from ...model import Limits
    from ..transport import UnreadAnswers

__all__ = ["ANSWER", "BODY", "END", "HEAD", "NEXT", "UPLOAD", "Http1Connection", "Http1Listener"]

log_ = logging.getLogger("accord")

# Of requests that come before the last one is answered; then we stop reading.
AHEAD_BYTES = 64 << 10
AT_ONCE = 32  # requests answered before others have their turn
KNOWN_BYTES = 2 << 10  # of a head that is remembered: clients write the same one again and again
FLUSH_BYTES = 64 << 10  # a body of more is not copied behind its head
LINGER_S = 2.0  # for a refusal to be heard by a client that is still sending
# What may be under way before a client looks at the answer: the buffers of two systems.
LINGER_BYTES = 16 << 20

# What a connection waits for
HEAD, BODY, ANSWER, NEXT, END, UPLOAD = range(6)

_STATUS = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in http.HTTPStatus
}
_CLOSE = b"connection: close\r\n"
_STAY = b"connection: keep-alive\r\n"  # said to those who don't take it for granted
_CHUNKED = b"transfer-encoding: chunked\r\n"


_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Http1Listener(Protocol):
    """Where a connection belongs."""

    loop: asyncio.AbstractEventLoop
    limits: "Limits"
    unread: "UnreadAnswers"
    scheme: str
    date: bytes  # the header, and what every answer says beside it
    ok: bytes  # the beginning of most answers
    context: contextvars.Context
    is_leaving: bool

    @property
    def is_full(self) -> bool:
        """More has come in part than there is room for."""

    def answer(self, request: HttpRequest) -> Coroutine[Any, Any, HttpResponse | StreamingResponse]:
        """Answer a request."""

    def is_refused(self, request: HttpRequest) -> bool:
        """Whether a request is refused for what its headers say."""

    def later(self, work: Callable[[], None]) -> None:
        """Go on in a later turn of the loop, when it is this connection's."""

    def hold(self, holder: Any, size: int) -> None:
        """So much more, or less, of a request of `holder` has come in part."""

    def joined(self, link: Any) -> None:
        """There is a new connection."""

    def left(self, link: Any) -> None:
        """A connection is gone."""


class Http1Connection(PausableReader):
    """One client. Its requests are answered in order; the next is read when the last is answered.

    `check_timeouts` is called once a second: a timer per request would cost more than reading it.
    """

    # fmt: off
    __slots__ = (
        "_at", "_body_since", "_dropped", "_held", "_is_sized", "_opening", "_sent_stream", "_stream", "_stuck_bytes", "_waiter", "ahead", "body", "head",  # noqa: E501
        "is_body_unread", "is_gone", "is_keep_alive", "is_old", "is_reading", "is_write_paused", "known", "listener", "since", "state",  # noqa: E501
        "taken_at", "task",
    )
    # fmt: on

    def __init__(self, listener: Http1Listener) -> None:
        super().__init__()
        self.listener = listener
        self.state = HEAD
        self.since = listener.loop.time()  # when the wait began
        self.ahead: bytes | bytearray | None = None  # what has come, and is not read yet
        self.known = b""  # the head of the last request, as it came
        self.head: RequestHead | None = None  # and read
        self._at = 0  # where in `ahead` the next request begins
        self.body: Sized | Chunked | None = None  # as far as it has come
        self._body_since = 0.0
        self._held = 0  # bytes of it that the listener has counted
        self._stream: StreamingResponse | None = None
        self._sent_stream: BodyStream | None = None  # an upload that is under way
        self._is_sized = False  # the answer has a length, and no chunks
        self.task: asyncio.Task[None] | None = None  # that answers
        self._opening = b""  # the head of a stream, which goes along with the first of it
        self._waiter: asyncio.Future[None] | None = None
        self.is_keep_alive = True  # the client may ask again
        self.is_old = False  # it knows no chunks
        self.is_body_unread = False  # it is still sending what nobody will read
        self.is_write_paused = False  # it does not take what is sent
        self.is_reading = False
        self._dropped = 0  # bytes that came after the end
        # When the client last took something, while something waits; and how much does.
        self.taken_at, self._stuck_bytes = (
            0.0,
            0,
        )
        self.is_gone = False

    # The transport's side

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.listener.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        self.state = END
        self.transport = self.head = None
        self.forget_body()
        if self._sent_stream is not None:
            self._sent_stream.end(ConnectionResetError("the client is gone"))
            self._sent_stream = None
        self.listener.left(self)
        self.listener.unread.discard(self)
        task, self.task = self.task, None
        if task is not None:
            task.cancel()

    def pause_writing(self) -> None:
        self.is_write_paused = True
        self.taken_at, self._stuck_bytes = (
            self.listener.loop.time(),
            self.transport.get_write_buffer_size(),
        )
        self.listener.unread.add(self)

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self.taken_at = 0.0
        self.listener.unread.discard(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self.state == NEXT:
            self.next()

    def forget_body(self) -> None:
        if self.body is not None:
            self.listener.hold(self, -self._held)
            self._held = 0
            self.body = None

    def data_received(self, data: bytes) -> None:
        state = self.state
        if state == NEXT and self.ahead is None and not self.is_write_paused:
            self._read(data)
        elif state == HEAD:
            self._read_more(data)
        elif state == BODY:
            rest = self._gather(data)
            if rest:
                self._read(rest)
        elif state == UPLOAD:
            rest = self._upload(data)
            if rest:
                self._keep(rest)
        elif state == END:
            self.drop(len(data))
        else:
            self._keep(data)

    # Requests

    def _keep(self, data: bytes, at: int = 0) -> None:
        """Keep what comes from `at` on until the request before it is answered; pipelined requests
        are not copied each time.
        """
        ahead = self.ahead
        if ahead is None:
            self.ahead, self._at = data, at
        else:
            if isinstance(ahead, bytes):
                ahead = self.ahead = bytearray(memoryview(ahead)[self._at :])
                self._at = 0
            ahead += memoryview(data)[at:]
        if self._ahead_bytes > AHEAD_BYTES:
            self.pause_reading(BACKLOG)

    @property
    def _ahead_bytes(self) -> int:
        return len(self.ahead) - self._at if self.ahead is not None else 0

    def next(self) -> None:
        """The last request is answered: take the next, if it has come."""
        if self.state != NEXT or self.is_write_paused:
            return
        if self.ahead is not None:
            data, at = bytes(self.ahead), self._at  # no copy if these are bytes already
            self.ahead, self._at = None, 0
            self._read(data, at)
        if self.state != END and self._ahead_bytes <= AHEAD_BYTES:
            self.resume_reading(BACKLOG)

    def _read(self, data: bytes, at: int = 0) -> None:
        """Take requests from what has come, for as long as they are answered at once."""
        self.is_reading = True
        count, until = 0, time.perf_counter() + TURN_S
        while at < len(data) and self.state != END:
            is_enough = count == AT_ONCE or time.perf_counter() > until
            if self.state == ANSWER or self.is_write_paused or is_enough:
                self._keep(data, at)
                if is_enough and self.state == NEXT:
                    self.listener.later(self.next)
                break
            count += 1
            if data[at] in b"\r\n":
                data, at = data[at:].lstrip(b"\r\n"), 0  # some clients send an empty line too many
                continue
            end = data.find(b"\r\n\r\n", at) + 4
            if end < 4:
                self.state, self.since = HEAD, self.listener.loop.time()
                self.is_reading = False
                self._read_more(data[at:])
                break
            at = self._take(data, at, end)
        self.is_reading = False

    def _read_more(self, data: bytes) -> None:
        """Take a head that does not come in one piece."""
        ahead = self.ahead
        if not isinstance(ahead, bytearray):
            data = data.lstrip(b"\r\n")
            ahead = self.ahead = bytearray()
        before = max(len(ahead) - 3, 0)
        ahead += data
        end = ahead.find(b"\r\n\r\n", before)
        if end < 0 and ahead.find(b"\n\n", before) < 0:
            if not ahead:
                self.ahead = None
            elif len(ahead) > self.listener.limits.header_bytes:
                self.refuse(
                    431,
                    f"the headers are larger than {self.listener.limits.header_bytes} bytes",
                    is_sending=True,
                )
            elif not is_request(ahead):
                self.refuse(
                    400, "not an HTTP request: it does not begin with a method", is_sending=True
                )
            return
        data, self.ahead = bytes(ahead), None
        self.is_reading = True
        at = self._take(data, 0, end + 4 if end >= 0 else len(data))
        self.is_reading = False
        if at < len(data):
            self._read(data, at)

    def _take(self, data: bytes, at: int, end: int) -> int:
        """Take the request whose head goes from `at` to `end`, as far as it has come; return where
        the next one begins.
        """
        written = data[at:end]
        if written == self.known and self.head is not None:
            head = self.head
        else:
            if end - at > self.listener.limits.header_bytes:
                self.refuse(
                    431,
                    f"the headers are larger than {self.listener.limits.header_bytes} bytes",
                    is_sending=True,
                )
                return len(data)
            try:
                head = self.head = read_head(written)
            except Bad as bad:
                self.refuse(bad.status, str(bad), is_sending=True)
                return len(data)
            self.known = written if end - at <= KNOWN_BYTES else b""
        most = self.listener.limits.body
        if head.length and is_upload(head.target):
            return self._take_upload(head, data, end)
        if head.length > most:
            self._begin(head, b"", too_large(most))
            return end
        stop = end + head.length
        if head.length >= 0 and stop <= len(data):
            self._begin(head, data[end:stop])
            return stop
        if self.listener.is_refused(self._request(head)):
            self._begin(head, b"", not_read())
            return end
        self.body = Chunked(most) if head.length < 0 else Sized(head.length)
        self.state, self._body_since = BODY, self.listener.loop.time()
        if head.is_waiting and end == len(data):
            self.transport.write(_CONTINUE)
        return len(data) - len(self._gather(data[end:]))

    def _gather(self, data: bytes) -> bytes:
        """Take more of a body; return what follows it."""
        body, listener = self.body, self.listener
        assert body is not None
        assert self.head is not None
        self.since = listener.loop.time()
        try:
            rest = body.feed(data)
        except Bad as bad:
            self.refuse(bad.status, str(bad), is_sending=True)
            return b""
        more = len(body.data) - self._held
        self._held += more
        listener.hold(self, more)
        if self.body is None:
            return b""  # there was no room for it
        if rest is not None:
            self.forget_body()
            self._begin(self.head, bytes(body.data))
            return rest
        problem: Problem | None = None
        if body.is_too_large:
            problem = too_large(listener.limits.body)
        elif listener.is_full:
            problem = too_busy()
        if problem is not None:
            self.forget_body()
            self._begin(self.head, b"", problem)
        return b""

    def _take_upload(self, head: RequestHead, data: bytes, end: int) -> int:
        """Answer a request while its body comes."""
        if self.listener.is_refused(self._request(head)):
            self._begin(head, b"", not_read())
            return end
        limit = self.listener.limits.file_size + 1  # whoever reads it says that it is too large
        self.body = Chunked(limit) if head.length < 0 else Sized(head.length)
        stream = self._sent_stream = BodyStream(lambda: self.resume_reading(BACKLOG))
        if head.is_waiting and end == len(data):
            self.transport.write(_CONTINUE)
        self._begin(head, b"", stream=stream)
        if self.state == ANSWER:
            self.state, self.since = UPLOAD, self.listener.loop.time()
            rest = self._upload(data[end:])
            return len(data) - len(rest)
        return len(data)

    def _upload(self, data: bytes) -> bytes:
        """Take more of an upload; return what follows it."""
        body, stream = self.body, self._sent_stream
        assert body is not None
        assert stream is not None
        self.since = self.listener.loop.time()
        try:
            rest = body.feed(data)
        except Bad as bad:
            stream.end(ConnectionResetError(str(bad)))
            self.abort()
            return b""
        if not stream.feed(body.drain()):
            self.pause_reading(BACKLOG)
        if rest is None:
            return b""
        stream.end()
        self.body = self._sent_stream = None
        if self.state == UPLOAD:
            self.state = ANSWER
        self.resume_reading(BACKLOG)
        return rest

    def evict(self) -> None:
        """A body that has been coming for long makes room for others."""
        if self.head is not None:
            self.forget_body()
            self._begin(self.head, b"", too_busy())

    def _begin(
        self,
        head: RequestHead,
        body: bytes,
        problem: Problem | None = None,
        stream: BodyStream | None = None,
    ) -> None:
        """Answer a request."""
        self.state = ANSWER
        # Where the next request begins is not known if this one is not taken to its end.
        self.is_body_unread = problem is not None
        self.is_keep_alive = (
            head.is_keep_alive and not self.is_body_unread and not self.listener.is_leaving
        )
        self.is_old = head.is_old
        request = self._request(head, body, problem)
        request.stream = stream
        task = start_task(self._run(request), self.listener.loop)
        if not task.done():  # else it is answered, or `self.task` is its stream
            self.task = task

    def _request(
        self, head: RequestHead, body: bytes = b"", problem: Problem | None = None
    ) -> HttpRequest:
        return HttpRequest(
            head.target, head.headers, head.pairs, self.server_url, body, problem, self.peer
        )

    async def _run(self, request: HttpRequest) -> None:
        try:
            answer = await self.listener.answer(request)
            if self._sent_stream is not None:
                # It is answered before it has come: where the next request begins is not known.
                self._sent_stream, self.body = None, None
                self.state, self.is_body_unread, self.is_keep_alive = ANSWER, True, False
            if isinstance(answer, HttpResponse):
                self.give(answer)
                self.answered()
            else:
                self._follow(answer)
        except Exception:
            log_.exception("a request failed")
            self.abort()

    def _follow(self, stream: StreamingResponse) -> None:
        """Send a stream, in a task that holds nothing else: it may last for days, and have
        thousands beside it.
        """
        self._stream = stream
        if self.is_gone:
            self._followed(None)
            return
        if isinstance(stream, SizedResponse):
            self.open(stream.headers, stream.status, stream.length)
        else:
            self.open(stream.headers)
        self.task = self.listener.loop.create_task(stream.send(self))
        self.task.add_done_callback(self._followed)

    def _followed(self, task: asyncio.Task[None] | None) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        if task is None or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.answered()
        else:
            log_.error("a stream failed", exc_info=error)
            self.abort()

    def server_url(self) -> ServerUrl:
        name, port = (
            self.transport.get_extra_info("sockname")[:2]
            if self.transport is not None
            else ("localhost", None)
        )
        return ServerUrl(self.listener.scheme, (name, port))

    def peer(self) -> Peer:
        if self.transport is None:
            return Peer()
        address = self.transport.get_extra_info("peername")
        return Peer(address[0] if address else "", self.transport.get_extra_info("peercert"))

    # Answers

    def give(self, answer: HttpResponse) -> None:
        """Send an answer that is there as a whole."""
        head, body = self.head, answer.body
        if self.transport is None or head is None:
            return
        check_header(b"content-type", answer.content_type)
        size = len(body)
        is_head = head.target.verb == "HEAD"
        if (
            self.is_keep_alive
            and answer.status == 200
            and not answer.headers
            and not is_head
            and not self.is_old
        ):
            opening = b"%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (
                self.listener.ok,
                answer.content_type,
                size,
            )
        else:
            lines = [_STATUS[answer.status], self.listener.date]
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
            check_header(name, value)
            if name != b"connection":
                lines.append(b"%b: %b\r\n" % (name, value))
            elif value == b"close":
                self.is_keep_alive = False
        if not self.is_keep_alive:
            lines.append(_CLOSE)
        elif self.is_old:
            lines.append(_STAY)
        lines.append(b"\r\n")
        return b"".join(lines)

    def open(self, headers: Pairs, status: int = 200, length: int | None = None) -> None:
        """Begin a stream; one of a known length has no chunks."""
        lines = [_STATUS[status], self.listener.date]
        self._is_sized = length is not None
        if length is not None:
            lines.append(b"content-length: %d\r\n" % length)
        elif self.is_old:
            self.is_keep_alive = False  # where it ends, only closing can say
        else:
            lines.append(_CHUNKED)
        self._opening = self._headed(lines, headers)
        self.known, self.head = b"", None  # thousands may stay like this for days

    async def ready(self) -> None:
        if self.is_write_paused:
            await self._drained()

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        if self.is_write_paused:
            await self._drained()
        if self.transport is None:
            return
        if not self.is_old and not self._is_sized:
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
        self._waiter = self.listener.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def answered(self) -> None:
        """All has been sent."""
        self.task = None
        if self.state != ANSWER:
            return
        if not self.is_keep_alive or self.listener.is_leaving:
            self.close(is_sending=self.is_body_unread)
            return
        self.state, self.since = NEXT, self.listener.loop.time()
        if self.ahead is not None and not self.is_reading:
            self.listener.loop.call_soon(self.next, context=self.listener.context)

    # Its end

    def refuse(self, status: int, text: str, *, is_sending: bool = False) -> None:
        """Say what is wrong with what came, and no more. There is no answer under way: the next
        request is read after it.
        """
        self.forget_body()
        body = text.encode()
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(body)
        self.transport.write(
            b"".join((_STATUS[status], self.listener.date, head, _CLOSE, b"\r\n", body))
        )
        self.close(is_sending=is_sending)

    def close(self, *, is_sending: bool = False) -> None:
        """Close; if the client is still sending, when it has heard us, or a moment later.

        Closing at once, with bytes come that nobody reads, would reset the connection and take the
        answer with it.
        """
        self.state, self.since = END, self.listener.loop.time()
        self.ahead = self.head = None
        transport = self.transport
        # Over TLS there is no way to say "that was all" and listen on.
        if not is_sending or not transport.can_write_eof():
            transport.close()
            return
        self.resume_reading(BACKLOG)
        try:
            transport.write_eof()
        except OSError:  # it has hung up already
            transport.abort()

    def drop(self, size: int) -> None:
        """Something came after the end."""
        self._dropped += size
        if self._dropped > self.listener.limits.body + LINGER_BYTES:
            self.abort()

    def leave(self) -> None:
        """Close when the request under way is answered."""
        if self.state == NEXT or (self.state == HEAD and self.ahead is None):
            self.close()
        self.is_keep_alive = False

    def end(self) -> None:
        """Stop whatever is under way, without the closing chunk: a cut must not look like an
        end.
        """
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
        return (
            int(self.transport.get_extra_info("socket").fileno())
            if self.transport is not None
            else -1
        )

    # Once in a while

    def check_timeouts(self, now: float) -> None:
        """Close the connection if its request has not gone on for too long, or none comes; cut a
        client that takes nothing.
        """
        if self.taken_at and self._is_stuck(now):
            self.reset_connection()
            return
        limits, waited_s, state = self.listener.limits, now - self.since, self.state
        if state == ANSWER:
            return
        if state == UPLOAD:
            if waited_s > limits.body_idle_s and not self.is_paused_for(BACKLOG):
                self.abort()
            return
        if state == NEXT:
            if waited_s > limits.keep_alive_s and not self.is_write_paused:
                self.close()
        elif state == END:
            if waited_s > LINGER_S and not self.is_write_paused:
                self.abort()
        elif waited_s > (timeout_s := limits.header_s if state == HEAD else limits.body_idle_s):
            self.refuse(408, f"the rest of the request did not come within {timeout_s:g} s")
        elif state == BODY and now - self._body_since > (
            timeout_s := BODY_WAITS * limits.body_idle_s
        ):
            self.refuse(408, f"the body did not come within {timeout_s:g} s")

    def _is_stuck(self, now: float) -> bool:
        waiting = self.transport.get_write_buffer_size()
        if waiting < self._stuck_bytes:
            self.taken_at, self._stuck_bytes = now, waiting  # slow, but it takes something
            return False
        return now - self.taken_at > self.listener.limits.stalled_s
