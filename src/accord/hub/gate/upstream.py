"""Clients of the agents behind the gateway: one per entry, address and credential."""

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ...auth import Caller
from ...client import AgentFault, Client, Retry, connect
from ...model import InvalidAgentResponse, Unavailable
from ...net import CircuitBreaker
from ...protocol import PreviewNumber
from ...relay import RequestContext
from ..access import Networks, Vault
from ..registry import Entry, Registry
from ..trace import Traces
from .breakers import BreakerKey, Breakers

__all__ = ["Upstreams", "key_of"]

CLIENTS = 512  # open, unless more are in use
SWEEP_S = 10.0  # between two looks for clients that can be closed
# A relay has a client for a moment before it calls, and a stream is idle between two attempts.
IDLE_S = 30.0
OWN = "0"  # the entry's own address, among its members
# A relay that has lost its agent tries again by itself: calls that begin get their error soon.
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

    Args:
        previews: Versions that are previews and may be used.
        on_success: Called with the name of an entry whose agent has answered a call.
    """

    def __init__(
        self,
        registry: Registry,
        vault: Vault,
        networks: Networks,
        breakers: Breakers,
        traces: Traces,
        *,
        previews: Sequence[PreviewNumber],
        on_success: Callable[[str], None],
    ) -> None:
        self._registry = registry
        self._vault = vault
        self._networks = networks
        self._breakers = breakers
        self._traces = traces
        self._previews = previews
        self._on_success = on_success
        self._clients: dict[_Key, _Open] = {}  # the one that was used last is the last
        self.idle_s = IDLE_S
        self.most = CLIENTS

    async def connect(self, key: str, context: RequestContext) -> Client:
        """Return a client for calls to an entry, by its `key_of`. A task stays with the member
        that has it.

        Raises:
            Unavailable: The agent does not answer, and was not asked; or it is no longer there.
        """
        name, _, id_ = key.partition(".")
        entry = self._registry.get(name)
        if entry is None or entry.id != id_:
            raise Unavailable(f"agent {name!r} is no longer in the registry")
        if not context.member:
            context.member = self._choose(entry)
        _admit(self._breaker(entry, context.member), entry.name)
        self._traces.enter(name)
        return self._client(entry, context.member, context.caller)

    def is_away(self, name: str) -> bool:
        """Whether calls to an entry are refused, since it does not answer."""
        entry = self._registry.get(name)
        return entry is not None and not any(
            self._breaker(entry, one).is_closed for one in _members(entry)
        )

    def clients_of(self, name: str) -> list[Client]:
        """The clients that are open for an entry."""
        entry = self._registry.get(name)
        return [one.client for key, one in self._clients.items() if entry and key.id == entry.id]

    @property
    def open_clients(self) -> int:
        return len(self._clients)

    async def sweep(self) -> None:
        """Close clients that nobody uses: those of cards, credentials and networks that have
        changed, and the oldest if there are too many.
        """
        entries = {entry.id: entry for entry in self._registry.all()}
        self._breakers.keep(
            {BreakerKey(id_, one) for id_, entry in entries.items() for one in _members(entry)}
        )
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
        is_guarded = key.guard == id(self._networks.guard())
        return is_ours and is_guarded and self._vault.holds(key.credentials)

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        for one in clients:
            await one.client.close()

    def _choose(self, entry: Entry) -> str:
        """One of the members that answer, or may be tried again."""
        members = _members(entry)
        there = [one for one in members if not self._breaker(entry, one).left_s]
        return random.choice(there or members)

    def _breaker(self, entry: Entry, member: str) -> CircuitBreaker:
        return self._breakers.of(BreakerKey(entry.id, member))

    def _client(self, entry: Entry, member: str, caller: Caller) -> Client:
        vault = self._vault
        if member == OWN:
            card, auth = vault.for_card(entry, caller)
        else:
            known = next((one for one in entry.members if one.card_url == member), None)
            if known is None:
                raise Unavailable(f"the member of agent {entry.name!r} that has this was removed")
            card, auth = vault.for_card(msgspec.structs.replace(entry, card=known.card), caller)
        shown = tuple(map(id, auth.values() if isinstance(auth, dict) else auth or ()))
        guard = self._networks.guard()
        added_ms = _added_ms(entry, member)
        key = _Key(entry.id, entry.approved, member, added_ms, shown, id(guard))
        found = self._clients.pop(key, None)
        if found is None:
            found = _Open(
                connect(
                    msgspec.structs.replace(card, name=entry.name),  # errors name it as we do
                    auth=auth,
                    retry=_RETRY,
                    guard=guard,
                    previews=self._previews,
                    on_call=self._counted(entry.name, BreakerKey(entry.id, member)),
                )
            )
        found.used_s = time.monotonic()
        self._clients[key] = found
        return found.client

    def _counted(self, name: str, key: BreakerKey) -> Callable[[Exception | None], None]:
        """Count a call for the breaker, and one that the agent answered as a sign of life."""

        def ended(error: Exception | None) -> None:
            if is_unanswered(error):
                self._breakers.failed(key)
            else:
                self._breakers.succeeded(key)
            if error is None:
                self._on_success(name)

        return ended


def is_unanswered(error: Exception | None) -> bool:
    """Return whether nobody answered a call. What an agent answers is no failure."""
    if isinstance(error, InvalidAgentResponse):
        return False  # it breaks the protocol, but it is there
    return isinstance(error, AgentFault | Unavailable)


def _admit(breaker: CircuitBreaker, name: str) -> None:
    """Raise Unavailable while no call may be made."""
    if not breaker.admit():
        left_s = math.ceil(breaker.left_s)
        raise Unavailable(
            f"agent {name!r} does not answer; it is tried again in {left_s} s",
            retry_after_s=left_s,
        )


def key_of(entry: Entry) -> str:
    """What an entry's tasks are stored under: a name may be given to another agent later."""
    return f"{entry.name}.{entry.id}"


def _members(entry: Entry) -> list[str]:
    return [OWN, *(one.card_url for one in entry.members)]


def _added_ms(entry: Entry, member: str) -> int:
    """When a member was added; 0 for the entry's own address."""
    return next((one.added_ms for one in entry.members if one.card_url == member), 0)
