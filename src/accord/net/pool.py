"""Connections: how one is made, and whether one that was kept may be used again.

aiohttp keeps connections and gives them out again. It does not look whether something came in
between, and would take an answer nobody asked for as the answer to the next request. So an idle
connection gets another protocol (`_Watch`), by asyncio's own means.
"""

import asyncio
import contextlib
import functools
import select
import socket
import struct
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from ..sockets import notice_loss
from .guard import Guard

__all__ = ["Pool", "forget", "is_unread", "resolve"]

_RESOLVE_AGAIN_S = (0.1, 0.4, 1.0)

# `bytes_acked` in Linux's `struct tcp_info`.
_TCP_INFO: int = getattr(socket, "TCP_INFO", 0)
_ACKED = struct.Struct("=120xQ")


class Pool(aiohttp.TCPConnector):
    """aiohttp's connector, with a resolver that is patient, sockets that notice a loss, and a look
    at what is used again.
    """

    def __init__(self, *, lost_s: float, keep_s: float, guard: Guard | None) -> None:
        resolver = _Resolver(guard)

        def make(address: tuple[Any, ...]) -> socket.socket:
            family, kind, protocol, _, where = address
            if guard is not None and where[0] not in resolver.allowed:
                guard.check(where[0])  # what is connected to: nothing is resolved after this
            made = socket.socket(family, kind, protocol)
            notice_loss(made, lost_s / 2, lost_s)
            return made

        super().__init__(
            limit=0,
            keepalive_timeout=keep_s,
            use_dns_cache=False,
            resolver=resolver,
            socket_factory=make,
            ssl_context=None,
        )

    def __del__(self, *_: Any) -> None:
        """Close what a forgotten client has kept, without aiohttp's lines in the log: `Network` has
        a word for that.
        """
        with contextlib.suppress(Exception):
            closing = self.close()
            with contextlib.suppress(StopIteration):
                closing.send(None)  # closes; what is left is to wait for it
            closing.close()

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        while True:
            connection = await super().connect(req, traces, timeout)
            transport: Any = connection.transport
            if transport is None:
                return connection
            watch = transport.get_protocol()
            if isinstance(watch, _Watch):
                if watch.has_received():
                    connection.close()
                    continue
                watch.ask()
            _used_again.set(watch if isinstance(watch, _Watch) else None)
            # Called when the answer was read, just before the connection is kept or closed.
            connection.add_callback(functools.partial(_watch, connection.protocol, transport))
            return connection


def _watch(handler: Any, transport: Any) -> None:
    transport.set_protocol(_Watch(handler, transport))


# The connection that was used again for the request of this context, if it was one.
_used_again: ContextVar["_Watch | None"] = ContextVar("_used_again", default=None)


def forget() -> None:
    """A request begins: what happened to the one before does not count."""
    _used_again.set(None)


def is_unread() -> bool:
    """Whether the server of the request that has just failed here can't have read any of it: then
    it is safe to send it again.

    That is how it looks when a server closes an idle connection at the moment it is used again.
    """
    watch = _used_again.get()
    return watch is not None and watch.is_unread


class _Watch(asyncio.Protocol):
    """Sits on a kept connection until the first byte of the next answer."""

    def __init__(self, handler: Any, transport: Any) -> None:
        self.is_unread = False
        self._handler = handler
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        self._is_asked = False
        self._acked = 0

    def has_received(self) -> bool:
        """Whether anything has come while nothing was asked: also what the loop has not read yet,
        and a goodbye.
        """
        return self._transport.is_closing() or _is_readable(self._socket)

    def ask(self) -> None:
        """A request goes out: from now on an answer is welcome."""
        self._is_asked = True
        self._acked = _acked(self._socket)

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self._transport.abort()
            return
        self._transport.set_protocol(self._handler)
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        # A server that closes in good order says how much it has received. If that is nothing of
        # the request, its program has read nothing of it. A reset proves nothing: after one, what
        # was read may look unread. Asked here and not when the connection is lost: then another one
        # may have its number.
        self.is_unread = self._is_asked and self._acked > 0 and _acked(self._socket) == self._acked
        kept: bool | None = self._handler.eof_received()
        return kept

    def connection_lost(self, error: Exception | None) -> None:
        self._handler.connection_lost(error)

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


def _is_readable(sock: Any) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])


def _acked(sock: Any) -> int:
    """How many bytes the other side's system has acknowledged; 0 where that can't be asked."""
    if not _TCP_INFO:
        return 0
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _ACKED.size)
    except OSError:
        return 0
    return int(_ACKED.unpack(raw)[0]) if len(raw) == _ACKED.size else 0


class _Resolver(AbstractResolver):
    """Resolves a name once per connection. With a guard, one address that is refused refuses the
    name: who answers with a public and a private one hopes that the second is tried.
    """

    def __init__(self, guard: Guard | None) -> None:
        self.allowed: set[str] = set()  # addresses of names that the guard allows by name
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await resolve(host, family)
        if self._guard is not None:
            if self._guard.allows_name(host):
                self.allowed.update(address for _, address in found)
            else:
                for _, address in found:
                    self._guard.check(address)
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(
                hostname=host,
                host=where,
                port=port,
                family=of,
                proto=socket.IPPROTO_TCP,
                flags=flags,
            )
            for of, where in found
        ]

    async def close(self) -> None:
        """Nothing is held."""


async def resolve(
    host: str, family: socket.AddressFamily = socket.AF_UNSPEC
) -> list[tuple[socket.AddressFamily, str]]:
    """Return the addresses of a name, the resolver's favourite first. Raises OSError.

    A resolver that fails for a moment is asked again. `localhost` is both loopback addresses (RFC
    6761, 6.3), whatever the system has in its files: a server may listen on either.
    """
    try:
        literal = ip_address(host)
    except ValueError:
        pass
    else:
        return [(socket.AF_INET6 if literal.version == 6 else socket.AF_INET, host)]
    is_local = host.rstrip(".") == "localhost"
    found: list[tuple[socket.AddressFamily, str]] = []
    for pause_s in (*_RESOLVE_AGAIN_S, None):
        try:
            answers = await asyncio.get_running_loop().getaddrinfo(
                host, None, family=family, type=socket.SOCK_STREAM
            )
        except socket.gaierror as error:
            if is_local:
                break
            if error.errno != socket.EAI_AGAIN or pause_s is None:
                raise
            await asyncio.sleep(pause_s)
        else:
            found = [(socket.AddressFamily(of), str(where[0])) for of, _, _, _, where in answers]
            break
    if is_local:
        loopback = [
            (socket.AF_INET, "127.0.0.1"),
            *([(socket.AF_INET6, "::1")] if _has_ipv6_loopback() else []),
        ]
        found += [
            one for one in loopback if one not in found and family in (socket.AF_UNSPEC, one[0])
        ]
    return found


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(("::1", 0))
    except OSError:
        return False
    return True
