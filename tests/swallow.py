"""A host that vanishes: its socket is there, and takes no packet any more, nor answers one. No
firewall is needed for it.
"""

import ctypes
import socket
import struct
import sys
from typing import Any

import pytest

__all__ = ["on_linux", "swallow"]

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a socket filter its own packets"
)

_SO_ATTACH_FILTER = 26
_RETURN = 6  # of the packet, so many bytes: 0 drops it


def swallow(sock: socket.socket | Any) -> None:
    """From now on every packet to this socket is lost: to the other side its whole machine
    is gone.
    """
    program = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    sock.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program))
    )
