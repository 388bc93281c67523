"""An HTTP/2 server's side of one connection (RFC 9113): frames, windows, limits. What its streams mean is another's matter.

What the other side gets wrong ends the stream or the connection it concerns, with the code the protocol has for it.
"""

import logging
import struct
from collections.abc import Callable
from typing import Any

from .frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW,
    WINDOW_MOST,
    WINDOW_UPDATE,
    Broken,
    Code,
    Malformed,
    Patience,
    Setting,
    frame,
    head_of,
    settings,
    unpadded,
)
from .hpack import TABLE_BYTES, BadBlock, Decoder, Pair, TooLarge
from .link import LEAVING, Home, Link
from .stream import Stream

__all__ = ["Connection"]

log_ = logging.getLogger("accord")

STREAMS = 1_000  # open at once on one connection
HEADER_BYTES = 16 << 10  # of one list of headers
BLOCK_BYTES = 256 << 10  # of the same as it is written: who sends too many is told so on the stream, up to here
INTAKE = 16 << 20  # what a connection may send before it hears from us
FRAME_MOST = 64 << 10  # that we send, whatever the client would take
HEADS = 64  # blocks of headers remembered
HEAD_BYTES = 2 << 10  # of one that is worth it
YOUNG_S = 1.0  # a stream that is reset later is no flood: only so many are open at once


