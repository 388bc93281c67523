"""Clients of the agents behind the gateway: one per entry, address and credential."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...auth import Caller
from ...client import Client, Retry, connect
from ...model import Unavailable
from ...relay import Errand
from ..registry import Entry
from .breaker import CircuitBreaker

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["Upstreams", "key_of"]

CLIENTS = 512  # kept, unless more are in use
OWN = "0"  # the entry's own address, among its members
# A relay that has lost its agent tries again by itself: calls that begin are told soon.
_RETRY = Retry(max_time_s=2.0, first_max_time_s=1.0)


class Upstreams:
    """Gives clients to relays: with the entry's credential, to the addresses of its approved card,
    and only while the agent answers.
    """

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._clients: dict[tuple[Any, ...], Client] = {}
        self._breakers: dict[tuple[str, str], CircuitBreaker] = {}  # by entry and member

    async def connect(self, key: str, errand: Errand) -> Client:
        """Return a client for an errand to an entry, by its `key_of`. A task stays with the member
        that has it.

        Raises:
            Unavailable: The agent does not answer, and was not asked; or it is no longer there.
        """
        name, _, id_ = key.partition(".")
        entry = self._hub.registry.get(name)
        if entry is None or entry.id != id_:
            raise Unavailable(f"agent {name!r} is no longer in the registry")
        if not errand.member:
            errand.member = self._choose(entry)
        self._breaker(entry, errand.member).check(entry.name)
        self._hub.traces.enter(name)
        return self._client(entry, errand.member, errand.caller)

    def is_away(self, name: str) -> bool:
        """Whether calls to an entry are refused, since it does not answer."""
        entry = self._hub.registry.get(name)
        return entry is not None and all(
            self._breaker(entry, one).is_open for one in _members(entry)
        )

    def clients_of(self, name: str) -> list[Client]:
        """The clients that are open for an entry."""
        entry = self._hub.registry.get(name)
        return [one for key, one in self._clients.items() if entry and key[0] == entry.id]

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()

    def _choose(self, entry: Entry) -> str:
        """One of the members that answer."""
        members = _members(entry)
        there = [one for one in members if not self._breaker(entry, one).is_open]
        return random.choice(there or members)

    def _breaker(self, entry: Entry, member: str) -> CircuitBreaker:
        key = (entry.id, member)
        found = self._breakers.get(key)
        if found is None:
            settings = self._hub.settings
            found = self._breakers[key] = CircuitBreaker(settings.open_s, 2 * settings.open_s)
        return found

    def _client(self, entry: Entry, member: str, caller: Caller) -> Client:
        vault = self._hub.vault
        added_ms = 0
        if member == OWN:
            card, auth = vault.for_card(entry, caller)
        else:
            known = next((one for one in entry.members if one.card_url == member), None)
            if known is None:
                raise Unavailable(f"the member of agent {entry.name!r} that has this was removed")
            added_ms = known.added_ms
            card, auth = vault.for_card(msgspec.structs.replace(entry, card=known.card), caller)
        # By our own name for it, what goes wrong is told.
        card = msgspec.structs.replace(card, name=entry.name)
        shown = tuple(map(id, auth.values() if isinstance(auth, dict) else auth or ()))
        guard = self._hub.networks.guard()
        key = (entry.id, entry.approved, member, added_ms, shown, id(guard))
        found = self._clients.get(key)
        if found is None:
            found = self._clients[key] = connect(
                card,
                auth=auth,
                retry=_RETRY,
                guard=guard,
                on_attempt=self._counted(entry.name, self._breaker(entry, member)),
            )
        return found

    def _counted(self, name: str, breaker: CircuitBreaker) -> Callable[[Exception | None], None]:
        """Count an attempt for the breaker, and one that the agent answered as a sign of life."""

        def ended(error: Exception | None) -> None:
            breaker.ended(error)
            if error is None:
                self._hub.prober.succeeded(name)

        return ended


def key_of(entry: Entry) -> str:
    """What an entry's tasks are stored under: a name may be given to another agent later."""
    return f"{entry.name}.{entry.id}"


def _members(entry: Entry) -> list[str]:
    return [OWN, *(one.card_url for one in entry.members)]
