"""The port at which an app serves gRPC."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..extras import install_command

if TYPE_CHECKING:
    import socket

    from ..observe import Observer
    from ..operations import Service
    from ..server.grpc import GrpcEndpoint, GrpcServer
    from ..server.transport import Tls
    from .endpoints import ServerContext

__all__ = ["GrpcPort"]


class GrpcPort:
    """Serves gRPC on a port of its own while the app is open; nothing until it is given one."""

    def __init__(self) -> None:
        self.server: GrpcServer | None = None
        self._endpoint: GrpcEndpoint | None = None

    def listen(
        self,
        address: tuple[str, int],
        service: "Service",
        context: "ServerContext",
        tls: "Tls | None",
        is_ready: Callable[[], bool],
    ) -> None:
        """Take an address to listen on when the app is opened.

        Raises:
            RuntimeError: protobuf and h2 are not installed.
        """
        try:
            from ..server.grpc import GrpcEndpoint, GrpcServer  # protobuf comes with an extra
        except ImportError as error:
            raise RuntimeError(
                f"gRPC needs an extra: {install_command('grpc')} ({error})"
            ) from error
        self._endpoint = GrpcEndpoint(
            service, context.limits, context.versions, context.unread, context.grpc_domain
        )
        self.server = GrpcServer(
            self._endpoint, *address, context.limits, tls, context.unread, is_ready=is_ready
        )

    @property
    def number(self) -> int | None:
        """Return the number of the port; None if gRPC is not served."""
        return self.server.port if self.server is not None else None

    def share(self, sockets: "list[socket.socket]") -> None:
        """Listen on sockets that other processes listen on too."""
        assert self.server is not None  # it was given an address
        self.server.use(sockets)

    def observe(self, observer: "Observer | None") -> None:
        if self._endpoint is not None:
            self._endpoint.observer = observer

    async def start(self) -> None:
        if self.server is not None:
            await self.server.start()

    def drain(self) -> None:
        if self.server is not None:
            self.server.drain()
            self.server.leave_to_others()

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop()
