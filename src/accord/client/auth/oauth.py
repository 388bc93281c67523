"""OAuth 2 as a client: by a secret of its own, by a person at another device, by a browser here."""

import asyncio
import base64
import hashlib
import hmac
import inspect
import secrets
import sys
import time
import webbrowser
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ...model import SecurityScheme, Unauthenticated
from ...net import safe_url
from .credentials import AgentPlace
from .loopback import Redirect
from .server import (
    AuthorizationServer,
    OAuthClient,
    OAuthError,
    Token,
    check_page,
    find_server,
    said,
)

__all__ = [
    "AuthorizationCode",
    "ClientCredentials",
    "DeviceCode",
    "DevicePrompt",
    "OAuth",
    "OAuthToken",
    "by_secret",
    "refreshed",
]

_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_REDIRECT_S = 300.0


class OAuth(ABC):
    """Get tokens from an authorization server.

    Each agent gets tokens of its own. They are renewed before they expire, and when the agent
    refuses them.

    Args:
        client_id: The client id of this program at the server.
        client_secret: The secret of that client, if it has one.
        issuer: The authorization server. By default the one in the agent's card.
        scopes: The scopes to ask for. By default those in the card.
        audience: The audience that tokens are for, as the server calls it.
        resource: The resource that tokens are for, as a URL (RFC 8707).
    """

    is_interactive = True  # needs a person

    def __init__(
        self,
        client_id: str,
        client_secret: str = "",
        *,
        issuer: str = "",
        scopes: Sequence[str] = (),
        audience: str = "",
        resource: str = "",
    ) -> None:
        if not client_id:
            raise ValueError("OAuth needs a client_id, which you get from the authorization server")
        self.client = OAuthClient(client_id, client_secret, audience, resource)
        self.issuer = issuer
        self.scopes = tuple(scopes)
        self._bound: dict[tuple[Any, ...], OAuthToken] = {}

    def fits(self, scheme: SecurityScheme) -> bool:
        if self.issuer:
            http = scheme.http_auth_security_scheme
            if http is not None:
                return http.scheme.lower() == "bearer"
        if scheme.open_id_connect_security_scheme is not None:
            return True
        oauth = scheme.oauth2_security_scheme
        return oauth is not None and bool(
            self.issuer or oauth.oauth2_metadata_url or self._flow(oauth.flows)
        )

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        raise TypeError("tokens are for one agent: `bound` gives its own")

    def bound(
        self, place: AgentPlace, scheme: SecurityScheme | None, scopes: Sequence[str]
    ) -> "OAuthToken | _WhenAsked | None":
        if scheme is None and not self.issuer:
            return None
        wanted = self.scopes or tuple(scopes)
        key = (place.origin, repr(scheme), wanted, place.guard)
        if key not in self._bound:
            self._bound[key] = OAuthToken(self, place, scheme, wanted)
        token = self._bound[key]
        return token if scheme is not None else _WhenAsked(token)

    @abstractmethod
    async def obtain(
        self, server: AuthorizationServer, scopes: Sequence[str], place: AgentPlace
    ) -> Token:
        """Get a first token. Raises OAuthError."""

    @abstractmethod
    def _flow(self, flows: Any) -> Any: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client.id!r})"


class OAuthToken:
    """The token for one agent."""

    def __init__(
        self, flow: OAuth, place: AgentPlace, scheme: SecurityScheme | None, scopes: Sequence[str]
    ) -> None:
        self.flow = flow
        self.server: AuthorizationServer | None = None
        self.token: Token | None = None
        self._place = place
        self._scheme = scheme
        self._scopes = scopes
        self._lock = asyncio.Lock()
        self._used: Token | None = None

    def fits(self, scheme: SecurityScheme) -> bool:
        return self.flow.fits(scheme)

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        token = self.token
        if token is None or not token.is_fresh(time.time()):
            async with self._lock:
                token = self.token
                if token is None or not token.is_fresh(time.time()):
                    token = self.token = await self.get(token)
        self._used = token
        headers["Authorization"] = f"Bearer {token.access_token}"

    async def renew(self) -> bool:
        used = self._used
        async with self._lock:
            if self.token is not used:
                return True  # somebody else was quicker
            if used is None or (self.flow.is_interactive and not used.refresh_token):
                return False  # a person is not asked again in the middle of things
            self.token = await self.get(used)
        return True

    async def get(self, old: Token | None = None) -> Token:
        """Return a new token: by the old one if that can be, else from the start."""
        server = self.server = self.server or await self._find()
        if old is not None and old.refresh_token:
            try:
                return await refreshed(server, old, self.flow.client, self._place)
            except OAuthError as error:
                if error.error != "invalid_grant":
                    raise
        return await self.flow.obtain(server, self._scopes, self._place)

    async def _find(self) -> AuthorizationServer:
        from ...auth import IssuerUnavailable

        try:
            return await find_server(self._place, self._scheme, self.flow.issuer)
        except IssuerUnavailable as error:
            raise Unauthenticated(f"can't get a token: {error}") from None

    def __repr__(self) -> str:
        return f"OAuthToken({self.flow!r})"


