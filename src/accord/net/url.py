"""URLs of http and https: read strictly, because what they hold ends up in a request.

Percent-encodings stay as they were written. Users, passwords and fragments are read and left
behind: they are never sent.
"""

import functools
import re
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

__all__ = ["Url", "host_of", "origin_of", "parse_url", "safe_url"]

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_AS_IT_IS = "!$%&'()*+,/:;=?@[]~"  # `quote` keeps letters, digits and -._ by itself
# Names of their own to today's registries, but other letters to Python's codec, which is of 2003.
_AMBIGUOUS = re.compile("[\u00df\u03c2\u200c\u200d]")


class Url(NamedTuple):
    scheme: str
    host: str  # lower case, ASCII; an IPv6 address without its brackets
    port: int
    path: str
    query: str

    @property
    def authority(self) -> str:
        """Host and port, as the Host header has them: brackets around IPv6, no port where it goes
        without saying.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def target(self) -> str:
        """Return the target of a request: path and query."""
        return (self.path or "/") + (f"?{self.query}" if self.query else "")

    def __str__(self) -> str:
        return self.origin + (self.target if self.query else self.path)


@functools.lru_cache(maxsize=1024)  # webhooks and agents are called again and again
def parse_url(text: str) -> Url:
    """Return the parts of a URL.

    Raises:
        ValueError: It is not one of http or https, names no host, or holds what must not get into a
          request.
    """
    if _CONTROL.search(text):
        raise ValueError("a URL must not have control characters")
    parts = urlsplit(text)
    if parts.scheme not in _PORTS:
        raise ValueError("not an http or https URL")
    if "\\" in parts.netloc:
        # Some read it as a slash, and would go elsewhere.
        raise ValueError("a host must not have a backslash")
    port = parts.port if parts.port is not None else _PORTS[parts.scheme]
    if port == 0:
        raise ValueError("there is no port 0")
    path, query = quote(parts.path, safe=_AS_IT_IS), quote(parts.query, safe=_AS_IT_IS)
    return Url(
        parts.scheme, _host(parts.hostname or "", is_ipv6="[" in parts.netloc), port, path, query
    )


def _host(name: str, *, is_ipv6: bool) -> str:
    if is_ipv6:
        return IPv6Address(name).compressed if "%" not in name else _no_host(name)
    if not name.isascii():
        name = _no_host(name) if _AMBIGUOUS.search(name) else name.encode("idna").decode()
    return name if _HOST.fullmatch(name) else _no_host(name)


def _no_host(name: str) -> str:
    raise ValueError(f"{name[:80]!r} is not the name of a host" if name else "the URL has no host")


def origin_of(url: str) -> str:
    """Scheme, host and port: what credentials are bound to. Raises ValueError."""
    return parse_url(url).origin


def host_of(url: str) -> str:
    """The host of a URL; empty if it is none."""
    try:
        return parse_url(url).host
    except ValueError:
        return ""


def safe_url(url: str) -> str:
    """A URL fit for messages and logs: no user, no password, no query."""
    try:
        return str(parse_url(url)._replace(query=""))
    except ValueError:
        pass
    url = _CONTROL.sub("", url)
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]
