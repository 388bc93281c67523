"""Which addresses may be connected to at the word of a stranger.

A webhook, a link to a file, a card that points elsewhere: whoever gives such an address could have
us call what only we can reach, on this machine or in its network (server-side request forgery). The
guard looks at the IP address that is about to be connected to, after the name was resolved. So a
name that resolves to something else the second time changes nothing.
"""

import errno
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["Guard"]

_NAT64 = IPv6Network("64:ff9b::/96")


class Guard:
    """Allows public addresses, and the networks it is told of.

    Guard(allow=["10.20.0.0/16", "192.168.1.7"])
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._allowed: list[IPv4Network | IPv6Network] = [ip_network(network) for network in allow]

    def check(self, address: str) -> None:
        """Raise OSError (EACCES) if this IP address is not to be connected to."""
        if not self.allows(address):
            raise PermissionError(
                errno.EACCES, f"{address} is no public address, and a stranger gave it"
            )

    def allows(self, address: str) -> bool:
        ip = _plain(ip_address(address.partition("%")[0]))
        if any(ip in network for network in self._allowed if network.version == ip.version):
            return True
        is_local = ip.is_link_local or (ip.version == 6 and ip.is_site_local)
        return ip.is_global and not (ip.is_multicast or ip.is_reserved or is_local)


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one that stands for it: that is where the packets end up."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else ip)
