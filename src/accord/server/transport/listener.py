"""A listener: its sockets, its connections, and how it stops. The same for HTTP and gRPC."""

import abc
import asyncio
import contextlib
import contextvars
import errno
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ...after_fork import close_in_children
from ...model import Limits
from .acceptor import AT_ONCE, Acceptor
from .tls import Tls
from .unread import UnreadAnswers

__all__ = ["Listener", "ListenerConnection", "bind_port"]

GRACE_S = 1.0  # for what is still open when the server stops
LEAVE_S = 0.3  # for the last word to leave
CHECK_S = 1.0
BACKLOG = 2048
EVICT_S = 5.0  # after which a request that is still coming makes room for others, if there is none
HELD = 64  # times the largest message: all that may have come in part, of all clients together

# An address of a name that this machine does not have; another may do.
_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


class ListenerConnection(Protocol):
    """A connection."""

    def check_timeouts(self, now: float) -> None:
        """Close or refuse what has taken too long."""

    def leave(self) -> None:
        """Take no new work, and close when what is under way is done."""

    def end(self) -> None:
        """End what is under way, and close."""

    def abort(self) -> None:
        """Close at once."""

    def fileno(self) -> int:
        """The number of its socket, -1 if it has none any more."""


class PartialRequest(Protocol):
    """A request that has come in part."""

    def evict(self) -> None:
        """Refuse it, and answer with an error."""


class Listener(abc.ABC):
    """Listens on one port. A second server on it fails to start, unless a parent of both has bound
    it for them.
    """

    alpn = ""  # what it is called where TLS asks for it

    def __init__(
        self,
        host: str,
        port: int,
        limits: Limits,
        tls: Tls | None = None,
        unread: UnreadAnswers | None = None,
    ) -> None:
        self.limits = limits
        self.unread = unread or UnreadAnswers(limits)
        self.host = host.strip("[]")
        self.address, self.port = self.host, port
        self.connections: set[Any] = set()
        self.is_leaving = False
        self._tls = tls
        self._servers: list[Acceptor | asyncio.Server] = []
        self._sockets: list[socket.socket] = []
        self._given: list[socket.socket] = []
        self._empty = asyncio.Event()
        self._timer: asyncio.Handle | None = None
        self.context = contextvars.copy_context()
        self._backlog: deque[Callable[[], None]] = deque()
        self._held = 0
        self._partial: dict[
            PartialRequest, list[float]
        ] = {}  # how many bytes of each have come, and since when; the oldest first
        close_in_children(self, Listener._filenos)

    @abc.abstractmethod
    def connected(self) -> asyncio.BaseProtocol:
        """Return what speaks with a new client."""

    def use(self, sockets: list[socket.socket]) -> None:
        """Listen on sockets that other processes listen on too."""
        self._given = sockets

    async def bind(self) -> list[socket.socket]:
        """Bind the port without accepting connections yet."""
        sockets = self._sockets = self._given or await _sockets(self.host, self.port)
        self.address, self.port = sockets[0].getsockname()[:2]
        return sockets

    async def start(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen.

        Raises:
            OSError: The port is taken, or the address is not this machine's.
        """
        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {
                "ssl": self._tls.context(self.alpn),
                "ssl_handshake_timeout": self.limits.header_s,
            }
        for place in sockets or await self.bind():
            try:
                at_once = 1 if self._given else AT_ONCE  # the others get their share
                self._servers.append(Acceptor(place, self.connected, options, at_once))
            except NotImplementedError:  # Windows
                loop = asyncio.get_running_loop()
                self._servers.append(
                    await loop.create_server(self.connected, sock=place, backlog=BACKLOG, **options)
                )
        self._check()

    def leave_to_others(self) -> None:
        """Accept no more, if other processes listen on the same sockets."""
        if self._given:
            for server in self._servers:
                server.close()

    async def stop(self) -> None:
        """End what is still open after a moment, and the port."""
        self.is_leaving = True
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.leave()
        await self._gone(GRACE_S)
        for connection in list(self.connections):
            connection.end()
        await self._gone(LEAVE_S)
        for connection in list(self.connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()

    def _filenos(self) -> Iterator[int]:
        """The numbers of all its sockets: a client of ours would wait for ever for who holds a copy
        of its connection.
        """
        for place in self._sockets:
            yield place.fileno()
        for connection in self.connections:
            yield connection.fileno()

    async def _gone(self, timeout_s: float) -> None:
        """Wait until all connections are closed."""
        self._empty.clear()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), timeout_s)

    def _check(self) -> None:
        """Look through all connections: a timer for each call would cost more than the call."""
        loop = asyncio.get_running_loop()
        self.check_all(loop.time())
        self._timer = loop.call_later(
            min(CHECK_S, self.limits.stalled_s / 2), self._check, context=self.context
        )

    def check_all(self, now: float) -> None:
        for connection in list(self.connections):
            connection.check_timeouts(now)
        self.unread.check_timeouts(now)

    # What a connection asks of its listener

    def later(self, work: Callable[[], None]) -> None:
        """Go on with what a connection has sent in a later turn of the loop; one connection in
        each, in their order.

        However many there are with more to do than fits into a turn, who has little to do waits for
        one of them only.
        """
        self._backlog.append(work)
        if len(self._backlog) == 1:
            asyncio.get_running_loop().call_soon(self._go_on, context=self.context)

    def _go_on(self) -> None:
        work = self._backlog.popleft()
        if self._backlog:
            asyncio.get_running_loop().call_soon(self._go_on, context=self.context)
        work()

    def hold(self, holder: PartialRequest, size: int) -> None:
        """So much more, or less, of a request has come in part. If that is too much in all, the
        oldest are given up.
        """
        self._held += size
        entry = self._partial.get(holder)
        if entry is None:
            entry = self._partial[holder] = [0, time.monotonic()]
        entry[0] += size
        if not entry[0]:
            del self._partial[holder]
        elif self.is_full:
            self._evict(time.monotonic() - EVICT_S)

    def _evict(self, before: float) -> None:
        for holder, (_, since) in list(self._partial.items()):
            if since > before or not self.is_full:
                return
            holder.evict()

    @property
    def is_full(self) -> bool:
        return self._held > HELD * self.limits.body

    def joined(self, connection: ListenerConnection) -> None:
        self.connections.add(connection)

    def left(self, connection: ListenerConnection) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()


def bind_port(host: str, port: int) -> list[socket.socket]:
    """Return a bound socket for every address of a host, all with the same port: for several
    processes to listen on.

    Raises:
        OSError: The port is taken, or the address is not this machine's.
    """
    host = host.strip("[]")
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return _bind_all(host, port, places)


async def _sockets(host: str, port: int) -> list[socket.socket]:
    """The same, for this process alone."""
    loop = asyncio.get_running_loop()
    places = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return _bind_all(host, port, places)


def _bind_all(host: str, port: int, places: list[Any]) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(places):
            try:
                found.append(_bound(family, (address[0], port, *address[2:])))
            except OSError as error:
                if error.errno not in _NOT_HERE or (not found and len(places) == 1):
                    raise
            else:
                port = found[0].getsockname()[1]
        if not found:
            raise OSError(errno.EADDRNOTAVAIL, host)
    except BaseException:
        for one in found:
            one.close()
        raise
    return found


def _bound(family: int, address: Any) -> socket.socket:
    # By its full name: only then does asyncio send what is small at once, without waiting for what
    # is on the way (TCP_NODELAY).
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        one.setblocking(False)
        one.bind(address)
        one.listen(BACKLOG)  # here, so that two servers can't both believe that the port is theirs
    except BaseException:
        one.close()
        raise
    return one
