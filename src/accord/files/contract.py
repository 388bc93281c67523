"""What a file store promises: bytes by id, and nothing else. What is known of a file (whose it is,
its name, which tasks refer to it) is in the store of the tasks.
"""

import logging
import time
from collections.abc import AsyncIterator
from typing import Protocol

from ..model import A2AError, Unavailable

__all__ = ["PIECE_BYTES", "FileStore", "NoSpace", "lost", "no_space", "unusable"]

log_ = logging.getLogger("accord")

PIECE_BYTES = 256 << 10  # a reader gets at once: what is written in one turn of the loop


class NoSpace(Unavailable):
    """There is no space left for files."""


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


# Where a file store is, and why it fails, is the operator's to know: such texts name folders, hosts
# and accounts. Callers get an error without them, and the log gets the reason, once a minute.
SAID_S = 60.0
_said_s: dict[str, float] = {}  # when each was last in the log


def unusable(error: object) -> Unavailable:
    """Return the error for callers if a file store fails, and log the reason."""
    _log("the file store can't be used: %s", error)
    return Unavailable("the server can't use its file store now; try again", retry_after_s=5)


def no_space(where: str) -> NoSpace:
    """Return the error for callers if there is no space for a file, and log where that is."""
    _log("there is no space left for files %s", where)
    return NoSpace(
        "the server has no space left for files; try again later, or send a link instead",
        retry_after_s=60,
    )


def _log(text: str, what: object) -> None:
    now = time.monotonic()
    if now - _said_s.get(text, -SAID_S) >= SAID_S:
        _said_s[text] = now
        log_.error(text, what)
