"""Bearer tokens: verified here (JWT, RFC 7519) or by their issuer (introspection, RFC 7662)."""

import hashlib
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from ..net import AgentFault, Guard, origin_of, safe_url
from .issuer import FileKeys, Issuer, IssuerUnavailable, KeySource, RemoteKeys, ask_issuer
from .jose import InvalidSignature, UnknownKey, header_of, verify

__all__ = ["EXPIRED", "Introspection", "InvalidToken", "TokenVerifier"]

Claims = dict[str, Any]

_TOKEN_BYTES = 16 << 10
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt", "application/jwt")
_CACHED = 10_000
_CACHED_S = 300.0
_LAST_S = 2**53  # times beyond it are not exact as a float
EXPIRED = "expired"

_json = msgspec.json.Decoder()


class InvalidToken(Exception):
    """Raised when a token is not valid. The sender may see `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TokenVerifier:
    """Verify JWTs of one issuer for one audience.

    TokenVerifier("https://id.example/jwks.json", issuer="https://id.example", audience="hr")
    TokenVerifier.of_issuer("https://id.example", audience="hr")    # keys by discovery

    Args:
        keys: The issuer's JWK set: its URL, a file, or the set itself.
        issuer: The issuer that a token must have in its `iss`.
        audience: The audience that a token must have in its `aud`: one of these.
        leeway_s: How many seconds clocks may differ.
        types: What the header's `typ` may be, in lower case; a token for another purpose is none.
        guard: For keys at an address a stranger gave.
    """

    def __init__(
        self,
        keys: str | Path | Mapping[str, Any] | KeySource,
        *,
        issuer: str,
        audience: str | Sequence[str],
        leeway_s: float = 30.0,
        types: Sequence[str | None] = _TYPES,
        guard: Guard | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not issuer or not audience:
            raise ValueError("give both the issuer and the audience that tokens must have")
        self._keys = _source(keys, guard)
        self._issuer = issuer
        self._audiences = frozenset([audience] if isinstance(audience, str) else audience)
        self._leeway_s = leeway_s
        self._types = frozenset(types)
        self._clock = clock
        self._verified = _Verified(clock)
        self._generation = 0
        self._found: Issuer | None = None

    @classmethod
    def of_issuer(
        cls, issuer: str, *, audience: str | Sequence[str], metadata_url: str = "", **options: Any
    ) -> "TokenVerifier":
        """Return a verifier that gets the keys by discovery, when they are first needed."""
        found = Issuer(issuer, metadata_url=metadata_url)
        made = cls(RemoteKeys(found.keys_at), issuer=issuer, audience=audience, **options)
        made._found = found
        return made

    async def verify(self, token: str) -> Claims:
        """Return the claims of a token. Do not change them: they are cached.

        Raises:
            InvalidToken: The token is not valid, with the reason.
            IssuerUnavailable: The keys can't be fetched, so the token can't be checked.
        """
        known = self._verified.get(token)
        if known is not None:
            await self._keys.keys(None)  # notices when they are due to be asked for again
            if not self._has_other_keys():
                return known
        if len(token) > _TOKEN_BYTES or not token.isascii():
            raise InvalidToken(
                "this is not a token: it is too long, or has characters that are not ASCII"
            )
        claims = self._checked(*await self._opened(token))
        self._has_other_keys()
        self._verified.add(token, claims, claims["exp"] + self._leeway_s)
        return claims

    def guard_with(self, guard: Guard) -> None:
        """Check addresses that the issuer names outside its own origin with this guard."""
        if self._found is not None:
            self._found.elsewhere = guard

    async def close(self) -> None:
        """Do nothing: nothing is held open."""

    def _has_other_keys(self) -> bool:
        """Whether the keys have changed: then a key may have been withdrawn, and what was verified
        before is forgotten.
        """
        if self._keys.generation == self._generation:
            return False
        self._verified.clear()
        self._generation = self._keys.generation
        return True

    async def _opened(self, token: str) -> tuple[dict[str, Any], bytes]:
        try:
            kid = header_of(token).get("kid")
            keys = await self._keys.keys(kid if isinstance(kid, str) else None)
            header, payload, _ = verify(token, keys)
        except UnknownKey:
            raise InvalidToken(
                "the token is signed with a key that its issuer does not have"
            ) from None
        except InvalidSignature as error:
            raise InvalidToken(str(error)) from None
        return header, payload

    def _checked(self, header: dict[str, Any], payload: bytes) -> Claims:
        typ = header.get("typ")
        if (typ.lower() if isinstance(typ, str) else typ) not in self._types:
            raise InvalidToken("the token is for another purpose (typ)")
        try:
            claims = _json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidToken("the token's claims are not JSON") from None
        if not isinstance(claims, dict):
            raise InvalidToken("the token's claims are not a JSON object")
        if claims.get("iss") != self._issuer:
            raise InvalidToken("the token is from another issuer")
        _check_audience(claims, self._audiences)
        if "exp" not in claims:
            raise InvalidToken("the token never expires")
        _check_times(claims, self._clock(), self._leeway_s)
        return claims


def _source(keys: str | Path | Mapping[str, Any] | KeySource, guard: Guard | None) -> KeySource:
    if isinstance(keys, str) and keys.startswith(("http://", "https://")):
        origin_of(keys)
        return RemoteKeys(keys, guard=guard)
    if isinstance(keys, str | Path | Mapping):
        return FileKeys(keys)
    return keys


def _check_audience(claims: Claims, audiences: frozenset[str]) -> None:
    given = claims.get("aud")
    named = given if isinstance(given, list) else [given]
    if not any(isinstance(one, str) and one in audiences for one in named):
        raise InvalidToken("the token is for another audience")


def _check_times(claims: Claims, now: float, leeway_s: float) -> None:
    """Check those of `exp`, `nbf` and `iat` that are there."""
    times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    if any(type(value) not in (int, float) or abs(value) > _LAST_S for value in times.values()):
        raise InvalidToken("the token's times are not numbers")
    if times.get("exp", now) <= now - leeway_s:
        raise InvalidToken(EXPIRED)
    if times.get("nbf", now) > now + leeway_s:
        raise InvalidToken("the token is not valid yet")
    if times.get("iat", now) > now + leeway_s:
        raise InvalidToken("the token was issued in the future")


class Introspection:
    """Ask the issuer about each token (RFC 7662): for tokens that only it can read, or that it may
    revoke at any time.

    Args:
        url: The introspection endpoint, or the issuer, whose metadata names it.
        client_id: The client id of this server at the issuer.
        client_secret: The secret of that client.
        issuer: Who must have issued a token, if the answer says so.
        audience: The audience that a token must have. Leave it empty only if the issuer serves this
          server alone.
        cache_s: How long an answer is cached. A revoked token works for this long.
    """

    def __init__(
        self,
        url: str | Issuer,
        *,
        client_id: str,
        client_secret: str,
        issuer: str = "",
        audience: str | Sequence[str] = (),
        cache_s: float = 10.0,
        leeway_s: float = 30.0,
        guard: Guard | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._where = url
        if isinstance(url, str):
            origin_of(url)
        # RFC 6749, section 2.3.1: each form-encoded, then as HTTP Basic
        pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
        self._authorization = "Basic " + b64encode(pair.encode()).decode()
        self._issuer = issuer
        self._audiences = frozenset([audience] if isinstance(audience, str) else audience)
        self._cache_s = cache_s
        self._leeway_s = leeway_s
        self._guard = guard
        self._clock = clock
        self._verified = _Verified(clock)
        self._refused = _Verified(clock)

    async def verify(self, token: str) -> Claims:
        """Return what the issuer says about a token. Do not change it: it is cached.

        Raises:
            InvalidToken: It is not active, or not for us.
            IssuerUnavailable: The issuer does not answer, so the token can't be checked.
        """
        known = self._verified.get(token)
        if known is not None:
            return known
        if self._refused.get(token) is not None:
            raise InvalidToken("not active")
        if not token or len(token) > _TOKEN_BYTES or not token.isascii():
            raise InvalidToken(
                "this is not a token: it is too long, or has characters that are not ASCII"
            )
        claims = await self._asked(token)
        now = self._clock()
        if claims.get("active") is not True:
            self._refused.add(token, {}, now + self._cache_s)
            raise InvalidToken("not active")
        if self._issuer and claims.get("iss", self._issuer) != self._issuer:
            raise InvalidToken("the token is from another issuer")
        if self._audiences:
            _check_audience(claims, self._audiences)
        _check_times(claims, now, self._leeway_s)
        ends = claims.get("exp", now + self._cache_s) + self._leeway_s
        self._verified.add(token, claims, min(ends, now + self._cache_s))
        return claims

    def guard_with(self, guard: Guard) -> None:
        """Check addresses that the issuer names outside its own origin with this guard."""
        if isinstance(self._where, Issuer):
            self._where.elsewhere = guard

    async def close(self) -> None:
        """Do nothing: nothing is held open."""

    async def _asked(self, token: str) -> Claims:
        url, guard = (
            (self._where, self._guard)
            if isinstance(self._where, str)
            else await self._where.endpoint("introspection_endpoint")
        )
        headers = {
            "Authorization": self._authorization,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        body = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
        try:
            answer = await ask_issuer(url, guard=guard, verb="POST", headers=headers, body=body)
        except AgentFault as error:
            raise IssuerUnavailable(str(error)) from None
        try:
            claims = _json.decode(answer.body) if answer.status == 200 else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            claims = None
        if not isinstance(claims, dict):
            raise IssuerUnavailable(
                f"{safe_url(url)} does not say whether tokens are active: HTTP {answer.status}"
            )
        return claims


class _Verified:
    """Tokens that have been looked at, by their hash: no more than a number of them, none longer
    than it is good for.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[bytes, tuple[Claims, float]] = {}

    def get(self, token: str) -> Claims | None:
        found = self._known.get(_hash(token))
        if found is None or self._clock() >= found[1]:
            return None
        return found[0]

    def add(self, token: str, claims: Claims, until: float) -> None:
        if len(self._known) >= _CACHED:
            del self._known[next(iter(self._known))]
        key = _hash(token)
        self._known.pop(key, None)
        self._known[key] = (claims, min(until, self._clock() + _CACHED_S))

    def clear(self) -> None:
        self._known.clear()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
