"""A connection that leads nowhere."""

import asyncio
import socket
from typing import Any

__all__ = ["Wire"]


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it. Who wants its socket gets one on which nothing
    is ever said.
    """

    def __init__(self, end: socket.socket | None = None) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False
        self.grew = asyncio.Event()
        self._end = end

    def write(self, data: Any) -> None:
        self.written += data
        self.grew.set()

    def close(self) -> None:
        self.is_closed = True
        self.grew.set()

    abort = write_eof = close

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"socket": self._end, "sockname": ("127.0.0.1", 8000)}.get(name, default)
