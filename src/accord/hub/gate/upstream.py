"""Clients of the agents behind the gateway: one per entry, address and credential."""

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

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

CLIENTS = 512  # open, unless more are in use
SWEEP_S = 10.0  # between two looks for clients that can be closed
# A relay has a client for a moment before it calls, and a stream rests between two attempts.
IDLE_S = 30.0
OWN = "0"  # the entry's own address, among its members
# A relay that has lost its agent tries again by itself: calls that begin are told soon.
_RETRY = Retry(max_time_s=2.0, first_max_time_s=1.0)


class _Key(NamedTuple):
    """What a client is for. Credentials and guard are ids: the client keeps the objects alive."""

    id: str  # of the entry
    approved: int
    member: str
    added_ms: int
    credentials: tuple[int, ...]
    guard: int


class _Open:
    """A client, and when it was last given out."""

    __slots__ = ("client", "used_s")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.used_s = 0.0


class Upstreams:
    """Gives clients to relays: with the entry's credential, to the addresses of its approved card,
    and only while the agent answers.
    """

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._clients: dict[_Key, _Open] = {}  # the one that was used last is the last
        self.idle_s = IDLE_S
        self.most = CLIENTS
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
        return [one.client for key, one in self._clients.items() if entry and key.id == entry.id]

    @property
    def open_clients(self) -> int:
        return len(self._clients)

    async def sweep(self) -> None:
        """Close clients that nobody uses: those of cards, credentials and networks that have
        changed, and the oldest if there are too many.
        """
        entries = {entry.id: entry for entry in self._hub.registry.all()}
        self._breakers = {
            key: one
            for key, one in self._breakers.items()
            if key[0] in entries and key[1] in _members(entries[key[0]])
        }
        too_many = len(self._clients) - self.most
        before_s = time.monotonic() - self.idle_s
        for key, one in list(self._clients.items()):
            if one.used_s > before_s or one.client.connection.calls:
                continue
            if too_many > 0 or not self._is_current(key, entries.get(key.id)):
                too_many -= 1
                del self._clients[key]
                await one.client.close()

    def _is_current(self, key: "_Key", entry: Entry | None) -> bool:
        if entry is None or entry.approved != key.approved or key.member not in _members(entry):
            return False
        is_ours = key.added_ms == _added_ms(entry, key.member)
        is_guarded = key.guard == id(self._hub.networks.guard())
        return is_ours and is_guarded and self._hub.vault.holds(key.credentials)

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        for one in clients:
            await one.client.close()

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
        if member == OWN:
            card, auth = vault.for_card(entry, caller)
        else:
            known = next((one for one in entry.members if one.card_url == member), None)
            if known is None:
                raise Unavailable(f"the member of agent {entry.name!r} that has this was removed")
            card, auth = vault.for_card(msgspec.structs.replace(entry, card=known.card), caller)
        # By our own name for it, what goes wrong is told.
        card = msgspec.structs.replace(card, name=entry.name)
        shown = tuple(map(id, auth.values() if isinstance(auth, dict) else auth or ()))
        guard = self._hub.networks.guard()
        added_ms = _added_ms(entry, member)
        key = _Key(entry.id, entry.approved, member, added_ms, shown, id(guard))
        found = self._clients.pop(key, None)
        if found is None:
            found = _Open(
                connect(
                    card,
                    auth=auth,
                    retry=_RETRY,
                    guard=guard,
                    on_call=self._counted(entry.name, self._breaker(entry, member)),
                )
            )
        found.used_s = time.monotonic()
        self._clients[key] = found
        return found.client

    def _counted(self, name: str, breaker: CircuitBreaker) -> Callable[[Exception | None], None]:
        """Count a call for the breaker, and one that the agent answered as a sign of life."""

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


def _added_ms(entry: Entry, member: str) -> int:
    """When a member was added; 0 for the entry's own address."""
    return next((one.added_ms for one in entry.members if one.card_url == member), 0)
