"""API keys: made by `accord key new`, shown once, stored as a hash."""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..model import APIKeySecurityScheme, SecurityScheme
from .caller import Caller
from .schemes import (
    CallerCache,
    Challenge,
    Credentials,
    InvalidCredentials,
    Resources,
    Scheme,
    headers_of_key,
)

if TYPE_CHECKING:
    from ..store import KeyStore, StoredApiKey

__all__ = ["ApiKeys", "digest_of", "new_api_key"]

log_ = logging.getLogger("accord")

PREFIX = "accord"  # so that people and scanners know a key when they see one
KNOWN_S = 1.0  # for which a key is not looked up again, so that a revoked one may still be used
USED_MS = 60_000  # how exact the time of the last use is: writing each would cost a commit


def new_api_key() -> tuple[str, str]:
    """Return the id of a new key and the key itself, which is not stored anywhere."""
    id_ = secrets.token_hex(6)
    return id_, f"{PREFIX}_{id_}_{secrets.token_hex(24)}"


def digest_of(key: str) -> bytes:
    """Return the hash of a key, which is stored. Keys are long and random: a fast hash will do."""
    return hashlib.sha256(key.encode()).digest()


class ApiKeys(Scheme):
    """Authenticate callers by an API key, by default in the header `X-API-Key`.

    Keys are made with `accord key new NAME` and kept in the agent's store. `keys` are more of them,
    from a secret store or the environment: `ApiKeys(keys={os.environ["CI_KEY"]: "ci"})`.

    Args:
        header: The header that holds the key.
        query: The parameter of the query that holds it, instead of a header.
        cookie: The cookie that holds it, instead of a header.
        keys: More keys, each with the name of its owner.
        scopes: The scopes that every caller needs.
        name: The name of the scheme in the card.
    """

    def __init__(
        self,
        *,
        header: str = "",
        query: str = "",
        cookie: str = "",
        keys: Mapping[str, str | Caller] | None = None,
        scopes: Iterable[str] = (),
        name: str = "apiKey",
    ) -> None:
        super().__init__(name, scopes)
        places = {"header": header, "query": query, "cookie": cookie}
        given = {place: word for place, word in places.items() if word}
        if len(given) > 1:
            raise ValueError(
                f"an API key can be in one place only, not in {' and '.join(given)}; combine two "
                "schemes with |"
            )
        self.location, self.key_name = next(iter(given.items()), ("header", "X-API-Key"))
        self.is_ambient = self.location == "cookie"
        self.secret_headers = headers_of_key(self.location, self.key_name)
        self._fixed: dict[bytes, Caller] = {}
        for key, caller in (keys or {}).items():
            if len(key) < 16:
                raise ValueError("a key of less than 16 characters can be guessed; make it longer")
            whose = Caller(caller) if isinstance(caller, str) else caller
            self._fixed[digest_of(key)] = Caller(
                whose.name, whose.tenant, whose.scopes, whose.claims, name
            )
        self._keys: KeyStore | None = None
        self._known = CallerCache(KNOWN_S)
        self._writing: set[asyncio.Task[None]] = set()

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        return SecurityScheme(
            api_key_security_scheme=APIKeySecurityScheme(location=self.location, name=self.key_name)
        )

    async def open(self, resources: Resources) -> None:
        self._keys = resources.keys

    async def close(self) -> None:
        if self._writing:
            await asyncio.wait(self._writing)

    def read(self, credentials: Credentials) -> str:
        if self.location == "header":
            return credentials.header(self.key_name)
        if self.location == "query":
            return credentials.query(self.key_name)
        return credentials.cookie(self.key_name)

    def recall(self, shown: str) -> Caller | None:
        return self._known.get(shown)

    async def authenticate(self, shown: str, credentials: Credentials) -> Caller:
        digest = digest_of(shown)
        fixed = self._fixed.get(digest)
        if fixed is not None:
            self._known.add(shown, fixed)
            return fixed
        prefix, _, rest = shown.partition("_")
        id_, _, secret = rest.partition("_")
        found = await self._keys.find(id_) if self._keys and prefix == PREFIX and secret else None
        # The same work for a key that is there and one that is not.
        if not hmac.compare_digest(found.digest if found is not None else bytes(32), digest):
            raise InvalidCredentials("no such API key")
        assert found is not None  # no key has a digest of zeros
        assert self._keys is not None  # the key was found there
        now = self._keys.now_ms()
        if found.revoked_ms:
            raise InvalidCredentials(f"API key {id_} was revoked")
        if found.expires_ms and found.expires_ms <= now:
            raise InvalidCredentials(f"API key {id_} has expired")
        if now - found.used_ms > USED_MS:
            self._note_use(found, now)
        # What a hub reads. Nobody else has claims by this scheme: they come from the row alone.
        claims = {"role": found.role, "teams": list(found.teams)} if found.role else {}
        scopes = frozenset(found.scopes)
        caller = Caller(found.name, found.tenant, scopes, claims, self.name)
        self._known.add(shown, caller)
        return caller

    def _note_use(self, key: "StoredApiKey", now: int) -> None:
        """Write down when a key was last used, beside the call."""

        async def write() -> None:
            try:
                assert self._keys is not None  # the key was found there
                await self._keys.use(key.id, now)
            except Exception:
                log_.warning("the last use of API key %s could not be noted", key.id, exc_info=True)

        task = asyncio.ensure_future(write())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    def challenge(self, why: Challenge) -> str:
        if why.error == "insufficient_scope":
            return ""  # another key has to be made, not shown
        return f'ApiKey realm="{why.realm}", in="{self.location}", name="{self.key_name}"'
