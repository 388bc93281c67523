"""The key of the admin on this machine: in a file of the hub's folder, for its owner alone.

`accord hub add` and the others find it there. Beside it is where the hub is served, in a file that
is locked for as long: the commands show the key at these addresses and at no others, and while no
hub is served at none, also after it was killed.
"""

import contextlib
import logging
import socket
from pathlib import Path
from typing import TextIO

from ..auth import digest_of
from ..net import origin_of
from ..private import private_folder, private_opener
from ..store import StoredApiKey
from .access import SYSTEM, HubRole, Principals
from .rest import ADDRESS_FILE, KEY_FILE, hold_address

__all__ = ["LocalAdmin"]

log_ = logging.getLogger("accord.hub")

NAME = "local-admin"
VALID_MS = 30 * 24 * 3600 * 1000
RENEW_MS = VALID_MS // 2  # a key with less time left is replaced
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # how this machine reaches itself


class LocalAdmin:
    """Makes, renews and keeps the key. There is one per folder: a new one replaces the last."""

    def __init__(self, principals: Principals, folder: str) -> None:
        self._principals = principals
        self._folder = Path(folder)
        self.key = ""
        self._address: TextIO | None = None  # the file that says where the hub is

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
        is_ours = known is not None and known.folder == self.place
        now = self._principals.keys.now_ms()
        if known is not None and is_ours and known.expires_ms - now > RENEW_MS:
            self.key = text
            return
        _, self.key = await self._principals.new_key(
            SYSTEM,
            NAME,
            HubRole.ADMIN,
            expires_ms=now + VALID_MS,
            folder=self.place,
            replaces=known.id if known is not None else "",
        )
        try:
            self._write(KEY_FILE, self.key)
        except OSError as error:
            log_.warning("the admin's key can't be kept in %s: %s", self.file, error.strerror)

    def served_at(self, address: str, url: str) -> None:
        """Write down where the hub is reached, so that the key is shown there."""
        here = origin_of(address)
        for name, own in _EVERYWHERE.items():
            here = here.replace(f"//{name}:", f"//{own}:")
        origins = [here, *([origin_of(url)] if url else [])]
        with contextlib.suppress(OSError):  # then the key has to be given by hand
            private_folder(self._folder)
            self._let_go()
            file = open(  # noqa: SIM115  kept open: it is locked while the hub is served
                self._folder / ADDRESS_FILE, "a", opener=private_opener
            )
            try:
                hold_address(file)  # another hub of this folder may have it: then it stays as it is
                file.truncate(0)
                file.write("\n".join(dict.fromkeys(origins)) + "\n")
                file.flush()
            except OSError:
                file.close()
                raise
            self._address = file

    def close(self) -> None:
        """Nobody is to show the key to whatever takes the address after the hub."""
        if self._address is not None:  # else it is another hub's
            with contextlib.suppress(OSError):
                (self._folder / ADDRESS_FILE).unlink(missing_ok=True)
        self._let_go()

    def _let_go(self) -> None:
        if self._address is not None:
            self._address.close()
            self._address = None

    @property
    def place(self) -> str:
        """What marks the keys of this folder: hubs on one database have a folder each."""
        return f"{socket.gethostname()}:{self._folder.resolve()}"

    async def _stored(self, text: str) -> StoredApiKey | None:
        """The row of a key; None if it is not valid."""
        id_ = text.split("_")[1] if text.count("_") == 2 else ""
        known = await self._principals.keys.find(id_) if id_ else None
        is_same = known is not None and known.digest == digest_of(text) and not known.revoked_ms
        return known if is_same else None

    def _write(self, name: str, text: str) -> None:
        private_folder(self._folder)
        with open(self._folder / name, "w", opener=private_opener) as out:
            out.write(text + "\n")
