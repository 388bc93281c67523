"""Finding: which agents fit a request, for one caller.

Relevance is 0 to 100 and says nothing but how well a skill fits; the order `proven` weighs it with
the agent's health. Below the cutoff nothing is returned: "none fits" is an answer.
"""

import asyncio
import statistics
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ...auth import Caller
from ...model import SCHEMA, AgentSkill
from ..access import Policy
from ..registry import (
    Entry,
    EntryState,
    Registry,
    sanitize_card,
    sanitize_id,
    sanitize_line,
    sanitize_skill,
    sanitize_text,
)
from .index import Index, IndexHit, SkillDocument
from .meaning import Meaning, MeaningUnavailable
from .words import is_chinese, request_words

__all__ = ["AgentHit", "Finder", "SearchFilters", "SearchResult", "SkillHit"]

CUTOFF = 20  # below it a skill does not fit
_CANDIDATES = 200
_SKILLS = 5  # shown of an agent
# How nearness becomes relevance: in standard deviations above the mean of all skills, since what a
# cosine is worth differs by model and language.
_FAR, _NEAR = 0.0, 4.0
_WORDS_SHARE = 0.1  # of the best match by words, beside the cosine
_WORD_FOR_WORD = 60  # from here on words count by themselves
_HINT_MOST = 59  # nearness or a common stem alone is a hint: it never looks like a sure match

HEALTH = {"up": 1.0, "degraded": 0.85, "new": 0.8, "locked": 0.6, "broken": 0.3}


class SearchFilters(msgspec.Struct, frozen=True, kw_only=True):
    """What has to hold, whatever the text says. Empty ones do not count."""

    skill: str = ""  # id
    tag: str = ""
    capability: str = ""  # streaming, pushNotifications, extendedAgentCard, or an extension's URI
    takes: str = ""  # a media type
    gives: str = ""
    version: str = ""
    binding: str = ""
    state: str = ""  # of health; names of several with commas. down and gone only if named
    min_score: int = 0  # of conformance
    team: str = ""
    language: str = ""  # en or zh


