"""Connections that notice when their other side is gone without a word: a machine that died, a
network that was unplugged.
"""

import contextlib
import socket
import struct
from typing import Any

__all__ = ["notice_loss", "reset"]

_PROBES = 3
_MOST_S = 32_767  # that systems take
# What this system has of them: TCP_KEEPALIVE is the first one's name on macOS, and the last, for
# what was sent, is Linux's.
_NAMES = ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
_OPTIONS: dict[str, int] = {name: getattr(socket, name) for name in _NAMES if hasattr(socket, name)}


def notice_loss(sock: socket.socket, quiet_s: float, lost_s: float) -> None:
    """Have a TCP connection fail once its other side has said nothing for about `lost_s`, nor taken
    what was sent.

    After `quiet_s` of silence its system is asked, not its program: that may be at work, and take
    as long as it likes. Set on a socket that listens, it is so for all connections that come in.
    Without it such a loss is noticed after a quarter of an hour if there is something to send, and
    never if there is not. To the second: systems count in these.
    """
    quiet, lost = _whole(quiet_s), _whole(lost_s)
    wanted = {
        "TCP_KEEPIDLE": quiet,
        "TCP_KEEPALIVE": quiet,
        "TCP_KEEPINTVL": max((lost - quiet) // _PROBES, 1),
        "TCP_KEEPCNT": _PROBES,
        "TCP_USER_TIMEOUT": lost * 1000,
    }
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    with contextlib.suppress(OSError):  # then the system's own figures count
        for name, option in _OPTIONS.items():
            sock.setsockopt(socket.IPPROTO_TCP, option, wanted[name])


def reset(transport: Any) -> None:
    """Close a connection with a TCP reset, and drop what was not sent. Closed with a FIN, what was
    cut off could look complete.
    """
    with contextlib.suppress(OSError):  # gone already
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
    transport.abort()


def _whole(seconds: float) -> int:
    return round(min(max(seconds, 1), _MOST_S))