class _WhenAsked:
    """A token for who has not said that it wants one: sent after a 401. Most cards are for
    everyone.
    """

    def __init__(self, token: OAuthToken) -> None:
        self._token = token
        self._is_asked = False

    def fits(self, scheme: SecurityScheme) -> bool:
        return self._token.fits(scheme)

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        if self._is_asked:
            await self._token.apply(scheme, headers, query)

    async def renew(self) -> bool:
        if self._is_asked:
            return await self._token.renew()
        self._is_asked = True
        return True


async def refreshed(
    server: AuthorizationServer, token: Token, client: OAuthClient, place: AgentPlace
) -> Token:
    """Return a new token for an old one. Raises OAuthError."""
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token}
    return await server.token(form, client, place)


async def by_secret(
    server: AuthorizationServer, scopes: Sequence[str], client: OAuthClient, place: AgentPlace
) -> Token:
    """Return a token for the client itself. Raises OAuthError."""
    form = {"grant_type": "client_credentials", **_scope(scopes)}
    return await server.token(form, client, place)


def _scope(scopes: Sequence[str]) -> dict[str, str]:
    return {"scope": " ".join(dict.fromkeys(scopes))} if scopes else {}


def _for_long(server: AuthorizationServer, scopes: Sequence[str]) -> list[str]:
    """The scopes with those that OpenID Connect wants before it gives what renews a token."""
    known = [scope for scope in ("openid", "offline_access") if scope in server.scopes]
    return [*known, *scopes] if len(known) == 2 else list(scopes)


class ClientCredentials(OAuth):
    """Get tokens for a program that has a secret (RFC 6749, 4.4).

    connect(url, auth=ClientCredentials("planner", secret, issuer="https://id.corp.example"))
    """

    is_interactive = False

    def __init__(self, client_id: str, client_secret: str, **options: Any) -> None:
        if not client_secret:
            raise ValueError("client credentials need both an id and a secret")
        super().__init__(client_id, client_secret, **options)

    async def obtain(
        self, server: AuthorizationServer, scopes: Sequence[str], place: AgentPlace
    ) -> Token:
        return await by_secret(server, scopes, self.client, place)

    def _flow(self, flows: Any) -> Any:
        return flows.client_credentials


class DevicePrompt(NamedTuple):
    """Tell a person to open `url` and enter `code` there."""

    url: str
    code: str
    complete_url: str  # with the code in it; empty if there is none
    expires_s: float


def _say(prompt: DevicePrompt) -> None:
    print(f"Open {prompt.url} and enter the code {prompt.code}", file=sys.stderr, flush=True)


