"""Accepting connections, also when the process has no file descriptor left for one.

The loops' own servers do badly then: asyncio tries thousands of times per second and logs each,
uvloop closes every new connection without a word. Here new connections wait in the system's queue
until a descriptor is free, and the log says so once.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any

try:
    import resource  # here: when it is needed, there is no descriptor left to import it with
except ImportError:  # Windows, where sockets are no files
    resource = None  # type: ignore[assignment]

__all__ = ["AT_ONCE", "Acceptor"]

log_ = logging.getLogger("accord")

AT_ONCE = 64  # connections accepted before others on the loop have their turn
RETRY_S = 0.25
QUIET_S = 60.0  # without a failure, before the next one is a new episode and logged again

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        place: socket.socket,
        connected: Callable[[], asyncio.BaseProtocol],
        options: dict[str, Any],
        at_once: int = AT_ONCE,
    ) -> None:
        self._socket = place
        self._connected = connected
        self._options = options  # of TLS
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()  # the loop itself keeps tasks only weakly
        self._timer: asyncio.TimerHandle | None = None
        self._failed_at = -QUIET_S
        self._loop.add_reader(place, self._accept)

    def close(self) -> None:
        """Accept no more, and stop listening; again is no mistake."""
        if self._socket.fileno() < 0:
            return
        if self._timer is not None:
            self._timer.cancel()
        else:
            self._loop.remove_reader(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(self._at_once):
            try:
                one, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:  # by the client, while it waited
                continue
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause(error)
                return
            one.setblocking(False)
            task = self._loop.create_task(self._open(one))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, one: socket.socket) -> None:
        # A client that is gone, or speaks no TLS; the transport is closed then.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(self._connected, one, **self._options)

    def _pause(self, error: OSError) -> None:
        """Try again in a moment: until a descriptor is free, the loop would do nothing else."""
        now = self._loop.time()
        if now - self._failed_at > QUIET_S:
            log_.warning("%s", _advice(error))
        self._failed_at = now
        self._loop.remove_reader(self._socket)
        self._timer = self._loop.call_later(RETRY_S, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._loop.add_reader(self._socket, self._accept)


def _advice(error: OSError) -> str:
    if error.errno == errno.EMFILE:
        return (
            f"all {_limit()} file descriptors of this process are in use: new connections "
            "wait until some are closed; "
            "raise the limit (ulimit -n, LimitNOFILE= in systemd)"
        )
    if error.errno == errno.ENFILE:
        return (
            "all file descriptors of this machine are in use (fs.file-max): new connections "
            "wait until some are closed"
        )
    return (
        f"the system has no memory for new connections ({error.strerror}): they wait until it has"
    )


def _limit() -> str:
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) if resource is not None else "the"
