"""A port for gRPC: where it listens, who is connected, and how it stops."""

import asyncio
import contextlib
import errno
import socket
import ssl
from typing import Any, Protocol

from ..model import Limits
from . import head as heads
from .exchange import Exchange, Method
from .frames import WINDOW, WINDOW_MOST
from .head import Head
from .health import Health
from .hpack import Pair
from .http2 import HEADER_BYTES, Connection
from .link import Link
from .reflection import reflection
from .tls import Tls

__all__ = ["GrpcServer"]

GRACE_S = 1.0  # for what is still open when the server stops
LEAVE_S = 0.3  # for the last word to leave
LOOK_S = 1.0
BACKLOG = 2048
HELD = 64  # times the largest message: all that may have come in part, of all clients together

# An address of a name that this machine does not have; another may do.
_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


class Door(Protocol):
    """What is served."""

    services: list[str]
    methods: dict[str, Method]


class GrpcServer:
    """A port of its own for the gRPC door, with health and reflection. Never shared: a second server on it fails to start."""

    def __init__(self, door: Door, host: str, port: int, limits: Limits, tls: Tls | None = None) -> None:
        self._host = host.strip("[]")
        self._tls = tls
        self._health = Health(door.services)
        self._methods = door.methods | self._health.methods | reflection([*door.services, *Health.SERVICES])
        self._servers: list[asyncio.Server] = []
        self._links: set[Link] = set()
        self._empty = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._held = 0
        self.limits = limits
        self.intake = min(max(limits.body + 5, WINDOW), WINDOW_MOST)  # no less: streams may open before the client knows of it
        self.port = port

    async def start(self) -> None:
        """Listen.

        Raises:
            RuntimeError: The port is taken, or the address is not this machine's.
        """
        loop = asyncio.get_running_loop()
        secure = _context(self._tls) if self._tls is not None else None
        options: dict[str, Any] = {"ssl": secure, "backlog": BACKLOG}
        if secure is not None:
            options["ssl_handshake_timeout"] = self.limits.header_s
        try:
            for place in await _sockets(self._host, self.port):
                self._servers.append(await loop.create_server(lambda: Connection(self), sock=place, **options))
        except OSError:
            address = f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"
            raise RuntimeError(f"gRPC cannot listen on {address}: the port is taken, or the address is not ours") from None
        self.port = self._servers[0].sockets[0].getsockname()[1]
        self._look()

    def drain(self) -> None:
        """Tell who asks for our health that no new work should come."""
        self._health.stop()

    async def stop(self) -> None:
        """End what is still open after a moment, and the port."""
        self.drain()
        for server in self._servers:
            server.close()
        for link in list(self._links):
            link.leave()
        await self._gone(GRACE_S)
        for link in list(self._links):
            link.end()
        await self._gone(LEAVE_S)
        for link in list(self._links):
            link.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                for server in self._servers:
                    await server.wait_closed()
        if self._timer is not None:
            self._timer.cancel()

    async def _gone(self, patience_s: float) -> None:
        """Wait until nobody is connected."""
        self._empty.clear()
        if self._links:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), patience_s)

    def _look(self) -> None:
        """Look through all connections: a timer for each call would cost more than the call."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(LOOK_S, self.limits.stalled_s / 2), self._look)
        now = loop.time()
        for link in list(self._links):
            link.look(now)

    # What a connection asks of its home

    def read(self, pairs: list[Pair] | None) -> Head:
        if pairs is None:
            head = Head()
            head.problem = "RESOURCE_EXHAUSTED", f"more than {HEADER_BYTES} bytes of metadata"
            return head
        head = heads.read(pairs)
        head.method = self._methods.get(head.path)
        return head

    def open(self, link: Link, id: int, head: Head) -> Exchange:
        return Exchange(link, id, head)

    def hold(self, size: int) -> None:
        self._held += size

    @property
    def is_full(self) -> bool:
        return self._held > HELD * self.limits.body

    def joined(self, link: Link) -> None:
        self._links.add(link)

    def left(self, link: Link) -> None:
        self._links.discard(link)
        if not self._links:
            self._empty.set()


async def _sockets(host: str, port: int) -> list[socket.socket]:
    """Return a bound socket for every address of a host, all with the same port."""
    loop = asyncio.get_running_loop()
    places = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
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
    # By its full name: only then does asyncio send what is small at once, without waiting for what is on the way (TCP_NODELAY).
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


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.certificate, tls.key)
    context.set_alpn_protocols(["h2"])
    if tls.client_authority is not None:
        context.load_verify_locations(tls.client_authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
