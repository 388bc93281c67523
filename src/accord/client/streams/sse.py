"""Server-sent events, read as they come.

Takes what real servers write: LF, CRLF or CR, a space after the colon or none, data over several
lines, comments, fields it does not know, an event without its closing blank line at the end.
"""

from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

__all__ = ["Sse", "TooBig", "read"]


class Sse(msgspec.Struct, gc=False):
    data: bytes
    id: str = ""
    event: str = ""


class TooBig(Exception):
    """An event is larger than allowed; or a line that never ends."""


async def read(chunks: AsyncIterator[bytes], limit: int) -> AsyncGenerator[list[Sse], None]:
    """Yield the events of a stream, what came together together; comments and events without data
    are passed over.

    Raises:
        TooBig: More than `limit` bytes came without an event in them ending.
    """
    rest = b""
    more: list[
        bytes
        # what came since `rest` was looked at: joined once, however many pieces an event comes in
    ] = []
    size = 0
    edge = b""
    is_half = False  # the last thing that came was a CR, which may be half of a CRLF
    async for chunk in chunks:
        if is_half and chunk[:1] == b"\n":
            chunk = chunk[1:]
            is_half = False
        if not chunk:
            continue
        is_half = chunk[-1:] == b"\r"
        chunk = _lf(chunk)
        has_end = b"\n\n" in chunk or edge + chunk[:1] == b"\n\n"
        edge = chunk[-1:]
        size += len(chunk)
        more.append(chunk)
        if not has_end:
            if size > limit:
                raise TooBig
            continue
        *blocks, rest = b"".join((rest, *more)).split(b"\n\n")
        more.clear()
        if any(len(block) > limit for block in blocks):
            raise TooBig
        found = [event for block in blocks if (event := parse(block)) is not None]
        if found:
            yield found
        size = len(rest)
        if size > limit:
            raise TooBig
    last = parse(b"".join((rest, *more)))
    if last is not None and _is_whole(last.data):
        yield [last]


def _is_whole(data: bytes) -> bool:
    """Whether an event that was not closed by a blank line came whole. Half of one is what a cut
    leaves.
    """
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def _lf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


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
