"""HTTP/2's frames (RFC 9113): their kinds, their errors, and how they are written."""

import enum
import struct
import time

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "FRAME_BYTES",
    "GOAWAY",
    "HEADERS",
    "PADDED",
    "PING",
    "PREFACE",
    "PRIORITIZED",
    "PRIORITY",
    "PUSH_PROMISE",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW",
    "WINDOW_MOST",
    "WINDOW_UPDATE",
    "Broken",
    "Code",
    "Malformed",
    "Patience",
    "Setting",
    "frame",
    "frame_head",
    "head_of",
    "header_frames",
    "settings",
    "unpadded",
]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20

FRAME_BYTES = 16_384  # the largest frame anyone may send unless told otherwise, and that we take
WINDOW = 65_535  # what may be sent before anything is said about windows
WINDOW_MOST = 2**31 - 1

_HEAD = struct.Struct(">IBI")
# The head of a frame: length and kind in one number (`length << 8 | kind`), flags, stream.
frame_head = _HEAD.pack
head_of = _HEAD.unpack_from
_SETTING = struct.Struct(">HI")


class Code(enum.IntEnum):
    """Why a stream or a connection is ended."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Setting(enum.IntEnum):
    """What one side tells the other about itself."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Broken(Exception):
    """The other side broke a rule that ends the connection."""

    def __init__(self, code: Code, what: str) -> None:
        super().__init__(what)
        self.code = code


class Malformed(Exception):
    """A request has headers that no request may have: the end of its stream (RFC 9113, 8.1.1)."""


class Patience:
    """How much of what costs the other side nothing it may send: so much at once, and so much per second."""

    __slots__ = ("_burst", "_per_s", "_since", "_spent")

    def __init__(self, burst: int, per_s: int) -> None:
        self._burst = burst
        self._per_s = per_s
        self._spent = 0.0
        self._since = time.monotonic()

    def spend(self, what: str) -> None:
        """Count one more; the clock is asked only when it matters."""
        self._spent += 1
        if self._spent > self._burst:
            now = time.monotonic()
            self._spent = max(1.0, self._spent - (now - self._since) * self._per_s)
            self._since = now
            if self._spent > self._burst:
                raise Broken(Code.ENHANCE_YOUR_CALM, f"too many {what}")


def frame(kind: int, flags: int, id: int, payload: bytes = b"") -> bytes:
    return frame_head(len(payload) << 8 | kind, flags, id) + payload


def settings(values: dict[Setting, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join([_SETTING.pack(*item) for item in values.items()]))


def header_frames(id: int, block: bytes, flags: int, most: int) -> bytes:
    """Return a block of headers in as many frames as it needs."""
    if len(block) <= most:
        return frame(HEADERS, flags, id, block)
    pieces = [block[at : at + most] for at in range(0, len(block), most)]
    first = frame(HEADERS, flags & ~END_HEADERS, id, pieces[0])
    middle = [frame(CONTINUATION, 0, id, piece) for piece in pieces[1:-1]]
    return b"".join([first, *middle, frame(CONTINUATION, END_HEADERS, id, pieces[-1])])


def unpadded(payload: bytes) -> bytes:
    """Return what is in a padded frame."""
    if not payload or payload[0] >= len(payload):
        raise Broken(Code.PROTOCOL_ERROR, "a frame is nothing but padding, and less than it says")
    return payload[1 : len(payload) - payload[0]]
