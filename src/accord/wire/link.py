"""The sending half of an HTTP/2 connection, and its life: what its streams have ready leaves in one write per turn of the loop."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any, Protocol

from ..model import Limits
from ..sockets import reset
from .frames import FRAME_BYTES, GOAWAY, PING, RST_STREAM, WINDOW, WINDOW_MOST, WINDOW_UPDATE, Code, frame
from .hpack import Pair
from .stream import Stream
from .unread import Unread

__all__ = ["LEAVING", "Home", "Link"]

FLUSH_BYTES = 256 << 10
DEAF_BYTES = 1 << 20  # on the way to a client that takes nothing, before we stop to listen: data stops long before, headers do not
CUT = 1_000  # streams we ended, whose last frames may still be on the way

QUIET_S = 300.0  # before a connection without streams is asked whether it still lives
PONG_S = 20.0  # for the answer
LINGER_S = 2.0  # for the last word to be heard

LEAVING = b"leaving!"

_REQUEST = re.compile(rb"[A-Z]{3,10} ")
_ADVICE = b"This port speaks gRPC, over HTTP/2 only. HTTP has a port of its own.\n"
_OTHERWISE = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_ADVICE), _ADVICE)
)


class Home(Protocol):
    """Where a connection belongs."""

    limits: Limits
    unread: Unread
    intake: int  # bytes a stream may send before it hears from us

    @property
    def is_full(self) -> bool:
        """More has come in part than there is room for."""

    def read(self, pairs: list[Pair] | None) -> Any:
        """Return what the headers of a request say; None if there were too many. Raises Malformed."""

    def open(self, link: Any, id: int, head: Any) -> Stream:
        """Return a new stream, begun with what `read` returned."""

    def hold(self, size: int) -> None:
        """So much more, or less, has come in part."""

    def joined(self, link: "Link") -> None:
        """There is a new connection."""

    def left(self, link: "Link") -> None:
        """A connection is gone."""


class Link(asyncio.Protocol):
    """Writes to one client, within its windows, and notices when it is gone, takes nothing any more, or says nothing."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.loop = asyncio.get_running_loop()
        self.streams: dict[int, Stream] = {}
        self.last = 0  # the newest of them
        self.cut: dict[int, None] = {}
        self.room = self.first_room = WINDOW  # bytes we may send: on all streams together, and on a new one
        self.frame_bytes = FRAME_BYTES
        self.most_headers = 1 << 20
        self.prefix = b""  # what the next block of headers has to begin with
        self.is_greeted = False
        self.is_paused = False
        self.is_over = False  # the last word has been said
        self.has_heard = False
        self.has_spoken = False  # on a stream, since its client last asked whether we live
        self.has_left = False  # streams that are opened now were not seen
        self.is_left = False  # by the other side, which opens no more
        self.is_leaving = False
        self._named = WINDOW_MOST  # the last stream that a GOAWAY of ours has said is served
        self._transport: Any = None
        self.unsent = 0  # bytes that wait in all streams together
        self.taken_at = 0.0  # when the client last took some of them
        self._queued: dict[int, Stream] = {}  # calls that wait until the client has read other answers
        self._is_starting = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self.is_due = False
        self._waiting: dict[int, Stream] = {}  # for the connection's window, or for the client to take what is on the way
        self._since = self.loop.time()
        self._pinged_at = 0.0
        self._stuck_since, self._stuck_bytes = 0.0, 0
        self._dropped = 0
        self._is_deaf = False

    # The transport's side

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=FLUSH_BYTES)
        self.home.joined(self)
        secure = transport.get_extra_info("ssl_object")
        if secure is not None and secure.selected_alpn_protocol() != "h2":
            self.turn_away(b"GET ")

    def pause_writing(self) -> None:
        self.is_paused = True
        self._stuck_since, self._stuck_bytes = self.loop.time(), self._transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self.is_paused = False
        self._stuck_since = 0.0
        if self._is_deaf:
            self._is_deaf = False
            self._transport.resume_reading()
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._transport = None  # which holds us, and would be held by us
        self._lose_streams()
        self.home.left(self)
        self.home.unread.discard(self)

    # Writing

    def send(self, pieces: Iterable[bytes], size: int = 0) -> None:
        """Send frames, together with all else that is ready by the end of this turn."""
        self._out += pieces
        self._out_bytes += size
        if self._out_bytes > FLUSH_BYTES:
            self.flush()
        elif not self.is_due:
            self.is_due = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        self.is_due = False
        out = self._out
        if out:
            if self._transport is not None:
                self._transport.write(b"".join(out))
                if self.is_paused and not self._is_deaf and self._transport.get_write_buffer_size() > DEAF_BYTES:
                    self._is_deaf = True
                    self._transport.pause_reading()
            out.clear()
            self._out_bytes = 0

    def wait(self, stream: Stream) -> None:
        """Have `stream` wait for its turn."""
        self._waiting[stream.id] = stream

    def pump(self) -> None:
        """Send what waits, a frame of each stream in turn."""
        waiting = self._waiting
        while waiting and self.room > 0 and not self.is_paused:
            stream = waiting.pop(next(iter(waiting)))
            stream.pump(self.frame_bytes)

    def held(self, size: int) -> None:
        """So many bytes more wait for the client."""
        if not self.unsent:
            self.taken_at = self.loop.time()
            self.home.unread.add(self)
        self.unsent += size

    def freed(self, size: int) -> None:
        """So many bytes wait no longer: begin calls that waited for that."""
        self.unsent -= size
        if not self.unsent:
            self.home.unread.discard(self)
        else:
            self.home.unread.freed()
        if self._queued and not self._is_starting and not self.is_full:
            self._is_starting = True
            self.loop.call_soon(self._start_queued)

    @property
    def is_full(self) -> bool:
        """So much waits for the client that no further call of it is begun."""
        return self.unsent > self.home.limits.unread_per_connection

    def queue(self, stream: Stream) -> None:
        """Have a call begin when the client has read enough of what waits for it."""
        self._queued[stream.id] = stream

    def _start_queued(self) -> None:
        self._is_starting = False
        while self._queued and not self.is_full:
            self._queued.pop(next(iter(self._queued))).begin()

    def unread(self) -> int:
        return self.unsent + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def take(self, stream: Stream, size: int) -> None:
        """Let the other side send `size` more bytes on a stream."""
        stream.intake += size
        self.send((frame(WINDOW_UPDATE, 0, stream.id, size.to_bytes(4, "big")),))

    def finished(self, stream: Stream) -> None:
        """All has been sent on a stream. What its client still wants to say is not needed."""
        if not stream.is_ended:
            self._cut(stream.id, Code.NO_ERROR)
        self.forget(stream)

    def reset(self, id: int, code: Code) -> None:
        """End a stream without a word."""
        self._cut(id, code)
        stream = self.streams.get(id)
        if stream is not None:
            self.forget(stream)
            stream.lost()

    def _cut(self, id: int, code: Code) -> None:
        self.send((frame(RST_STREAM, 0, id, code.to_bytes(4, "big")),))
        self.ignore(id)

    def ignore(self, id: int) -> None:
        """What still comes on a stream is no mistake of its client, and not needed."""
        self.cut[id] = None
        if len(self.cut) > CUT:
            del self.cut[next(iter(self.cut))]

    def forget(self, stream: Stream) -> None:
        self.streams.pop(stream.id, None)
        self._waiting.pop(stream.id, None)
        self._queued.pop(stream.id, None)
        stream.clear()
        if not self.streams:
            self.close_if_done()

    # Its end

    def give_up(self, code: Code, what: str) -> None:
        """Say why, and no more."""
        if not self.is_over:
            self.is_over = True
            self.send((_goaway(min(self.last, self._named), code, what),))
            self._lose_streams()
            self._linger()

    def turn_away(self, data: bytes) -> None:
        """Whoever this is speaks something else."""
        self.is_over = True
        if _REQUEST.match(data):
            self.send((_OTHERWISE,))
        self._linger()

    def _linger(self) -> None:
        """Close when the client has heard us, or a moment later: at once, a reset could overtake the last word."""
        self._say_the_last()
        if self._transport is None:
            return
        if not self._transport.can_write_eof():  # over TLS there is no way to say "that was all" and listen on
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # it has hung up already
            self._transport.abort()

    def drop(self, size: int) -> None:
        """Something came after the end."""
        self._dropped += size
        if self._dropped > self.home.limits.body:
            self.abort()

    def leave(self) -> None:
        """Ask the client to open no more streams; those that are on the way are still served."""
        if not self.is_greeted:
            self.abort()
        elif not self.is_over:
            self.is_leaving = True
            self.send((_goaway(WINDOW_MOST, Code.NO_ERROR), frame(PING, 0, 0, LEAVING)))

    def leave_now(self) -> None:
        """The client has heard it: what it opened before has come."""
        if not self.has_left:
            self.has_left = True
            self._named = self.last
            self.send((_goaway(self.last, Code.NO_ERROR),))
            self.close_if_done()

    def end(self) -> None:
        """End all streams, with a word to each, and the connection."""
        if self.is_over:
            return  # it had its last word, which may still be on its way
        for stream in list(self.streams.values()):
            stream.stopped()
        self.leave_now()
        self._close()

    def close_if_done(self) -> None:
        if (self.has_left or self.is_left) and not self.streams:
            self._close()

    def _close(self) -> None:
        self._say_the_last()
        if self._transport is not None:
            self._transport.close()

    def _say_the_last(self) -> None:
        self.flush()
        self.is_over = True
        self._since = self.loop.time()
        self._stuck_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def reset_connection(self) -> None:
        if self._transport is not None:
            reset(self._transport)

    def fileno(self) -> int:
        return int(self._transport.get_extra_info("socket").fileno()) if self._transport is not None else -1

    def _lose_streams(self) -> None:
        streams = list(self.streams.values())
        self.streams.clear()
        self._waiting.clear()
        self._queued.clear()
        for stream in streams:
            stream.clear()
            stream.lost()

    # Once in a while

    def look(self, now: float) -> None:
        """Cut who does not come to the point, takes nothing, or does not answer."""
        limits = self.home.limits
        if self.is_over:
            self._look_closing(now)
            return
        if not self.is_greeted:
            if now - self._since > limits.header_s:
                self.abort()
            return
        if self._stuck_since and self._is_stuck(now):
            self.abort()
            return
        for stream in list(self.streams.values()):
            stream.look(now)
        if self.has_heard:
            self._since, self._pinged_at, self.has_heard = now, 0.0, False
        elif self._pinged_at:
            if now - self._pinged_at > min(PONG_S, limits.stalled_s):
                self.abort()
        elif now - self._since > (limits.keep_alive_comment_s if self.streams else QUIET_S):
            self._pinged_at = now
            self.send((frame(PING, 0, 0, b"\0" * 8),))

    def _look_closing(self, now: float) -> None:
        waiting = self._transport.get_write_buffer_size()
        if waiting < self._stuck_bytes:
            self._since, self._stuck_bytes = now, waiting  # the last word is still on its way
        elif now - self._since > LINGER_S:
            self.abort()

    def _is_stuck(self, now: float) -> bool:
        waiting = self._transport.get_write_buffer_size()
        if waiting < self._stuck_bytes:
            self._stuck_since, self._stuck_bytes = now, waiting  # slow, but it takes something
            return False
        return now - self._stuck_since > self.home.limits.stalled_s


def _goaway(last: int, code: Code, what: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big") + what.encode())
