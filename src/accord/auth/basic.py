"""HTTP Basic (RFC 7617): a name and a password."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping

from ..model import HTTPAuthSecurityScheme, SecurityScheme
from .caller import Caller
from .schemes import (
    CallerCache,
    Challenge,
    Credentials,
    InvalidCredentials,
    Resources,
    Scheme,
    basic_user,
)

__all__ = ["Basic", "hash_password"]

_COST = 1 << 14  # of scrypt: about 50 ms and 16 MiB
KNOWN_S = 300.0  # for which a password that was right is not hashed again
KNOWN = 1_000
_AT_ONCE = 4  # passwords hashed at once: a flood of logins must not take all memory and threads
_HASHED = "scrypt$"


def hash_password(password: str) -> str:
    """Return a password as it may be stored: `Basic({"ada": hash_password("...")})`."""
    salt = secrets.token_bytes(16)
    return f"{_HASHED}{salt.hex()}${_scrypt(password, salt).hex()}"


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=8, p=1, maxmem=64 << 20)


class BasicAuth(Scheme):
    """Authenticate callers by a name and a password.

    Args:
        users: Passwords by name, as `hash_password` returns them. A plain password is hashed at the
          start.
        scopes: The scopes that every caller needs.
        grants: The scopes of each user, by name.
        name: The name of the scheme in the card.
    """

    is_ambient = True

    def __init__(
        self,
        users: Mapping[str, str],
        *,
        scopes: Iterable[str] = (),
        grants: Mapping[str, Iterable[str]] | None = None,
        name: str = "basic",
    ) -> None:
        super().__init__(name, scopes)
        if not users:
            raise ValueError("Basic needs users: a password for each name")
        if any(":" in user or not user for user in users):
            raise ValueError("the name of a user is not empty and has no colon (RFC 7617)")
        self._users = {
            user: word if word.startswith(_HASHED) else hash_password(word)
            for user, word in users.items()
        }
        self._grants = {user: frozenset(found) for user, found in (grants or {}).items()}
        self._nobody = hash_password(secrets.token_hex(16))
        self._known = CallerCache(KNOWN_S, KNOWN)
        self._hashing = asyncio.Semaphore(_AT_ONCE)

    async def open(self, resources: Resources) -> None:
        self._hashing = asyncio.Semaphore(_AT_ONCE)  # of the loop that serves

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        return SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Basic"))

    def read(self, credentials: Credentials) -> str:
        text = credentials.header("authorization")
        return text[6:].strip() if text[:6].lower() == "basic " else ""

    def user_of(self, shown: str) -> str:
        return basic_user(shown)

    def recall(self, shown: str) -> Caller | None:
        return self._known.get(shown)

    async def authenticate(self, shown: str, credentials: Credentials) -> Caller:
        known = self._known.get(shown)
        if known is not None:
            return known
        try:
            decoded = base64.b64decode(shown, validate=True).decode()
        except (ValueError, binascii.Error):
            raise InvalidCredentials("the Basic credentials can't be read") from None
        user, _, password = decoded.partition(":")
        stored = self._users.get(user, self._nobody)  # a name that is not there takes as long
        async with self._hashing:
            is_right = await asyncio.to_thread(_is_right, password, stored)
        if not is_right or user not in self._users:
            raise InvalidCredentials("wrong name or password")
        caller = Caller(user, scopes=self._grants.get(user, frozenset()), scheme=self.name)
        self._known.add(shown, caller)
        return caller

    def challenge(self, why: Challenge) -> str:
        if why.error == "insufficient_scope":
            return ""
        return f'Basic realm="{why.realm}", charset="UTF-8"'


def _is_right(password: str, stored: str) -> bool:
    salt, digest = stored.removeprefix(_HASHED).split("$")
    return hmac.compare_digest(_scrypt(password, bytes.fromhex(salt)), bytes.fromhex(digest))


# What a user types: `auth=Basic(...)`. The class has a name of its own because the client's
# credentials have this one.
Basic = BasicAuth
