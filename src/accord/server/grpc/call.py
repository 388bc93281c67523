"""One gRPC call: messages on an HTTP/2 stream, and the status at its end."""

import asyncio
import base64
import functools
import struct
import zlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import quote

from h2.errors import ErrorCodes
from hpack import NeverIndexedHeaderTuple

from ...auth import ANONYMOUS
from ...engine import LARGE, offload
from ...model import A2AError, ParseError, TooManyRequests
from ...observe import ObservedRequest
from ...protocol.protobuf import status
from ..request import opaque, too_busy, too_large
from ..transport import BODY_WAITS, start_task
from .connection import Http2Connection
from .headers import ENCODINGS, CallHeaders, Pair, size_of
from .stream import Http2Stream

__all__ = ["CODES", "GrpcCall", "GrpcMethod", "Metadata", "framed"]

_NAMES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS "
    "PERMISSION_DENIED RESOURCE_EXHAUSTED "
    "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
    "UNAUTHENTICATED"
)
CODES = {name: number for number, name in enumerate(_NAMES.split())}

TRAILER_BYTES = 8 << 10  # clients take no more unless told to
TEXT = 500  # letters of a status, when there would be more: up to twelve bytes each
UNREAD = 1_000  # messages of one stream: empty ones take more room here than on the wire

Metadata = tuple[tuple[str, str], ...]

_OPENING: list[Pair] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
_OK: list[Pair] = [(b"grpc-status", b"0")]
_ACCEPTED = (b"grpc-accept-encoding", ",".join(ENCODINGS).encode())
_PLAIN = "".join(chr(n) for n in range(0x20, 0x7F) if chr(n) != "%")
_prefix = struct.Struct(">BI").pack
PACKED = 64  # large packed messages of one connection that may wait to be unpacked
_WINDOW_BITS = {"gzip": 31, "deflate": 15}


class GrpcMethod(NamedTuple):
    """How one method is answered."""

    run: "Callable[[GrpcCall], Awaitable[None]]"
    is_streaming: bool = False  # takes many messages, not one
    text: Callable[[A2AError], str] = str
    # what is wrong with a call of which only the metadata have come
    precheck: "Callable[[GrpcCall], A2AError | None] | None" = None


def framed(message: bytes) -> bytes:
    """Return a message as it stands in a stream of them."""
    return _prefix(0, len(message)) + message


@functools.lru_cache(512)
def _opening(metadata: Metadata) -> list[Pair]:
    return _OPENING + [_once(name.encode(), value.encode()) for name, value in metadata]


def _once(name: bytes, value: bytes) -> Pair:
    """A header that is seldom the same again: in the client's table it would only drive out
    others.
    """
    return NeverIndexedHeaderTuple(name, value)


