"""A server's side of one HTTP/1.1 connection (RFC 9112): requests in, one after the other.

What a client may cost is bounded: here bytes of a head and of a body and bytes sent ahead, in `line` the time to say what it wants
and to take what it is given. Who goes too far is told so, and the connection closed.
"""

import asyncio
import logging

from ..model import A2AError, TooManyRequests
from .intake import Bad, Chunked, Head, Sized, is_request, read_head
from .line import ANSWER, BODY, END, HEAD, NEXT, Home, Line
from .request import Answer, Request, Stream, too_large
from .tasks import start_task

__all__ = ["Connection"]

log_ = logging.getLogger("accord")

AHEAD_BYTES = 64 << 10  # of requests that come before the last one is answered; then we stop reading
AT_ONCE = 32  # requests answered before others have their turn
KNOWN_BYTES = 2 << 10  # of a head that is remembered: clients write the same one again and again

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(Line):
    """Reads requests from one client. They are answered in order; the next is read when the last is answered."""

    __slots__ = ("_at", "_stream")

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self._stream: Stream | None = None
        self._at = 0  # where in `ahead` the next request begins

    def data_received(self, data: bytes) -> None:
        state = self.state
        if state == NEXT and self.ahead is None and not self.is_paused:
            self._read(data)
        elif state == HEAD:
            self._read_more(data)
        elif state == BODY:
            rest = self._gather(data)
            if rest:
                self._read(rest)
        elif state == END:
            self.drop(len(data))
        else:
            self._keep(data)

    # Requests

    def _keep(self, data: bytes, at: int = 0) -> None:
        """Keep what comes from `at` on until the request before it is answered; pipelined requests are not copied each time."""
        ahead = self.ahead
        if ahead is None:
            self.ahead, self._at = data, at
        else:
            if isinstance(ahead, bytes):
                ahead = self.ahead = bytearray(memoryview(ahead)[self._at :])
                self._at = 0
            ahead += memoryview(data)[at:]
        if self._ahead_bytes > AHEAD_BYTES and not self.is_deaf:
            self.is_deaf = True
            self.transport.pause_reading()

    @property
    def _ahead_bytes(self) -> int:
        return len(self.ahead) - self._at if self.ahead is not None else 0

    def next(self) -> None:
        """The last request is answered: take the next, if it has come."""
        if self.state != NEXT or self.is_paused:
            return
        if self.ahead is not None:
            data, at = bytes(self.ahead), self._at  # no copy if these are bytes already
            self.ahead, self._at = None, 0
            self._read(data, at)
        if self.is_deaf and self.state != END and self._ahead_bytes <= AHEAD_BYTES:
            self.is_deaf = False
            self.transport.resume_reading()

    def _read(self, data: bytes, at: int = 0) -> None:
        """Take requests from what has come, for as long as they are answered at once."""
        self.is_reading = True
        count = 0
        while at < len(data) and self.state != END:
            if self.state == ANSWER or self.is_paused or count == AT_ONCE:
                self._keep(data, at)
                if count == AT_ONCE and self.state == NEXT:
                    self.home.loop.call_soon(self.next, context=self.home.context)
                break
            count += 1
            if data[at] in b"\r\n":
                data, at = data[at:].lstrip(b"\r\n"), 0  # some clients send an empty line too many
                continue
            end = data.find(b"\r\n\r\n", at) + 4
            if end < 4:
                self.state, self.since = HEAD, self.home.loop.time()
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
            elif len(ahead) > self.home.limits.header_bytes:
                self.refuse(431, f"the headers are larger than {self.home.limits.header_bytes} bytes", is_sending=True)
            elif not is_request(ahead):
                self.refuse(400, "this is no HTTP request: it begins with no method", is_sending=True)
            return
        data, self.ahead = bytes(ahead), None
        self.is_reading = True
        at = self._take(data, 0, end + 4 if end >= 0 else len(data))
        self.is_reading = False
        if at < len(data):
            self._read(data, at)

    def _take(self, data: bytes, at: int, end: int) -> int:
        """Take the request whose head goes from `at` to `end`, as far as it has come; return where the next one begins."""
        written = data[at:end]
        if written == self.known and self.head is not None:
            head = self.head
        else:
            if end - at > self.home.limits.header_bytes:
                self.refuse(431, f"the headers are larger than {self.home.limits.header_bytes} bytes", is_sending=True)
                return len(data)
            try:
                head = self.head = read_head(written)
            except Bad as bad:
                self.refuse(bad.status, str(bad), is_sending=True)
                return len(data)
            self.known = written if end - at <= KNOWN_BYTES else b""
        most = self.home.limits.body
        if head.length > most:
            self._begin(head, b"", too_large(most))
            return end
        stop = end + head.length
        if head.length >= 0 and stop <= len(data):
            self._begin(head, data[end:stop])
            return stop
        self.body = Chunked(most) if head.length < 0 else Sized(head.length)
        self.state = BODY
        if head.is_waiting and end == len(data):
            self.transport.write(_CONTINUE)
        return len(data) - len(self._gather(data[end:]))

    def _gather(self, data: bytes) -> bytes:
        """Take more of a body; return what follows it."""
        body, home = self.body, self.home
        assert body is not None
        assert self.head is not None
        self.since = home.loop.time()
        before = len(body.data)
        try:
            rest = body.feed(data)
        except Bad as bad:
            self.refuse(bad.status, str(bad), is_sending=True)
            return b""
        home.hold(len(body.data) - before)
        if rest is not None:
            self.forget_body()
            self._begin(self.head, bytes(body.data))
            return rest
        problem: A2AError | None = None
        if body.is_too_large:
            problem = too_large(home.limits.body)
        elif home.is_full:
            problem = TooManyRequests("too many requests are on the way; try again", retry_after_s=1)
        if problem is not None:
            self.forget_body()
            self._begin(self.head, b"", problem)
        return b""

    def _begin(self, head: Head, body: bytes, problem: A2AError | None = None) -> None:
        """Answer a request."""
        self.state = ANSWER
        # Where the next request begins is not known if this one is not taken to its end.
        self.is_cut = problem is not None
        self.is_kept = head.is_kept and not self.is_cut and not self.home.is_leaving
        self.is_old = head.is_old
        request = Request(head.target, head.headers, head.pairs, self.place, body, problem)
        task = start_task(self._run(request), self.home.loop)
        if not task.done():  # else it is answered, or `self.task` is its stream
            self.task = task

    async def _run(self, request: Request) -> None:
        try:
            answer = await self.home.answer(request)
            if isinstance(answer, Answer):
                self.give(answer)
                self.answered()
            else:
                self._follow(answer)
        except Exception:
            log_.exception("a request failed")
            self.abort()

    def _follow(self, stream: Stream) -> None:
        """Send a stream, in a task that holds nothing else: it may last for days, and have thousands beside it."""
        self._stream = stream
        if self.is_gone:
            self._followed(None)
            return
        self.open(stream.headers)
        self.task = self.home.loop.create_task(stream.send(self))
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
