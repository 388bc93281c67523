"""The key of the admin on this machine: in a file of the hub's folder, for its owner alone.

`accord hub add` and the others find it there. Beside it is where the hub is served: the commands
show the key at these addresses and at no others, and while no hub is served at none.
"""

import contextlib
import hashlib
import logging
import socket
from pathlib import Path

from ..auth import digest_of
from ..model import now_ms
from ..net import origin_of
from ..private import private_folder, private_opener
from ..store import StoredApiKey
from .access import SYSTEM, HubRole, People
from .rest import ADDRESS_FILE, KEY_FILE

__all__ = ["LocalAdmin"]

log_ = logging.getLogger("accord.hub")

NAME = "local-admin"
VALID_MS = 30 * 24 * 3600 * 1000
RENEW_MS = VALID_MS // 2  # a key with less time left is replaced
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # how this machine reaches itself


class LocalAdmin:
    """Makes, renews and keeps the key. There is one per folder: a new one replaces the last."""

    def __init__(self, people: People, folder: str) -> None:
        self._people = people
        self._folder = Path(folder)
        self.key = ""

    @property
    def file(self) -> Path:
        return self._folder / KEY_FILE

    async def renew(self) -> None:
        """Make a key, unless the last one is good for a while."""
        text = self.key
        if not text:
            with contextlib.suppress(OSError):
                text = self.file.read_text().strip()
        known = await self._stored(text)
        if known is not None and known.expires_ms - now_ms() > RENEW_MS:
            self.key = text
            return
        before = [key.id for key in await self._people.keys.list() if self._is_ours(key)]
        if known is not None:
            before.append(known.id)
        expires_ms = now_ms() + VALID_MS
        _, self.key = await self._people.new_key(
            SYSTEM, NAME, HubRole.ADMIN, expires_ms=expires_ms, scopes=(self._scope,)
        )
        try:
            self._write(KEY_FILE, self.key)
        except OSError as error:
            log_.warning("the admin's key can't be kept in %s: %s", self.file, error.strerror)
        for id_ in dict.fromkeys(before):
            await self._people.revoke_key(SYSTEM, id_)

    def served_at(self, address: str, url: str) -> None:
        """Write down where the hub is reached, so that the key is shown there."""
        here = origin_of(address)
        for name, own in _EVERYWHERE.items():
            here = here.replace(f"//{name}:", f"//{own}:")
        origins = [here, *([origin_of(url)] if url else [])]
        with contextlib.suppress(OSError):  # then the key has to be given by hand
            self._write(ADDRESS_FILE, "\n".join(dict.fromkeys(origins)))

    def close(self) -> None:
        """Nobody is to show the key to whatever takes the address after the hub."""
        with contextlib.suppress(OSError):
            (self._folder / ADDRESS_FILE).unlink(missing_ok=True)

    @property
    def _scope(self) -> str:
        """What marks the keys of this folder: hubs on one database have a folder each."""
        place = f"{socket.gethostname()}:{self._folder.resolve()}"
        return f"folder:{hashlib.sha256(place.encode()).hexdigest()[:16]}"

    def _is_ours(self, key: StoredApiKey) -> bool:
        return not key.revoked_ms and self._scope in key.scopes

    async def _stored(self, text: str) -> StoredApiKey | None:
        """The row of a key; None if it is not valid."""
        id_ = text.split("_")[1] if text.count("_") == 2 else ""
        known = await self._people.keys.find(id_) if id_ else None
        is_same = known is not None and known.digest == digest_of(text) and not known.revoked_ms
        return known if is_same else None

    def _write(self, name: str, text: str) -> None:
        private_folder(self._folder)
        with open(self._folder / name, "w", opener=private_opener) as out:
            out.write(text + "\n")
