"""The push notifications of an app: whether it sends any, in whose name, with which files."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..engine.runs import Engine
from ..files import Address, Giver
from ..net import Guard
from ..operations import VERSIONS, Version
from ..push import Format, Notifier, PushSettings
from ..store import Namespace
from .server_keys import ServerKeys

if TYPE_CHECKING:
    from .address import PublicAddress

__all__ = ["Notifications"]

_log = logging.getLogger("accord")


class Notifications:
    """Makes the notifier of an app. It is None, and the card does not offer push notifications, if
    they are off, the store keeps no webhooks, or there is no key to encrypt and sign them with.
    """

    def __init__(
        self,
        wanted: bool | PushSettings,
        engine: Engine,
        keys: ServerKeys,
        guard: Guard,
        versions: Sequence[Version],
        giver: Giver,
        address: "PublicAddress",
        path_of: Callable[[str], str],
        interface: Callable[[], str],
    ) -> None:
        """`path_of` gives the path of an agent by its name, `interface` the address of the first
        interface in the card.
        """
        self._giver = giver
        self._address = address
        self._path_of = path_of
        self._interface = interface
        self._has_warned = False
        keeps_webhooks = getattr(engine.tasks.store, "pushes", None) is not None
        self._lacks_keys = bool(wanted) and keeps_webhooks and not keys.are_there()
        self.notifier: Notifier | None = None
        if not wanted or not keeps_webhooks or self._lacks_keys:
            return
        self.notifier = Notifier(
            engine.tasks,
            engine.runs.agents,
            lambda: keys.keyring,
            guard,
            {
                version.number: Format(version.push_type, version.push_codec, version.pushes_events)
                for version in (*VERSIONS, *versions)
            },
            wanted if isinstance(wanted, PushSettings) else PushSettings(),
            engine.limits,
            issuer=self._issuer,
        )
        self.notifier.outbox.give = self._give

    def check(self) -> None:
        """Log a warning if push notifications are off for want of a key."""
        if self._lacks_keys:
            _log.warning(
                "push notifications are off: there is no key to encrypt and sign them with. This "
                "store is shared, so every replica needs the same key: make one with `accord "
                "keyring new`, and give it to each as ACCORD_KEY=... or --key-file FILE; or turn "
                "them off for good (push=False, --no-push)"
            )

    def open(self) -> None:
        if self.notifier is not None:
            self.notifier.open()

    async def close(self) -> None:
        if self.notifier is not None:
            await self.notifier.close()

    async def _give(self, data: bytes, namespace: Namespace) -> bytes:
        """Write files into a push notification: whoever gets it has no credentials here."""
        base = self._address.below(self._path_of(namespace.agent))
        given = self._giver.given(namespace, Address(base, is_signed=True))
        return await self._giver.text(data, given)

    def _issuer(self) -> str:
        """Return whose notifications these are: the address the agent is reached at."""
        if not self._address.is_known and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "push notifications name %s as their issuer, which may be wrong: the server does "
                "not say at which address clients reach this agent; give it with url=",
                self._address.base,
            )
        interface = urlsplit(self._interface())
        return f"{interface.scheme}://{interface.netloc}"
