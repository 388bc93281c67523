"""HPACK (RFC 7541): how HTTP/2 writes a list of headers.

The decoder is complete. The encoder keeps no table: most of what we say is the same every time and kept as bytes.
"""

from collections import deque

from . import huffman

__all__ = ["BadBlock", "Decoder", "Pair", "TooLarge", "size_of", "written"]

Pair = tuple[bytes, bytes]

ENTRY_BYTES = 32  # what each header counts beside its name and value (RFC 7541, 4.1)
TABLE_BYTES = 4096
BOMB_BYTES = 1 << 20
MOST = 1 << 24  # no length or index is larger: blocks are thousands of times smaller

_STATIC: tuple[Pair, ...] = tuple(
    (name, value)
    for name, _, value in (
        line.partition(b" ")
        for line in b""":authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate""".split(b"\n")
    )
)
_BOTH = {pair: index for index, pair in enumerate(_STATIC, 1) if pair[1]}
_NAMES = {name: index for index, (name, _) in reversed(list(enumerate(_STATIC, 1)))}


class BadBlock(Exception):
    """The block is broken, and with it all that follows on its connection."""


class TooLarge(Exception):
    """The block was read, and holds more than was allowed."""


class Decoder:
    """Reads the blocks of one connection, each with the help of those before it."""

    def __init__(self) -> None:
        self._table: deque[Pair] = deque()  # the newest first
        self._size = 0
        self._capacity = TABLE_BYTES
        self.changes = 0  # to the table: a block read without one means the same again

    def decode(self, block: bytes, most: int) -> list[Pair]:
        """Return the headers in `block`.

        Raises:
            BadBlock: It can't be read.
            TooLarge: There are more than `most` bytes of them. The table is as it must be; the next block can be read.
        """
        pairs: list[Pair] = []
        size = at = 0
        end = len(block)
        may_resize = True
        while at < end:
            byte = block[at]
            if byte & 0x80:
                index, at = _integer(block, at, 0x7F)
                pair = self._entry(index)
            elif byte & 0x60 == 0x20:
                if not may_resize:
                    raise BadBlock("the size of the table changes inside a block")
                capacity, at = _integer(block, at, 0x1F)
                self._resize(capacity)
                continue
            else:
                index, at = _integer(block, at, 0x3F if byte & 0x40 else 0x0F)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                pair = name, value
                if byte & 0x40:
                    self._add(pair)
            may_resize = False
            size += ENTRY_BYTES + len(pair[0]) + len(pair[1])
            if size <= most:
                pairs.append(pair)
            elif size > BOMB_BYTES:
                raise BadBlock("a few bytes that stand for many")
        if size > most:
            raise TooLarge
        return pairs

    def _entry(self, index: int) -> Pair:
        if 0 < index <= len(_STATIC):
            return _STATIC[index - 1]
        try:
            return self._table[index - len(_STATIC) - 1] if index else _nothing()
        except IndexError:
            return _nothing()

    def _add(self, pair: Pair) -> None:
        self.changes += 1
        self._size += ENTRY_BYTES + len(pair[0]) + len(pair[1])
        self._table.appendleft(pair)
        self._evict()  # down to nothing, if this one is larger than the table

    def _resize(self, capacity: int) -> None:
        if capacity > TABLE_BYTES:
            raise BadBlock("the table would be larger than we allow")
        self.changes += 1
        self._capacity = capacity
        self._evict()

    def _evict(self) -> None:
        while self._size > self._capacity:
            name, value = self._table.pop()
            self._size -= ENTRY_BYTES + len(name) + len(value)


def _nothing() -> Pair:
    raise BadBlock("there is no such entry in the table")


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return the number at `at`, whose first bits are under `mask`, and where it ends."""
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    shift = 0
    while True:
        if at >= len(block):
            raise BadBlock("the block ends inside a number")
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        shift += 7
        if number > MOST or shift > 35:
            raise BadBlock("a number is too large")
        if byte < 0x80:
            return number, at


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    if at >= len(block):
        raise BadBlock("the block ends before a text")
    is_packed = block[at] & 0x80
    length, at = _integer(block, at, 0x7F)
    end = at + length
    if end > len(block):
        raise BadBlock("the block ends inside a text")
    text = block[at:end]
    if is_packed:
        try:
            text = huffman.decode(text)
        except huffman.BadHuffman as bad:
            raise BadBlock(str(bad)) from None
    return text, end


def size_of(pairs: list[Pair]) -> int:
    """What a list of headers counts against the other side's limit."""
    return sum(ENTRY_BYTES + len(name) + len(value) for name, value in pairs)


def written(pairs: list[Pair]) -> bytes:
    """Return a block with these headers, which changes no table."""
    return b"".join([_written(pair) for pair in pairs])


def _written(pair: Pair) -> bytes:
    index = _BOTH.get(pair)
    if index is not None:
        return bytes([0x80 | index])
    name, value = pair
    index = _NAMES.get(name, 0)
    text = b"" if index else _number(0x7F, len(name)) + name
    return b"%b%b%b%b" % (_number(0x0F, index), text, _number(0x7F, len(value)), value)


def _number(mask: int, number: int) -> bytes:
    if number < mask:
        return bytes([number])
    number -= mask
    found = [mask]
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
