"""An agent as the registry knows it."""

import contextlib
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from ...client import origin_of_interface
from ...model import AgentCard
from ...net import origin_of

__all__ = [
    "HEALTH_STATES",
    "LIMITS",
    "CardVersion",
    "Difference",
    "Entry",
    "EntrySettings",
    "EntryState",
    "Health",
    "Member",
    "SignatureReport",
    "Visibility",
    "origins_of",
]


HealthState: TypeAlias = Literal["new", "up", "degraded", "locked", "broken", "down", "gone"]
HEALTH_STATES: tuple[str, ...] = get_args(HealthState)
LIMITS = ("calls_per_minute", "open_tasks", "open_streams")  # of an entry


class EntryState(StrEnum):
    """Name the state of an entry: pending → approved ⇄ suspended → retired."""

    PENDING = "pending"  # waits for an admin; nobody else sees or calls it
    APPROVED = "approved"
    SUSPENDED = "suspended"
    RETIRED = "retired"  # for good; its name is free again


class Visibility(StrEnum):
    """Say who finds an approved entry."""

    PUBLIC = "public"
    TEAM = "team"
    PRIVATE = "private"  # its owner and admins


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Say how an agent was when it was last probed."""

    state: HealthState = "new"
    category: str = ""  # DNS, REFUSED, TLS, TIMEOUT, NOT_FOUND, ...
    sentence: str = ""  # what is wrong, and what to do
    at_ms: int = 0
    since_ms: int = 0  # when the state began
    p50_ms: float | None = None
    p95_ms: float | None = None
    uptime_30d: float | None = None
    detail: dict[str, Any] = {}


class EntrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hold the settings of an entry that its owner may change."""

    # What a changed card does: `hold` lets notable changes pass and material ones wait, `follow`
    # passes all while the origins stay, `pin` has everything wait.
    changes: Literal["hold", "follow", "pin"] = "hold"
    # With `changes=hold`: whether changed texts that the agent is chosen by wait too.
    texts: Literal["hold", "follow"] = "hold"
    heartbeats: bool = False  # the agent says by itself that it lives
    honours_skill: bool = (
        False  # it does what metadata.skill names, though its card does not say so
    )
    description: str = ""  # instead of the card's
    tags: tuple[str, ...] = ()  # found by search, and named by rules, beside those of the card
    probe: Literal["on", "free", "off"] = "on"  # free: no message is sent, only free probes
    probe_message: str = ""  # what the daily message says
    keep: Literal["tasks", "none"] = "tasks"  # none: tasks go a minute after their end
    tasks_days: float = 30.0  # for which tasks are kept after their end
    limits: dict[str, int] = {}  # how much may be asked of the agent, by the name of the limit
    extra: dict[str, Any] = {}  # free for its owner


class SignatureReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report what is known of the signatures of a card."""

    status: Literal["unsigned", "trusted", "unknown key", "invalid"] = "unsigned"
    key_id: str = ""  # of the key that verified a signature; empty if none did
    thumbprint: str = ""  # of that key; two reports are compared by it
    key_from: str = ""
    why: str = ""  # why it is invalid
    named: str = ""  # the keys that signatures name, if nobody has trusted them

    @property
    def summary(self) -> str:
        """For everybody: without where keys come from, which may be the agent's own address."""
        return f"signed by {self.key_id}, trusted" if self.status == "trusted" else self.status

    @property
    def sentence(self) -> str:
        match self.status:
            case "trusted":
                return f"signed by {self.key_id}, key from {self.key_from}, trusted"
            case "unknown key":
                return f"signed by {self.named or 'a key without an id'}, which nobody has trusted"
            case "invalid":
                return f"invalid: {self.why}"
        return "unsigned"


class Difference(msgspec.Struct, frozen=True):
    """One difference between two cards."""

    weight: Literal["material", "notable", "cosmetic"]
    kind: str  # of the table in differences.py
    where: str
    before: Any = None
    after: Any = None

    @property
    def sentence(self) -> str:
        return f"{self.kind}: {self.where}" if self.where else self.kind


class CardVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A card as it was once seen."""

    n: int
    sha256: str
    raw: bytes
    card: AgentCard  # in the form of 1.0
    notes: tuple[str, ...] = ()  # what had to be repaired to read it
    signature: SignatureReport = SignatureReport()
    differences: tuple[Difference, ...] = ()  # from the version that was approved then
    # `taken`: used at once, by the entry's settings. `replaced`: the next version came before
    # anybody decided.
    decision: Literal["approved", "taken", "waiting", "rejected", "replaced"] = "waiting"
    first_ms: int = 0
    last_ms: int = 0


class Member(msgspec.Struct, frozen=True):
    """Another address of the same agent. What is called is its card as it was when it was added."""

    card_url: str
    added_ms: int
    card: AgentCard


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in the registry. `card` is the approved one, or the latest if none is yet."""

    id: str
    name: str
    state: EntryState
    visibility: Visibility
    team: str
    owner: str  # the identity of the caller who added it
    card_url: str  # empty for a card that was pasted
    card: AgentCard
    card_raw: bytes
    card_sha256: str
    approved: int  # the number of the approved version; 0 if none is
    latest: int
    signature: SignatureReport
    notes: tuple[str, ...]
    origins: tuple[str, ...]  # where its credentials may go: those of the approved card
    members: tuple[Member, ...]
    settings: EntrySettings
    health: Health
    score: int | None
    beat_ms: int  # when it last said that it lives
    created_ms: int
    revision: int
    changed: int

    @property
    def is_callable(self) -> bool:
        return self.state is EntryState.APPROVED and self.approved > 0

    @property
    def etag(self) -> str:
        return f'"{self.id}.{self.revision}"'


def origins_of(card: AgentCard, card_url: str) -> tuple[str, ...]:
    """The origins of a card's address and of its interfaces."""
    found = []
    with contextlib.suppress(ValueError):
        found.append(origin_of(card_url))
    for interface in card.supported_interfaces:
        with contextlib.suppress(ValueError):  # no client can call it
            found.append(origin_of_interface(interface))
    return tuple(dict.fromkeys(found))
