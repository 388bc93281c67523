"""Server-sent events, read as they come.

Takes what real servers write: LF, CRLF or CR, a space after the colon or none, data over several lines, comments, fields it
does not know, an event without its closing blank line at the end.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

__all__ = ["Sse", "TooBig", "read"]

_END = re.compile(rb"\n\n|\r\n\r\n|\r\r|\n\r\n")


class Sse(msgspec.Struct, gc=False):
    data: bytes
    id: str = ""
    event: str = ""


class TooBig(Exception):
    """An event is larger than allowed; or a line that never ends."""


async def read(chunks: AsyncIterator[bytes], limit: int) -> AsyncGenerator[list[Sse], None]:
    """Yield the events of a stream, what came together together; comments and events without data are passed over.

    Raises:
        TooBig: More than `limit` bytes came without an event in them ending.
    """
    rest = b""
    more: list[bytes] = []  # what came since `rest` was looked at: joined once, however many pieces an event comes in
    size = 0
    edge = b""
    async for chunk in chunks:
        seam, edge = edge + chunk, (edge + chunk)[-3:]
        size += len(chunk)
        more.append(chunk)
        if _END.search(seam) is None:
            if size > limit:
                raise TooBig
            continue
        blocks, rest = _split(b"".join((rest, *more)))
        more.clear()
        if any(len(block) > limit for block in blocks):
            raise TooBig
        found = [event for block in blocks if (event := parse(block)) is not None]
        if found:
            yield found
        size = len(rest)
        if size > limit:
            raise TooBig
    last = parse(_lf(b"".join((rest, *more))))
    if last is not None and _is_whole(last.data):
        yield [last]


def _is_whole(data: bytes) -> bool:
    """Whether an event that was not closed by a blank line came whole. Half of one is what a cut leaves."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def _split(text: bytes) -> tuple[list[bytes], bytes]:
    if b"\r" not in text:
        *blocks, rest = text.split(b"\n\n")
        return blocks, rest
    # A CR at the very end may be half of a CRLF: it stays for the next chunk.
    tail = b"\r" if text.endswith(b"\r") else b""
    *blocks, rest = _lf(text[: len(text) - len(tail)]).split(b"\n\n")
    return blocks, rest + tail


def _lf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def parse(block: bytes) -> Sse | None:
    """Return the event in a block of lines, or None if it holds no data."""
    head, _, data = block.partition(b"data: ")
    if data and b"\n" not in data:  # how nearly every event is written: one line of data, after an id or nothing
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
    """An id goes back to the agent in a header, where a zero has no place: as browsers do, none is taken from that."""
    return value.decode("utf-8", "replace") if b"\0" not in value else ""