class DeviceCode(OAuth):
    """Get tokens for a person who agrees in a browser on any device (RFC 8628).

    Args:
        show: Called with the `DevicePrompt`; by default it is printed to stderr.
        pause: A function that waits for the seconds it is given, between two checks whether the
          person has agreed.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str = "",
        *,
        show: Callable[[DevicePrompt], Any] = _say,
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        **options: Any,
    ) -> None:
        super().__init__(client_id, client_secret, **options)
        self._show = show
        self._pause = pause

    async def obtain(
        self, server: AuthorizationServer, scopes: Sequence[str], place: AgentPlace
    ) -> Token:
        if not server.device_url:
            raise OAuthError(
                server.name, "unsupported", "it does not support logging in on another device"
            )
        form = {**_scope(_for_long(server, scopes)), **self.client.form()}
        given = await server.post(server.device_url, form, self.client, place)
        prompt, device_code, interval_s = _prompt(given, server)
        shown = self._show(prompt)
        if inspect.isawaitable(shown):
            await shown
        ends = time.monotonic() + prompt.expires_s
        while time.monotonic() < ends:
            await self._pause(interval_s)
            try:
                return await server.token(
                    {"grant_type": _DEVICE_GRANT, "device_code": device_code},
                    self.client,
                    place,
                )
            except OAuthError as error:
                if error.error == "slow_down":
                    interval_s += 5.0
                elif error.error != "authorization_pending":
                    raise
        raise OAuthError(server.name, "expired_token", "nobody agreed in time")

    def _flow(self, flows: Any) -> Any:
        return flows.device_code


def _prompt(given: dict[str, Any], server: AuthorizationServer) -> tuple[DevicePrompt, str, float]:
    url, code = given.get("verification_uri"), given.get("user_code")
    device_code = given.get("device_code")
    if not (isinstance(url, str) and isinstance(code, str) and isinstance(device_code, str)):
        raise OAuthError(server.name, "no_code", "the answer holds no code")
    complete = given.get("verification_uri_complete")
    for page in [url, complete] if isinstance(complete, str) and complete else [url]:
        check_page(page)
        server.check_origins(page)
    prompt = DevicePrompt(
        safe_url(url),
        said(code),
        complete if isinstance(complete, str) else "",
        _seconds(given.get("expires_in"), 600.0, 3600.0),
    )
    return prompt, device_code, _seconds(given.get("interval"), 5.0, 60.0)


def _seconds(value: Any, usual: float, most: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(min(value, most)) if is_number and value > 0 else usual


class AuthorizationCode(OAuth):
    """Get tokens for a person who agrees in a browser on this machine (RFC 6749, 4.1, with PKCE,
    RFC 7636; the browser returns to a port of this machine, RFC 8252).

    Args:
        open_url: Called with the address to open; by default that opens a browser.
        port: Where the browser comes back to; any free port by default.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str = "",
        *,
        open_url: Callable[[str], Any] = webbrowser.open,
        port: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(client_id, client_secret, **options)
        self._open_url = open_url
        self._port = port

    async def obtain(
        self, server: AuthorizationServer, scopes: Sequence[str], place: AgentPlace
    ) -> Token:
        if not server.authorization_url:
            raise OAuthError(
                server.name, "unsupported", "it does not support logging in with a browser"
            )
        check_page(server.authorization_url)
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        digest = hashlib.sha256(verifier.encode()).digest()
        async with Redirect(self._port) as redirect:
            scoped = _for_long(server, scopes)
            asked = {
                "response_type": "code",
                "client_id": self.client.id,
                "redirect_uri": redirect.url,
                "state": state,
                "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
                "code_challenge_method": "S256",
                **_scope(scoped),
                **self.client.form(),
                **({"prompt": "consent"} if "offline_access" in scoped else {}),
            }
            join = "&" if "?" in server.authorization_url else "?"
            opened = self._open_url(server.authorization_url + join + urlencode(asked))
            if inspect.isawaitable(opened):
                await opened
            try:
                async with asyncio.timeout(_REDIRECT_S):
                    code = await self._code(redirect, server, state)
            except TimeoutError:
                raise OAuthError(server.name, "expired_token", "nobody agreed in time") from None
            form = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": redirect.url,
                "code_verifier": verifier,
            }
            return await server.token(form, self.client, place)

    async def _code(self, redirect: Redirect, server: AuthorizationServer, state: str) -> str:
        """Wait for the browser; what comes with another state is not ours."""
        while True:
            came = await redirect.next()
            if not hmac.compare_digest(came.get("state", "").encode(), state.encode()):
                continue
            if not server.is_itself(came.get("iss")):
                raise OAuthError(server.name, "issuer", "the answer is from another server")
            if "error" in came:
                raise OAuthError(
                    server.name, said(came["error"]), said(came.get("error_description"))
                )
            if came.get("code"):
                return came["code"]

    def _flow(self, flows: Any) -> Any:
        return flows.authorization_code
