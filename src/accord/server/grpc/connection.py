"""The server's side of one HTTP/2 connection (RFC 9113).

h2 handles frames, header compression and flow control. This module adds limits. An error of the
client ends the stream or the connection with the error code of the RFC. The listener decides what
the streams mean.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    PingAckReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hpack.exceptions import HPACKError
from hyperframe.frame import GoAwayFrame

from ...model import Limits
from ...net import Rate, TokenBucket
from ...sockets import reset
from ..transport import BACKLOG, TURN_S, UNREAD, PausableReader, UnreadAnswers
from .compression import CachingDecoder, CachingEncoder
from .frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    FrameReader,
    Http2Frame,
    TooLarge,
)
from .headers import Malformed, Pair, check_trailers, size_of
from .stream import Http2Stream

__all__ = [
    "HEADER_BYTES",
    "LEAVING",
    "STREAMS",
    "WINDOW",
    "WINDOW_MOST",
    "Http2Connection",
    "Http2Listener",
]

log_ = logging.getLogger("accord")

# At level DEBUG, hpack logs every header, credentials included. So DEBUG of the root logger alone
# must not turn that on.
if logging.getLogger("hpack").level == logging.NOTSET:
    logging.getLogger("hpack").setLevel(logging.WARNING)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAMS = 1_000  # open at once on one connection
SWEEP = 64  # streams that h2 may hold before closed ones are removed
CLOSED = 1_000  # closed streams that h2 remembers, since frames for them may still arrive
WINDOW = 65_535  # the initial flow-control window of HTTP/2
WINDOW_MOST = 2**31 - 1
CONNECTION_WINDOW = 16 << 20  # the flow-control window that a client gets for the connection
# The most for the table that compresses our headers, even if the client allows a larger one.
TABLE_BYTES = 4_096
SETTINGS_MOST = 64  # different settings from a client; h2 stores unknown ones too

HEADER_BYTES = 16 << 10  # the most for the headers of one request
# The most for a header block, compressed or not. Between HEADER_BYTES and this, only the stream
# fails, with an error that says why. Above this, the connection ends.
BLOCK_BYTES = 128 << 10
KNOWN_BYTES = 2 << 10  # the most for headers that are kept to compare with the next call's
# What a header block may have before the rest counts towards the rate limit.
USUAL_FIELDS = 64
USUAL_KIB = 4

# A large message that expands by more than this factor counts PACKED_COST towards the rate limit.
PACKED_MOST = 100
PACKED_COST = 100

SMALL_BYTES = 256  # handling a smaller frame costs the server more than it costs the client
# Small frames that don't count, for each call and each frame of an answer. Clients send these as a
# matter of course: pings, window updates, a reset.
FREE_FRAMES = 4
FREE_MOST = 4_000
# Only resets of streams younger than this count. Older ones can't be many, because STREAMS limits
# how many are open.
YOUNG_S = 1.0

FLUSH_BYTES = 256 << 10
# Bytes in the write buffer of a client that doesn't read, before the server stops reading from it.
# Data stops well below this, because it waits for the buffer. Headers don't wait.
UNREAD_BYTES = 1 << 20
FRAME_MOST = 64 << 10  # the largest frame sent, even if the client accepts larger ones

QUIET_S = 300.0  # without streams and without input, before the server sends a ping
PONG_S = 20.0  # for the answer to a ping
LINGER_S = 2.0  # for the client to read the last bytes before the connection is aborted

LEAVING = b"leaving!"  # the data of the ping after a GOAWAY (RFC 9113, 6.8)

_REQUEST = re.compile(rb"[A-Z]{3,10} ")
_ADVICE = b"This port speaks gRPC, over HTTP/2 only. HTTP has a port of its own.\n"
_OTHERWISE = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain; "
    b"charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_ADVICE), _ADVICE)
)

# `Http2Listener.read` checks received headers. An error there ends only the stream, where h2 would
# end the connection. Sent headers are written in valid form, so h2 need not check them.
_CONFIG = H2Configuration(
    client_side=False,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)


class Http2Listener(Protocol):
    """What a connection needs from the listener that accepted it."""

    limits: Limits
    unread: UnreadAnswers
    unpacking: asyncio.Semaphore
    stream_window: int  # the initial flow-control window of a stream, in bytes

    @property
    def is_full(self) -> bool:
        """Whether incomplete messages use all the memory they may."""

    def read(self, pairs: list[Pair] | None) -> Any:
        """Return the parsed headers of a request. `pairs` is None if there were too many.

        Raises:
            Malformed: The headers are not valid.
        """

    def open(self, connection: "Http2Connection", id: int, head: Any) -> Http2Stream:
        """Return a new stream. `head` is what `read` returned."""

    def later(self, work: Callable[[], None]) -> None:
        """Call `work` in a later turn of the loop. Connections take turns."""

    def hold(self, holder: Any, size: int) -> None:
        """Add `size` to the bytes that incomplete messages of `holder` use. It may be negative."""

    def joined(self, link: Any) -> None:
        """Add a new connection."""

    def left(self, link: Any) -> None:
        """Remove a closed connection."""


class _Flood(Exception):
    """A client exceeded a rate limit; the text says of what."""


class _RateLimit:
    """Limits what costs a client nothing to send, and us time."""

    __slots__ = ("_bucket",)

    def __init__(self, rate: Rate) -> None:
        self._bucket = TokenBucket(rate)

    def spend(self, what: str, cost: int = 1) -> None:
        """Count one more, or `cost` more. Raises _Flood."""
        if self._bucket.take(cost):
            raise _Flood(f"too many {what}")


class _Broken(Exception):
    """The client broke a rule that ends the connection."""

    def __init__(self, code: ErrorCodes | int, what: str) -> None:
        super().__init__(what)
        self.code = code


def _broken(error: ProtocolError) -> _Broken:
    """Convert an error of h2 to one that ends the connection, as RFC 9113, 5.4.1 allows.

    Malformed headers are no such error. They end only their stream, since h2 doesn't check them.
    """
    is_packing = type(error) is ProtocolError and isinstance(error.__cause__, HPACKError)
    return _Broken(ErrorCodes.COMPRESSION_ERROR if is_packing else error.error_code, str(error))


class _H2(H2Connection):
    """h2's connection with our settings and limits."""

    MAX_CLOSED_STREAMS = CLOSED

    def __init__(self, stream_window: int) -> None:
        super().__init__(_CONFIG)
        values = {
            SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS,
            SettingCodes.INITIAL_WINDOW_SIZE: stream_window,
            SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_BYTES,
        }
        self.local_settings = Settings(client=False, initial_values=values)
        self.encoder, self.decoder = CachingEncoder(), CachingDecoder()
        self.decoder.max_header_list_size = BLOCK_BYTES
        self._sweep_at = SWEEP

    @property
    def open_inbound_streams(self) -> int:
        """Always 0, so that h2 never sees too many streams.

        For every new stream, h2 would count all streams, and end the connection if they are too
        many. `Http2Connection` counts them instead, and refuses only the new stream. h2's count
        also removes closed streams, so it still runs now and then.
        """
        if len(self.streams) >= self._sweep_at:
            self._sweep_at = 2 * super().open_inbound_streams + SWEEP
        return 0


