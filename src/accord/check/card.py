"""The five checks of the card. Each takes what is known of the card and returns a verdict."""

from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from ..client import AgentFault, UntrustedCard
from ..client.discovery import card_of, verify_card
from ..model import A2AError, AgentCard
from ..net import Http, host_of, origin_of
from ..protocol import NEWEST, NEWEST_OLD, card_version
from .record import Exchange
from .shapes import card_faults

__all__ = ["CardEvidence", "CheckVerdict", "check_card", "validate_card"]

_HERE = ("localhost", "127.0.0.1", "::1")
_CURRENT = "/.well-known/agent-card.json"
_OLD = "/.well-known/agent.json"  # until 0.2


class CheckVerdict(NamedTuple):
    """What a check found. A skip says in `reason` why it does not apply."""

    status: Any
    reason: str = ""
    fix: str = ""


PASS = CheckVerdict("pass")


class CardEvidence(msgspec.Struct):
    """A card that could be read, and how it came. `exchange` is empty for one handed over."""

    card: AgentCard
    raw: Any
    exchange: Exchange
    http: Http
    is_here: bool = False  # of an agent in this process, which has no address


async def check_card(evidence: CardEvidence) -> dict[str, CheckVerdict]:
    """Return the verdicts of the card's checks, by id."""
    return {
        "card.found": _found(evidence),
        "card.valid": _valid(evidence),
        "card.origin": _origin(evidence),
        "card.skills": _skills(evidence.card),
        "card.signature": await _signature(evidence),
    }


def _found(evidence: CardEvidence) -> CheckVerdict:
    if not evidence.exchange.url:
        return CheckVerdict("skip", "the card was handed over")
    version = card_version(evidence.raw) if isinstance(evidence.raw, dict) else ""
    place = urlsplit(evidence.exchange.url).path
    if "json" not in evidence.exchange.content_type:
        return CheckVerdict(
            "fail",
            f"the card comes as {evidence.exchange.content_type or 'nothing'!r}, not as JSON",
            "Serve the card with Content-Type: application/json.",
        )
    if place.endswith(_CURRENT) or (version and version != NEWEST_OLD and place.endswith(_OLD)):
        return PASS
    if place.endswith(_OLD):
        return CheckVerdict(
            "fail",
            f"a card of {version or NEWEST} is only at {_OLD}",
            f"Serve the card at {_CURRENT}; clients since 0.3 look there.",
        )
    return CheckVerdict("skip", f"the address of the card was given: {place}")


def validate_card(card: Any, url: str = "") -> list[str]:
    """Return what is wrong with a card, given as JSON as it was served at `url`: against its
    version, and what our client has to repair. Empty if it is valid.
    """
    faults = card_faults(card)
    if not faults:
        try:
            card_of(card, url, faults)
        except AgentFault as error:
            faults = [error.fault]
    return faults


def _valid(evidence: CardEvidence) -> CheckVerdict:
    faults = validate_card(evidence.raw, evidence.exchange.url)
    if not faults:
        return PASS
    return CheckVerdict(
        "fail",
        "; ".join(faults[:5]),
        "Correct the card: clients that do not repair cards can't use it as it is.",
    )


def _origin(evidence: CardEvidence) -> CheckVerdict:
    if evidence.is_here:
        return CheckVerdict("skip", "the agent is in this process")
    base = evidence.exchange.url
    host = host_of(base) if base else ""
    plain, away = [], []
    for interface in evidence.card.supported_interfaces:
        scheme = interface.url.partition("://")[0] if "://" in interface.url else ""
        there = host_of(interface.url if scheme else f"http://{interface.url}")
        if there not in _HERE and scheme in ("http", "grpc"):
            plain.append(interface.url)
        if not host:
            continue
        is_grpc = interface.protocol_binding == "GRPC"  # it has a port of its own
        if there != host if is_grpc else origin_of(interface.url) != origin_of(base):
            away.append(interface.url)
    if base.startswith("http:") and host not in _HERE:
        plain.append(base)
    if plain:
        return CheckVerdict(
            "fail", f"no TLS at {', '.join(plain)}", "Serve the agent and its card over https."
        )
    if away:
        return CheckVerdict(
            "fail",
            f"the card at {origin_of(base)} sends callers to {', '.join(away)}",
            "Put the address callers use into the card. Careful clients send no credentials to "
            "another origin.",
        )
    return PASS


def _skills(card: AgentCard) -> CheckVerdict:
    wrong = [] if card.description.strip() else ["the agent has no description"]
    if not card.skills:
        wrong.append("no skill is listed")
    ids = [skill.id for skill in card.skills]
    if len(set(ids)) < len(ids):
        wrong.append("two skills have the same id")
    for skill in card.skills:
        lacks = [
            word
            for word, value in (("description", skill.description.strip()), ("tags", skill.tags))
            if not value
        ]
        if lacks:
            wrong.append(f"the skill {skill.id!r:.60} has no {' and no '.join(lacks)}")
    if not wrong:
        return PASS
    return CheckVerdict(
        "fail",
        "; ".join(wrong[:5]),
        "Describe the agent and each skill, with tags: people and models choose by these texts.",
    )


async def _signature(evidence: CardEvidence) -> CheckVerdict:
    if not evidence.card.signatures:
        return CheckVerdict("skip", "the card is not signed")
    if not evidence.exchange.url:
        return CheckVerdict(
            "skip", "the card was handed over: there is no origin to ask for its keys"
        )
    from ..auth import Trust

    url = evidence.exchange.url
    try:
        await verify_card(evidence.raw, url, Trust(at_origin=True), origin_of(url), evidence.http)
    except UntrustedCard as error:
        if "can't be verified" in error.fault or "not known" in error.fault:
            return CheckVerdict("skip", error.fault)
        return CheckVerdict(
            "fail",
            error.fault,
            "Sign the card as it is served, and publish the key at the origin of the card: "
            "accord card sign.",
        )
    except (A2AError, AgentFault) as error:
        return CheckVerdict("skip", str(error))
    return PASS
