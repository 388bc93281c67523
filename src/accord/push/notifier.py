"""Push notifications of the agents of an app: their webhooks and the outbox."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from ..engine.tasks import Tasks
from ..model import Limits
from ..net import Guard, Http
from .delivery import Deliverer
from .outbox import Format, Outbox
from .settings import PushSettings
from .webhooks import Webhooks

if TYPE_CHECKING:
    from ..auth import Keyring

__all__ = ["Notifier"]

CONNECT_S = 10.0


class Notifier:
    """Keeps webhooks and delivers to them, while it is open."""

    def __init__(
        self,
        tasks: Tasks,
        agents: Collection[str],
        keyring: Callable[[], "Keyring"],
        guard: Guard,
        formats: Mapping[str, Format],
        settings: PushSettings,
        limits: Limits,
        issuer: Callable[[], str],
    ) -> None:
        self.limits = limits
        self._settings = settings
        self._guard = guard
        self._network: Http | None = None
        self.webhooks = Webhooks(
            tasks.store.pushes, keyring, self._guard, self._http, settings, limits
        )
        self.deliverer = Deliverer(self._http, keyring, issuer, timeout_s=settings.timeout_s)
        self.outbox = Outbox(tasks, agents, self.webhooks, self.deliverer, formats, settings)

    def open(self) -> None:
        self.outbox.open()

    async def close(self) -> None:
        await self.outbox.close()
        if self._network is not None:
            await self._network.close()

    def _http(self) -> Http:
        """The way out, made when it is first needed: aiohttp is slow to import."""
        if self._network is None:
            from ..net import Network

            self._network = Network(
                connect_s=min(CONNECT_S, self._settings.timeout_s),
                lost_s=self._settings.timeout_s,
                guard=self._guard,
            )
        return self._network
