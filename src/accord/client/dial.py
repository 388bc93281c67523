"""From a host's name to a connection: its addresses, then the first of them that answers.

Between `resolve` and `reach` is the place to look at the addresses: nothing is connected to but what `reach` is given.
"""

import asyncio
import functools
import ipaddress
import itertools
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from ..sockets import notice_loss
from .errors import why

__all__ = ["Address", "dial", "own_tls", "reach", "resolve"]

# As the system's resolver gives it: family, kind, protocol, canonical name, socket address.
Address: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
P = TypeVar("P", bound=asyncio.BaseProtocol)

_HEAD_START_S = 0.25  # before the next address is tried beside the one that has not answered yet (RFC 8305)


async def dial(host: str, port: int, tls: ssl.SSLContext | None, lost_s: float, protocol: Callable[[], P]) -> P:
    """Return a protocol that is connected; raises OSError, of which `ssl.SSLError` is one."""
    found = await reach(await resolve(host, port))
    loop = asyncio.get_running_loop()
    try:
        notice_loss(found, lost_s / 2, lost_s)
        name = host.rstrip(".") if tls is not None else None
        _, made = await loop.create_connection(protocol, sock=found, ssl=tls, server_hostname=name)
    except BaseException as error:
        found.close()
        if tls is not None and isinstance(error, ConnectionError):
            raise ssl.SSLError(f"closed while it was being made: {why(error)}") from None
        raise
    return made


@functools.cache
def own_tls() -> ssl.SSLContext:
    """What is used where nobody gives a context: the system's authorities, names checked. Made once, because that is slow."""
    tls = ssl.create_default_context()
    tls.set_alpn_protocols(["http/1.1"])
    return tls


async def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a host, families in turns, the resolver's favourite first."""
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    else:
        family = socket.AF_INET6 if literal.version == 6 else socket.AF_INET
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
    first = [address for address in found if address[0] == found[0][0]]
    others = [address for address in found if address[0] != found[0][0]]
    return [address for pair in itertools.zip_longest(first, others) for address in pair if address is not None]


async def reach(addresses: list[Address]) -> socket.socket:
    """Return a socket connected to whichever address answers first.

    The next is tried when the one before has failed or is slow; so one that swallows everything costs a moment, not the call.
    """
    left = deque(addresses)
    trying: set[asyncio.Task[socket.socket]] = set()
    failed: list[BaseException] = []
    try:
        while left or trying:
            if left:
                trying.add(asyncio.create_task(_connect(left.popleft())))
            patience_s = _HEAD_START_S if left else None
            done, _ = await asyncio.wait(trying, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                error = attempt.exception()
                if error is None:
                    trying.discard(attempt)
                    return attempt.result()
                failed.append(error)
            trying -= done
    finally:
        for attempt in trying:
            attempt.add_done_callback(_hang_up)
            attempt.cancel()
    raise failed[0] if failed else OSError("the name has no address")


async def _connect(address: Address) -> socket.socket:
    family, kind, protocol, _, where = address
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, where)
    except BaseException:
        made.close()
        raise
    return made


def _hang_up(attempt: asyncio.Task[socket.socket]) -> None:
    """An attempt nobody waits for any more: if it came through all the same, it ends here."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
