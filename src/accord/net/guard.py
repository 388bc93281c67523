"""Which addresses may be connected to at the word of a stranger.

A webhook, a link to a file, the keys of an issuer, a card that points elsewhere: whoever gives such
an address could have us call what only we can reach, on this machine or in its network (server-side
request forgery). The guard looks twice:

- `check_url` when the address is given: scheme, user, host, port.
- `check` when it is connected to: the IP address, after the name was resolved. Every answer of the
  resolver must pass, and exactly the address that passed is connected to. So a name that resolves
  to something else the second time changes nothing.

Or a proxy is given, which has a policy of its own: then all such calls go through it, names are
resolved there, and it alone decides what is reached.

The table of addresses is our own (from IANA's registries of special-purpose addresses): what
`ipaddress` calls global differs between versions of Python.
"""

import errno
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from .proxies import Proxies
from .url import Url, parse_url, safe_url

__all__ = ["Guard", "egress_words", "guard_beside", "is_allowed"]

_NOT_PUBLIC_4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by the customers of a provider; also metadata of some clouds
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # the host of a virtual machine, in Azure
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; metadata of a cloud
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4, withdrawn
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
]
_PUBLIC_6 = IPv6Network("2000::/3")  # everything that is assigned to hosts in the Internet
_NOT_PUBLIC_6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, which has an IPv4 address inside, and others
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which has an IPv4 address inside; withdrawn
        "3fff::/20",  # documentation
    )
]
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")

