"""Which requests are for this server at all: the Host they name, and the page they come from.

A web page can have a browser send requests to an agent on the same machine or network. The browser
says in `Origin` whose page it was. An attacker who lets his own name resolve to our address (DNS
rebinding) makes them look like requests of the same site: then only `Host` gives him away.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from ...model import A2AError, PermissionDenied
from ..request import Headers, HttpRequest, HttpResponse, Pairs, host_name

__all__ = ["Misdirected", "Screen", "is_public_name"]

_KNOWN = 64  # Host headers that are remembered
_ALLOWED = (
    b"Authorization, Content-Type, A2A-Version, A2A-Extensions, Idempotency-Key, Last-Event-ID, "
    b"Traceparent"
)
_SENT_ANYWAY = {"authorization", "cookie"}  # in `_ALLOWED`; sent by the browser itself
_EXPOSED = b"A2A-Extensions, WWW-Authenticate, Retry-After, Accord-Total"
_PREFLIGHT_S = b"600"


class Misdirected(A2AError):
    """This server is not called that."""

    code, status, grpc, reason = -32600, 421, "INVALID_ARGUMENT", "MISDIRECTED_REQUEST"
    is_http_level = True


class Screen:
    """Refuses requests for other hosts and from other sites' pages.

    Args:
        url: The address clients reach this server at.
        origins: Whose pages may use it, as `https://app.example.com`; `*` for all.
        trusts_names: Whether any name is accepted where other machines can reach us: callers show
          credentials a browser does not send by itself, so a rebound name gains nothing.
        key_headers: Headers credentials may come in, which pages of these origins may send.
    """

    def __init__(
        self,
        url: str | None,
        origins: Iterable[str] = (),
        *,
        trusts_names: bool = False,
        key_headers: Iterable[str] = (),
    ) -> None:
        self._name = _host_of(url) if url else ""
        self._origins = frozenset(origin.rstrip("/").lower().encode() for origin in origins)
        self._trusts_names = trusts_names
        keys = sorted({name.lower() for name in key_headers} - _SENT_ANYWAY)
        self._allowed = b", ".join([_ALLOWED, *(name.encode("latin-1") for name in keys)])
        self.hosts: set[bytes | None] = set()  # Host headers that were found to be right

    def check(self, request: HttpRequest) -> None:
        """Raise Misdirected or PermissionDenied for a request that is not for us."""
        headers = request.headers
        host = headers.get(b"host")
        if host not in self.hosts:
            self._check_host(host or b"", request)
        origin = headers.get(b"origin")
        if origin is not None:
            if not self._is_allowed(origin, headers):
                raise PermissionDenied(
                    f"pages of {origin[:80].decode('latin-1')} may not use this agent; allow them "
                    "with --cors-origin",
                    reason="CROSS_ORIGIN",
                )
        elif headers.get(b"sec-fetch-site") == b"cross-site":
            raise PermissionDenied(
                "pages of other sites may not use this agent; allow them with --cors-origin",
                reason="CROSS_ORIGIN",
            )

    def _check_host(self, host: bytes, request: HttpRequest) -> None:
        text = host.decode("latin-1")
        name = host_name(text)
        if host and not name:
            raise Misdirected(f"{text[:80]!r} in the header Host is not a name and port")
        if not host or name == self._name or not is_public_name(name):
            if len(self.hosts) < _KNOWN:
                self.hosts.add(host or None)
            return
        url = request.server_url()
        if name == url.server[0].lower():
            return
        if self._trusts_names and not _is_loopback(url.server[0]):
            return
        raise Misdirected(
            f"this server is not called {name[:80]!r}; if it is, say so: --url "
            f"{url.scheme}://{name[:80]}"
        )

    def _is_allowed(self, origin: bytes, headers: Headers) -> bool:
        return (
            origin.lower() in self._origins
            or b"*" in self._origins
            or origin.partition(b"://")[2].lower() == headers.get(b"host", b"").lower()
        )

    def preflight(self, request: HttpRequest) -> HttpResponse | None:
        """The answer to a browser that asks whether a page may send a request; None if it is
        another request.
        """
        headers = request.headers
        if request.target.verb != "OPTIONS" or b"access-control-request-method" not in headers:
            return None
        return HttpResponse(
            204,
            headers=(
                *self.shared(request),
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", self._allowed),
                (b"access-control-max-age", _PREFLIGHT_S),
            ),
        )

    def shared(self, request: HttpRequest) -> Pairs:
        """What an answer says so that a page of an allowed origin may read it."""
        origin = request.headers.get(b"origin")
        if origin is None or not self._origins:
            return ()
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        )


def _host_of(url: str) -> str:
    return host_name(urlsplit(url).netloc.rpartition("@")[2])


def is_public_name(name: str) -> bool:
    """Whether somebody else may own this name. Addresses, localhost and names without a dot are
    nobody's.
    """
    if name == "localhost" or name.endswith(".localhost") or "." not in name:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
