"""The authorization server behind an agent: where it is, and asking it for tokens (RFC 6749).

Its address is the user's (`issuer=`), or it stands in the agent's card, which is a stranger's word:
then it is called through the guard, and gets no client secret unless it is at the agent's own
origin. Otherwise any agent could have itself sent the secrets of those who call it.

All endpoints that a card names have to be at one origin. Otherwise a card could send a person to an
honest server to agree, and have the code sent to a server of its own (RFC 9700, section 4.4). The
page where a device's code is entered has to be there too. Otherwise an agent could ask an honest
server for a code, and have a person enter it there.
"""

import time
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from ...model import SecurityScheme, Unauthenticated, whole_number
from ...net import Guard, guard_beside, host_of, origin_of, parse_url, safe_url
from .credentials import NOWHERE, AgentPlace

__all__ = [
    "AuthorizationServer",
    "OAuthClient",
    "OAuthError",
    "Token",
    "check_page",
    "find_server",
    "said",
]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OIDC = "/.well-known/openid-configuration"
_LONGEST_S = 1e9  # the longest time a server may say that a token is valid
_RFC8414 = "/.well-known/oauth-authorization-server"

_json = msgspec.json.Decoder()


class OAuthError(Unauthenticated):
    """An authorization server gives no token; `error` is its word for why (RFC 6749, 5.2)."""

    def __init__(self, server: str, error: str, description: str = "") -> None:
        super().__init__(f"{server}: {description or error.replace('_', ' ')}")
        self.error = error


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """An access token, and what renews it."""

    access_token: str
    refresh_token: str = ""
    expires_at: float = 0.0  # 0 if the server did not say
    renew_at: float = 0.0
    scope: str = ""

    def is_fresh(self, now: float) -> bool:
        return not self.expires_at or now < self.renew_at

    def __repr__(self) -> str:
        return "Token(...)"


class OAuthClient(msgspec.Struct, frozen=True, omit_defaults=True):
    """Name the client to an authorization server, and what its tokens are for."""

    id: str
    secret: str = ""
    audience: str = ""
    resource: str = ""

    def form(self) -> dict[str, str]:
        """Return the fields of every request for a token (`resource`: RFC 8707)."""
        wanted = {"audience": self.audience, "resource": self.resource}
        return {name: value for name, value in wanted.items() if value}

    def __repr__(self) -> str:
        return f"OAuthClient({self.id!r})"


