"""Header compression (HPACK, RFC 7541) that does the same work once.

What a header block means depends on the block and on the table that both sides keep. Most clients
send the same block with every call, and most answers have the same headers. While the table stands
still, so does the result.
"""

from collections.abc import Iterable
from typing import Any

from hpack import Decoder, Encoder, HeaderTuple
from hpack.table import HeaderTable

from .headers import size_of

__all__ = ["CachingDecoder", "CachingEncoder"]

MOST = 16  # blocks that are kept for one connection
MOST_BYTES = 2 << 10  # of headers, in one of them


class _TableState:
    """A header table at one moment. Every change puts a new entry first, removes some, or resizes
    it.
    """

    __slots__ = ("_count", "_is_resized", "_newest", "_size")

    def __init__(self, table: HeaderTable) -> None:
        entries = table.dynamic_entries
        self._count = len(entries)
        self._newest = entries[0] if entries else None
        self._size, self._is_resized = table.maxsize, table.resized

    def is_of(self, table: HeaderTable) -> bool:
        """Whether the table has not changed since."""
        entries = table.dynamic_entries
        return (
            len(entries) == self._count
            and (not entries or entries[0] is self._newest)
            and table.maxsize == self._size
            and table.resized == self._is_resized
        )


class _Cache:
    """Results that hold while a table stands still, by what they were made from."""

    __slots__ = ("_known", "_state", "_table")

    def __init__(self, table: HeaderTable) -> None:
        self._table = table
        self._state = _TableState(table)
        self._known: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """Return what is known; None if nothing is, or the table has changed since."""
        if self._state.is_of(self._table):
            return self._known.get(key)
        self._state, self._known = _TableState(self._table), {}
        return None

    def put(self, key: Any, result: Any) -> None:
        """Keep what was made since `get`, unless making it has changed the table."""
        if self._state.is_of(self._table):
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = result


class CachingDecoder(Decoder):
    """Decodes a block once while the table stands still."""

    def __init__(self) -> None:
        super().__init__()
        self._cache = _Cache(self.header_table)

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        """Decode a block, as `Decoder.decode` does."""
        known: list[HeaderTuple] | None = self._cache.get((data, raw))
        if known is None:
            known = list(super().decode(data, raw))
            if size_of(known) <= MOST_BYTES:
                self._cache.put((data, raw), known)
        return known


class CachingEncoder(Encoder):
    """Encodes a list of headers once while the table stands still. Lists that were sent must not be
    changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cache = _Cache(self.header_table)

    def encode(self, headers: Any, huffman: bool = True) -> bytes:
        """Encode headers, as `Encoder.encode` does."""
        # By identity: equal headers may differ in whether they may be indexed.
        known: tuple[Any, bytes] | None = self._cache.get(id(headers))
        if known is None:
            known = headers, super().encode(headers, huffman)
            self._cache.put(id(headers), known)  # with the list, so that no other gets its id
        return known[1]