class Http2Connection(PausableReader):
    """One client's connection. Its streams' output is sent in one write per turn of the loop."""

    def __init__(self, listener: Http2Listener) -> None:
        super().__init__()
        self.listener = listener
        self.loop = asyncio.get_running_loop()
        self.h2 = _H2(listener.stream_window)
        self.streams: dict[int, Http2Stream] = {}
        self.is_write_paused = False
        self.is_over = False  # nothing more is sent, and input is dropped
        self.unsent = 0  # bytes that wait in all streams together
        self.packed = 0  # large messages that wait to be unpacked
        self.taken_at = 0.0  # when the client last read some of them
        self._is_greeted = False
        self._is_leaving = False
        self._has_left = False  # the final GOAWAY was sent: new streams are ignored
        self._is_left = False  # the client sent GOAWAY: it opens no more streams
        self._named = WINDOW_MOST  # the last stream id in our latest GOAWAY
        # Reading
        self._frames = FrameReader()
        self._received = 0  # bytes of data not yet returned to the connection's window
        self._in_block = False  # a header block has begun, and CONTINUATION frames follow
        self._block_bytes = 0
        # The last call's headers, and what the listener read from them.
        self._last_pairs: list[Pair] | None = None
        self._last_head: Any = None
        self._free = FREE_FRAMES
        self._small = _RateLimit(Rate(2_000, 500))
        self._resets = _RateLimit(Rate(2_000, 200))
        # Writing
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._is_flush_due = False
        # Streams that wait for the connection's window or for space in the write buffer.
        self._waiting: dict[int, Http2Stream] = {}
        # Calls that start when the client has read more of its other answers.
        self._queued: dict[int, Http2Stream] = {}
        self._is_starting = False
        # Time
        self._has_received = False
        self._since = self.loop.time()
        self._pinged_at = 0.0
        self._stuck_since, self._stuck_bytes = 0.0, 0
        self._dropped = 0

    # The transport's side

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=FLUSH_BYTES)
        self.listener.joined(self)
        secure = transport.get_extra_info("ssl_object")
        if secure is not None and secure.selected_alpn_protocol() != "h2":
            self._turn_away(b"GET ")

    def pause_writing(self) -> None:
        self.is_write_paused = True
        self._stuck_since, self._stuck_bytes = (
            self.loop.time(),
            self.transport.get_write_buffer_size(),
        )

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self._stuck_since = 0.0
        self.resume_reading(UNREAD)
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self.transport = None  # breaks a reference cycle
        self._lose_streams()
        self.h2.streams.clear()  # most of the memory in a reference cycle of h2's own
        self.listener.left(self)
        self.listener.unread.discard(self)

    # Reading

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            self._drop(len(data))
            return
        self._has_received = True
        self._frames.feed(data)
        if not self.is_paused_for(BACKLOG):
            self._work()

    def _work(self) -> None:
        """Handle received frames for at most TURN_S. Handle the rest in a later turn."""
        self._is_flush_due = True  # this function flushes, so nobody has to schedule it
        is_done = True
        try:
            is_done = self._is_worked_off()
        except _Flood as flood:
            self._give_up(ErrorCodes.ENHANCE_YOUR_CALM, str(flood))
        except TooLarge as large:
            self._give_up(ErrorCodes.FRAME_SIZE_ERROR, str(large))
        except _Broken as broken:
            self._give_up(broken.code, str(broken))
        except Exception:
            log_.exception("a gRPC connection failed")
            self._give_up(ErrorCodes.INTERNAL_ERROR, "")
        self.flush()
        if is_done or self.is_over:
            self.resume_reading(BACKLOG)
        else:
            self.pause_reading(BACKLOG)
            self.listener.later(self._work)

    def _is_worked_off(self) -> bool:
        if self.is_over or not (self._is_greeted or self._greet()):
            return True
        frames, until = self._frames, time.perf_counter() + TURN_S
        while (frame := frames.next()) is not None:
            self._take(frame)
            if self.is_over:
                return True
            if time.perf_counter() > until:
                return False
        return True

    def _greet(self) -> bool:
        """Read the client's preface. Return whether it was complete."""
        data = self._frames.rest
        if not data.startswith(PREFACE):
            if not PREFACE.startswith(data):
                self._turn_away(data)
            return False
        if len(data) < len(PREFACE) + 5:
            return False
        if data[len(PREFACE) + 3] != SETTINGS or data[len(PREFACE) + 4] & ACK:
            raise _Broken(ErrorCodes.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        self._is_greeted = True
        self._frames.skip(len(PREFACE))
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(CONNECTION_WINDOW - WINDOW)
        self.h2.receive_data(PREFACE)
        return True

    def _take(self, frame: Http2Frame) -> None:
        kind, _, id_, size, data = frame
        self._count(frame)
        if kind == HEADERS:
            self._block_bytes, self._in_block = size, not frame.flags & END_HEADERS
        elif self._in_block:
            self._block_bytes += size
            if self._block_bytes > BLOCK_BYTES:
                raise _Flood(f"bytes of headers: more than {BLOCK_BYTES}")
            self._in_block = not (kind == CONTINUATION and frame.flags & END_HEADERS)
        elif kind == GOAWAY:
            # Not passed to h2, which would stop working. Open streams still need their answers.
            self._on_goaway(frame)
            return
        elif kind == RST_STREAM and id_ > self.h2.highest_inbound_stream_id:
            raise _Broken(ErrorCodes.PROTOCOL_ERROR, f"stream {id_} is not open")
        self._collect()
        try:
            events = self.h2.receive_data(data)
        except ProtocolError as error:
            raise _broken(error) from None
        for event in events:
            handle = _ON.get(type(event))
            if handle is not None:
                handle(self, event)

    def _count(self, frame: Http2Frame) -> None:
        """Count a frame towards the rate limit if it is cheap to send.

        Each call and each frame of an answer allows a few such frames (FREE_FRAMES).
        """
        kind = frame.kind
        if kind == HEADERS:
            return  # `_count_headers` counts these
        if kind in (DATA, CONTINUATION):
            is_last = frame.flags & END_STREAM and frame.id in self.streams
            if is_last or frame.size >= SMALL_BYTES:
                return
        elif kind == RST_STREAM and frame.id in self.streams:
            return  # `_on_reset` counts these
        elif kind not in (RST_STREAM, PING, WINDOW_UPDATE):
            self._small.spend(_NAMES.get(kind, "frames of unknown kinds"))
            return
        if self._free:
            self._free -= 1
        else:
            self._small.spend(_NAMES[kind])

    def _on_request(self, event: RequestReceived) -> None:
        id_, pairs = event.stream_id, event.headers
        self._count_headers(len(pairs))
        if self._has_left:
            return  # our GOAWAY says that this stream isn't processed
        try:
            head = self._head(pairs)
        except Malformed:
            self._small.spend("malformed requests")
            self.reset(id_, ErrorCodes.PROTOCOL_ERROR)
            return
        if len(self.streams) >= STREAMS:
            self._small.spend("streams")
            self.reset(id_, ErrorCodes.REFUSED_STREAM)
            return
        self._grant()
        stream = self.streams[id_] = self.listener.open(self, id_, head)
        stream.is_ended = event.stream_ended is not None
        stream.opened()

    def _head(self, pairs: list[Pair]) -> Any:
        """Return the parsed headers of a call.

        Most clients send the same headers with every call. Parsing them again would take 5 % of the
        time of a call, so the last result is kept.
        """
        if pairs == self._last_pairs:
            return self._last_head
        size = size_of(pairs)
        head = self.listener.read(pairs if size <= HEADER_BYTES else None)
        if size <= KNOWN_BYTES:
            self._last_pairs, self._last_head = pairs, head
        return head

    def _on_trailers(self, event: TrailersReceived) -> None:
        self._count_headers(len(event.headers))
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return
        try:
            check_trailers(event.headers)
        except Malformed:
            self.reset(stream.id, ErrorCodes.PROTOCOL_ERROR)
        else:
            stream.is_ended = True

    def _count_headers(self, fields: int) -> None:
        extra = max(fields - USUAL_FIELDS, 0) + max((self._block_bytes >> 10) - USUAL_KIB, 0)
        if extra:
            self._small.spend("headers", extra)

    def count_unpacked(self, packed: int, size: int) -> None:
        """Count a large message towards the rate limit if it expanded by a very large factor."""
        if size > PACKED_MOST * packed:
            self._spend(self._small, "packed messages", PACKED_COST)

    def _spend(self, limit: "_RateLimit", what: str, cost: int = 1) -> None:
        """Count towards a rate limit, outside of reading; a flood ends the connection."""
        try:
            limit.spend(what, cost)
        except _Flood as flood:
            self._give_up(ErrorCodes.ENHANCE_YOUR_CALM, str(flood))

    def _on_data(self, event: DataReceived) -> None:
        size, data = event.flow_controlled_length, event.data
        self._gave(size)
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return
        stream.is_ended = event.stream_ended is not None
        if size > len(data) and not stream.is_ended:
            self.give_back(stream, size - len(data))  # padding
        if data:
            stream.received(data)

    def _gave(self, size: int) -> None:
        """Return received bytes to the connection's window, in large steps.

        This doesn't wait until the data is processed: other limits bound what is held in memory.
        """
        self._received += size
        if self._received > CONNECTION_WINDOW // 2:
            self.h2.increment_flow_control_window(self._received)
            self._received = 0
            self.flush_soon()

    def _on_ended(self, event: StreamEnded) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.ended()

    def _on_reset(self, event: StreamReset) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return
        if not event.remote_reset or self.loop.time() - stream.since < YOUNG_S:
            # Each of them made the server start a call (CVE-2023-44487).
            self._resets.spend("streams that are opened and reset")
        self._forget(stream)
        stream.lost()

    def _on_window(self, event: WindowUpdated) -> None:
        if not event.stream_id:
            self.pump()
        elif (stream := self.streams.get(event.stream_id)) is not None:
            stream.pump()

    def _on_settings(self, event: RemoteSettingsChanged) -> None:
        if len(self.h2.remote_settings) > SETTINGS_MOST:
            raise _Flood("settings")
        if (
            SettingCodes.HEADER_TABLE_SIZE in event.changed_settings
            and self.h2.encoder.header_table_size > TABLE_BYTES
        ):
            self.h2.encoder.header_table_size = TABLE_BYTES
        if SettingCodes.INITIAL_WINDOW_SIZE in event.changed_settings:
            for stream in list(self.streams.values()):
                stream.pump()

    def _on_pong(self, event: PingAckReceived) -> None:
        if event.ping_data == LEAVING and self._is_leaving:
            self._leave_now()

    def _on_goaway(self, frame: Http2Frame) -> None:
        if frame.id or frame.size < 8:
            raise _Broken(
                ErrorCodes.PROTOCOL_ERROR if frame.id else ErrorCodes.FRAME_SIZE_ERROR,
                "a broken GOAWAY",
            )
        self._is_left = True
        self._close_if_done()

    # Writing

    @property
    def frame_bytes(self) -> int:
        return min(self.h2.max_outbound_frame_size, FRAME_MOST)

    @property
    def header_bytes(self) -> int:
        """How many bytes of headers the client accepts; 1 MiB if it set no limit."""
        said = self.h2.remote_settings.max_header_list_size
        return 1 << 20 if said is None else said

    def send_headers(self, id: int, pairs: list[Pair], *, is_last: bool = False) -> None:
        self.h2.send_headers(id, pairs, end_stream=is_last)
        self.flush_soon()

    def send_data(self, id: int, data: bytes) -> None:
        """Send data on a stream. The caller has checked that the windows have room for it."""
        self.h2.send_data(id, data)
        self._grant()
        self._out_bytes += len(data)
        if self._out_bytes > FLUSH_BYTES:
            self.flush()
        self.flush_soon()

    def _grant(self) -> None:
        self._free = min(self._free + FREE_FRAMES, FREE_MOST)

    def flush_soon(self) -> None:
        """Flush at the end of this turn of the loop, so that output is sent in one write."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        self._is_flush_due = False
        self._collect()
        out = self._out
        if out:
            if self.transport is not None:
                self.transport.write(b"".join(out) if len(out) > 1 else out[0])
                if self.is_write_paused and self.transport.get_write_buffer_size() > UNREAD_BYTES:
                    self.pause_reading(UNREAD)
            out.clear()
            self._out_bytes = 0

    def _collect(self) -> None:
        """Move output from h2 to our buffer. h2 drops its output when it ends the connection."""
        data = self.h2.data_to_send()
        if data:
            self._out.append(data)

    def _goaway(self, last: int, code: ErrorCodes | int, what: str = "") -> None:
        """Send GOAWAY. h2 doesn't send it, because h2 would stop working after it."""
        self._collect()
        self._out.append(
            GoAwayFrame(
                last_stream_id=last, error_code=code, additional_data=what.encode()
            ).serialize()
        )
        self.flush_soon()

    def wait(self, stream: Http2Stream) -> None:
        """Have `pump` send more of `stream` when there is room."""
        self._waiting[stream.id] = stream

    def pump(self) -> None:
        """Send waiting data while there is room, one frame of each stream in turn."""
        waiting = self._waiting
        while waiting and self.h2.outbound_flow_control_window > 0 and not self.is_write_paused:
            waiting.pop(next(iter(waiting))).pump(self.frame_bytes)

    def held(self, size: int) -> None:
        """Add to the bytes that wait for the client."""
        if not self.unsent:
            self.taken_at = self.loop.time()
            self.listener.unread.add(self)
        self.unsent += size

    def freed(self, size: int) -> None:
        """Subtract from the bytes that wait for the client, and start queued calls if possible."""
        self.unsent -= size
        if not self.unsent:
            self.listener.unread.discard(self)
        else:
            self.listener.unread.freed()
        if self._queued and not self._is_starting and not self.is_full:
            self._is_starting = True
            self.loop.call_soon(self._start_queued)

    @property
    def is_full(self) -> bool:
        """Whether so many bytes wait for the client that its new calls have to wait."""
        return self.unsent > self.listener.limits.unread_per_connection

    def queue(self, stream: Http2Stream) -> None:
        """Start a call when the client has read enough of its other answers."""
        self._queued[stream.id] = stream

    def _start_queued(self) -> None:
        self._is_starting = False
        while self._queued and not self.is_full:
            self._queued.pop(next(iter(self._queued))).begin()

    def unread(self) -> int:
        return self.unsent + (
            self.transport.get_write_buffer_size() if self.transport is not None else 0
        )

    def give_back(self, stream: Http2Stream, size: int) -> None:
        """Let the client send `size` more bytes on a stream."""
        self.h2.increment_flow_control_window(size, stream.id)
        self.flush_soon()

    def finished(self, stream: Http2Stream) -> None:
        """Close a stream after its whole answer was sent. The rest of the request isn't needed."""
        is_early = not stream.is_ended
        if is_early:
            self.h2.reset_stream(stream.id, ErrorCodes.NO_ERROR)
        self._forget(stream)
        if is_early:
            # Refused for its headers, for example without credentials: the client's own reset comes
            # too late to be counted.
            self._spend(self._resets, "streams that are opened and refused")

    def reset(self, id: int, code: ErrorCodes) -> None:
        """Send RST_STREAM and drop a stream."""
        stream = self.streams.get(id)
        if stream is not None:
            # A client can also make the server reset its streams (CVE-2025-8671).
            self._resets.spend("streams that are opened and broken")
        try:
            self.h2.reset_stream(id, code)
        except ProtocolError:
            raise _Broken(code, f"stream {id} is broken") from None
        self.flush_soon()
        if stream is not None:
            self._forget(stream)
            stream.lost()

    def _forget(self, stream: Http2Stream) -> None:
        self.streams.pop(stream.id, None)
        self._waiting.pop(stream.id, None)
        self._queued.pop(stream.id, None)
        stream.clear()
        if not self.streams:
            self._close_if_done()

    # Closing

    def _give_up(self, code: ErrorCodes | int, what: str) -> None:
        """End the connection with a GOAWAY that gives the reason."""
        if not self.is_over:
            self.is_over = True
            self.h2.clear_outbound_data_buffer()  # drops the GOAWAY of h2, in favour of ours
            self._goaway(min(self.h2.highest_inbound_stream_id, self._named), code, what)
            self._lose_streams()
            self._linger()

    def _turn_away(self, data: bytes) -> None:
        """Close a connection that is not HTTP/2. An HTTP/1 request gets an answer first."""
        self.is_over = True
        if _REQUEST.match(data):
            self._out.append(_OTHERWISE)
        self._linger()

    def _linger(self) -> None:
        """Send the last bytes, and close when the client has closed or LINGER_S later.

        Closing at once could cause a TCP reset, and the client would lose the last bytes.
        """
        self._say_the_last()
        if self.transport is None:
            return
        # asyncio's TLS can't close only the sending side.
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        try:
            self.transport.write_eof()
        except OSError:  # the client has disconnected
            self.transport.abort()

    def _drop(self, size: int) -> None:
        """Drop input after the end. Abort the connection if there is too much of it."""
        self._dropped += size
        if self._dropped > self.listener.limits.body:
            self.abort()

    def leave(self) -> None:
        """Ask the client to open no more streams (RFC 9113, 6.8).

        Streams that it opens before it reads this are still served. Its answer to the ping shows
        that it has read this.
        """
        if not self._is_greeted:
            self.abort()
        elif not self.is_over:
            self._is_leaving = True
            self._goaway(WINDOW_MOST, ErrorCodes.NO_ERROR)
            self.h2.ping(LEAVING)

    def _leave_now(self) -> None:
        """Send the final GOAWAY. Streams opened from now on are ignored."""
        if not self._has_left:
            self._has_left = True
            self._named = self.h2.highest_inbound_stream_id
            self._goaway(self._named, ErrorCodes.NO_ERROR)
            self._close_if_done()

    def end(self) -> None:
        """Stop all streams, each with an error status, and close the connection."""
        if self.is_over:
            return  # already closing; the last bytes may still be in the write buffer
        for stream in list(self.streams.values()):
            stream.stopped()
        self._leave_now()
        self._close()

    def _close_if_done(self) -> None:
        if (self._has_left or self._is_left) and not self.streams:
            self._close()

    def _close(self) -> None:
        self._say_the_last()
        if self.transport is not None:
            self.transport.close()

    def _say_the_last(self) -> None:
        self.flush()
        self.is_over = True
        self._since = self.loop.time()
        self._stuck_bytes = (
            self.transport.get_write_buffer_size() if self.transport is not None else 0
        )

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def reset_connection(self) -> None:
        if self.transport is not None:
            reset(self.transport)

    def fileno(self) -> int:
        return (
            int(self.transport.get_extra_info("socket").fileno())
            if self.transport is not None
            else -1
        )

    def _lose_streams(self) -> None:
        streams = list(self.streams.values())
        self.streams.clear()
        self._waiting.clear()
        self._queued.clear()
        for stream in streams:
            stream.clear()
            stream.lost()

    # Timeouts

    def check_timeouts(self, now: float) -> None:
        """Abort the connection if the client sends no preface, reads nothing, or ignores a ping.

        The listener calls this at intervals.
        """
        limits = self.listener.limits
        if self.is_over:
            self._look_closing(now)
            return
        if not self._is_greeted:
            if now - self._since > limits.header_s:
                self.abort()
            return
        if self._stuck_since and self._is_stuck(now):
            self.abort()
            return
        for stream in list(self.streams.values()):
            stream.check_timeouts(now)
        if self._has_received:
            self._since, self._pinged_at, self._has_received = now, 0.0, False
        elif self._pinged_at:
            if now - self._pinged_at > min(PONG_S, limits.stalled_s):
                self.abort()
        elif now - self._since > (limits.keep_alive_comment_s if self.streams else QUIET_S):
            self._pinged_at = now
            self.h2.ping(b"\0" * 8)
            self.flush_soon()

    def _look_closing(self, now: float) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting < self._stuck_bytes:
            self._since, self._stuck_bytes = now, waiting  # the client still reads
        elif now - self._since > LINGER_S:
            self.abort()

    def _is_stuck(self, now: float) -> bool:
        waiting = self.transport.get_write_buffer_size()
        if waiting < self._stuck_bytes:
            self._stuck_since, self._stuck_bytes = now, waiting  # slow, but the client reads
            return False
        return now - self._stuck_since > self.listener.limits.stalled_s


_ON: dict[type, Callable[[Http2Connection, Any], None]] = {
    RequestReceived: Http2Connection._on_request,
    TrailersReceived: Http2Connection._on_trailers,
    DataReceived: Http2Connection._on_data,
    StreamEnded: Http2Connection._on_ended,
    StreamReset: Http2Connection._on_reset,
    WindowUpdated: Http2Connection._on_window,
    RemoteSettingsChanged: Http2Connection._on_settings,
    PingAckReceived: Http2Connection._on_pong,
}

_NAMES: dict[int, str] = {
    DATA: "small frames of data",
    PRIORITY: "priorities",
    RST_STREAM: "resets of closed streams",
    SETTINGS: "settings",
    PING: "pings",
    WINDOW_UPDATE: "windows that grow",
    CONTINUATION: "small continuations",
    GOAWAY: "goodbyes",
}
