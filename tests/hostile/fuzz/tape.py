"""Choices read from bytes, so that whoever makes the bytes makes the choices."""

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Tape"]

T = TypeVar("T")


class Tape:
    """Bytes read as choices. When they run out every choice is the first one: put the plainest
    there.
    """

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, count: int) -> int:
        """Return one of 0, 1, ... `count` - 1."""
        data, at = self._data, self._at
        if at >= len(data):
            return 0
        if count <= 256:
            self._at = at + 1
            return data[at] % count
        self._at = at + 2
        return int.from_bytes(data[at : at + 2], "big") % count

    def pick(self, things: Sequence[T]) -> T:
        return things[self.number(len(things))]

    def is_one_in(self, count: int) -> bool:
        return self.number(count) == count - 1

    def bytes(self, most: int) -> bytes:
        """Return up to `most` bytes as they are."""
        size, at = self.number(most + 1), self._at
        self._at = at + size
        return self._data[at : at + size]

    def text(self, most: int) -> str:
        """Return any characters, those that no text should have included."""
        return self.bytes(most).decode("utf-8", "surrogateescape")
