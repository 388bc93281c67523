"""HTTP/2's frames, one at a time. What is in them is h2's business; here each is seen before it
costs anything.
"""

import struct
from typing import NamedTuple

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "GOAWAY",
    "HEADERS",
    "PING",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW_UPDATE",
    "FrameReader",
    "Http2Frame",
    "TooLarge",
]

HEAD_BYTES = 9
MOST_BYTES = 16_384  # of a frame that we take: what everybody may send unless told otherwise

(
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION,
) = range(10)
ACK = END_STREAM = 0x1
END_HEADERS = 0x4

_head = struct.Struct(
    ">IBI"
).unpack_from  # length and kind in one number (`length << 8 | kind`), flags, stream


class Http2Frame(NamedTuple):
    """A frame as it came: `data` is all of it."""

    kind: int
    flags: int
    id: int
    size: int  # of what is in it
    data: bytes


class TooLarge(Exception):
    """A frame is larger than we take."""


class FrameReader:
    """Cuts what comes into frames."""

    __slots__ = ("_at", "_data")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0

    def feed(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data
        self._at = 0

    @property
    def rest(self) -> bytes:
        """What has come and was not taken."""
        return self._data[self._at :]

    def skip(self, size: int) -> None:
        self._at += size

    def next(self) -> Http2Frame | None:
        """Return the next frame; None if it has not come as a whole.

        Raises:
            TooLarge: It says that it is.
        """
        data, at = self._data, self._at
        if len(data) - at < HEAD_BYTES:
            return None
        word, flags, id_ = _head(data, at)
        size = word >> 8
        if size > MOST_BYTES:
            raise TooLarge(f"a frame of {size} bytes")
        end = at + HEAD_BYTES + size
        if len(data) < end:
            return None
        self._at = end
        return Http2Frame(word & 0xFF, flags, id_ & 0x7FFF_FFFF, size, data[at:end])