class GrpcCall(Http2Stream):
    """A call and its answer.

    - It starts when its one message has come whole; a method that takes many starts at once.
    - A deadline, a client that hangs up, and one that takes nothing end the call, never what it has
      set in motion.
    """

    __slots__ = (
        "_buffer",
        "_got",
        "_held",
        "_inbox",
        "_is_begun",
        "_opened_at",
        "_reader",
        "_task",
        "_timer",
        "caller",
        "head",
        "observed",
    )

    def __init__(self, connection: Http2Connection, id: int, head: CallHeaders) -> None:
        super().__init__(connection, id)
        self.head = head
        self.caller = ANONYMOUS  # until it is known who calls
        self.observed: ObservedRequest | None = None  # None: nobody observes the calls of this app
        self._buffer: bytearray | None = None  # a message, as far as it has come
        # Whole ones, as they came: whether packed, and the bytes.
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._held = 0  # bytes of both that the listener has counted
        self._got = 0
        self._is_begun = False
        self._opened_at = self.since
        self._reader: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # What comes in

    def opened(self) -> None:
        head = self.head
        if head.status:
            self._end([], b"", [(b":status", b"%d" % head.status)])
        elif head.problem is not None:
            self.fail(*head.problem)
        elif head.method is None:
            self.fail("UNIMPLEMENTED", f"there is no {head.path!r:.200} here")
        elif head.method.precheck is not None and (error := head.method.precheck(self)) is not None:
            self.refuse(error)
        else:
            if head.timeout_s is not None:
                self._timer = self.connection.loop.call_later(head.timeout_s, self._expire)
            if head.method.is_streaming:
                self._start()

    def received(self, data: bytes) -> None:
        if self.is_over:
            return
        size = len(data)
        self._got += size
        if not self.is_ended:
            self._hold(size)
        is_whole = (
            self._buffer is None
            and size >= 5
            and not data[0]
            and int.from_bytes(data[1:5], "big") == size - 5
        )
        if is_whole and size - 5 <= self.connection.listener.limits.body:
            self._arrived(0, data[5:])
        else:
            self._gather(data)
        if not self.is_ended and not self.is_over and self.connection.listener.is_full:
            self.evict()

    def evict(self) -> None:
        """A message that has been coming for long makes room for others."""
        self.refuse(too_busy())

    def _gather(self, data: bytes) -> None:
        """Part of a message, or of several."""
        most = self.connection.listener.limits.body
        if self._buffer is None:
            self._buffer = bytearray()
        buffer = self._buffer
        buffer += data
        self.since = self.connection.loop.time()
        while len(buffer) >= 5 and not self.is_over:
            flag, size = buffer[0], int.from_bytes(buffer[1:5], "big")
            if flag > 1:
                self.fail("INTERNAL", f"a message begins with the unknown flag {flag}")
            elif size > most:
                self.refuse(too_large(most, "message"))
            elif len(buffer) < size + 5:
                return
            else:
                self._arrived(flag, bytes(buffer[5 : size + 5]))
                del buffer[: size + 5]
        self._buffer = buffer or None

    def _arrived(self, flag: int, message: bytes) -> None:
        if self._inbox and self.head.method is not None and not self.head.method.is_streaming:
            self.fail("UNIMPLEMENTED", "this method takes one message, but more were sent")
            return
        if len(self._inbox) >= UNREAD:
            self.refuse(
                TooManyRequests(
                    "too many messages are waiting; read some answers first", retry_after_s=1
                )
            )
            return
        self._inbox.append((flag, message))
        self._wake_reader()

    def ended(self) -> None:
        if self.is_over:
            return
        if self.head.length is not None and self.head.length != self._got:
            self.connection.reset(self.id, ErrorCodes.PROTOCOL_ERROR)
        elif self._buffer or (not self._inbox and self._task is None):
            self.refuse(ParseError("the call ended before its message was complete"))
        elif self._task is not None:
            self._wake_reader()
        elif self.connection.is_full:
            self._hold(sum(len(message) for _, message in self._inbox) - self._held)
            self.connection.queue(self)
            if self.connection.listener.is_full:
                self.refuse(
                    TooManyRequests(
                        "too many messages are in flight; read some answers first", retry_after_s=1
                    )
                )
        else:
            self.begin()

    def begin(self) -> None:
        self._hold(-self._held)
        self._start()

    async def message(self) -> bytes:
        """Return the one message of a method that takes one; once.

        Raises:
            ParseError: It is not packed as the client says.
            BodyTooLarge: It would be too large unpacked.
        """
        return await self._unpacked(*self._inbox.popleft())

    async def next(self) -> bytes | None:
        """Return the next message of a method that takes many; None after the last. Raises as
        `message` does.
        """
        while not self._inbox:
            if self.is_ended:
                return None
            self._reader = self.connection.loop.create_future()
            await self._reader
        flag, message = self._inbox.popleft()
        self._hold(-min(self._held, len(message) + 5))
        if not self.is_ended:
            self.connection.give_back(self, len(message) + 5)
        return await self._unpacked(flag, message)

    async def _unpacked(self, flag: int, data: bytes) -> bytes:
        if not flag:
            return data
        encoding, most = self.head.encoding, self.connection.listener.limits.body
        if encoding not in _WINDOW_BITS:
            raise A2AError("a message is compressed, and grpc-encoding does not say how")
        message = _unpack(encoding, data, min(LARGE, most + 1))
        if message is None and most > LARGE:
            message = await self._unpack_large(encoding, data, most)
            self.connection.count_unpacked(len(data), most if message is None else len(message))
        if message is None or len(message) > most:
            raise too_large(most, "message")
        return message

    async def _unpack_large(self, encoding: str, data: bytes, most: int) -> bytes | None:
        """Unpack one message at a time, of all connections. Those that wait are still packed, and
        few of one connection may wait.
        """
        connection = self.connection
        if connection.packed >= PACKED:
            raise TooManyRequests(
                "too many large compressed messages on this connection; send fewer at once",
                retry_after_s=1,
            )
        connection.packed += 1
        try:
            async with connection.listener.unpacking:
                return await offload(most, _unpack, encoding, data, most + 1)
        finally:
            connection.packed -= 1

    def _hold(self, size: int) -> None:
        self._held += size
        self.connection.listener.hold(self, size)

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # What goes out

    def answer(self, message: bytes, metadata: Metadata = ()) -> None:
        """Send the one answer there is, and the end."""
        self.send(framed(message), metadata, is_last=True)

    def send(self, data: bytes, metadata: Metadata = (), *, is_last: bool = False) -> None:
        """Send framed messages, before the first of them the metadata, and after the last
        the end.
        """
        self._check_space()
        head = [] if self._is_begun else _opening(metadata)
        self._is_begun = True
        if is_last:
            self._end(head, data, _OK)
        else:
            self.write(head, data, [])

    def _check_space(self) -> None:
        if self.connection.is_full:
            raise TooManyRequests(
                "too many answers on this connection have not been read",
                retry_after_s=1,
            )

    def refuse(self, error: A2AError) -> None:
        """End the call with an error of the protocol."""
        method = self.head.method
        text = method.text(error) if method is not None else str(error)
        extra = [_once(b"grpc-status-details-bin", _base64(status(CODES[error.grpc], text, error)))]
        if error.retry_after_s is not None:
            extra.append(_once(b"retry-after", b"%d" % error.retry_after_s))
        extra += [_once(b"www-authenticate", text.encode("latin-1")) for text in error.challenges]
        self.fail(error.grpc, text, extra)

    def fail(self, name: str, text: str, extra: list[Pair] | None = None) -> None:
        """End the call with a status."""
        trailers = [
            (b"grpc-status", b"%d" % CODES[name]),
            _once(b"grpc-message", quote(text, _PLAIN).encode()),
            *(extra or ()),
        ]
        if name == "UNIMPLEMENTED":
            trailers.append(_ACCEPTED)
        if size_of(trailers) > min(TRAILER_BYTES, self.connection.header_bytes):
            # Better a short word than one the client may not read.
            trailers = [
                trailers[0],
                _once(b"grpc-message", quote(text[:TEXT], _PLAIN).encode()),
                *trailers[3:],
            ]
        self._end([], b"", trailers if self._is_begun else _OPENING + trailers)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()  # somebody else said it

    def _end(self, head: list[Pair], data: bytes, tail: list[Pair]) -> None:
        self._release()
        self.write(head, data, tail)

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            self._hold(-self._held)

    # Its life

    def _start(self) -> None:
        task = start_task(self._run(), self.connection.loop)
        self._task = None if task.done() else task

    async def _run(self) -> None:
        assert self.head.method is not None
        try:
            await self.head.method.run(self)
            if not self.is_over:
                self.send(b"", is_last=True)
        except A2AError as error:
            self.refuse(error)
        except Exception:
            self.refuse(opaque())
        finally:
            self._task = None  # breaks a reference cycle: a call is freed when it is over

    def _expire(self) -> None:
        self.drop()
        self.fail("DEADLINE_EXCEEDED", "the deadline of the call has passed")

    def stalled(self) -> None:
        stalled_s = self.connection.listener.limits.stalled_s
        self.drop()
        self.refuse(
            TooManyRequests(
                f"nothing was read from this stream for {stalled_s:g} s; subscribe again"
            )
        )

    def stopped(self) -> None:
        self.drop()
        self.fail("UNAVAILABLE", "the server is stopping")

    def check_timeouts(self, now: float) -> None:
        timeout_s = self.connection.listener.limits.body_idle_s
        if self._task is None and not self.is_ended and not self.is_over:
            if now - self._opened_at > BODY_WAITS * timeout_s:
                self.fail(
                    "DEADLINE_EXCEEDED",
                    f"the call was not complete within {BODY_WAITS * timeout_s:g} s",
                )
            elif now - self.since > timeout_s:
                self.fail("DEADLINE_EXCEEDED", f"no data of the call came for {timeout_s:g} s")
        super().check_timeouts(now)

    def lost(self) -> None:
        self.is_over = True
        self._release()
        if self._task is not None:
            self._task.cancel()


def _unpack(encoding: str, data: bytes, most: int) -> bytes | None:
    """Unpack a message; return None if it has more than `most` bytes.

    Raises:
        ParseError: It is not packed as the client says.
    """
    unpack = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        message = unpack.decompress(data, most)
    except zlib.error:
        raise ParseError(f"the message is not valid {encoding}") from None
    if unpack.unconsumed_tail:
        return None
    if not unpack.eof or unpack.unused_data:
        raise ParseError(f"the message is not valid {encoding}")
    return message


def _base64(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")