# Names that mean something in a local network alone (RFC 6761, 6762 with its appendix G, 8375;
# ICANN for `internal`), what systems put in their own files (`localhost.localdomain`), and names
# inside a cluster.
_LOCAL_NAMES = (
    *("localhost", "localdomain", "localdomain4", "localdomain6", "local", "internal", "intranet"),
    *("private", "home", "home.arpa", "lan", "corp", "svc"),
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class Guard:
    """Allows https to public addresses, and what is listed in `allow`.

    Guard(allow=["10.20.0.0/16", "192.168.1.7", "hooks.corp.example", "*.test"])

    Args:
        allow: Addresses, networks and names (`*.` for all below a name) that may be connected to
          though they are private; there http and every port are allowed too.
        ports: The ports that may be connected to elsewhere; None for all.
        schemes: The schemes that may be used elsewhere.
        proxy: An HTTP proxy that all calls go through, and that decides by itself what is reached.
    """

    def __init__(
        self,
        allow: Iterable[str] = (),
        *,
        ports: Iterable[int] | None = (443,),
        schemes: Iterable[str] = ("https",),
        proxy: str = "",
    ) -> None:
        allow = list(allow)
        if allow and proxy:
            raise ValueError(
                "the proxy decides what is reached: allow hosts there, or call without a proxy"
            )
        self.proxies = Proxies.always(proxy) if proxy else None
        self._networks: list[IPv4Network | IPv6Network] = []
        self._names: set[str] = set()
        for item in allow:
            self._allow(item.strip().lower())
        self._ports = frozenset(ports) if ports is not None else None
        self._schemes = frozenset(schemes)

    def check_url(self, url: str) -> Url:
        """Return the parts of a URL that may be connected to, as far as it shows that.

        Raises:
            ValueError: It may not, and why. The text holds no user, password or query.
        """
        parts = parse_url(url)
        if "@" in urlsplit(url).netloc:
            raise ValueError("a URL that others give must not have a user")
        if self.proxies is not None or self.allows_name(parts.host):
            return parts
        address = _literal(parts.host)
        if address is not None:
            if self._is_allowed(address):
                return parts
            if not (urlsplit(url).hostname or "").isascii() or not _is_public(address):
                raise NotPublic(parts.host)
        elif _is_local(parts.host):
            raise NotPublic(parts.host)
        if parts.scheme not in self._schemes:
            raise ValueError(
                "an address that others give must begin with "
                f"{' or '.join(sorted(self._schemes))}://"
            )
        if self._ports is not None and parts.port not in self._ports:
            ports = ", ".join(map(str, sorted(self._ports)))
            raise ValueError(
                f"port {parts.port} is not allowed in an address that others give, only {ports}"
            )
        return parts

    def check(self, address: str) -> None:
        """Raise OSError (EACCES) if this IP address is not to be connected to."""
        if not self.allows(address):
            raise PermissionError(errno.EACCES, _refusal(address))

    def allows(self, address: str) -> bool:
        """Return whether this IP address may be connected to."""
        ip = ip_address(address.partition("%")[0])
        return self._is_allowed(ip) or _is_public(ip)

    def allows_name(self, host: str) -> bool:
        """Return whether this name was allowed, whatever its addresses are."""
        host = host.rstrip(".")
        if host in self._names:
            return True
        labels = host.split(".")
        return any("*." + ".".join(labels[i:]) in self._names for i in range(1, len(labels)))

    def _allow(self, item: str) -> None:
        try:
            self._networks.append(ip_network(item.strip("[]"), strict=False))
            return
        except ValueError:
            name = item.rstrip(".")
        try:
            parse_url(f"http://{name.removeprefix('*.')}")
        except ValueError:
            name = ""
        if not name or set(name) & set("/:@?#"):
            raise ValueError(
                f"{item[:80]!r} is not a host that can be allowed; write it like 10.20.0.0/16, "
                "192.168.1.7, hooks.corp.example or *.corp.example"
            )
        self._names.add(name)

    def _is_allowed(self, ip: IPv4Address | IPv6Address) -> bool:
        ip = _inner(ip)
        return any(ip in network for network in self._networks if network.version == ip.version)


class NotPublic(ValueError):
    """An address that a stranger gave leads into a private network, or to this machine."""

    def __init__(self, host: str) -> None:
        super().__init__(_refusal(host))
        self.host = host


def _refusal(host: str) -> str:
    return f"{host} is no public address, and a stranger gave it"


def _inner(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one that stands for it: that is where the packets end up."""
    if isinstance(ip, IPv6Address) and (ip in _MAPPED or ip in _NAT64):
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def _is_public(ip: IPv4Address | IPv6Address) -> bool:
    ip = _inner(ip)
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _NOT_PUBLIC_4)
    return ip in _PUBLIC_6 and not any(ip in network for network in _NOT_PUBLIC_6)


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    """The address a host is; None for a name.

    Raises:
        ValueError: A number that some read as an address, and others as another one: `127.1`, `0`,
          `0x7f.1`, `0177.0.0.1`.
    """
    if ":" in host:
        return IPv6Address(host)
    if not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return None
    try:
        return IPv4Address(host)
    except ValueError:
        raise ValueError(f"{host} is not a complete address") from None


def _is_local(host: str) -> bool:
    name = host.rstrip(".")
    return "." not in name or any(
        name == local or name.endswith(f".{local}") for local in _LOCAL_NAMES
    )


def egress_words(proxy: str) -> str:
    """Say how addresses that callers and other servers gave are called, for a server's start."""
    if not proxy:
        return "public addresses only"
    return f"through the proxy {safe_url(proxy)}, which decides what may be reached"


async def guard_beside(home: str, guard: Guard) -> Guard | None:
    """Return what addresses that `home` names elsewhere are looked at with: `guard`, or nothing if
    the host `home`, which the user gave, is itself one it refuses. Who is in a private network may
    name others there; with a proxy, that decides.
    """
    if guard.proxies is not None:
        return guard
    return guard if await is_allowed(home, guard) else None


async def is_allowed(host: str, guard: Guard) -> bool:
    """Whether all addresses of a host may be connected to without a proxy, as far as they are known
    now.
    """
    if guard.proxies is not None:
        return False
    if guard.allows_name(host):
        return True
    from .pool import resolve  # brings aiohttp, which is needed only by who connects

    try:
        return all(guard.allows(address) for _, address in await resolve(host))
    except OSError:
        return True  # nothing to connect to
