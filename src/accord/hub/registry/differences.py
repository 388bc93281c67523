"""What is different between two cards, and how much it matters. Pure: no clock, no database.

Material: the agent could be somebody else, be somewhere else, do less, or be chosen for other work.
People, search and models choose an agent by its name, its description and the texts of its skills.
Notable: it can do more. Cosmetic: the rest.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from ...model import AgentCard, AgentExtension, AgentSkill
from .entries import Difference, EntrySettings, SignatureReport, origins_of

__all__ = ["RULES", "ChangeRule", "Side", "differences", "passes", "worst"]

Weight: TypeAlias = Literal["material", "notable", "cosmetic"]
Found: TypeAlias = tuple[str, Any, Any]  # where, before, after

_WEIGHTS: tuple[Weight, ...] = ("material", "notable", "cosmetic")
_TEXTS = ("name", "description", "tags", "examples")
_OWN_TEXTS = ("name", "description")
_COSMETIC = ("version", "documentation_url", "icon_url")


class Side(NamedTuple):
    """A card, where it was found, and what is known of its signatures."""

    card: AgentCard
    url: str = ""
    signature: SignatureReport = SignatureReport()


class ChangeRule(NamedTuple):
    kind: str
    weight: Weight
    find: Callable[[Side, Side], Iterable[Found]]


def differences(old: Side, new: Side) -> tuple[Difference, ...]:
    """Return all differences, the weightiest first."""
    found = [
        Difference(rule.weight, rule.kind, where, before, after)
        for rule in RULES
        for where, before, after in rule.find(old, new)
    ]
    return tuple(sorted(found, key=lambda difference: _WEIGHTS.index(difference.weight)))


def worst(found: Sequence[Difference]) -> Weight:
    return min((one.weight for one in found), key=_WEIGHTS.index, default="cosmetic")


def passes(found: Sequence[Difference], settings: EntrySettings) -> bool:
    """Whether a changed card counts at once, or waits for an admin."""
    match settings.changes:
        case "pin":
            return False
        case "follow":
            return not any(one.kind in _NEVER_FOLLOWED for one in found)
        case "hold":
            return not any(
                one.weight == "material"
                and (settings.texts == "hold" or one.kind not in _TEXTS_THAT_ROUTE)
                for one in found
            )


def _interfaces(side: Side) -> dict[tuple[str, str], set[str]]:
    """The addresses of each binding and version, with their tenants: another is another agent."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in side.card.supported_interfaces:
        place = f"{one.url} (tenant {one.tenant})" if one.tenant else one.url
        found.setdefault((one.protocol_binding, one.protocol_version), set()).add(place)
    return found


def _origins(old: Side, new: Side) -> Iterator[Found]:
    before = origins_of(old.card, old.url)
    for origin in origins_of(new.card, new.url):
        if origin not in before:
            yield origin, list(before), origin


def _versions(old: Side, new: Side) -> Iterator[Found]:
    before = _interfaces(old)
    for key in _interfaces(new):
        if key not in before:
            yield " ".join(key), sorted(" ".join(one) for one in before), " ".join(key)


def _addresses(old: Side, new: Side) -> Iterator[Found]:
    before, after = _interfaces(old), _interfaces(new)
    for key in before:
        if before[key] != after.get(key, set()):
            yield " ".join(key), sorted(before[key]), sorted(after.get(key, ()))


def _security(old: Side, new: Side) -> Iterator[Found]:
    for name in ("security_requirements", "security_schemes"):
        yield from _field(name, old.card, new.card)
    kept = _skills(new)
    for key, skill in _skills(old).items():
        if key in kept:
            yield from _field("security_requirements", skill, kept[key], f"skill {skill.id}: ")


def _signature_lost(old: Side, new: Side) -> Iterator[Found]:
    worth = {"trusted": 2, "unknown key": 1}
    if worth.get(new.signature.status, 0) < worth.get(old.signature.status, 0):
        yield new.signature.sentence, old.signature.sentence, new.signature.sentence


def _key_changed(old: Side, new: Side) -> Iterator[Found]:
    before, after = old.signature, new.signature
    if before.thumbprint and after.thumbprint and before.thumbprint != after.thumbprint:
        was, is_ = (f"{one.key_id} ({one.thumbprint})" for one in (before, after))
        yield is_, was, is_


def _provider(old: Side, new: Side) -> Iterator[Found]:
    yield from _field("provider", old.card, new.card)


def _skills(side: Side) -> dict[tuple[str, int], AgentSkill]:
    """The skills by their ids. A card may have an id twice, and each of them is shown."""
    found: dict[tuple[str, int], AgentSkill] = {}
    times: Counter[str] = Counter()
    for skill in side.card.skills:
        times[skill.id] += 1
        found[skill.id, times[skill.id]] = skill
    return found


