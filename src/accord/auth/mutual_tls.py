"""Mutual TLS: the certificate a client shows in the handshake."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..model import MutualTlsSecurityScheme, SecurityScheme
from .caller import Caller
from .schemes import Credentials, InvalidCredentials, Scheme

__all__ = ["MutualTLS"]


class MutualTLS(Scheme):
    """Authenticate callers by a certificate from the authority that the server trusts
    (`--tls-client-ca`).

    The caller's name is the first URI of the certificate (a SPIFFE id), else its first DNS name,
    else its common name.

    Args:
        caller: A function that gets a certificate, as `ssl.SSLSocket.getpeercert` returns it, and
          returns the caller, or None to refuse it.
        scopes: The scopes that every caller needs. Only `caller` can grant them.
        name: The name of the scheme in the card.
    """

    is_ambient = True
    is_guessable = False  # a certificate of the authority is not found by trying
    needs_certificate = True
    secret_headers = frozenset()

    def __init__(
        self,
        *,
        caller: Callable[[Mapping[str, Any]], Caller | None] | None = None,
        scopes: Iterable[str] = (),
        name: str = "mutualTLS",
    ) -> None:
        super().__init__(name, scopes)
        self._caller = caller

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        return SecurityScheme(mtls_security_scheme=MutualTlsSecurityScheme())

    def read(self, credentials: Credentials) -> str:
        return "certificate" if credentials.certificate else ""

    async def authenticate(self, shown: str, credentials: Credentials) -> Caller:
        certificate = credentials.certificate
        if not certificate:
            raise InvalidCredentials("no client certificate")
        found = self._caller(certificate) if self._caller else Caller(_name_of(certificate))
        if found is None or not found.name:
            raise InvalidCredentials("the name in the client certificate is not accepted")
        return Caller(found.name, found.tenant, found.scopes, found.claims, self.name)


def _name_of(certificate: Mapping[str, Any]) -> str:
    names = certificate.get("subjectAltName", ())
    for kind in ("URI", "DNS"):
        for found, value in names:
            if found == kind:
                return str(value)
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""