class AuthorizationServer(msgspec.Struct, omit_defaults=True):
    """Hold the addresses of the server that gives tokens."""

    token_url: str
    agent: str  # the origin of the agent that named it; empty if the user did
    issuer: str = ""
    device_url: str = ""
    authorization_url: str = ""
    revocation_url: str = ""
    methods: list[str] = []  # by which a client may prove who it is
    scopes: list[str] = []  # that it knows
    names_itself: bool = False  # in what a browser brings back (RFC 9207)

    @property
    def name(self) -> str:
        return self.issuer or origin_of(self.token_url)

    async def post(
        self,
        url: str,
        form: Mapping[str, str],
        client: OAuthClient,
        place: AgentPlace = NOWHERE,
    ) -> dict[str, Any]:
        """Send a form to one of the server's endpoints, as `client`, for the agent at `place`.

        Raises:
            OAuthError: It says no.
            AgentFault: It can't be reached.
        """
        from ...auth import ask_issuer  # brings cryptography, which reading a login does not need

        self.check_origins()
        _check_secure(url)
        fields = dict(form)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if not client.secret:
            fields["client_id"] = client.id
        elif self.agent and origin_of(url) != self.agent:
            raise Unauthenticated(
                f"the card of {self.agent} names {origin_of(url)} for tokens; a client secret is "
                "not sent there just because a card says so: connect with "
                f"issuer={self.issuer or origin_of(url)!r} if you trust it"
            )
        elif self.methods and "client_secret_basic" not in self.methods:
            fields |= {"client_id": client.id, "client_secret": client.secret}
        else:
            # RFC 6749, section 2.3.1: each form-encoded, then as HTTP Basic
            pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
            headers["Authorization"] = "Basic " + b64encode(pair.encode()).decode()
        answer = await ask_issuer(
            url,
            guard=place.guard or await self._guard(url),
            verb="POST",
            headers=headers,
            body=urlencode(fields).encode(),
            tls=place.tls,
        )
        return _understood(answer.status, answer.body, url)

    async def token(
        self, form: Mapping[str, str], client: OAuthClient, place: AgentPlace = NOWHERE
    ) -> Token:
        """Ask for a token."""
        given = await self.post(self.token_url, {**form, **client.form()}, client, place)
        token, lives = given.get("access_token"), given.get("expires_in")
        if (
            not isinstance(token, str)
            or not token
            or not token.isascii()
            or not token.isprintable()
        ):
            raise OAuthError(safe_url(self.token_url), "no_token", "the answer holds no token")
        if str(given.get("token_type", "")).lower() != "bearer":
            raise OAuthError(
                safe_url(self.token_url), "token_type", "the token is not a bearer token"
            )
        now = time.time()
        lives_s = _number(lives)
        return Token(
            access_token=token,
            refresh_token=_text(given.get("refresh_token")) or form.get("refresh_token", ""),
            expires_at=now + lives_s if lives_s > 0 else 0.0,
            renew_at=now + max(lives_s - 60.0, lives_s / 2) if lives_s > 0 else 0.0,
            scope=_text(given.get("scope")),
        )

    def check_origins(self, *pages: str) -> None:
        """Check that the endpoints a card names are at one origin, and so are `pages` that a person
        is sent to.

        Raises:
            Unauthenticated: They are not.
        """
        if not self.agent:
            return
        endpoints = (self.token_url, self.authorization_url, self.device_url, self.revocation_url)
        urls = (*endpoints, *pages)
        try:
            origins = dict.fromkeys(origin_of(url) for url in urls if url)
        except ValueError as error:
            raise Unauthenticated(f"the authorization server of {self.agent}: {error}") from None
        if len(origins) > 1:
            raise Unauthenticated(
                f"the card of {self.agent} names an authorization server at several origins "
                f"({', '.join(origins)}), so one could get what is meant for another: name the "
                "server you trust with issuer= (accord auth login --issuer)"
            )

    def is_itself(self, named: str | None) -> bool:
        """Return whether a browser's answer is from this server, by its `iss` (RFC 9207)."""
        if named is None:
            return not self.names_itself
        if self.issuer:
            return named == self.issuer
        try:
            return origin_of(named) == origin_of(self.authorization_url)
        except ValueError:
            return False

    async def _guard(self, url: str) -> Guard | None:
        home = self.agent or (origin_of(self.issuer) if self.issuer else "")
        if not home or origin_of(url) == home:
            return None
        return await guard_beside(host_of(home), Guard())


def _understood(status: int, body: bytes, url: str) -> dict[str, Any]:
    try:
        value = _json.decode(body) if body else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        value = {"error": f"HTTP {status}"} if status != 200 else None
    if value is None:
        raise OAuthError(safe_url(url), "no_json", "the answer is not a JSON object")
    if status != 200:
        raise OAuthError(
            safe_url(url),
            said(value.get("error")) or f"HTTP {status}",
            said(value.get("error_description")),
        )
    return value


