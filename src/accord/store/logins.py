"""Logins of browsers at the console: what a store promises about them, and the store that forgets
them.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from ..model import now_ms

__all__ = ["LoginStore", "MemoryLogins", "StoredLogin"]


class StoredLogin(msgspec.Struct, frozen=True):
    """A browser that is logged in, or a link that logs one in: enough to check one, not enough to
    make it.
    """

    id: str
    digest: bytes  # SHA-256 of what has to be shown
    created_ms: int
    seen_ms: int  # when it was last used, to a minute
    is_link: bool = False
    browser: str = ""  # as it calls itself
    caller: str = ""  # who it is, as JSON; empty for the operator of the server


class LoginStore(Protocol):
    """Where logins are stored. Several processes may use it at the same time: a browser that one
    has logged in is known to all, and a link opens once among all of them.

    - What reads raises `Unavailable` if the place can't be read now, and `RuntimeError` if it is
      none of ours. What writes raises `CommitFailed` if nothing was stored.
    """

    def now_ms(self) -> int:
        """Return the time by the store's clock: logins are made, used and judged by it."""
        ...

    async def prepare(self) -> None:
        """Make the place where logins are stored, for callers that do not open the store.

        Raises:
            RuntimeError: It can't be made; says why.
        """
        ...

    async def add(self, login: StoredLogin) -> None:
        """Store a new login. Its id is random."""
        ...

    async def find(self, id: str) -> StoredLogin | None: ...

    async def list(self) -> list[StoredLogin]:
        """Return all logins, oldest first."""
        ...

    async def remove(self, id: str) -> bool:
        """Delete a login; say whether it was there. Of several who ask at once, one gets True."""
        ...

    async def use(self, id: str, at_ms: int) -> None:
        """Note when a login was used."""
        ...


class MemoryLogins:
    """Logins that end with the process."""

    def __init__(self, now_ms: Callable[[], int] = now_ms) -> None:
        self.now_ms = now_ms
        self._logins: dict[str, StoredLogin] = {}

    async def prepare(self) -> None:
        """There is nothing to make."""

    async def add(self, login: StoredLogin) -> None:
        self._logins[login.id] = login

    async def find(self, id: str) -> StoredLogin | None:
        return self._logins.get(id)

    async def list(self) -> list[StoredLogin]:
        return sorted(self._logins.values(), key=lambda login: (login.created_ms, login.id))

    async def remove(self, id: str) -> bool:
        return self._logins.pop(id, None) is not None

    async def use(self, id: str, at_ms: int) -> None:
        if id in self._logins:
            self._logins[id] = msgspec.structs.replace(self._logins[id], seen_ms=at_ms)
