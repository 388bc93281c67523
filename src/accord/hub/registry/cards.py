"""Fetching and reading cards: through the guard, with limits, asking only for what has changed."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import msgspec

from ...client import Budget
from ...client.auth import AgentPlace, Signed, choose
from ...client.discovery import Cards, card_of, get_card, read_json
from ...engine import offload
from ...model import A2AError, AgentCard
from ...net import AgentFault, Guard, Http, Network, origin_of
from ...protocol import NEWEST
from ..access import TrustedKeys
from ..errors import CannotAdd, address_fix
from .entries import SignatureReport
from .sanitizer import SKILLS, harmless, sanitize_line, suspicious

__all__ = ["CardReader", "ReadCard"]

INTERFACES = 64  # at most in a card: two cards are compared pair by pair
NOTES = 100  # at most kept about repairs of a card


class ReadCard(msgspec.Struct, frozen=True, kw_only=True):
    """A card that was fetched or handed over, and read."""

    url: str  # where it was found; empty for one that was handed over
    raw: bytes
    card: AgentCard
    notes: tuple[str, ...] = ()
    signature: SignatureReport = SignatureReport()
    warnings: tuple[str, ...] = ()  # what a person should look at before the agent is listed

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()


class CardReader:
    """Reads cards of strangers."""

    def __init__(
        self, guard: Callable[[], Guard], trusted: TrustedKeys, budget: Budget | None = None
    ) -> None:
        self._guard = guard
        self._trusted = trusted
        self._budget = budget or Budget()
        # Kept for their ETag alone: a card is asked for each time, whatever its server says of how
        # long it is good for.
        self._cards = Cards(4096, clock=lambda: math.inf)

    def http(self) -> Http:
        """Connects to places that strangers named."""
        return Network(
            connect_s=self._budget.connect_s, lost_s=self._budget.lost_s, guard=self._guard()
        )

    async def fetch(self, url: str, credential: Any = None) -> ReadCard:
        """Return the card of the agent at `url`; `credential` is shown to its origin alone.

        Raises:
            CannotAdd: There is none, or none that can be used; says why.
        """
        notes: list[str] = []
        try:
            self._guard().check_url(url)
            origin = origin_of(url)
        except ValueError as error:
            raise CannotAdd(
                f"{url[:200]} can't be called: {error}",
                fix=address_fix(url),
            ) from None
        http = self.http()
        try:
            if credential is not None:
                place = AgentPlace(origin, guard=self._guard())
                http = Signed(http, origin, choose(_NO_CARD, credential, place))
            found = await get_card(url, http, self._budget, self._cards, notes)
            return await self._read(found.body, found.place, notes)
        except CannotAdd:
            raise
        except (AgentFault, A2AError) as error:
            raise CannotAdd(
                f"can't fetch the card: {error}",
                fix="check the address with: accord card get " + url[:200],
            ) from error
        finally:
            await http.close()

    async def read(self, raw: bytes) -> ReadCard:
        """Return a card that was handed over. Raises CannotAdd."""
        return await self._read(raw, "", [])

    async def _read(self, raw: bytes, url: str, notes: list[str]) -> ReadCard:
        try:
            read = await offload(len(raw), read_json, raw, url, self._budget)
            signature, value = await self._trusted.report(read, url)
            card, warnings = await offload(len(raw), _cleaned, value, url, notes)
        except AgentFault as error:
            raise CannotAdd(
                f"the card can't be read: {error.fault}", fix="accord card get --validate shows why"
            ) from error
        if not card.supported_interfaces:
            raise CannotAdd(
                "the card names no interface that can be called",
                fix="supportedInterfaces needs an entry with url, protocolBinding, protocolVersion",
            )
        if len(card.supported_interfaces) > INTERFACES:
            raise CannotAdd(
                f"the card has {len(card.supported_interfaces):,} interfaces; the hub takes "
                f"{INTERFACES} at most",
                fix="name each binding and version once",
            )
        if len(card.skills) > SKILLS:
            raise CannotAdd(
                f"the card has {len(card.skills):,} skills; the hub takes {SKILLS} at most",
                fix="serve them as several agents",
            )
        return ReadCard(
            url=url,
            raw=raw,
            card=card,
            notes=tuple(sanitize_line(note, 300) for note in notes[:NOTES]),
            signature=signature,
            warnings=warnings,
        )


def _cleaned(value: Any, url: str, notes: list[str]) -> tuple[AgentCard, tuple[str, ...]]:
    """Return a card without hidden characters, and what a person should look at."""
    card = card_of(value, url, notes)
    return harmless(card), tuple(suspicious(card)[:20])


_NO_CARD = card_of(
    {
        "name": "agent",
        "description": "",
        "version": "",
        "supportedInterfaces": [
            {"url": "https://x/", "protocolBinding": "JSONRPC", "protocolVersion": NEWEST}
        ],
        "capabilities": {},
        "defaultInputModes": [],
        "defaultOutputModes": [],
        "skills": [],
    },
    "",
    [],
)
