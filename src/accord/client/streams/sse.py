"""Server-sent events, read as they come.

Takes what real servers write: LF, CRLF or CR, a space after the colon or none, data over several
lines, comments, fields it does not know, an event without its closing blank line at the end.
"""

import msgspec

__all__ = ["Sse", "SseParser", "TooBig"]


class Sse(msgspec.Struct, gc=False):
    data: bytes
    id: str = ""
    event: str = ""


class TooBig(Exception):
    """An event is larger than allowed; or a line that never ends."""


class SseParser:
    """Finds the events in what comes; comments and events without data are passed over."""

    __slots__ = ("_edge", "_is_half", "_more", "_rest", "_size", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = b""
        # What came since `rest` was looked at: joined once, however many pieces an event comes in.
        self._more: list[bytes] = []
        self._size = 0
        self._edge = b""
        self._is_half = False  # the last thing that came was a CR, which may be half of a CRLF

    def feed(self, chunk: bytes) -> list[Sse]:
        """Take what came next; return the events that end in it.

        Raises:
            TooBig: More than `limit` bytes came without an event in them ending.
        """
        if self._is_half and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._is_half = False
        if not chunk:
            return []
        self._is_half = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        has_end = b"\n\n" in chunk or self._edge + chunk[:1] == b"\n\n"
        self._edge = chunk[-1:]
        self._size += len(chunk)
        self._more.append(chunk)
        if not has_end:
            if self._size > self.limit:
                raise TooBig
            return []
        *blocks, self._rest = b"".join((self._rest, *self._more)).split(b"\n\n")
        self._more.clear()
        self._size = len(self._rest)
        found = []
        for block in blocks:
            if len(block) > self.limit:
                raise TooBig
            if (event := parse(block)) is not None:
                found.append(event)
        return found

    def end(self) -> list[Sse]:
        """Return the last event, if it came whole without its closing blank line.

        Raises:
            TooBig
        """
        if self._size > self.limit:
            raise TooBig
        last = parse(b"".join((self._rest, *self._more)))
        return [last] if last is not None and _is_whole(last.data) else []


def _is_whole(data: bytes) -> bool:
    """Whether an event that was not closed by a blank line came whole. Half of one is what a cut
    leaves.
    """
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def parse(block: bytes) -> Sse | None:
    """Return the event in a block of lines, or None if it holds no data."""
    head, _, data = block.partition(b"data: ")
    # How nearly every event is written: one line of data, after an id or nothing.
    if data and b"\n" not in data:
        if not head:
            return Sse(data)
        if head.startswith(b"id: ") and head.find(b"\n") == len(head) - 1:
            return Sse(data, _id(head[4:-1]))
    return _parse_lines(block)


def _parse_lines(block: bytes) -> Sse | None:
    data: bytes | None = None
    id_ = event = ""
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            data = value if data is None else data + b"\n" + value
        elif name == b"id":
            id_ = _id(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
    return Sse(data, id_, event) if data else None


def _id(value: bytes) -> str:
    """An id goes back to the agent in a header, where a zero has no place: as browsers do, none is
    taken from that.
    """
    return value.decode("utf-8", "replace") if b"\0" not in value else ""
