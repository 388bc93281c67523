"""API keys: what a store promises about them, and the store that forgets them."""

from typing import Protocol

import msgspec

__all__ = ["KeyStore", "MemoryKeys", "StoredApiKey"]


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

    def __post_init__(self) -> None:
        # A store may write them as one text: then "hr role:admin" would come back as two.
        for scope in self.scopes:
            if not scope or len(scope.split()) != 1 or scope != scope.strip():
                raise ValueError(f"a scope is a word without spaces, not {scope[:80]!r}")


class KeyStore(Protocol):
    """Where API keys are stored. Several processes may use it at the same time: a key that one has
    revoked is revoked for all, a few seconds later at most.

    - What reads raises `Unavailable` if the place can't be read now, and `RuntimeError` if it is
      none of ours. What writes raises `CommitFailed` if nothing was stored.
    """

    async def prepare(self) -> None:
        """Make the place where keys are stored, for who uses them without opening the store.

        Raises:
            RuntimeError: It can't be made; says why.
        """
        ...

    async def add(self, key: StoredApiKey) -> None:
        """Store a new key. Its id is random."""
        ...

    async def find(self, id: str) -> StoredApiKey | None: ...

    async def list(self) -> list[StoredApiKey]:
        """Return all keys, oldest first."""
        ...

    async def revoke(self, id: str, at_ms: int) -> bool:
        """Revoke a key, once; say whether there is one that was not revoked."""
        ...

    async def use(self, id: str, at_ms: int) -> None:
        """Note when a key was used."""
        ...


class MemoryKeys:
    """API keys that end with the process."""

    def __init__(self) -> None:
        self._keys: dict[str, StoredApiKey] = {}

    async def prepare(self) -> None:
        """There is nothing to make."""

    async def add(self, key: StoredApiKey) -> None:
        self._keys[key.id] = key

    async def find(self, id: str) -> StoredApiKey | None:
        return self._keys.get(id)

    async def list(self) -> list[StoredApiKey]:
        return sorted(self._keys.values(), key=lambda key: (key.created_ms, key.id))

    async def revoke(self, id: str, at_ms: int) -> bool:
        key = self._keys.get(id)
        if key is None or key.revoked_ms:
            return False
        self._keys[id] = msgspec.structs.replace(key, revoked_ms=at_ms)
        return True

    async def use(self, id: str, at_ms: int) -> None:
        if id in self._keys:
            self._keys[id] = msgspec.structs.replace(self._keys[id], used_ms=at_ms)
