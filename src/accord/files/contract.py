"""What a file store promises: bytes by id, and nothing else. What is known of a file (whose it is,
its name, which tasks refer to it) is in the store of the tasks.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from ..model import A2AError, Unavailable

__all__ = ["PIECE_BYTES", "FileStore", "NoSpace", "lost", "unusable"]

PIECE_BYTES = 256 << 10  # a reader gets at once: what is written in one turn of the loop


class NoSpace(Unavailable):
    """There is no space left for files."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"there is no space left for files {where}; make some, or send a link instead",
            retry_after_s=60,
        )


class FileStore(Protocol):
    """Durable storage of bytes. All calls are made from one event loop.

    - One writer at a time writes a file, from its beginning to its end.
    - What raises `Unavailable` may be tried again. `NoSpace` is one.
    """

    batch: int  # bytes it is best given at once

    async def open(self) -> None:
        """Get ready.

        Raises:
            RuntimeError: It can't be used; says why, and what to do.
        """
        ...

    async def close(self) -> None: ...

    async def write(self, id: str, start: int, data: bytes) -> None:
        """Add `data` to a file of `start` bytes. When this returns it survives a crash. What an
        earlier writer left behind `start` is gone.
        """
        ...

    def read(self, id: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Yield the bytes from `start` to before `stop`, in pieces of at most PIECE_BYTES.

        Raises:
            A2AError: Some of them are not there.
        """
        ...

    async def delete(self, id: str) -> None:
        """Delete a file, if it is there."""
        ...


def lost(id: str) -> A2AError:
    """The error for bytes that should be there."""
    return A2AError(f"the content of file {id} is not in the file store of this server")


def unusable(error: object) -> Unavailable:
    return Unavailable(f"the file store can't be used now: {error}", retry_after_s=5)
