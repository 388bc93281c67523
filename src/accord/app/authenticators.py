"""Who may call the agents of an app: an authenticator for each that declares how."""

from collections.abc import Callable, Sequence

import msgspec

from ..auth import Authenticator, Resources
from ..engine.skills import AgentDefinition
from ..model import Limits
from ..server.transport import Tls

__all__ = ["Authenticators"]


class Authenticators:
    """The authenticators of the agents of an app, opened and closed with it."""

    def __init__(
        self,
        limits: Limits,
        trusted_proxies: Sequence[str],
        resources: Callable[[AgentDefinition], Resources],
    ) -> None:
        self._limits = limits
        self._trusted_proxies = trusted_proxies
        self._resources = resources
        self._all: list[tuple[Authenticator, AgentDefinition]] = []

    def add(self, agent: AgentDefinition) -> Authenticator | None:
        """Return the authenticator of an agent; None if its callers need no credentials."""
        if agent.auth is None:
            return None
        made = Authenticator(agent.auth, agent.name, self._limits, self._trusted_proxies)
        self._all.append((made, agent))
        return made

    def tls_of(self, tls: Tls | None, *, is_card_public: bool) -> Tls | None:
        """Return the TLS of the ports. Where a client may also authenticate otherwise, or read the
        card without that, it is asked for a certificate and may have none.
        """
        if tls is None or not self._all:
            return tls
        ways = [way for one, _ in self._all for way in one.auth.alternatives]
        declares = any(scheme.needs_certificate for way in ways for scheme in way)
        needs = all(any(scheme.needs_certificate for scheme in way) for way in ways)
        if not declares or (needs and not is_card_public):
            return tls
        return msgspec.structs.replace(tls, is_optional=True)

    async def open(self) -> None:
        for authenticator, agent in self._all:
            await authenticator.open(self._resources(agent))

    async def close(self) -> None:
        for authenticator, _ in self._all:
            await authenticator.close()
