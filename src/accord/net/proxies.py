"""Forward proxies: from the environment or from an option, for addresses the user gave.

`HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` count in both spellings, the lower one first. Calls to
this machine never go through a proxy of the environment: it could not reach it.
"""

import base64
import os
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ..model import whole_number
from .url import Url, parse_url, safe_url

__all__ = ["Proxies", "Proxy"]


class Proxy(NamedTuple):
    url: str  # without user and password
    headers: dict[str, str]  # these, as a header for the proxy


class Proxies:
    """Choose the proxy, if any, of a request."""

    def __init__(self, http: str = "", https: str = "", exceptions: str = "") -> None:
        self._by_scheme = {"http": http, "https": https}
        self._exceptions = [
            item.strip().lower() for item in exceptions.replace(" ", ",").split(",") if item.strip()
        ]
        self._is_environment = False

    @classmethod
    def always(cls, url: str) -> "Proxies":
        """This proxy for everything. Raises ValueError if it is none we can talk to."""
        _proxy(url)
        return cls(url, url)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Proxies":
        def named(name: str) -> str:
            return environment.get(name.lower()) or environment.get(name.upper()) or ""

        http, https = named("http_proxy"), named("https_proxy")
        # A CGI script: there HTTP_PROXY is a header of the caller (httpoxy).
        if "REQUEST_METHOD" in environment:
            http = environment.get("http_proxy") or ""
        found = cls(http, https, named("no_proxy"))
        found._is_environment = True
        return found

    def of(self, url: Url) -> Proxy | None:
        """Raises ValueError if the proxy named for it is none we can talk to."""
        proxy = self._by_scheme[url.scheme]
        if not proxy:
            return None
        if self._is_environment and (
            _is_loopback(url.host) or any(_matches(item, url) for item in self._exceptions)
        ):
            return None
        return _proxy(proxy)


def _proxy(given: str) -> Proxy:
    """Raises ValueError. The text holds no password."""
    text = given if "://" in given else f"http://{given}"
    try:
        url = parse_url(text)
    except ValueError as error:
        raise ValueError(
            f"the proxy {safe_url(text)} is not an HTTP proxy we can use: {error}"
        ) from None
    parts = urlsplit(text)
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(url.origin, headers)


def _is_loopback(host: str) -> bool:
    if host.rstrip(".") == "localhost" or host.rstrip(".").endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _matches(item: str, url: Url) -> bool:
    """Whether an item of NO_PROXY means this host: `*`, a name and all below it, an address, a
    network, each with a port or not.
    """
    if item == "*":
        return True
    host = url.host.rstrip(".")
    if item in (host, f"[{host}]"):
        return True
    try:
        return ip_address(host) in ip_network(item, strict=False)
    except (ValueError, TypeError):
        pass
    name, _, port = item.rpartition(":")
    number = whole_number(port)
    if number is not None and name and (":" not in name or name.endswith("]")):
        return number == url.port and _matches(name, url)
    name = item.removeprefix("*").removeprefix(".")
    return host == name or host.endswith(f".{name}")