def _skill_removed(old: Side, new: Side) -> Iterator[Found]:
    after = _skills(new)
    for key, skill in _skills(old).items():
        if key not in after:
            yield skill.id, skill.name, None


def _skill_added(old: Side, new: Side) -> Iterator[Found]:
    before = _skills(old)
    for key, skill in _skills(new).items():
        if key not in before:
            yield skill.id, None, skill.name


def _skill_text(old: Side, new: Side) -> Iterator[Found]:
    after = _skills(new)
    for key, skill in _skills(old).items():
        if key in after:
            for name in _TEXTS:
                yield from _field(name, skill, after[key], f"skill {skill.id}: ")


def _own_text(old: Side, new: Side) -> Iterator[Found]:
    for name in _OWN_TEXTS:
        yield from _field(name, old.card, new.card)


def _extension_changed(old: Side, new: Side) -> Iterator[Found]:
    before = {one.uri: one for one in old.card.capabilities.extensions}
    for one in new.card.capabilities.extensions:
        known = before.get(one.uri) or AgentExtension(one.uri)  # a new one says something if it can
        yield from _field("params", known, one, f"extension {one.uri}: ")


def _required(side: Side) -> set[str]:
    return {one.uri for one in side.card.capabilities.extensions if one.required}


def _extension_required(old: Side, new: Side) -> Iterator[Found]:
    for uri in sorted(_required(new) - _required(old)):
        yield uri, None, uri


def _modes_removed(kind: str) -> Callable[[Side, Side], Iterator[Found]]:
    def find(old: Side, new: Side) -> Iterator[Found]:
        gone = _gone(getattr(old.card, f"default_{kind}"), getattr(new.card, f"default_{kind}"))
        if gone:
            yield ", ".join(gone), gone, None
        after = _skills(new)
        for key, skill in _skills(old).items():
            # A skill that names none has those of the card.
            if key in after and getattr(skill, kind) and getattr(after[key], kind):
                gone = _gone(getattr(skill, kind), getattr(after[key], kind))
                if gone:
                    yield f"skill {skill.id}: {', '.join(gone)}", gone, None

    return find


def _gone(before: list[str], after: list[str]) -> list[str]:
    kept = set(after)
    return [mode for mode in before if mode not in kept]


def _capabilities(old: Side, new: Side) -> Iterator[Found]:
    for name in ("streaming", "push_notifications", "extended_agent_card"):
        before, after = getattr(old.card.capabilities, name), getattr(new.card.capabilities, name)
        if bool(before) != bool(after):
            yield name, before, after
    before = {one.uri for one in old.card.capabilities.extensions}
    after = {one.uri for one in new.card.capabilities.extensions}
    if before != after:
        yield "extensions", sorted(before), sorted(after)


def _cosmetic(old: Side, new: Side) -> Iterator[Found]:
    for name in _COSMETIC:
        yield from _field(name, old.card, new.card)


def _field(name: str, old: Any, new: Any, prefix: str = "") -> Iterator[Found]:
    before = msgspec.to_builtins(getattr(old, name))
    after = msgspec.to_builtins(getattr(new, name))
    if before != after:
        yield prefix + name, before, after


RULES = (
    ChangeRule("interface at a new origin", "material", _origins),
    ChangeRule("interface of a new binding or version", "material", _versions),
    ChangeRule("security changed", "material", _security),
    ChangeRule("signature lost", "material", _signature_lost),
    ChangeRule("signed by another key", "material", _key_changed),
    ChangeRule("provider changed", "material", _provider),
    ChangeRule("skill removed", "material", _skill_removed),
    ChangeRule("extension required", "material", _extension_required),
    ChangeRule("output modes removed", "material", _modes_removed("output_modes")),
    ChangeRule("skill added", "material", _skill_added),
    ChangeRule("text of a skill changed", "material", _skill_text),
    ChangeRule("name or description changed", "material", _own_text),
    # Such as the schemas of skills, whose descriptions models read.
    ChangeRule("extension changed", "material", _extension_changed),
    ChangeRule("interface moved or removed", "notable", _addresses),
    ChangeRule("capabilities changed", "notable", _capabilities),
    ChangeRule("input modes removed", "notable", _modes_removed("input_modes")),
    ChangeRule("text changed", "cosmetic", _cosmetic),
)

# What an entry with `texts=follow` does not wait for.
_TEXTS_THAT_ROUTE = (
    "skill added",
    "text of a skill changed",
    "name or description changed",
    "extension changed",
)

# Even an entry whose changes are followed waits if it could be another agent.
_NEVER_FOLLOWED = ("interface at a new origin", "signature lost", "signed by another key")
