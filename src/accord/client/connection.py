"""One HTTP/1.1 connection: a request goes out, its answer comes in, and it is free for the next.

Strict about answers: what could be read in two ways is refused. A connection whose answer was not read to its end, or that
says more than it was asked, is closed and never used again.
"""

import asyncio
import math
import select
from collections.abc import Callable

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from .errors import BadAnswer, ConnectionLost, TooSlow, why
from .url import safe_url

__all__ = ["Connection"]

_HEAD_BYTES = 32 << 10  # also what may come between two pieces of a body: trailers, and the names of chunks
_AHEAD_BYTES = 256 << 10  # what is kept for a slow reader before the sender is made to wait
_SLICE_BYTES = 256 << 10
_PIECES = 16

# A connection is free, or waits for a head, reads a body, has its answer complete; or can't be used any more.
_FREE, _HEAD, _BODY, _DONE, _DEAD = range(5)


class _Stop(Exception):
    """Stops the parser: enough is known."""


class Connection(asyncio.Protocol):
    """Carries one request at a time.

    - `begin`, `write`, then `answer` for all of the answer, or `head` and then `more` for a body as it comes.
    - Whoever is cancelled in between, or does not want the rest, calls `abort`.
    """

    def __init__(self, origin: str, keep_s: float, on_lost: Callable[["Connection"], None]) -> None:
        self.origin = origin
        self._keep_s = keep_s
        self.status = 0
        self.raw: dict[bytes, bytes] = {}  # the answer's headers, names in lower case
        self._fresh_until = 0.0
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._poll: select.poll | None = None
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._phase = _FREE
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._is_full = False
        self._is_paused = False
        self._expect("", "", None, 0.0, 0.0)

    # Asking

    def begin(self, verb: str, url: str, limit: int | None, until: float, patience_s: float) -> None:
        """Get ready for a request; with a `limit` its answer is for `answer`, without for `head`."""
        self._expect(verb, url, limit, until, patience_s)
        self._phase = _HEAD

    def _expect(self, verb: str, url: str, limit: int | None, until: float, patience_s: float) -> None:
        self.raw = {}
        self._url = url
        self._limit = limit
        self._until = until
        self._patience_s = patience_s
        self._has_body = verb != "HEAD"
        self._is_interim = False
        self._ends_with_connection = False
        self._stays = False
        self._pieces: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._quiet = 0

    def write(self, request: bytes) -> None:
        self._transport.write(request)

    async def write_slowly(self, body: bytes) -> None:
        """Write a large body as fast as it is taken. Ends early if the answer comes before: it won't change any more."""
        view = memoryview(body)
        for start in range(0, len(body), _SLICE_BYTES):
            self._transport.write(view[start : start + _SLICE_BYTES])
            while self._is_full and self._phase in (_HEAD, _BODY):
                await self._news()
            if self._phase not in (_HEAD, _BODY):
                self._stays = False
                return

    # Reading

    async def answer(self) -> bytes:
        """Return the body when all of it has come. Raises as `Http` says."""
        while self._phase != _DONE:
            if self._fault is not None:
                raise self._fault
            await self._news()
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def head(self) -> None:
        """Return when the head of the answer has come."""
        while self._phase == _HEAD:
            await self._news()
        if self._fault is not None:
            raise self._fault

    async def more(self, patience_s: float) -> bytes:
        """Return what has come of the body, all of it at once; empty at its end."""
        while not self._pieces:
            if self._phase == _DONE:
                return b""
            if self._fault is not None:
                raise self._fault
            self._patience_s = patience_s
            self._until = self._loop.time() + patience_s
            await self._news()
        pieces, self._pieces, self._size = self._pieces, [], 0
        self._go_on_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _go_on_reading(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._transport.resume_reading()
        self._is_paused = False

    def _news(self) -> asyncio.Future[None]:
        """What whoever waits for something to happen waits for; not longer than it has patience."""
        self._be_patient()
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Between requests

    def rest(self) -> bool:
        """Let go of an answer that was read. False if no other can follow it here: then it is to be closed."""
        if self._phase != _DONE or not self._stays or self._is_full or self._transport.is_closing():
            return False
        self._go_on_reading()
        self._phase = _FREE
        named = self.raw.get(b"keep-alive")
        self._fresh_until = self._loop.time() + (self._keep_s if named is None else min(self._keep_s, _patience_s(named)))
        self.raw, self._pieces, self._waiter = {}, [], None
        return True

    def is_fresh(self) -> bool:
        """Whether the next request may go out here: not too old, not closed, and nothing has come, not even a goodbye."""
        if self._phase != _FREE or self._transport.is_closing() or self._loop.time() >= self._fresh_until:
            return False
        return self._poll is None or not self._poll.poll(0)

    def close(self) -> None:
        """Close: in good order if nothing is going on, else at once; whoever waits is told."""
        if self._phase in (_HEAD, _BODY):
            self._lose("this side closed it")
        else:
            self._phase = _DEAD
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.close()
        self._transport.abort()

    # Time: one timer serves many waits, because most end long before it would ring.

    def _be_patient(self) -> None:
        timer = self._timer
        if timer is not None:
            if timer.when() <= self._until:
                return
            timer.cancel()
        self._timer = self._loop.call_at(self._until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._phase not in (_HEAD, _BODY) or self._waiter is None or self._waiter.done():
            return
        if self._loop.time() + 0.001 >= self._until:
            self._fail(TooSlow(safe_url(self._url), f"no answer within {self._patience_s:.3g} s"))
        else:
            self._timer = self._loop.call_at(self._until, self._ring)

    # From the socket

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of a stream of bytes
        self._transport = transport
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._phase not in (_HEAD, _BODY):  # more than was asked for
            self._stays = False
            self._transport.abort()
            return
        if self._phase == _HEAD and not self._quiet and data[:1] != b"H":
            self._refuse("the answer is not HTTP")
            return
        self._quiet += len(data)
        before = len(self._pieces)
        try:
            self._parser.feed_data(data)  # type: ignore[union-attr]  # there is one as long as there is a connection
        except (HttpParserError, HttpParserUpgrade) as error:
            self._stays = False
            self._refuse(f"the answer is not HTTP: {error}")  # unless it was complete before
        if self._quiet > _HEAD_BYTES:
            self._refuse(f"the head of the answer is larger than {_HEAD_BYTES} bytes")
        if len(self._pieces) - before > _PIECES:  # a body in crumbs is not kept as crumbs
            self._pieces[before:] = [b"".join(self._pieces[before:])]
        if self._phase == _DONE:
            self._wake()
        elif self._limit is None:
            if self._size > _AHEAD_BYTES and not self._is_paused and self._phase == _BODY:
                self._is_paused = True
                self._transport.pause_reading()
            self._wake()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error)
        self._parser = self._poll = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def _end(self, error: Exception | None) -> None:
        """Nothing follows: the end of a body that has no other, or a break."""
        if self._phase == _HEAD:
            self._lose(why(error) if error is not None else "closed before the answer came")
        elif self._phase == _BODY and (error is not None or not self._ends_with_connection):
            self._lose(why(error) if error is not None else "closed in the middle of the answer")
        elif self._phase == _BODY:
            self._phase = _DONE
            self._wake()

    # From the parser

    def on_message_begin(self) -> None:
        if self._phase == _DONE:
            raise _Stop  # more than was asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > _HEAD_BYTES:
            self._refuse(f"the head of the answer is larger than {_HEAD_BYTES} bytes")
            raise _Stop
        if b"\n" in value or b"\r" in value:
            self._refuse("the answer is not HTTP: a header of several lines")
            raise _Stop
        if self._phase == _HEAD:  # else a trailer, for which nobody has a use
            name = name.lower()
            raw = self.raw
            raw[name] = value if name not in raw else raw[name] + b", " + value

    def on_headers_complete(self) -> None:
        assert self._parser is not None  # it is calling
        status, raw = self._parser.get_status_code(), self.raw
        if 100 <= status < 200 and status != 101:
            self._is_interim = True
            return
        self.status = status
        fault = self._fault_of_head(status, raw)
        if fault is not None:
            self._refuse(fault)
            raise _Stop
        self._phase = _BODY
        if not self._has_body:  # the parser does not know that none follows: this connection has done its work
            self._phase = _DONE
            raise _Stop
        is_framed = b"content-length" in raw or b"transfer-encoding" in raw
        self._ends_with_connection = not is_framed and status not in (204, 304)

    def _fault_of_head(self, status: int, raw: dict[bytes, bytes]) -> str | None:
        assert self._parser is not None  # it is calling
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            return f"the answer is not HTTP: version {version}"
        if status < 200:
            return f"the answer is not HTTP: status {status}"
        if b"content-encoding" in raw and raw[b"content-encoding"].lower() != b"identity":
            coding = raw[b"content-encoding"][:20].decode("latin-1")
            return f"the answer is compressed ({coding}), which was not asked for"
        if b"transfer-encoding" in raw:
            if raw[b"transfer-encoding"].lower() != b"chunked":
                return "the answer is not HTTP: a transfer encoding that was not asked for"
            return None
        length = int(raw.get(b"content-length", b"0")) if self._has_body and status not in (204, 304) else 0
        return f"the answer is larger than {self._limit} bytes" if self._limit is not None and length > self._limit else None

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        self._quiet = 0
        if self._limit is not None and self._size > self._limit:
            self._refuse(f"the answer is larger than {self._limit} bytes")
            raise _Stop

    def on_message_complete(self) -> None:
        assert self._parser is not None  # it is calling
        if self._is_interim:
            self._is_interim = False
            self.raw = {}
        else:
            self._phase = _DONE
            self._quiet = 0
            self._stays = self._parser.should_keep_alive()

    # Going wrong

    def _lose(self, how: str) -> None:
        self._fail(ConnectionLost(safe_url(self._url), f"the connection broke off: {how}"))

    def _refuse(self, what: str) -> None:
        self._fail(BadAnswer(safe_url(self._url), what))

    def _fail(self, fault: Exception) -> None:
        """The first thing that goes wrong is told; what comes of it afterwards is not."""
        if self._phase in (_HEAD, _BODY):
            self._fault = fault
            self._phase = _DEAD
            self._transport.abort()
            self._wake()


def _patience_s(named: bytes) -> float:
    """How long a connection may be kept whose server names its patience: a little less than that."""
    for item in named.lower().split(b","):
        name, _, value = item.strip().partition(b"=")
        if name == b"timeout" and value.isdigit() and len(value) < 10:
            return int(value) * 0.8
    return math.inf
