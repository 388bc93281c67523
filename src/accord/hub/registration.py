"""An agent that registers itself at a hub: says that it is there, that it lives, that it goes."""

import contextlib
import logging

from ..net import AgentFault
from ..pump import Pump
from .rest import HubRefused, RestClient

__all__ = ["SelfRegistration"]

log_ = logging.getLogger("accord.hub")

_LEAVE_S = 3.0  # a hub that is away does not hold up the end


class SelfRegistration:
    """A part of an app (`App.add_part`): registers with `start`, sends heartbeats, and leaves when
    the app drains.
    """

    def __init__(self, hub: RestClient, heartbeat_s: float, name: str = "") -> None:
        self._hub = hub
        self._heartbeat_s = heartbeat_s
        self._name = name  # empty: the hub makes one from the card
        self._entry = ""  # what the hub calls us
        self._address = ""
        self._complaint = ""  # what was logged last, while the hub does not take us
        self._heartbeats = Pump(
            "registering at a hub",
            self._heartbeat,
            log=log_,
            pause_s=lambda: self._heartbeat_s,
            retry_s=lambda: self._heartbeat_s,
        )

    def start(self, address: str) -> None:
        """Register the agent that is served at `address`, and send heartbeats from now on."""
        self._address = address
        self._heartbeats.start()

    async def open(self) -> None:
        """Do nothing: there is nothing to register before the agent is served."""

    async def drain(self) -> None:
        await self._heartbeats.stop()
        entry, self._entry = self._entry, ""
        if entry:
            with contextlib.suppress(AgentFault, HubRefused):
                await self._hub.call(
                    *("POST", f"/agents/{entry}/heartbeat", {"leaving": True}),
                    timeout_s=_LEAVE_S,
                )

    async def settle(self) -> None:
        """Do nothing: nothing is stored."""

    async def close(self) -> None:
        await self.drain()

    @property
    def trouble(self) -> str:
        return ""  # an agent works without its hub

    async def _heartbeat(self) -> bool:
        try:
            await self._once()
            self._complaint = ""
        except (AgentFault, HubRefused) as error:
            fix = f"; {error.fix}" if isinstance(error, HubRefused) and error.fix else ""
            if str(error) != self._complaint:  # once, not with every heartbeat
                log_.warning("not registered at %s: %s%s", self._hub.url, error, fix)
            self._complaint = str(error)
        return False

    async def _once(self) -> None:
        if not self._entry:
            settings = {"heartbeats": True, "changes": "follow"}
            new = {"url": self._address, "name": self._name, "settings": settings}
            found = await self._hub.call("POST", "/agents", new)
            self._entry = found["name"]
            log_.info("registered at %s as %s (%s)", self._hub.url, self._entry, found["state"])
        try:
            await self._hub.call("POST", f"/agents/{self._entry}/heartbeat", {})
        except HubRefused as error:
            if error.status in (401, 404):
                self._entry = ""  # the entry was removed: register again
            raise
