"""HTTP/2's frames for tests that send what no library would: of any kind, length and content."""

import struct

from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hpack import Decoder as _Decoder

Code = ErrorCodes
Setting = SettingCodes

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

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
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20

WINDOW = 65_535  # what may be sent before anything is said about windows
WINDOW_MOST = 2**31 - 1


def frame(kind: int, flags: int, id: int, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, id) + payload


def settings(values: dict[Setting, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join([struct.pack(">HI", *item) for item in values.items()]))


def head_of(data: bytes, at: int) -> tuple[int, int, int]:
    """Length and kind in one number (`length << 8 | kind`), flags, stream."""
    found: tuple[int, int, int] = struct.unpack_from(">IBI", data, at)
    return found


class Decoder:
    """Reads the headers of one connection, of any size."""

    def __init__(self) -> None:
        self._decoder = _Decoder(max_header_list_size=1 << 20)

    def decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        return [
            (bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)
        ]
