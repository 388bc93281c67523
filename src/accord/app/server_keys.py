"""The keys a server seals and signs with: where they are found, and what is signed with them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..model import AgentCard

if TYPE_CHECKING:
    from ..auth import Keyring
    from ..store import Store

__all__ = ["ServerKeys"]


class ServerKeys:
    """The keyring of a server, read or made when it is first needed: that imports cryptography,
    which many agents never need. Signs the card, and says where its key is published.
    """

    def __init__(self, store: "Store", file: "str | Path | None") -> None:
        self._store = store
        self._file = file
        self._keyring: Keyring | None = None

    def are_there(self) -> bool:
        """Return whether `keyring` finds keys, or a place to make some."""
        if self._file is not None or os.environ.get("ACCORD_KEY") or self._store.is_volatile:
            return True
        from ..store.sqlite import SqliteStore

        return isinstance(self._store, SqliteStore)

    @property
    def need_making(self) -> bool:
        """Return whether `keyring` would make a file with new keys."""
        from ..auth import key_file_of
        from ..store.sqlite import SqliteStore

        file = self._file
        if file is None and not os.environ.get("ACCORD_KEY"):
            file = key_file_of(self._store.path) if isinstance(self._store, SqliteStore) else None
        return file is not None and not Path(file).exists()

    @property
    def keyring(self) -> "Keyring":
        """Return the keys to seal and sign with, made when they are first needed.

        Raises:
            KeyringError: There are none, and what to do.
        """
        if self._keyring is None:
            from ..auth import Keyring
            from ..store.sqlite import SqliteStore

            store = self._store
            self._keyring = Keyring.find(
                file=self._file,
                database=store.path if isinstance(store, SqliteStore) else None,
                is_volatile=store.is_volatile,
            )
        return self._keyring

    def jwks(self) -> bytes:
        """Return the keys that this server signs with, for whoever verifies what it signs."""
        return msgspec.json.encode(self.keyring.jwks())

    def key_id(self) -> str:
        return self.keyring.signing_key.id

    def sign(
        self, card: AgentCard, base: str, served: Mapping[str, Any] | None = None
    ) -> AgentCard:
        """Return the card with a signature, which names where the key is."""
        from ..auth import sign_card

        key = self.keyring.signing_key
        return sign_card(card, key, key_url=f"{base}/.well-known/jwks.json", served=served)
