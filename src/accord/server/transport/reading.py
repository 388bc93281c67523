"""How a connection is read: a bounded amount in one turn of the loop, so that one client never
holds up the others.
"""

import asyncio
from typing import Any

__all__ = ["BACKLOG", "BODY_WAITS", "READ_BYTES", "TURN_S", "UNREAD", "PausableReader"]

# In one turn of the loop; uvloop would read up to 8 MB before it looks after anybody else.
READ_BYTES = 32 << 10
BODY_WAITS = 30  # times the wait for the next piece of a request is what all of it may take
TURN_S = 0.005  # of work on what was read, before others have their turn

# Why reading is paused
# It had its turn; what came is not worked off; the client reads nothing itself.
TURN, BACKLOG, UNREAD = (
    1,
    2,
    4,
)

# One for all connections: what is read is copied out of it before anything else is read.
_BUFFER = memoryview(bytearray(READ_BYTES))


class PausableReader(asyncio.BufferedProtocol):
    """A protocol that reads at most READ_BYTES per turn of the loop, and nothing while there is a
    reason not to.
    """

    __slots__ = ("_paused_for", "transport")

    def __init__(self) -> None:
        self.transport: Any = None
        self._paused_for = 0

    def data_received(self, data: bytes) -> None:
        """Take what was read."""
        raise NotImplementedError

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(_BUFFER[:nbytes])
        if nbytes == READ_BYTES:  # there may be more
            self.pause_reading(TURN)
            asyncio.get_running_loop().call_soon(self.resume_reading, TURN)
        self.data_received(data)

    def is_paused_for(self, why: int) -> bool:
        return bool(self._paused_for & why)

    def pause_reading(self, why: int) -> None:
        if not self._paused_for and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        self._paused_for |= why

    def resume_reading(self, why: int) -> None:
        if not self._paused_for & why:
            return
        self._paused_for &= ~why
        if not self._paused_for and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
