"""Credentials: chosen by the schemes of the agent's card, bound to one origin, never shown.

A credential goes only where it belongs: to the origin the user named (or, for a card handed over,
the one the card names). Not along a redirect, not to another host the card points at, not into a
log or an error.
"""

import base64
import inspect
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from ..model import AgentCard, SecurityRequirement, SecurityScheme, Unauthenticated
from ..net import Http, Response, ResponseBody, client_tls, may_be_set, origin_of
from .errors import BadCard

__all__ = [
    "ApiKey",
    "Auth",
    "Basic",
    "Bearer",
    "Chosen",
    "ClientCert",
    "Credential",
    "Signed",
    "certificate_of",
    "choose",
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


class ApiKey:
    """An API key, sent where the card says: header, query or cookie."""

    def __init__(self, key: str, *, name: str = "X-API-Key", location: str = "header") -> None:
        self._key = _clean(key)
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
                f"its card wants the API key as {name[:40]!r}, which would be more than a key",
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
    """A user and a password."""

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
    """A bearer token, or a function (async or not) that returns one; it is asked for every request,
    so it may cache and renew.
    """

    def __init__(self, token: Token) -> None:
        self._token = _clean(token) if isinstance(token, str) else token

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
            token = _clean(await given if inspect.isawaitable(given) else given)
        headers["Authorization"] = f"Bearer {token}"

    def __repr__(self) -> str:
        return "Bearer(...)"


class ClientCert:
    """A client certificate for mutual TLS: PEM files, and optionally the authority that signed the
    agent's own.
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
        """The texts of the key and the certificate, for who does not take an SSL context."""
        key, cert = self._files
        return Path(key).read_bytes(), Path(cert).read_bytes()

    def fits(self, scheme: SecurityScheme) -> bool:
        return scheme.mtls_security_scheme is not None

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        """Nothing to add: the connection itself proves it."""

    def __repr__(self) -> str:
        return "ClientCert(...)"


Chosen: TypeAlias = list[tuple[Credential, SecurityScheme | None]]
Auth: TypeAlias = Credential | str | list[Credential] | Mapping[str, Credential] | None


def choose(card: AgentCard, auth: Auth) -> list[tuple[Credential, SecurityScheme | None]]:
    """Return the credentials to use with an agent, each with the scheme it is for.

    The first of the card's alternatives that they satisfy is taken. With an agent that declares
    nothing they are sent as they are.

    Raises:
        Unauthenticated: The card wants something else, and what.
    """
    named, others = _sorted(auth)
    if not named and not others:
        return []
    if not card.security_requirements:
        schemes = card.security_schemes
        fitting: list[tuple[Credential, SecurityScheme | None]] = [
            (c, s) for c in (*named.values(), *others) for s in schemes.values() if c.fits(s)
        ]
        return fitting[:1] or [(c, None) for c in (*named.values(), *others)]
    for requirement in card.security_requirements:
        found = _satisfy(requirement, card, named, others)
        if found is not None:
            return found
    wanted = " or ".join(" with ".join(r.schemes) or "nothing" for r in card.security_requirements)
    raise Unauthenticated(
        f"{card.name}: none of the credentials given fits; the card asks for {wanted[:300]}"
    )


def _satisfy(
    requirement: SecurityRequirement,
    card: AgentCard,
    named: Mapping[str, Credential],
    others: list[Credential],
) -> list[tuple[Credential, SecurityScheme | None]] | None:
    found: list[tuple[Credential, SecurityScheme | None]] = []
    for name in requirement.schemes:
        scheme = card.security_schemes.get(name)
        credential = named.get(name) or next(
            (c for c in others if scheme is not None and c.fits(scheme)), None
        )
        if credential is None:
            return None
        found.append((credential, scheme))
    return found


def _sorted(auth: Auth) -> tuple[Mapping[str, Credential], list[Credential]]:
    match auth:
        case None:
            return {}, []
        case str():
            return {}, [Bearer(auth)]
        case Mapping():
            return auth, []
        case list() | tuple():
            return {}, [Bearer(item) if isinstance(item, str) else item for item in auth]
    return {}, [auth]


def certificate_of(auth: Auth) -> ClientCert | None:
    """Return the client certificate among the credentials."""
    named, others = _sorted(auth)
    return next((c for c in (*named.values(), *others) if isinstance(c, ClientCert)), None)


class Signed:
    """HTTP that adds credentials to requests for one origin, and to no other."""

    def __init__(
        self, http: Http, origin: str, chosen: list[tuple[Credential, SecurityScheme | None]]
    ) -> None:
        self._http = http
        self._origin = origin
        self._chosen = chosen

    async def fetch(
        self,
        verb: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        limit: int,
        timeout_s: float,
    ) -> Response:
        url, headers = await self._sign(url, headers)
        return await self._http.fetch(verb, url, headers, body, limit=limit, timeout_s=timeout_s)

    async def open(
        self,
        verb: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        timeout_s: float,
        idle_s: float,
    ) -> ResponseBody:
        url, headers = await self._sign(url, headers)
        return await self._http.open(verb, url, headers, body, timeout_s=timeout_s, idle_s=idle_s)

    async def close(self) -> None:
        await self._http.close()

    async def _sign(self, url: str, headers: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        if origin_of(url) != self._origin:
            return url, headers
        signed: dict[str, str] = dict(headers)
        query: dict[str, str] = {}
        for credential, scheme in self._chosen:
            await credential.apply(scheme, signed, query)
        if query:
            pairs = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in query.items())
            url += ("&" if "?" in url else "?") + pairs
        return url, signed


def _clean(secret: Any) -> str:
    if (
        not isinstance(secret, str)
        or not secret
        or any(ord(c) < 32 or ord(c) == 127 for c in secret)
    ):
        raise ValueError(
            "a credential is a text without control characters, and not empty"
        )  # and is not quoted here
    return secret
