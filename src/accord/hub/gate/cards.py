"""Cards of the gateway: an agent's card, with the hub's addresses and what the hub provides."""

from collections.abc import Collection

import msgspec

from ...model import AgentCard, AgentExtension, AgentSkill
from ..registry import Entry, sanitize_line, sanitize_skill, sanitize_text

__all__ = ["VIA", "card_out", "with_skills"]

VIA = "urn:accord:via:1"  # a card of a gateway: which the original is, and whose it was


def card_out(entry: Entry, card: AgentCard) -> AgentCard:
    """A card of the gateway: the agent's, with the hub's addresses and what the hub provides."""
    card.name = sanitize_line(entry.card.name, 120)
    card.description = sanitize_text(entry.settings.description or entry.card.description)
    card.version = sanitize_line(entry.card.version, 80)
    card.skills = [_sanitized(skill) for skill in entry.card.skills]
    params = {"sha256": entry.card_sha256}
    if entry.signature.key_id:
        params |= {"signedBy": entry.signature.key_id, "thumbprint": entry.signature.thumbprint}
    card.capabilities.extended_agent_card = True
    card.capabilities.extensions.append(
        AgentExtension(
            uri=VIA,
            description="A gateway: the owner of the agent finds its own card at card/original.",
            params=params,
        )
    )
    return card


def _sanitized(skill: AgentSkill) -> AgentSkill:
    """A skill in words that hide nothing. Its id stays: callers name it."""
    words = sanitize_skill(skill)
    return msgspec.structs.replace(
        skill,
        name=words["name"],
        description=words["description"],
        tags=words["tags"],
        examples=words["examples"],
        security_requirements=[],
    )


def with_skills(card: AgentCard, allowed: Collection[str]) -> AgentCard:
    """Return a card with those of its skills that are allowed."""
    skills = [skill for skill in card.skills if skill.id in allowed]
    return msgspec.structs.replace(card, skills=skills)