class Connection(Link):
    """Reads frames from one client."""

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self._rest = b""
        self._intake = INTAKE
        self._decoder = Decoder()
        self._heads: dict[bytes, Any] = {}
        self._block: tuple[int, int, bytearray] | None = None  # headers whose rest is still to come: stream, flags, so far
        self._nuisance = Patience(2_000, 500)
        self._resets = Patience(2_000, 200)

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            self.drop(len(data))
            return
        self.has_heard = self.is_due = True  # what is sent meanwhile leaves at the end of this
        try:
            self._rest = self._read(self._rest + data if self._rest else data)
        except Broken as broken:
            self.give_up(broken.code, str(broken))
        except Exception:
            log_.exception("a gRPC connection failed")
            self.give_up(Code.INTERNAL_ERROR, "")
        self.flush()

    def _read(self, data: bytes) -> bytes:
        """Take all whole frames; return the rest."""
        if not self.is_greeted:
            if not data.startswith(PREFACE):
                if not PREFACE.startswith(data):
                    self.turn_away(data)
                    return b""
                return data
            if len(data) < len(PREFACE) + 9:
                return data
            self._greet(data[len(PREFACE) + 3], data[len(PREFACE) + 4])
            data = data[len(PREFACE) :]
        at, end = 0, len(data)
        while end - at >= 9:
            word, flags, id_ = head_of(data, at)
            size, kind = word >> 8, word & 0xFF
            if size > FRAME_BYTES:
                raise Broken(Code.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
            stop = at + 9 + size
            if stop > end:
                break
            payload = data[at + 9 : stop]
            at = stop
            id_ &= WINDOW_MOST
            if self._block is not None and kind != CONTINUATION:
                raise Broken(Code.PROTOCOL_ERROR, "headers are interrupted")
            if kind == DATA:
                self._on_data(flags, id_, payload)
            elif kind == HEADERS:
                self._on_headers(flags, id_, payload)
            elif kind <= CONTINUATION:
                _ON[kind](self, flags, id_, payload)
            else:
                self._nuisance.spend("frames of unknown kinds")
            if self.is_over:
                return b""
        return data[at:]

    def _greet(self, kind: int, flags: int) -> None:
        if kind != SETTINGS or flags & ACK:
            raise Broken(Code.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        self.is_greeted = True
        said = {
            Setting.MAX_CONCURRENT_STREAMS: STREAMS,
            Setting.INITIAL_WINDOW_SIZE: self.home.intake,
            Setting.MAX_HEADER_LIST_SIZE: HEADER_BYTES,
        }
        self.send((settings(said), frame(WINDOW_UPDATE, 0, 0, (INTAKE - WINDOW).to_bytes(4, "big"))))

    def _on_data(self, flags: int, id_: int, payload: bytes) -> None:
        size = len(payload)
        self._intake -= size
        if self._intake < INTAKE // 2:  # given back at once: what is held is bounded by stream, and over all clients
            self.send((frame(WINDOW_UPDATE, 0, 0, (INTAKE - self._intake).to_bytes(4, "big")),))
            self._intake = INTAKE
        if flags & PADDED:
            payload = unpadded(payload)
        if not payload and not flags & END_STREAM:
            self._nuisance.spend("empty frames")
        stream = self.streams.get(id_)
        if stream is None or stream.is_ended:
            self._on_closed(id_)
            return
        stream.intake -= size
        if stream.intake < 0:
            self.reset(id_, Code.FLOW_CONTROL_ERROR)
            return
        if size > len(payload):
            self.take(stream, size - len(payload))
        stream.is_ended = bool(flags & END_STREAM)
        if payload:
            stream.received(payload)
        if flags & END_STREAM:
            stream.ended()

    def _on_closed(self, id_: int) -> None:
        """Data came for a stream that takes none."""
        self._check_known(id_)
        if id_ not in self.cut:
            self._nuisance.spend("frames on closed streams")
            self.reset(id_, Code.STREAM_CLOSED)

    def _check_known(self, id_: int) -> None:
        if id_ > self.last or id_ % 2 == 0:
            raise Broken(Code.PROTOCOL_ERROR, f"stream {id_} is not open")

    def _on_headers(self, flags: int, id_: int, payload: bytes) -> None:
        if id_ % 2 == 0:
            raise Broken(Code.PROTOCOL_ERROR, f"a client has no stream {id_}")
        if flags & PADDED:
            payload = unpadded(payload)
        if flags & PRIORITIZED:
            if len(payload) < 5:
                raise Broken(Code.FRAME_SIZE_ERROR, "headers without their priority")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._headed(flags, id_, payload)
        else:
            self._block = id_, flags, bytearray(payload)

    def _on_continuation(self, flags: int, id_: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != id_:
            raise Broken(Code.PROTOCOL_ERROR, "nothing is to be continued")
        _, first, block = self._block
        block += payload
        if len(block) > BLOCK_BYTES:
            raise Broken(Code.ENHANCE_YOUR_CALM, f"more than {BLOCK_BYTES} bytes of headers")
        if len(payload) < 64:
            self._nuisance.spend("small continuations")
        if flags & END_HEADERS:
            self._block = None
            self._headed(first, id_, bytes(block))

    def _headed(self, flags: int, id_: int, block: bytes) -> None:
        stream = self.streams.get(id_)
        if stream is not None or id_ <= self.last:
            self._trailed(flags, id_, block, stream)
            return
        self.last = id_
        try:
            head = self._head(block)
        except Malformed:
            self._nuisance.spend("malformed requests")
            self.reset(id_, Code.PROTOCOL_ERROR)
            return
        if self.has_left:
            self.ignore(id_)  # after our GOAWAY: the client knows that it was not seen
            return
        if len(self.streams) >= STREAMS:
            self._nuisance.spend("streams")
            self.reset(id_, Code.REFUSED_STREAM)
            return
        stream = self.streams[id_] = self.home.open(self, id_, head)
        stream.is_ended = bool(flags & END_STREAM)
        stream.opened()
        if flags & END_STREAM:
            stream.ended()

    def _trailed(self, flags: int, id_: int, block: bytes, stream: Stream | None) -> None:
        """Headers after the headers: they only say that this is the end."""
        try:
            pairs = self._decode(block)
        except TooLarge:
            pairs = []
        if stream is None:
            if id_ not in self.cut:
                raise Broken(Code.STREAM_CLOSED, f"stream {id_} is closed")
        elif stream.is_ended:
            self.reset(id_, Code.STREAM_CLOSED)
        elif not flags & END_STREAM or any(name.startswith(b":") for name, _ in pairs):
            self.reset(id_, Code.PROTOCOL_ERROR)
        else:
            stream.is_ended = True
            stream.ended()

    def _head(self, block: bytes) -> Any:
        """Return what a request's headers say. Clients write the same ones as the same few bytes again and again."""
        head = self._heads.get(block)
        if head is None:
            before = self._decoder.changes
            try:
                head = self.home.read(self._decode(block))
            except TooLarge:
                head = self.home.read(None)
            finally:
                if self._decoder.changes != before or len(self._heads) >= HEADS:
                    self._heads.clear()
            if self._decoder.changes == before and len(block) <= HEAD_BYTES:
                self._heads[block] = head
        return head

    def _decode(self, block: bytes) -> list[Pair]:
        try:
            return self._decoder.decode(block, HEADER_BYTES)
        except BadBlock as bad:
            raise Broken(Code.COMPRESSION_ERROR, str(bad)) from None

    def reset(self, id: int, code: Code) -> None:
        if id in self.streams:
            self._resets.spend("streams that are opened and broken")  # as good as reset (CVE-2025-8671)
        super().reset(id, code)

    def _on_priority(self, flags: int, id_: int, payload: bytes) -> None:
        if not id_:
            raise Broken(Code.PROTOCOL_ERROR, "a priority of nothing")
        self._nuisance.spend("priorities")
        if len(payload) != 5:
            self.reset(id_, Code.FRAME_SIZE_ERROR)

    def _on_rst_stream(self, flags: int, id_: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Broken(Code.FRAME_SIZE_ERROR, "RST_STREAM has four bytes")
        self._check_known(id_)
        stream = self.streams.get(id_)
        if stream is not None:
            if self.loop.time() - stream.since < YOUNG_S:
                self._resets.spend("streams that are opened and reset")  # each cost us a beginning
            self.forget(stream)
            stream.lost()

    def _on_settings(self, flags: int, id_: int, payload: bytes) -> None:
        if id_:
            raise Broken(Code.PROTOCOL_ERROR, "settings are of the connection")
        if len(payload) % 6 or (flags & ACK and payload):
            raise Broken(Code.FRAME_SIZE_ERROR, "settings have six bytes each")
        self._nuisance.spend("settings")
        if flags & ACK:
            return
        said = dict(struct.iter_unpack(">HI", payload))
        if said.get(Setting.ENABLE_PUSH, 0) > 1:
            raise Broken(Code.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")
        most = said.get(Setting.MAX_FRAME_SIZE, self.frame_bytes)
        if not FRAME_BYTES <= most < 1 << 24:
            raise Broken(Code.PROTOCOL_ERROR, f"frames of {most} bytes")
        self.frame_bytes = min(most, FRAME_MOST)
        self.most_headers = said.get(Setting.MAX_HEADER_LIST_SIZE, self.most_headers)
        if said.get(Setting.HEADER_TABLE_SIZE, TABLE_BYTES) < TABLE_BYTES:
            self.prefix = b"\x20"  # we use no table at all; from now on that is official (RFC 7541, 4.2)
        self.send((frame(SETTINGS, ACK, 0),))
        self._move_windows(said.get(Setting.INITIAL_WINDOW_SIZE, self.first_room))

    def _move_windows(self, first: int) -> None:
        """The window of new streams changes, and those of all open ones with it."""
        change = first - self.first_room
        if not change:
            return
        if first > WINDOW_MOST:
            raise Broken(Code.FLOW_CONTROL_ERROR, f"a window of {first} bytes")
        self.first_room = first
        for stream in list(self.streams.values()):
            stream.room += change
            if stream.room > WINDOW_MOST:
                raise Broken(Code.FLOW_CONTROL_ERROR, f"the window of stream {stream.id} overflows")
            stream.pump()

    def _on_push_promise(self, flags: int, id_: int, payload: bytes) -> None:
        raise Broken(Code.PROTOCOL_ERROR, "clients push nothing")

    def _on_ping(self, flags: int, id_: int, payload: bytes) -> None:
        if len(payload) != 8:
            raise Broken(Code.FRAME_SIZE_ERROR, "PING has eight bytes")
        if id_:
            raise Broken(Code.PROTOCOL_ERROR, "pings are of the connection")
        if not flags & ACK:
            if not self.has_spoken:  # clients measure the line with a ping for what they got, as often as it comes
                self._nuisance.spend("pings")
            self.has_spoken = False
            self.send((frame(PING, ACK, 0, payload),))
        elif payload == LEAVING and self.is_leaving:
            self.leave_now()

    def _on_goaway(self, flags: int, id_: int, payload: bytes) -> None:
        if id_ or len(payload) < 8:
            raise Broken(Code.PROTOCOL_ERROR if id_ else Code.FRAME_SIZE_ERROR, "a broken GOAWAY")
        self.is_left = True
        self.close_if_done()

    def _on_window_update(self, flags: int, id_: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Broken(Code.FRAME_SIZE_ERROR, "WINDOW_UPDATE has four bytes")
        more = int.from_bytes(payload, "big") & WINDOW_MOST
        if not id_:
            self.room += more
            if not more or self.room > WINDOW_MOST:
                code = Code.FLOW_CONTROL_ERROR if more else Code.PROTOCOL_ERROR
                raise Broken(code, f"the window of the connection grows by {more}")
            self.pump()
            return
        self._check_known(id_)
        stream = self.streams.get(id_)
        if stream is None:
            return
        stream.room += more
        if not more or stream.room > WINDOW_MOST:
            self.reset(id_, Code.FLOW_CONTROL_ERROR if more else Code.PROTOCOL_ERROR)
        else:
            stream.pump()


_ON: dict[int, Callable[[Connection, int, int, bytes], None]] = {
    PRIORITY: Connection._on_priority,
    RST_STREAM: Connection._on_rst_stream,
    SETTINGS: Connection._on_settings,
    PUSH_PROMISE: Connection._on_push_promise,
    PING: Connection._on_ping,
    GOAWAY: Connection._on_goaway,
    WINDOW_UPDATE: Connection._on_window_update,
    CONTINUATION: Connection._on_continuation,
}
