"""API keys: what a store promises about them, and the store that forgets them."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..model import now_ms
from .sql import Sql

__all__ = ["COLUMNS", "INSERT", "REVOKE", "KeyStore", "MemoryKeys", "StoredApiKey"]

COLUMNS = (
    "id, name, digest, created_ms, tenant, scopes, expires_ms, used_ms, revoked_ms, role, teams, "
    "folder"
)
INSERT = f"INSERT INTO api_keys ({COLUMNS}) VALUES ({', '.join('?' * 12)})"
REVOKE = "UPDATE api_keys SET revoked_ms = ? WHERE id = ? AND revoked_ms = 0"


class StoredApiKey(msgspec.Struct, frozen=True):
    """An API key as stored: enough to check one, not enough to make it."""

    id: str
    name: str  # of the caller
    digest: bytes  # SHA-256 of the key
    created_ms: int
    tenant: str = ""
    scopes: tuple[str, ...] = ()
    expires_ms: int = 0  # 0: never
    used_ms: int = 0  # when it was last used, to a minute
    revoked_ms: int = 0
    role: str = ""  # at a hub
    teams: tuple[str, ...] = ()  # at a hub
    folder: str = ""  # whose local admin it is, if it is one

    def __post_init__(self) -> None:
        for scope in self.scopes:  # as RFC 6749 has them, section 3.3
            if not scope or len(scope.split()) != 1 or scope != scope.strip():
                raise ValueError(f"a scope is a word without spaces, not {scope[:80]!r}")

    @property
    def row(self) -> tuple[Any, ...]:
        """Its columns, in the order of `COLUMNS`."""
        *before, scopes, expires_ms, used_ms, revoked_ms, role, teams, folder = (
            msgspec.structs.astuple(self)
        )
        lists = (msgspec.json.encode(words).decode() for words in (scopes, teams))
        return (
            *(*before, next(lists), expires_ms, used_ms, revoked_ms),
            *(role, next(lists), folder),
        )

    @classmethod
    def of_row(cls, row: Any) -> "StoredApiKey":
        """Return the key with these columns, in the order of `COLUMNS`."""
        values = dict(zip(cls.__struct_fields__, row, strict=True))
        for name in ("scopes", "teams"):
            values[name] = msgspec.json.decode(values[name], type=tuple[str, ...])
        return cls(**values | {"digest": bytes(values["digest"])})


class KeyStore(Protocol):
    """Where API keys are stored. Several processes may use it at the same time: a key that one has
    revoked is revoked for all, at once.

    - What reads raises `Unavailable` if the place can't be read now, and `RuntimeError` if it is
      none of ours. What writes raises `CommitFailed` if nothing was stored.
    - What takes `within` is part of that transaction of the store's `database`.
    """

    def now_ms(self) -> int:
        """Return the time by the store's clock: keys are made, used and judged by it."""
        ...

    async def prepare(self) -> None:
        """Make the place where keys are stored, for callers that do not open the store.

        Raises:
            RuntimeError: It can't be made; says why.
        """
        ...

    async def add(self, key: StoredApiKey, *, within: Sql | None = None) -> None:
        """Store a new key. Its id is random."""
        ...

    async def find(self, id: str) -> StoredApiKey | None: ...

    async def list(self) -> list[StoredApiKey]:
        """Return all keys, oldest first."""
        ...

    async def revoke(self, id: str, at_ms: int, *, within: Sql | None = None) -> bool:
        """Revoke a key, once; say whether there is one that was not revoked."""
        ...

    async def use(self, id: str, at_ms: int) -> None:
        """Note when a key was used."""
        ...


class MemoryKeys:
    """API keys that end with the process."""

    def __init__(self, now_ms: Callable[[], int] = now_ms) -> None:
        self.now_ms = now_ms
        self._keys: dict[str, StoredApiKey] = {}

    async def prepare(self) -> None:
        """There is nothing to make."""

    async def add(self, key: StoredApiKey, *, within: Sql | None = None) -> None:
        self._keys[key.id] = key

    async def find(self, id: str) -> StoredApiKey | None:
        return self._keys.get(id)

    async def list(self) -> list[StoredApiKey]:
        return sorted(self._keys.values(), key=lambda key: (key.created_ms, key.id))

    async def revoke(self, id: str, at_ms: int, *, within: Sql | None = None) -> bool:
        key = self._keys.get(id)
        if key is None or key.revoked_ms:
            return False
        self._keys[id] = msgspec.structs.replace(key, revoked_ms=at_ms)
        return True

    async def use(self, id: str, at_ms: int) -> None:
        if id in self._keys:
            self._keys[id] = msgspec.structs.replace(self._keys[id], used_ms=at_ms)
