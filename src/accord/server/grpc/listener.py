"""A port for gRPC."""

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

from ...model import Limits
from ..transport import Listener, Tls, UnreadAnswers
from . import headers as heads
from .call import GrpcCall, GrpcMethod
from .connection import HEADER_BYTES, WINDOW, WINDOW_MOST, Http2Connection
from .headers import CallHeaders, Pair
from .health import GrpcHealth
from .reflection import reflection

__all__ = ["GrpcServer"]


class GrpcServices(Protocol):
    """What is served."""

    services: list[str]
    methods: dict[str, GrpcMethod]


class GrpcServer(Listener):
    """A listener of its own for the gRPC endpoint, with health and reflection."""

    alpn = "h2"

    def __init__(
        self,
        endpoint: GrpcServices,
        host: str,
        port: int,
        limits: Limits,
        tls: Tls | None = None,
        unread: UnreadAnswers | None = None,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(host, port, limits, tls, unread)
        self._health = GrpcHealth(endpoint.services, is_ready)
        self._methods = (
            endpoint.methods
            | self._health.methods
            | reflection([*endpoint.services, *GrpcHealth.SERVICES])
        )
        self.unpacking = asyncio.Semaphore(1)
        # No less than usual: streams may open before the client knows of it.
        self.stream_window = min(max(limits.body + 5, WINDOW), WINDOW_MOST)

    async def start(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen.

        Raises:
            RuntimeError: The port is taken, or the address is not this machine's.
        """
        try:
            await super().start(sockets)
        except OSError:
            address = (
                f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
            )
            raise RuntimeError(
                f"gRPC cannot listen on {address}: the port is in use, or the address "
                "is not of this machine"
            ) from None

    def connected(self) -> Http2Connection:
        return Http2Connection(self)

    def drain(self) -> None:
        """Report to health checks that no new work should come."""
        self._health.stop()

    async def stop(self) -> None:
        self.drain()
        await super().stop()

    # What a connection asks of its listener

    def read(self, pairs: list[Pair] | None) -> CallHeaders:
        if pairs is None:
            head = CallHeaders()
            head.problem = "RESOURCE_EXHAUSTED", f"more than {HEADER_BYTES} bytes of metadata"
            return head
        head = heads.read(pairs)
        head.method = self._methods.get(head.path)
        return head

    def open(self, connection: Http2Connection, id: int, head: CallHeaders) -> GrpcCall:
        return GrpcCall(connection, id, head)
