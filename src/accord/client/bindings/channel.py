"""A gRPC channel to one address. Needs grpcio, which comes with `accord[grpc]`.

An address that a stranger gave is resolved here and checked by the guard. The channel is then bound
to exactly the addresses that were checked: grpcio would resolve the name once more, and a resolver
may answer differently the second time. A channel that has lost its connection is replaced, with the
name resolved and checked again.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

import grpc

from ...net import Guard, Url, resolve, why
from ..errors import Unreachable

__all__ = ["GrpcChannel"]

Options: TypeAlias = Sequence[tuple[str, Any]]

_ALIVE = (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.CONNECTING)
_SCHEMES = {socket.AF_INET: "ipv4", socket.AF_INET6: "ipv6"}


class GrpcChannel:
    """Gives the channel for a call.

    Args:
        url: The address as the card has it, for errors.
        where: The same, as it was read and checked.
        options: Options of the channel.
        credentials: For TLS; None for a plain connection.
        guard: Checks the addresses of a stranger's name; None for an address of the user's own.
    """

    def __init__(
        self, url: str, where: Url, options: Options, credentials: Any, guard: Guard | None
    ) -> None:
        self._url = url
        self._where = where
        self._options = options
        self._credentials = credentials
        self._guard = guard
        self._lock = asyncio.Lock()
        self._calls = 0  # how many use the channel now
        self._failed = 0  # how many channels never got a connection
        self._channel: Any = None
        # From the parts, never from the card's text: grpcio has schemes of its own, as unix: and
        # ipv4:, and would read an address in another way than the guard.
        host = f"[{where.host}]" if ":" in where.host else where.host
        self._authority = f"{host}:{where.port}"
        if guard is None:
            self._channel = self._made(f"dns:///{self._authority}", options)

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[Any]:
        """Yield the channel for one call.

        Raises:
            Unreachable: The name can't be resolved, or leads to an address the guard refuses.
        """
        async with self._lock:
            if self._guard is not None and not self._is_alive():
                await self._pin(self._guard)
            self._calls += 1
        try:
            yield self._channel
        finally:
            self._calls -= 1

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def _is_alive(self) -> bool:
        """Return whether the channel can be used as it is. It is kept while calls use it: closing
        it would end them.
        """
        return self._channel is not None and (
            self._calls > 0 or self._channel.get_state() in _ALIVE
        )

    async def _pin(self, guard: Guard) -> None:
        """Replace the channel by one to the addresses the name has now."""
        if self._channel is not None:
            state = self._channel.get_state()
            self._failed += state is grpc.ChannelConnectivity.TRANSIENT_FAILURE
            await self.close()
        target = await self._target(guard)
        self._channel = self._made(
            target, (*self._options, ("grpc.default_authority", self._authority))
        )

    async def _target(self, guard: Guard) -> str:
        try:
            found = await resolve(self._where.host)
            if not guard.allows_name(self._where.host):
                for _, address in found:
                    guard.check(address)
        except OSError as error:
            is_refused = isinstance(error, PermissionError)
            raise Unreachable(
                self._url,
                f"no connection: {why(error)}",
                is_lasting=True,
                cause="guard" if is_refused else "dns",
            ) from error
        # A channel takes addresses of one family. After one that failed it is the other's turn.
        families = list(dict.fromkeys(family for family, _ in found if family in _SCHEMES))
        family = families[self._failed % len(families)]
        port = self._where.port
        places = (
            f"[{address}]:{port}" if family is socket.AF_INET6 else f"{address}:{port}"
            for of, address in found
            if of is family
        )
        return f"{_SCHEMES[family]}:{','.join(dict.fromkeys(places))}"

    def _made(self, target: str, options: Options) -> Any:
        if self._credentials is None:
            return grpc.aio.insecure_channel(target, options=options)
        return grpc.aio.secure_channel(target, self._credentials, options=options)
