"""Bearer tokens as security schemes: JWTs, OAuth 2.0, OpenID Connect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ..model import (
    AuthorizationCodeOAuthFlow,
    ClientCredentialsOAuthFlow,
    DeviceCodeOAuthFlow,
    HTTPAuthSecurityScheme,
    OAuth2SecurityScheme,
    OAuthFlows,
    OpenIdConnectSecurityScheme,
    SecurityScheme,
    Unavailable,
)
from ..net import Guard
from .caller import Caller
from .issuer import Issuer, IssuerUnavailable
from .schemes import CallerCache, Challenge, Credentials, InvalidCredentials, Resources, Scheme
from .tokens import EXPIRED, Introspection, InvalidToken, TokenVerifier

__all__ = ["OIDC", "Bearer", "OAuth2"]

RETRY_S = 10
# For so long a token is not looked at again: one that ends, or whose key is withdrawn, is accepted
# so much longer. A client sends many calls with one.
KNOWN_S = 1.0
_SCOPES = ("scope", "scp", "scopes")  # where issuers put them
_NAMES = ("sub", "client_id", "azp")


class Verifier(Protocol):
    async def verify(self, token: str) -> dict[str, Any]: ...

    def guard_with(self, guard: Guard) -> None: ...


class _TokenScheme(Scheme):
    """A scheme whose credentials are a bearer token."""

    is_guessable = False  # a signature is not found by trying

    def __init__(
        self,
        verifier: Verifier,
        *,
        issuer: str,
        name: str,
        scopes: Iterable[str],
        tenant: str,
        caller: Callable[[Mapping[str, Any]], Caller | None] | None,
    ) -> None:
        super().__init__(name, scopes)
        self.issuer = issuer
        self._verifier = verifier
        self._known = CallerCache(KNOWN_S)
        self._tenant = tenant
        self._caller = caller

    async def open(self, resources: Resources) -> None:
        self._verifier.guard_with(resources.guard)

    def read(self, credentials: Credentials) -> str:
        text = credentials.header("authorization")
        return text[7:].strip() if text[:7].lower() == "bearer " else ""

    def recall(self, shown: str) -> Caller | None:
        return self._known.get(shown)

    async def authenticate(self, shown: str, credentials: Credentials) -> Caller:
        caller = await self._verify(shown)
        self._known.add(shown, caller)
        return caller

    async def _verify(self, shown: str) -> Caller:
        try:
            claims = await self._verifier.verify(shown)
        except InvalidToken as error:
            description = "the access token expired" if error.reason == EXPIRED else ""
            raise InvalidCredentials(error.reason, description) from None
        except IssuerUnavailable:
            raise Unavailable(
                "the credentials can't be checked right now; try again later",
                retry_after_s=RETRY_S,
            ) from None
        if "iss" not in claims:  # an issuer that is asked need not say who it is
            claims = {**claims, "iss": self.issuer}
        if self._caller is None:
            return self._usual(claims)
        found = self._caller(claims)
        if found is None or not found.name:
            raise InvalidCredentials("the subject of the token is not accepted")
        return msgspec.structs.replace(found, claims=claims, scheme=self.name)

    def _usual(self, claims: dict[str, Any]) -> Caller:
        name = next((v for n in _NAMES if isinstance(v := claims.get(n), str) and v), "")
        if not name:
            raise InvalidCredentials("the token has no subject (sub)")
        tenant = claims.get(self._tenant, "") if self._tenant else ""
        if not isinstance(tenant, str) or (self._tenant and not tenant):
            raise InvalidCredentials(f"the token has no tenant ({self._tenant})")
        return Caller(name, tenant, _scopes_of(claims), claims, self.name)

    def challenge(self, why: Challenge) -> str:
        words = {
            "realm": why.realm,
            "error": why.error,
            "error_description": why.description,
            "scope": " ".join(sorted(why.scopes or self.scopes)),
            "resource_metadata": why.metadata,
        }
        return "Bearer " + ", ".join(f'{name}="{word}"' for name, word in words.items() if word)


def _scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    found: set[str] = set()
    for name in _SCOPES:
        value = claims.get(name)
        if isinstance(value, str):
            found.update(value.split())
        elif isinstance(value, list):
            found.update(word for word in value if isinstance(word, str))
    return frozenset(found)


class BearerAuth(_TokenScheme):
    """Authenticate callers by a JWT in `Authorization: Bearer`.

    Args:
        keys: The issuer's public keys: the URL of a JWK set, a file, or the set itself.
        issuer: The issuer that a token must have (`iss`).
        audience: The audience that a token must have (`aud`).
        scopes: The scopes that every caller needs.
        tenant: The claim that names the caller's tenant; a token without it is refused.
        caller: A function that gets the claims of a token and returns the caller, or None to refuse
          it. By default the caller has the name in `sub` and the scopes in `scope` or `scp`.
        name: The name of the scheme in the card.
    """

    def __init__(
        self,
        keys: str | Path | Mapping[str, Any],
        *,
        issuer: str,
        audience: str | Sequence[str],
        scopes: Iterable[str] = (),
        tenant: str = "",
        caller: Callable[[Mapping[str, Any]], Caller | None] | None = None,
        name: str = "bearer",
    ) -> None:
        super().__init__(
            TokenVerifier(keys, issuer=issuer, audience=audience),
            issuer=issuer,
            name=name,
            scopes=scopes,
            tenant=tenant,
            caller=caller,
        )

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        return SecurityScheme(
            http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer", bearer_format="JWT")
        )


class OIDC(_TokenScheme):
    """Authenticate callers by an access token of an OpenID Connect provider. Its keys are found by
    discovery.

    Args:
        issuer: The provider, as its tokens name it: `https://id.example.com`.
        audience: The audience that a token must have (`aud`).
        scopes: The scopes that every caller needs.
        tenant: As in `Bearer`.
        caller: As in `Bearer`.
        name: The name of the scheme in the card.
    """

    def __init__(
        self,
        issuer: str,
        *,
        audience: str | Sequence[str],
        scopes: Iterable[str] = (),
        tenant: str = "",
        caller: Callable[[Mapping[str, Any]], Caller | None] | None = None,
        name: str = "oidc",
    ) -> None:
        super().__init__(
            TokenVerifier.of_issuer(issuer, audience=audience),
            issuer=issuer,
            name=name,
            scopes=scopes,
            tenant=tenant,
            caller=caller,
        )

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        return SecurityScheme(
            open_id_connect_security_scheme=OpenIdConnectSecurityScheme(open_id_connect_url=url)
        )


class OAuth2(_TokenScheme):
    """Authenticate callers by an access token of an OAuth 2.0 server. The card says how to get one.

    With `client_id` and `client_secret` the server is asked about each token (RFC 7662), else the
    token is a JWT. A card names one flow in each scheme: the device flow if there is
    `device_authorization_url`, the code flow if there is `authorization_url`, else client
    credentials.

    Args:
        issuer: The server, as its tokens and its metadata name it.
        audience: The audience that a token must have.
        token_url: The address that issues tokens.
        authorization_url: The address where a person agrees, for the code flow.
        device_authorization_url: The address where a device asks for a code, for the device flow.
        client_id: The client id of this agent at the server, for introspection.
        client_secret: The secret of that client.
        scopes: The scopes that every caller needs.
        offers: Descriptions of scopes for the card, by name.
        tenant: As in `Bearer`.
        caller: As in `Bearer`.
        name: The name of the scheme in the card.
    """

    def __init__(
        self,
        issuer: str,
        *,
        audience: str | Sequence[str],
        token_url: str,
        authorization_url: str = "",
        device_authorization_url: str = "",
        client_id: str = "",
        client_secret: str = "",
        scopes: Iterable[str] = (),
        offers: Mapping[str, str] | None = None,
        tenant: str = "",
        caller: Callable[[Mapping[str, Any]], Caller | None] | None = None,
        name: str = "oauth2",
    ) -> None:
        if bool(client_id) != bool(client_secret):
            raise ValueError("introspection needs both client_id and client_secret")
        verifier: Verifier = (
            Introspection(
                Issuer(issuer),
                client_id=client_id,
                client_secret=client_secret,
                issuer=issuer,
                audience=audience,
            )
            if client_id
            else TokenVerifier.of_issuer(issuer, audience=audience)
        )
        super().__init__(
            verifier, issuer=issuer, name=name, scopes=scopes, tenant=tenant, caller=caller
        )
        self.is_guessable = bool(client_id)  # each try costs a request to the issuer
        self._token_url = token_url
        self._authorization_url = authorization_url
        self._device_authorization_url = device_authorization_url
        self._offers = dict(offers or {})

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        words = dict.fromkeys(sorted({*self.scopes, *scopes}), "") | self._offers
        if self._device_authorization_url:
            device = DeviceCodeOAuthFlow(self._device_authorization_url, self._token_url, words)
            flows = OAuthFlows(device_code=device)
        elif self._authorization_url:
            code = AuthorizationCodeOAuthFlow(
                self._authorization_url, self._token_url, words, pkce_required=True
            )
            flows = OAuthFlows(authorization_code=code)
        else:
            credentials = ClientCredentialsOAuthFlow(self._token_url, words)
            flows = OAuthFlows(client_credentials=credentials)
        return SecurityScheme(oauth2_security_scheme=OAuth2SecurityScheme(flows=flows))


# What a user types: `auth=Bearer(...)`. The class has a name of its own because the client's
# credentials have this one.
Bearer = BearerAuth
