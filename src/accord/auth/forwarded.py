"""The address of a client behind trusted proxies."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from .schemes import Credentials

__all__ = ["TrustedProxies", "counted_as"]

_HOPS = 20  # how many are read, the nearest first; nobody has more proxies


class TrustedProxies:
    """Networks whose proxies say for whom a request is, in X-Forwarded-For or Forwarded (RFC 7239).

    The client is the nearest address that is no trusted proxy. Anybody can have written what stands
    before it.

    Raises:
        ValueError: One of them is neither an address nor a network.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        for text in [networks] if isinstance(networks, str) else networks:
            try:
                self._networks.append(ip_network(text))
            except ValueError as error:
                raise ValueError(
                    f"{text!r} is not a trusted proxy: give its address or network, like "
                    f"10.0.0.0/8 ({error})"
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
            return peer  # a proxy writes only one of them, so the other may be the client's own
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
    """Return what failures of an address are counted under: for IPv6 its network of 64 bits, since
    one customer has all of it.
    """
    found = _address(address) if ":" in address else None
    return (
        str(IPv6Network((int(found) >> 64 << 64, 64))) if found and found.version == 6 else address
    )


def _for(element: str) -> str:
    """Return the client in one element of Forwarded: `for="[2001:db8::1]:4711";proto=https`."""
    for pair in element.split(";"):
        name, _, value = pair.strip().partition("=")
        if name.lower() == "for":
            return value.strip().strip('"')
    return ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address, with a port or without; None if it is hidden or not an address."""
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