def said(text: Any) -> str:
    """Return a text of a stranger, fit for messages and terminals."""
    return (
        "".join(c if c.isprintable() else " " for c in text[:200]) if isinstance(text, str) else ""
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    """Seconds; some servers write them as a text."""
    if isinstance(value, str):
        value = whole_number(value)
    return float(max(0, min(value, _LONGEST_S))) if isinstance(value, int | float) else 0.0


def _check_secure(url: str) -> None:
    try:
        parts = parse_url(url)
    except ValueError as error:
        raise Unauthenticated(f"{safe_url(url)} gives no tokens: {error}") from None
    if parts.scheme != "https" and parts.host not in _LOOPBACK:
        raise Unauthenticated(f"{safe_url(url)} gives no tokens here: it is not https")


def check_page(url: str) -> None:
    """Check an address before a person's browser opens it, or a terminal shows it.

    It may be the word of a card, and desktops open far more than pages: files, programs, mail.

    Raises:
        Unauthenticated: It is not https (or http on this machine), or not fit to be shown.
    """
    if not url.isprintable():
        raise Unauthenticated(f"{said(safe_url(url))} is not opened: it has control characters")
    try:
        _check_secure(url)
    except Unauthenticated as error:
        raise Unauthenticated(f"no page to log in at: {error}") from None


async def find_server(
    place: AgentPlace, scheme: SecurityScheme | None, issuer: str = ""
) -> AuthorizationServer:
    """Return the authorization server for a scheme of an agent's card, or the one of `issuer`.

    Raises:
        Unauthenticated: There is none, or what it says of itself is wrong.
        IssuerUnavailable: Its metadata can't be had.
    """
    from ...auth import Issuer

    if issuer:
        found = Issuer(issuer, guard=place.guard, tls=place.tls)
        return _described(await found.metadata(), "")
    guard = place.guard
    if guard is None and place.origin:
        guard = await guard_beside(host_of(place.origin), Guard())
    oidc = scheme.open_id_connect_security_scheme if scheme is not None else None
    oauth = scheme.oauth2_security_scheme if scheme is not None else None
    url = oidc.open_id_connect_url if oidc else oauth.oauth2_metadata_url if oauth else ""
    if url:
        _check_secure(url)
        is_home = origin_of(url) == place.origin
        usual = None if is_home else guard
        found = Issuer(_issuer_of(url), guard=place.guard or usual, tls=place.tls, is_exact=False)
        return _checked(_described(await found.metadata(), place.origin))
    if oauth is None:
        raise Unauthenticated(
            "the agent's card does not say where its tokens come from: connect with issuer="
        )
    return _checked(_declared(oauth.flows, place.origin))


def _checked(server: AuthorizationServer) -> AuthorizationServer:
    server.check_origins()
    return server


def _issuer_of(url: str) -> str:
    """The issuer whose metadata is at a URL; some cards name the issuer itself."""
    if url.endswith(_OIDC):
        return url.removesuffix(_OIDC)
    origin, is_rfc8414, path = url.partition(_RFC8414)
    is_path = path[:1] in ("", "/")  # any other text would change the host before it
    return origin + path if is_rfc8414 and is_path else url


def _described(metadata: Mapping[str, Any], agent: str) -> AuthorizationServer:
    def listed(name: str) -> list[str]:
        value = metadata.get(name)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    return AuthorizationServer(
        token_url=_text(metadata.get("token_endpoint")),
        agent=agent,
        issuer=_text(metadata.get("issuer")),
        device_url=_text(metadata.get("device_authorization_endpoint")),
        authorization_url=_text(metadata.get("authorization_endpoint")),
        revocation_url=_text(metadata.get("revocation_endpoint")),
        methods=listed("token_endpoint_auth_methods_supported"),
        scopes=listed("scopes_supported"),
        names_itself=metadata.get("authorization_response_iss_parameter_supported") is True,
    )


def _declared(flows: Any, agent: str) -> AuthorizationServer:
    flow = flows.client_credentials or flows.device_code or flows.authorization_code
    if flow is None or not flow.token_url:
        raise Unauthenticated("the agent's card names no OAuth 2 flow that is supported")
    device, code = flows.device_code, flows.authorization_code
    return AuthorizationServer(
        token_url=flow.token_url,
        agent=agent,
        device_url=device.device_authorization_url if device is not None else "",
        authorization_url=code.authorization_url if code is not None else "",
        scopes=list(flow.scopes),
    )
