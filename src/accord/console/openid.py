"""Logging in with an OpenID provider: authorization code with PKCE (OpenID Connect Core, RFC 7636).

What has to be remembered until the person comes back is sealed in a cookie of their browser. So any
process that has the same keyring can finish a login that another began.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from ..auth import (
    Caller,
    InvalidToken,
    IssuerUnavailable,
    Keyring,
    KeyringError,
    TokenVerifier,
    read_cookie,
)
from ..client.auth import NOWHERE, OAuthClient, find_server
from ..model import Unauthenticated, Unavailable, now_ms
from ..net import AgentFault, origin_of
from ..server import HttpRequest, query_of

__all__ = ["OpenIdLogin"]

SCOPES = ("openid", "profile", "email")
PENDING_MS = 10 * 60 * 1000  # for a person to log in at the provider
_CONTEXT = "console login"
# Of an ID token all is kept, for rules may ask for any claim, but what is about this one login.
_OF_THIS_LOGIN = frozenset(
    ("at_hash", "c_hash", "s_hash", "nonce", "exp", "iat", "nbf", "jti", "sid")
)
_CLAIM_BYTES = 16_384  # of all claims that are kept


class _Pending(msgspec.Struct, frozen=True):
    """A login that has begun in one browser."""

    state: str
    nonce: str
    verifier: str  # PKCE
    until_ms: int


class OpenIdLogin:
    """Logs people in with one provider.

    Args:
        issuer: The provider, as its tokens name it.
        client_id, client_secret: Who the server is to the provider. Without a secret it is a public
          client; PKCE is used in any case.
        keyring: Returns the keys that seal what a browser keeps meanwhile.
        address: Returns where people reach the server; the provider has to know
          `ADDRESS/console/login/callback`.
        on_login: Called with who has logged in.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str = "",
        *,
        keyring: Callable[[], Keyring],
        address: Callable[[], str],
        on_login: Callable[[Caller], Awaitable[None]] | None = None,
    ) -> None:
        self.issuer = issuer
        self._client = OAuthClient(client_id, client_secret)
        self._keyring = keyring
        self.address = address
        self._on_login = on_login
        # An access token is no proof that somebody has logged in here: its type is not accepted.
        self._verifier = TokenVerifier.of_issuer(
            issuer, audience=client_id, types=(None, "jwt", "application/jwt")
        )

    @property
    def start(self) -> str:
        """Where people begin to log in."""
        return f"{self.address().rstrip('/')}/console/login"

    @property
    def callback(self) -> str:
        return f"{self.start}/callback"

    def is_at(self, origin: str) -> bool:
        """Return whether the server's address has this origin."""
        try:
            return origin_of(origin) == origin_of(self.address())
        except ValueError:
            return False

    async def begin(self, cookie_name: str) -> tuple[str, bytes]:
        """Return where to send a browser, and the cookie it has to keep.

        Raises:
            Unavailable: The provider can't be reached.
        """
        pending = _Pending(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            until_ms=now_ms() + PENDING_MS,
        )
        server = await self._server()
        challenge = hashlib.sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": self.callback,
            "scope": " ".join(SCOPES),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": _base64(challenge),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in server.authorization_url else "?"
        sealed = self._keyring().seal(msgspec.json.encode(pending), context=_CONTEXT)
        cookie = self._cookie(cookie_name, _base64(sealed), PENDING_MS // 1000)
        return f"{server.authorization_url}{joint}{urlencode(query)}", cookie

    def forget(self, cookie_name: str) -> bytes:
        """Return the cookie that removes what `begin` left."""
        return self._cookie(cookie_name, "", 0)

    async def finish(self, request: HttpRequest, cookie_name: str) -> Caller:
        """Return who has logged in, when the provider has sent their browser back.

        Raises:
            Unauthenticated: Nobody has; says why.
            Unavailable: The provider can't be reached.
        """
        given = {name: values[-1] for name, values in query_of(request.target).items()}
        pending = self._pending(request, cookie_name)
        if pending is None or not hmac.compare_digest(
            pending.state.encode(), given.get("state", "").encode()
        ):
            raise Unauthenticated("this browser did not start this login, or did so too long ago")
        server = await self._server()
        if not server.is_itself(given.get("iss")):
            raise Unauthenticated("the answer is from another provider than the one that was asked")
        if "code" not in given:
            why = given.get("error_description") or given.get("error") or "it sent no code"
            raise Unauthenticated(f"the provider refuses: {why[:200]!r}")
        form = {
            "grant_type": "authorization_code",
            "code": given["code"],
            "redirect_uri": self.callback,
            "code_verifier": pending.verifier,
        }
        try:
            answer = await server.post(server.token_url, form, self._client)
        except AgentFault as error:
            raise Unavailable(f"the provider can't be reached: {error.fault}") from None
        caller = self._caller(await self._verified(answer.get("id_token")), pending.nonce)
        if self._on_login is not None:
            await self._on_login(caller)
        return caller

    async def _server(self) -> Any:
        try:
            server = await find_server(NOWHERE, None, self.issuer)
        except (IssuerUnavailable, AgentFault) as error:
            raise Unavailable(f"the provider can't be reached: {error}") from None
        if not server.authorization_url or not server.token_url:
            raise Unavailable(f"{self.issuer} has no authorization or no token endpoint")
        return server

    def _pending(self, request: HttpRequest, cookie_name: str) -> _Pending | None:
        header = request.headers.get(b"cookie", b"").decode("latin-1")
        try:
            sealed = base64.urlsafe_b64decode(read_cookie(header, cookie_name).encode() + b"==")
            opened = self._keyring().unseal(sealed, context=_CONTEXT)
            pending = msgspec.json.decode(opened, type=_Pending)
        except (KeyringError, ValueError):
            return None
        return pending if now_ms() < pending.until_ms else None

    async def _verified(self, token: Any) -> dict[str, Any]:
        if not isinstance(token, str):
            raise Unauthenticated("the provider sent no ID token")
        try:
            return await self._verifier.verify(token)
        except InvalidToken as error:
            raise Unauthenticated(f"the provider's ID token is not valid: {error.reason}") from None
        except IssuerUnavailable as error:
            raise Unavailable(f"the provider can't be reached: {error}") from None

    def _caller(self, claims: dict[str, Any], nonce: str) -> Caller:
        """Return who an ID token names (OpenID Connect Core, 3.1.3.7)."""
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise Unauthenticated("the ID token belongs to another login")
        audience = claims.get("aud")
        is_for_others = isinstance(audience, list) and len(audience) > 1
        if claims.get("azp", None if is_for_others else self._client.id) != self._client.id:
            raise Unauthenticated("the ID token was made for another client")
        name = claims.get("sub")
        if not isinstance(name, str) or not name:
            raise Unauthenticated("the ID token has no subject (sub)")
        kept = {key: value for key, value in claims.items() if key not in _OF_THIS_LOGIN}
        if len(msgspec.json.encode(kept)) > _CLAIM_BYTES:
            raise Unauthenticated("the ID token has too many claims")
        return Caller(name, claims=kept, scheme="oidc")

    def _cookie(self, name: str, value: str, lives_s: int) -> bytes:
        # Lax: the browser comes back from another site.
        secure = "; Secure" if self.address().startswith("https:") else ""
        return (
            f"{name}={value}; Path=/console/login; HttpOnly; SameSite=Lax; "
            f"Max-Age={lives_s}{secure}"
        ).encode()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