class SkillHit(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    description: str
    tags: list[str]
    examples: list[str]
    score: int  # relevance
    why: list[str]  # the words of the request it has, or "meaning"
    schema: dict[str, Any] | None = None


class AgentHit(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that fits. Its own texts are sanitized (`hub/registry/sanitizer.py`)."""

    agent: str  # the entry's name
    name: str
    description: str
    score: int  # relevance of its best skill
    callable: bool
    health: str
    conformance: int | None
    uptime_30d: float | None
    p95_ms: float | None
    verified_by: str  # who signed the card, if that is trusted
    skills: list[SkillHit]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    agents: list[AgentHit]
    total: int
    meaning: Literal["on", "off"] = "off"
    why_off: str = ""


class _Shown(msgspec.Struct):
    """What is kept of an entry for search."""

    stamp: tuple[Any, ...]
    skills: dict[str, AgentSkill]
    language: str


class Finder:
    """Search over the registry's entries. It follows every change of them."""

    def __init__(self, registry: Registry, policy: Policy, meaning: Meaning | None = None) -> None:
        self._registry = registry
        self._policy = policy
        self.meaning = meaning
        self.index = Index()
        self._shown: dict[str, _Shown] = {}
        registry.on_change(self.take)

    def take(self, entry: Entry) -> None:
        """Index an entry anew, if its texts have changed."""
        if entry.state is not EntryState.APPROVED or not entry.approved:
            self._forget(entry.name)
            return
        stamp = (entry.id, entry.card_sha256, entry.settings.description, entry.settings.tags)
        shown = self._shown.get(entry.name)
        if shown is not None and shown.stamp == stamp:
            return
        description = sanitize_text(entry.settings.description or entry.card.description)
        agent_name = sanitize_line(entry.card.name, 120)
        agent_text = f"{entry.name} {agent_name} {' '.join(entry.settings.tags)}"
        documents = [
            _document(entry.name, agent_text, description, skill) for skill in entry.card.skills
        ] or [SkillDocument(entry.name, "", agent_text, "", "", description, "")]
        texts = " ".join([description, *(document.description for document in documents)])
        self._shown[entry.name] = _Shown(
            stamp,
            {skill.id: skill for skill in entry.card.skills},
            "zh" if is_chinese(texts) else "en",
        )
        self.index.put(entry.name, documents)
        if self.meaning is not None:
            self.meaning.put(entry.name, [(one.skill, _sentence(one)) for one in documents])

    def _forget(self, name: str) -> None:
        if self._shown.pop(name, None) is not None:
            self.index.put(name, [])
            if self.meaning is not None:
                self.meaning.put(name, [])

    async def search(
        self,
        caller: Caller,
        text: str,
        filters: SearchFilters | None = None,
        *,
        limit: int = 10,
        order: Literal["proven", "relevance"] = "proven",
        with_schema: bool = False,
    ) -> SearchResult:
        """Return the agents that fit a text, the best first; with an empty text, those that fit the
        filters, by name. Only what the caller may see is looked at.
        """
        filters = filters or SearchFilters()
        is_wanted = self._wanted(caller, filters)
        words = request_words(text)
        off = ""
        found: dict[tuple[str, str], tuple[float, list[str]]] = {}
        if not text.strip():
            for name, shown in self._shown.items():
                for skill in shown.skills or ("",):
                    if is_wanted(name, skill):
                        found[name, skill] = (100.0, [])
        else:
            hits = await asyncio.to_thread(self.index.search, words, _CANDIDATES, is_wanted)
            near: dict[tuple[str, str], float] = {}
            if self.meaning is not None:
                try:
                    near = await self.meaning.nearest(text)
                except MeaningUnavailable as error:
                    off = str(error)
            found = _relevance(hits, near, words, is_wanted)
        agents = self._agents(caller, found, order, with_schema)
        return SearchResult(
            agents=agents[:limit],
            total=len(agents),
            meaning="on" if self.meaning is not None and not off else "off",
            why_off=off,
        )

    def _wanted(self, caller: Caller, filters: SearchFilters) -> Callable[[str, str], bool]:
        """Return whether a skill may be found: seen by this caller, and through the filters."""
        entries: dict[str, Entry | None] = {}

        def entry_of(name: str) -> Entry | None:
            if name not in entries:
                entry = self._registry.get(name)
                if (
                    entry is None
                    or not self._policy.decide(caller, entry, None, "see").is_allowed
                    or not _fits(entry, filters, self._shown[name].language)
                ):
                    entry = None
                entries[name] = entry
            return entries[name]

        def is_wanted(name: str, skill_id: str) -> bool:
            if name not in self._shown:
                return False
            entry = entry_of(name)
            if entry is None:
                return False
            skill = self._shown[name].skills.get(skill_id)
            if skill is None:
                return not (filters.skill or filters.tag)
            if not _skill_fits(entry, skill, filters):
                return False
            return self._policy.decide(caller, entry, skill_id, "see").is_allowed

        return is_wanted

    def _agents(
        self,
        caller: Caller,
        found: dict[tuple[str, str], tuple[float, list[str]]],
        order: str,
        with_schema: bool,
    ) -> list[AgentHit]:
        by_agent: dict[str, list[tuple[str, float, list[str]]]] = {}
        for (name, skill), (score, why) in found.items():
            if score >= CUTOFF:
                by_agent.setdefault(name, []).append((skill, score, why))
        ranked = []
        for name, skills in by_agent.items():
            entry = self._registry.get(name)
            if entry is None:
                continue
            skills.sort(key=lambda one: (-one[1], one[0]))
            agent = self._agent(caller, entry, skills[:_SKILLS], with_schema)
            # Skills beside the best one are a hint, and decide between equals.
            rank = skills[0][1] + min(len(skills) - 1, 3) * 0.1
            if order == "proven":
                rank *= HEALTH.get(entry.health.state, 0.1)
            ranked.append((not agent.callable, -rank, name, agent))
        ranked.sort(key=lambda one: one[:3])
        return [agent for *_, agent in ranked]

    def _agent(
        self,
        caller: Caller,
        entry: Entry,
        skills: list[tuple[str, float, list[str]]],
        with_schema: bool,
    ) -> AgentHit:
        shown = sanitize_card(entry.card)
        schemas = _schemas(entry) if with_schema else {}
        known = self._shown[entry.name].skills
        found = []
        for id_, score, why in skills:
            if id_ not in known:
                continue
            sanitized = sanitize_skill(known[id_])
            found.append(
                SkillHit(
                    id=sanitized["id"],
                    name=sanitized["name"],
                    description=sanitized["description"],
                    tags=sanitized["tags"],
                    examples=sanitized["examples"][:3],
                    score=round(score),
                    why=why,
                    schema=schemas.get(id_),
                )
            )
        signature = entry.signature
        return AgentHit(
            agent=entry.name,
            name=shown["name"],
            description=sanitize_text(entry.settings.description) or shown["description"],
            score=round(skills[0][1]),
            callable=self._policy.decide(caller, entry, None, "call").is_allowed,
            health=entry.health.state,
            conformance=entry.score,
            uptime_30d=entry.health.uptime_30d,
            p95_ms=entry.health.p95_ms,
            verified_by=sanitize_id(signature.key_id) if signature.status == "trusted" else "",
            skills=found,
        )


def _relevance(
    hits: list[IndexHit],
    near: dict[tuple[str, str], float],
    words: dict[str, str],
    is_wanted: Callable[[str, str], bool],
) -> dict[tuple[str, str], tuple[float, list[str]]]:
    """How well each skill fits: by its words, and by its meaning where that is known."""
    best = max((hit.bm25 for hit in hits), default=0.0) or 1.0
    found: dict[tuple[str, str], tuple[float, list[str]]] = {}
    for hit in hits:
        share = 0.8 + 0.2 * hit.bm25 / best
        by_words = 100 * hit.coverage * share
        if 100 * hit.as_written * share < _WORD_FOR_WORD:
            by_words = min(by_words, _HINT_MOST)  # words of the same stem never make it sure
        why = [words[word] for word in hit.matched]
        found[hit.entry, hit.skill] = (by_words, why)
    if not near:
        return found
    shares = {(hit.entry, hit.skill): hit.bm25 / best for hit in hits}
    mean = statistics.fmean(near.values())
    spread = statistics.pstdev(near.values(), mean) or 1.0
    for key, cosine in near.items():
        above = (cosine + _WORDS_SHARE * shares.get(key, 0.0) - mean) / spread
        by_meaning = _HINT_MOST * min(max((above - _FAR) / (_NEAR - _FAR), 0.0), 1.0)
        if key not in found and (by_meaning < CUTOFF or not is_wanted(*key)):
            continue
        by_words, why = found.get(key, (0.0, []))
        # A request that is found word for word counts as such.
        score = max(by_meaning, by_words if by_words >= _WORD_FOR_WORD else 0.0)
        found[key] = (score, why or ["meaning"])
    return found


def _document(
    name: str, agent_text: str, agent_description: str, skill: AgentSkill
) -> SkillDocument:
    sanitized = sanitize_skill(skill)
    return SkillDocument(
        name,
        skill.id,
        f"{agent_text} {agent_description[:300]}",
        f"{sanitized['name']} {sanitized['id']}",
        " ".join(sanitized["tags"]),
        sanitized["description"],
        " ".join(sanitized["examples"]),
    )


def _sentence(document: SkillDocument) -> str:
    """The text whose meaning stands for a skill."""
    parts = (document.skill_text, document.tags, document.description, document.examples)
    return ". ".join(part for part in parts if part)


def _fits(entry: Entry, filters: SearchFilters, language: str) -> bool:
    states = {word.strip() for word in filters.state.split(",") if word.strip()}
    if states:
        if entry.health.state not in states:
            return False
    elif entry.health.state in ("down", "gone"):
        return False
    interfaces = entry.card.supported_interfaces
    return (
        (not filters.team or entry.team == filters.team)
        and (not filters.min_score or (entry.score or 0) >= filters.min_score)
        and (not filters.language or language == filters.language.lower()[:2])
        and (not filters.version or any(i.protocol_version == filters.version for i in interfaces))
        and (
            not filters.binding
            or any(i.protocol_binding.lower() == filters.binding.lower() for i in interfaces)
        )
        and (not filters.capability or _has(entry, filters.capability))
    )


def _has(entry: Entry, capability: str) -> bool:
    can = entry.card.capabilities
    match capability:
        case "streaming":
            return can.streaming is True
        case "pushNotifications":
            return can.push_notifications is True
        case "extendedAgentCard":
            return can.extended_agent_card is True
    return any(extension.uri == capability for extension in can.extensions)


def _skill_fits(entry: Entry, skill: AgentSkill, filters: SearchFilters) -> bool:
    takes = skill.input_modes or entry.card.default_input_modes
    gives = skill.output_modes or entry.card.default_output_modes
    tags = [tag.lower() for tag in (*skill.tags, *entry.settings.tags)]
    return (
        (not filters.skill or skill.id == filters.skill)
        and (not filters.tag or filters.tag.lower() in tags)
        and (not filters.takes or _is_among(filters.takes, takes))
        and (not filters.gives or _is_among(filters.gives, gives))
    )


def _is_among(wanted: str, modes: list[str]) -> bool:
    kind = wanted.lower().partition(";")[0].strip()
    known = [mode.lower().partition(";")[0].strip() for mode in modes]
    return any(
        mode in ("*/*", kind) or (mode.endswith("/*") and kind.startswith(mode[:-1]))
        for mode in known
    )


def _schemas(entry: Entry) -> dict[str, Any]:
    for extension in entry.card.capabilities.extensions:
        if extension.uri == SCHEMA and isinstance((extension.params or {}).get("skills"), dict):
            found: dict[str, Any] = (extension.params or {})["skills"]
            return found
    return {}
