"""The address of a client behind proxies that are trusted to tell it."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from .schemes import Credentials

__all__ = ["TrustedProxies", "counted_as"]

_HOPS = 20  # that are read, from the server on; more proxies than that are nobody's


class TrustedProxies:
    """Networks whose proxies say for whom a request is, in X-Forwarded-For or Forwarded (RFC 7239).

    The address nearest to us that is no trusted proxy counts: what stands before it, anybody can
    have written.

    Raises:
        ValueError: One of them is no address and no network.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        for text in [networks] if isinstance(networks, str) else networks:
            try:
                self._networks.append(ip_network(text))
            except ValueError as error:
                raise ValueError(
                    f"{text!r} is no trusted proxy: give its address or network, as 10.0.0.0/8 "
                    f"({error})"
                ) from None

    def client_of(self, credentials: Credentials) -> str:
        """Return the address a request comes from."""
        peer = credentials.address
        if not self._networks or not self._is_trusted(peer):
            return peer
        plain = credentials.headers("x-forwarded-for")
        standard = [_for(one) for one in credentials.headers("forwarded")]
        found = self._nearest(peer, plain or standard)
        if plain and standard and self._nearest(peer, standard) != found:
            return peer  # a proxy writes one of them: the other may be the client's own
        return found

    def _nearest(self, peer: str, hops: list[str]) -> str:
        found = peer
        for hop in reversed(hops[-_HOPS:]):
            address = _address(hop)
            if address is None:
                return found
            found = str(address)
            if not self._is_trusted(found):
                return found
        return found

    def _is_trusted(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(address in network for network in self._networks)


def counted_as(address: str) -> str:
    """Return what stands for an address where tries are counted: for IPv6 its network of 64 bits,
    all of which one customer has.
    """
    found = _address(address) if ":" in address else None
    return (
        str(IPv6Network((int(found) >> 64 << 64, 64))) if found and found.version == 6 else address
    )


def _for(element: str) -> str:
    """The client of one element of Forwarded: `for="[2001:db8::1]:4711";proto=https`."""
    for pair in element.split(";"):
        name, _, value = pair.strip().partition("=")
        if name.lower() == "for":
            return value.strip().strip('"')
    return ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, with a port or without; None if it is hidden or not one."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
