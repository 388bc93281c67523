"""Credentials a user gives: keys, passwords, tokens, certificates. None of them is ever shown."""

import base64
import inspect
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable
from urllib.parse import quote

from ...model import SecurityScheme
from ...net import Guard, client_tls, may_be_set
from ..errors import BadCard

__all__ = [
    "NOWHERE",
    "AgentPlace",
    "ApiKey",
    "Basic",
    "Bearer",
    "Bindable",
    "ClientCert",
    "Credential",
    "Renewable",
    "Secret",
    "clean",
]

Token: TypeAlias = str | Callable[[], str | Awaitable[str]]


class Credential(Protocol):
    """A secret, and which security schemes it is for."""

    def fits(self, scheme: SecurityScheme) -> bool: ...

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        """Add the credential to a request; `scheme` is None if the agent declares none."""
        ...


@runtime_checkable
class Renewable(Protocol):
    """A credential that may be another one next time."""

    async def renew(self) -> bool:
        """The agent has refused it: get another. Return whether there may be one."""
        ...


class AgentPlace(NamedTuple):
    """An agent that credentials are for."""

    origin: str  # as the user named it; empty in the same process
    tls: ssl.SSLContext | None = None  # whom to trust on the way to who issues them
    # For an agent whose address a stranger gave: who issues them is called through it, too.
    guard: Guard | None = None


NOWHERE = AgentPlace("")


@runtime_checkable
class Bindable(Protocol):
    """What credentials for each agent are made from."""

    def bound(
        self, place: AgentPlace, scheme: SecurityScheme | None, scopes: Sequence[str]
    ) -> Credential | None:
        """Return a credential for one agent and one scheme of its card, with the scopes that it
        wants; None if there can be none before its card is known.
        """
        ...


class ApiKey:
    """Send an API key where the card says: in a header, the query or a cookie."""

    def __init__(self, key: str, *, name: str = "X-API-Key", location: str = "header") -> None:
        self._key = clean(key)
        self._name = name
        self._location = location

    def fits(self, scheme: SecurityScheme) -> bool:
        return scheme.api_key_security_scheme is not None

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        declared = scheme.api_key_security_scheme if scheme is not None else None
        name = declared.name if declared is not None else self._name
        where = declared.location.lower() if declared is not None else self._location
        if where != "query" and not may_be_set(name):
            raise BadCard(
                "the agent",
                f"its card wants the API key in {name[:40]!r}, which is not a safe place for it",
            )
        match where:
            case "query":
                query[name] = self._key
            case "cookie":
                others = headers.get("Cookie")
                headers["Cookie"] = (f"{others}; " if others else "") + f"{name}={quote(self._key)}"
            case _:
                headers[name] = self._key

    def __repr__(self) -> str:
        return "ApiKey(...)"


class Basic:
    """Send a user name and a password."""

    def __init__(self, user: str, password: str) -> None:
        self._text = base64.b64encode(f"{user}:{password}".encode()).decode()

    def fits(self, scheme: SecurityScheme) -> bool:
        http = scheme.http_auth_security_scheme
        return http is not None and http.scheme.lower() == "basic"

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        headers["Authorization"] = f"Basic {self._text}"

    def __repr__(self) -> str:
        return "Basic(...)"


class Bearer:
    """Send a bearer token, or what a function (async or not) returns. The function is called for
    every request, so let it cache the token.
    """

    def __init__(self, token: Token) -> None:
        self._token = clean(token) if isinstance(token, str) else token

    def fits(self, scheme: SecurityScheme) -> bool:
        http = scheme.http_auth_security_scheme
        is_bearer = http is not None and http.scheme.lower() == "bearer"
        return (
            is_bearer
            or scheme.oauth2_security_scheme is not None
            or scheme.open_id_connect_security_scheme is not None
        )

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        token = self._token
        if not isinstance(token, str):
            given = token()
            token = clean(await given if inspect.isawaitable(given) else given)
        headers["Authorization"] = f"Bearer {token}"

    async def renew(self) -> bool:
        return not isinstance(self._token, str)  # the function is asked again

    def __repr__(self) -> str:
        return "Bearer(...)"


class Secret:
    """A text that is a bearer token or an API key: the card says which."""

    def __init__(self, text: str) -> None:
        self._key, self._bearer = ApiKey(text), Bearer(text)

    def fits(self, scheme: SecurityScheme) -> bool:
        return self._bearer.fits(scheme) or self._key.fits(scheme)

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        is_key = scheme is not None and self._key.fits(scheme)
        await (self._key if is_key else self._bearer).apply(scheme, headers, query)

    def __repr__(self) -> str:
        return "Secret(...)"


class ClientCert:
    """Use a client certificate for mutual TLS: PEM files, and optionally the authority that signed
    the agent's certificate.
    """

    def __init__(
        self,
        cert: str | Path,
        key: str | Path | None = None,
        *,
        password: str | None = None,
        authority: str | Path | None = None,
    ) -> None:
        self.authority = authority
        self._files = (key or cert, cert)
        self._password = password
        self.tls(None)  # a file that is no certificate is told of here, not at the first call

    def tls(self, ca: str | Path | None) -> ssl.SSLContext:
        """The TLS set-up that shows this certificate; `ca` is whom to trust where no `authority`
        was named.
        """
        key, cert = self._files
        return client_tls(self.authority or ca, cert, key, self._password)

    def pems(self) -> tuple[bytes, bytes]:
        """The texts of the key and the certificate, for libraries that take no SSL context."""
        key, cert = self._files
        return Path(key).read_bytes(), Path(cert).read_bytes()

    def fits(self, scheme: SecurityScheme) -> bool:
        return scheme.mtls_security_scheme is not None

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        """Do nothing: the TLS connection shows the certificate."""

    def __repr__(self) -> str:
        return "ClientCert(...)"


def clean(secret: Any) -> str:
    if (
        not isinstance(secret, str)
        or not secret
        or any(ord(c) < 32 or ord(c) == 127 for c in secret)
    ):
        # And is not quoted here.
        raise ValueError("a credential must not be empty or have control characters")
    return secret
